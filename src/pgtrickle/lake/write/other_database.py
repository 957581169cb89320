"""A catalog of the lake in another database: connect to it, and find out what was committed.

Its DSN is kept as written, with ``${ENV:NAME}`` in place of secrets, which are looked up when
a connection is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgtrickle.errors import LakeSinkError, LakeUnreachableError
from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.write.commit import begin_commit
from pgtrickle.lake.write.text_settings import fix_settings_sql
from pgtrickle.model.text.connection_string import HINT, may_be_misread
from pgtrickle.model.text.trusted import trusted
from pgtrickle.session import Session
from pgtrickle.settings import expand_secrets

_REFERENCE = re.compile(r"\$\{ENV:[A-Za-z_][A-Za-z0-9_]*\}")
# A server that does not answer must not delay the next refresh of this stream table for long.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_HINT = "Write ${ENV:NAME} for it, as in: host=db dbname=lake password=${ENV:LAKE_PASSWORD}."


def check_catalog_dsn(dsn: str) -> None:
    """Raise ST703 for an invalid DSN, or one that holds a secret.

    >>> check_catalog_dsn("host=db dbname=lake password=${ENV:LAKE_PASSWORD}")
    >>> check_catalog_dsn("${ENV:LAKE_DSN}")
    >>> check_catalog_dsn("postgresql://ann:secret@db/lake")
    Traceback (most recent call last):
    pgtrickle.errors.LakeSinkError: the setting ducklake_catalog_dsn holds a password
    """
    if _REFERENCE.fullmatch(dsn.strip()):
        return
    given = _parse(dsn)
    secrets = [str(given[name]) for name in ("password", "sslpassword") if given.get(name)]
    if any(not _REFERENCE.fullmatch(secret) for secret in secrets):
        raise LakeSinkError("the setting ducklake_catalog_dsn holds a password", hint=_HINT)


@contextmanager
def connected(dsn: str) -> Iterator[Connection]:
    """Connect to the database of a catalog, for the length of a block."""
    address = expand_secrets(dsn, os.environ)
    given = _parse(address)
    try:
        connection = Session.open(make_conninfo(**{**_DEFAULTS, **given}))
    except psycopg.OperationalError as error:
        if not error.sqlstate and may_be_misread(address):
            raise LakeUnreachableError(
                "the database with the catalog of the lake cannot be reached", hint=HINT
            ) from None
        raise _unreachable(error) from error
    with connection:
        yield connection


@contextmanager
def transaction(lake: Connection) -> Iterator[None]:
    """Run a block in one transaction of the catalog's database, under fixed settings."""
    with lake.transaction():
        lake.execute(trusted(fix_settings_sql()))
        # It is idle while a large load is written.
        lake.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield


@contextmanager
def told_apart(lake: Connection) -> Iterator[None]:
    """Name the database that was lost in an error."""
    try:
        yield
    except psycopg.OperationalError as error:
        if not lake.broken:
            raise
        raise _unreachable(error) from error


class Outcome(Enum):
    """The outcome of a snapshot that was about to be committed."""

    COMMITTED = "committed"
    UNDONE = "undone"
    FORGOTTEN = "forgotten"  # there are later ones, and no record of it


_FIND = "SELECT commit_extra_info FROM {changes} WHERE snapshot_id = %s"


def find_outcome(lake: Connection, catalog: LakeCatalog, snapshot_id: int, token: str) -> Outcome:
    """Find out the final outcome of a snapshot.

    The writer of a snapshot blocks all others until it is committed or not: in its turn,
    this function sees the final state, even if the writing process is still alive.
    """
    with transaction(lake):
        head = begin_commit(lake, catalog).snapshot_id - 1
        statement = _FIND.format(changes=catalog.table("snapshot_changes"))
        row = lake.execute(trusted(statement), [snapshot_id]).fetchone()
    if row is not None and token in (row[0] or ""):
        return Outcome.COMMITTED
    return Outcome.FORGOTTEN if row is None and head >= snapshot_id else Outcome.UNDONE


def _parse(dsn: str) -> dict[str, str]:
    try:
        found = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:  # its message may quote a secret
        raise LakeSinkError(
            "the setting ducklake_catalog_dsn is not a valid connection string",
            hint='As in "host=db dbname=lake user=ann password=${ENV:LAKE_PASSWORD}".',
        ) from None
    return {name: str(value) for name, value in found.items() if value is not None}


def _unreachable(error: psycopg.Error) -> LakeUnreachableError:
    return LakeUnreachableError(
        f"the database with the catalog of the lake cannot be reached: {error}",
        hint="Check that its server runs, and what the setting ducklake_catalog_dsn says.",
    )
