"""Settings that the database holds: for the role or the database, or in ``pgt_settings``."""

from __future__ import annotations

from dataclasses import fields

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.settings import Settings, show_value, storable_settings, unit_of

_FIND_SESSION = """
    SELECT n.name, v.value
      FROM pg_catalog.unnest(%(names)s::text[]) AS n (name),
           pg_catalog.current_setting('pg_trickle.' || n.name, true) AS v (value)
     WHERE v.value <> ''
"""
_FIND_TABLE = "SELECT pg_catalog.to_regclass('pgtrickle.pgt_settings') IS NOT NULL"
_LIST_TABLE = """
    SELECT name, value FROM pgtrickle.pgt_settings
     WHERE value IS NOT NULL AND name = ANY (%(names)s::text[])
"""


def list_session_settings(connection: Connection[TupleRow]) -> dict[str, str]:
    """Return what is set for the role or the database."""
    return dict(connection.execute(_FIND_SESSION, {"names": storable_settings()}).fetchall())


def list_stored_settings(connection: Connection[TupleRow]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is set for the role or database, and what the table says.

    Neither is there before the catalog is.
    """
    names = {"names": storable_settings()}
    session = list_session_settings(connection)
    [(exists,)] = connection.execute(_FIND_TABLE).fetchall()
    table: dict[str, str] = {}
    if exists:
        table = dict(connection.execute(_LIST_TABLE, names).fetchall())
    return session, table


_SYNC = """
    INSERT INTO pgtrickle.pgt_settings AS s
        (name, type, default_value, unit, low, high, choices, doc)
    VALUES (%(name)s, %(type)s, %(default)s, %(unit)s, %(low)s, %(high)s, %(choices)s, %(doc)s)
        ON CONFLICT (name) DO UPDATE
       SET type = excluded.type, default_value = excluded.default_value, unit = excluded.unit,
           low = excluded.low, high = excluded.high, choices = excluded.choices,
           doc = excluded.doc
     WHERE (s.type, s.default_value, s.unit, s.low, s.high, s.choices, s.doc)
           IS DISTINCT FROM (excluded.type, excluded.default_value, excluded.unit, excluded.low,
                             excluded.high, excluded.choices, excluded.doc)
"""


def record_settings(connection: Connection[TupleRow]) -> None:
    """Write down which settings this version knows; the values stay."""
    storable = set(storable_settings())
    rows = [
        {
            "name": one.name,
            "type": type(one.default).__name__,
            "default": show_value(one.default),
            "unit": unit_of(one.name),
            "low": one.metadata["low"],
            "high": one.metadata["high"],
            "choices": list(one.metadata["choices"]),
            "doc": one.metadata["doc"],
        }
        for one in fields(Settings)
        if one.name in storable
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_SYNC, rows)


_SET = "SELECT pgtrickle.set_setting(%(name)s::text, %(value)s::text)"


def set_setting(connection: Connection[TupleRow], name: str, value: str | None) -> None:
    """Give a setting a value for this database; None takes it back."""
    connection.execute(_SET, {"name": name, "value": value})
