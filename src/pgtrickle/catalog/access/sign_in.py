"""Log in as a role on behalf of somebody: who says which role it is must have shown it."""

from __future__ import annotations

import logging

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgtrickle.errors import PrivilegeError
from pgtrickle.model.text.passwords import hide_passwords

logger = logging.getLogger(__name__)

_SECONDS = 10  # for which the server is waited for
_REQUIRES_AUTH = 160_000  # the libpq that can insist on a password


def sign_in_with_password(dsn: str, role: str, password: str) -> str:
    """Return the connection string of a role, after the server has checked its password.

    A server that lets a role in without asking for the password has checked nothing: that is
    refused, too.  All refusals read the same; what the server said is in the log.
    """
    given = _of_role(dsn, role) | {"password": password}
    if pq.version() >= _REQUIRES_AUTH:
        given["require_auth"] = "scram-sha-256,md5,password"
    own = make_conninfo(**given)
    try:
        with psycopg.connect(own, connect_timeout=_SECONDS) as connection:
            checked = connection.pgconn.used_password
            reason = "the server asked for no password: see its pg_hba.conf"
    except psycopg.OperationalError as error:
        checked, reason = False, hide_passwords(str(error))
    if not checked:
        logger.warning('sign-in as "%s" refused: %s', role, reason)
        raise PrivilegeError(
            "this role and password do not open this database",
            hint="The log of the console says why.",
        )
    return own


def sign_in_as_named(dsn: str, role: str) -> str:
    """Return the connection string of a role that a trusted proxy has named.

    The server decides whether this process may log in as that role: by a certificate, by the
    account that it runs under, or by a password file.
    """
    return make_conninfo(**_of_role(dsn, role))


def _of_role(dsn: str, role: str) -> dict[str, str]:
    """Return the parameters of a connection string, for another role."""
    own = ("user", "password", "options")
    given = {
        name: str(value)
        for name, value in conninfo_to_dict(dsn).items()
        if name not in own and value is not None
    }
    return given | {"user": role}
