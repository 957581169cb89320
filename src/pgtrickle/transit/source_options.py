"""What the options of our Spark data sources have in common."""

from __future__ import annotations

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgtrickle.errors import TrickleError


def without_password(dsn: str, refusal: type[TrickleError]) -> str:
    """Refuse a password: Spark shows options in its plans, its pages and its logs."""
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:  # its message may quote the password
        raise refusal(
            "the option dsn is not a valid connection string",
            hint='As in "host=db dbname=shop user=ann".',
        ) from None
    secrets = [str(given[name]) for name in ("password", "sslpassword") if given.get(name)]
    if any(not secret.startswith("${ENV:") for secret in secrets):
        raise refusal(
            "the option dsn holds a password, which Spark would show in its plans and logs",
            hint="Write ${ENV:NAME} for it, or use a password file or PGPASSWORD.",
        )
    return dsn
