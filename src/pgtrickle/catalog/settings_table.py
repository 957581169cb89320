"""Settings that the database holds: for the role or the database, or in ``pgt_settings``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.model.text.names import quote_literal
from pgtrickle.settings import (
    Settings,
    UnknownSetting,
    find_unknown_parameters,
    show_value,
    storable_settings,
    unit_of,
)

_LIST_SESSION = sql.SQL("""
    SELECT n.name, v.value
      FROM pg_catalog.unnest({names}::pg_catalog.text[]) AS n (name),
           pg_catalog.current_setting('pg_trickle.' || n.name, true) AS v (value)
     WHERE v.value <> ''
""")
_LIST_TABLE = sql.SQL("""
    SELECT name, value FROM pgtrickle.pgt_settings
     WHERE value IS NOT NULL AND name = ANY ({names}::pg_catalog.text[])
""")


def list_session() -> sql.Composed:
    """Return the query for the settings of the role or the database."""
    return _LIST_SESSION.format(names=storable_settings())


def list_table() -> sql.Composed:
    """Return the query for the settings in the table."""
    return _LIST_TABLE.format(names=storable_settings())


def list_stored_settings(connection: Connection[TupleRow]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is set for the role or database, and what the table says."""
    session: dict[str, str] = dict(connection.execute(list_session()).fetchall())
    return session, dict(connection.execute(list_table()).fetchall())


@dataclass(frozen=True, slots=True)
class Said:
    """What the database says of one setting at this moment."""

    name: str
    session: str | None  # in a session, which may be older than what is assigned
    assigned: str | None  # to the role or the database, as a new session would get it
    table: str | None


_LIST_SAID = sql.SQL("""
    WITH assigned AS (
        SELECT DISTINCT ON (a.name) a.name, a.value
          FROM pg_catalog.pg_db_role_setting AS s, pg_catalog.unnest(s.setconfig) AS c (entry),
               LATERAL (SELECT pg_catalog.lower(pg_catalog.split_part(c.entry, '=', 1)),
                               pg_catalog.substr(c.entry, pg_catalog.strpos(c.entry, '=') + 1)
                       ) AS a (name, value)
         WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database AS d
                                      WHERE d.datname = pg_catalog.current_database()))
           AND s.setrole IN (0, (SELECT r.oid FROM pg_catalog.pg_roles AS r
                                  WHERE r.rolname = session_user))
         -- As PostgreSQL weighs them.
         ORDER BY a.name, s.setrole <> 0 AND s.setdatabase <> 0 DESC, s.setrole <> 0 DESC,
                  s.setdatabase <> 0 DESC
    )
    SELECT n.name, s.value, nullif(a.value, ''), {table}
      FROM pg_catalog.unnest({names}::pg_catalog.text[]) AS n (name)
     CROSS JOIN LATERAL (
               SELECT nullif(pg_catalog.current_setting('pg_trickle.' || n.name, true), '')
           ) AS s (value)
      LEFT JOIN assigned AS a ON a.name = 'pg_trickle.' || n.name{join}
     WHERE s.value IS NOT NULL OR a.value <> '' OR {table} IS NOT NULL
""")
_FROM_TABLE = sql.SQL(" LEFT JOIN pgtrickle.pgt_settings AS t ON t.name = n.name")


def list_said(connection: Connection[TupleRow], *, of_guest: bool = False) -> list[Said]:
    """Return what the database says of settings; to a guest the table says nothing."""
    return [Said(*row) for row in connection.execute(_said(of_guest=of_guest))]


@cache
def _said(*, of_guest: bool) -> sql.Composed:
    return _LIST_SAID.format(
        names=storable_settings(),
        table=sql.SQL("NULL::pg_catalog.text" if of_guest else "t.value"),
        join=sql.SQL("") if of_guest else _FROM_TABLE,
    )


# Of this role and this database; names of parameters have no case.
LIST_PARAMETERS = """
    SELECT DISTINCT pg_catalog.lower(pg_catalog.split_part(c.entry, '=', 1))
      FROM pg_catalog.pg_db_role_setting AS s,
           LATERAL pg_catalog.unnest(s.setconfig) AS c (entry)
     WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database AS d
                                  WHERE d.datname = pg_catalog.current_database()))
       AND s.setrole IN (0, (SELECT r.oid FROM pg_catalog.pg_roles AS r
                              WHERE r.rolname = current_user))
       AND pg_catalog.starts_with(pg_catalog.lower(c.entry), 'pg_trickle.')
"""


def list_unknown_parameters(connection: Connection[TupleRow]) -> list[UnknownSetting]:
    """Return each ``pg_trickle.<name>`` of the role or the database that means nothing."""
    return find_unknown_parameters(name for (name,) in connection.execute(LIST_PARAMETERS))


_KNOW = """
INSERT INTO pgtrickle.pgt_settings AS s
    (name, type, default_value, unit, low, high, choices, doc, needs_restart)
VALUES {rows}
    ON CONFLICT (name) DO UPDATE
   SET type = excluded.type, default_value = excluded.default_value, unit = excluded.unit,
       low = excluded.low, high = excluded.high, choices = excluded.choices, doc = excluded.doc,
       needs_restart = excluded.needs_restart;
"""


def list_known_settings() -> str:
    """Return the statement that writes down which settings this version knows; values stay."""
    storable = set(storable_settings())
    rows = [
        (
            quote_literal(one.name),
            quote_literal(type(one.default).__name__),
            quote_literal(show_value(one.default)),
            quote_literal(unit_of(one.name)),
            _number(one.metadata["low"]),
            _number(one.metadata["high"]),
            f"ARRAY[{', '.join(map(quote_literal, one.metadata['choices']))}]::text[]",
            quote_literal(one.metadata["doc"]),
            show_value(one.metadata["restart"]),
        )
        for one in fields(Settings)
        if one.name in storable
    ]
    return _KNOW.format(rows=",\n       ".join(f"({', '.join(row)})" for row in rows))


def _number(value: float | None) -> str:
    return "NULL" if value is None else repr(value)


_SET = "SELECT pgtrickle.set_setting(%(name)s::text, %(value)s::text)"


def set_setting(connection: Connection[TupleRow], name: str, value: str | None) -> None:
    """Give a setting a value for this database; None takes it back."""
    connection.execute(_SET, {"name": name, "value": value})
