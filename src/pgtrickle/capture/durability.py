"""Whether a buffer survives a crash of the server."""

from __future__ import annotations

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import buffer_of, settled_of

_SET = sql.SQL("ALTER TABLE {table} SET {kind}")
_FIND = """
    SELECT c.relpersistence = 'u' FROM pg_catalog.pg_class AS c
     WHERE c.oid = pg_catalog.to_regclass(%(buffer)s)
"""


def store_buffer(connection: Connection[TupleRow], relid: int, *, unlogged: bool) -> None:
    """Make the files of a buffer survive a crash, or not; rewrites them if that changes.

    Writers to the source wait until the caller commits.
    """
    for table in (buffer_of(relid), settled_of(relid)):
        found = connection.execute(_FIND, {"buffer": table.sql}).fetchone()
        if found is not None and found[0] != unlogged:
            connection.execute(
                _SET.format(
                    table=sql.Identifier(table.schema, table.name),
                    kind=sql.SQL("UNLOGGED" if unlogged else "LOGGED"),
                )
            )
