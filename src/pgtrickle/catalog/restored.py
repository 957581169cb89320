"""Queries that make the catalog fit a database that was restored or cloned from another."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

# A dump gives every relation another oid.  Theirs are found by name, all at once, because a stream
# table may read another.
_ADOPT = """
    UPDATE pgtrickle.pgt_stream_tables AS s
       SET pgt_relid = c.oid
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = s.pgt_schema AND c.relname = s.pgt_name AND c.relkind = 'r'
       AND c.oid <> s.pgt_relid
       AND (s.frontier #>> '{pg,system_identifier}', s.frontier #>> '{pg,database_oid}')
           IS DISTINCT FROM (
               (SELECT y.system_identifier::pg_catalog.text
                  FROM pg_catalog.pg_control_system() AS y),
               (SELECT b.oid::pg_catalog.text FROM pg_catalog.pg_database AS b
                 WHERE b.datname = pg_catalog.current_database()))
"""


def adopt_stream_tables(connection: Connection[TupleRow]) -> int:
    """Find the relations of stream tables from another database by name; return how many."""
    return connection.execute(_ADOPT).rowcount


_LIST_UNSETTLED = """
    SELECT s.pgt_id FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.frontier IS NOT NULL AND NOT pgtrickle.lies_here(s.frontier) ORDER BY s.pgt_id
"""


def list_unsettled(connection: Connection[TupleRow]) -> list[int]:
    """Return the stream tables that were not refreshed since the database was restored."""
    return [number for (number,) in connection.execute(_LIST_UNSETTLED)]


_DELETE_FUTURE_GAPS = """
    DELETE FROM pgtrickle.pgt_capture_gaps
     WHERE xid >= pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())
"""
_FORGET_FUTURE_TRIMMING = """
    UPDATE pgtrickle.pgt_change_tracking SET trimmed_before = NULL
     WHERE trimmed_before > pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())
"""


def delete_future_gaps(connection: Connection[TupleRow]) -> None:
    """Forget the gaps of transactions that have not begun yet (see ``delete_future``)."""
    connection.execute(_DELETE_FUTURE_GAPS)
    connection.execute(_FORGET_FUTURE_TRIMMING)
