"""Fixed settings under which rows are read for the lake: one text per value in every session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from psycopg import Connection

from pgtrickle.model.text.names import quote_literal
from pgtrickle.model.text.search_path import OWN_PATH
from pgtrickle.model.text.trusted import trusted

# The path contains no user schema, so that no user function can shadow PostgreSQL's.
# A short lock timeout: a transaction that blocks the catalog must not block the refresh.
_SETTINGS = {
    "search_path": OWN_PATH,
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lock_timeout": "10s",
}


@contextmanager
def fixed_settings(connection: Connection) -> Iterator[None]:
    """Fix the settings that affect the text of a value, and restore the session's own.

    User triggers that fire at the end of the transaction must find their own settings.  After an
    error the caller's savepoint restores them.
    """
    asked = ", ".join(["pg_catalog.current_setting(%s)"] * len(_SETTINGS))
    [before] = connection.execute(trusted(f"SELECT {asked}"), list(_SETTINGS)).fetchall()
    _set(connection, list(_SETTINGS.values()))
    yield
    _set(connection, before)


def fix_settings_sql() -> str:
    """Return the query that fixes them for a whole transaction."""
    calls = [
        f"pg_catalog.set_config({quote_literal(name)}, {quote_literal(value)}, true)"
        for name, value in _SETTINGS.items()
    ]
    return f"SELECT {', '.join(calls)}"


def _set(connection: Connection, values: Sequence[str]) -> None:
    calls = ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(_SETTINGS))
    pairs = [one for pair in zip(_SETTINGS, values, strict=True) for one in pair]
    connection.execute(trusted(f"SELECT {calls}"), pairs)
