"""The steps of a hand-over at the source: lock it, and drop its triggers."""

from __future__ import annotations

from datetime import timedelta

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import BUFFER_SCHEMA
from pgtrickle.model.text.names import QualifiedName

_FIND = """
    SELECT n.nspname, c.relname
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.oid = %(relid)s
"""
_SET_PATIENCE = "SELECT pg_catalog.set_config('lock_timeout', %(patience)s, true)"
_LOCK = sql.SQL("LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE")
_MAY_LOCK = """
    SELECT pg_catalog.has_table_privilege(%(relid)s::pg_catalog.oid, 'UPDATE, DELETE, TRUNCATE')
"""


def find_table(connection: Connection[TupleRow], relid: int) -> QualifiedName | None:
    """Return the present name of a table."""
    row = connection.execute(_FIND, {"relid": relid}).fetchone()
    return None if row is None else QualifiedName(*row)


def lock_table(
    connection: Connection[TupleRow], table: QualifiedName, patience: timedelta | None
) -> None:
    """Lock a table exclusively until the commit.

    It takes the strongest mode at once, which dropping triggers and changing the replica identity
    need: strengthening a lock later can deadlock.  A waiting request holds back all later ones, so
    ``patience`` is short; None: the transaction's own timeout.
    """
    if patience is not None:
        milliseconds = f"{int(patience.total_seconds() * 1000)}ms"
        connection.execute(_SET_PATIENCE, {"patience": milliseconds})
    connection.execute(_LOCK.format(table=sql.Identifier(table.schema, table.name)))


def may_lock_table(connection: Connection[TupleRow], relid: int) -> bool:
    """Tell whether pgtrickle's role may lock a table by name; creating triggers needs less."""
    [(allowed,)] = connection.execute(_MAY_LOCK, {"relid": relid}).fetchall()
    return bool(allowed)


_LIST_FUNCTIONS = """
    SELECT p.proname
      FROM pg_catalog.pg_proc AS p
      JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
     WHERE n.nspname = 'pgtrickle_changes' AND pg_catalog.starts_with(p.proname, %(prefix)s)
"""
_DROP_FUNCTION = sql.SQL("DROP FUNCTION IF EXISTS {function}() CASCADE")


def drop_triggers(connection: Connection[TupleRow], relid: int) -> None:
    """Drop the capture triggers of a source with their functions; the buffer stays."""
    prefix = f"capture_{relid:d}_"
    for (name,) in connection.execute(_LIST_FUNCTIONS, {"prefix": prefix}).fetchall():
        connection.execute(_DROP_FUNCTION.format(function=sql.Identifier(BUFFER_SCHEMA, name)))
