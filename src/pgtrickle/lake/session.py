"""Settings under which rows are read for the lake: whatever the session's, a value has one text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from psycopg import Connection

from pgtrickle.model.names import quote_literal
from pgtrickle.model.search_path import OWN_PATH

# The path holds nothing of users, so that no function of theirs takes the place of PostgreSQL's.
# Nobody waits long for the catalog: a transaction that holds it up must not hold up the refresh.
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
    """Fix what the text of a value depends on, and give the session's own back.

    Triggers of users that fire at the end of the transaction must find theirs.  After an error
    the caller's savepoint gives them back.
    """
    asked = ", ".join(["pg_catalog.current_setting(%s)"] * len(_SETTINGS))
    [before] = connection.execute(f"SELECT {asked}".encode(), list(_SETTINGS)).fetchall()
    _set(connection, list(_SETTINGS.values()))
    yield
    _set(connection, before)


def fix_settings_sql() -> str:
    """Return the query that fixes them for a transaction that does nothing else."""
    calls = [
        f"pg_catalog.set_config({quote_literal(name)}, {quote_literal(value)}, true)"
        for name, value in _SETTINGS.items()
    ]
    return f"SELECT {', '.join(calls)}"


def _set(connection: Connection, values: Sequence[str]) -> None:
    calls = ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(_SETTINGS))
    pairs = [one for pair in zip(_SETTINGS, values, strict=True) for one in pair]
    connection.execute(f"SELECT {calls}".encode(), pairs)
