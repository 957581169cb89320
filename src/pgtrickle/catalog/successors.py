"""Queries over successors: stream tables that hold what a new query will make of another.

A successor is a row of ``pgt_stream_tables`` like any other, under a name of ours, so its capture,
its state and its first load are those of any stream table.  It is not listed and not scheduled: it
belongs to whoever made it, and is abandoned when that one is gone (see docs/adr/0022).
"""

from __future__ import annotations

from datetime import timedelta

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.stream_tables import STREAM_TABLE_COLUMNS, read_stream_table
from pgtrickle.errors import StreamTableNotFoundError
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName


def successor_name(stream_table_id: int) -> QualifiedName:
    """Return the name of the successor of a stream table.

    >>> str(successor_name(7))
    'pgtrickle_state.next_7'
    """
    return QualifiedName("pgtrickle_state", f"next_{stream_table_id}")


def is_successor(name: QualifiedName) -> bool:
    """Tell a successor by its name: nobody else's stream table is in our schema."""
    return name.schema == "pgtrickle_state"


_INSERT = """
    INSERT INTO pgtrickle.pgt_successors (pgt_id, alive_until)
    VALUES (%(id)s, pg_catalog.clock_timestamp() + %(duration)s)
"""


def insert_successor(
    connection: Connection[TupleRow], successor_id: int, duration: timedelta
) -> None:
    """Record that a stream table is a successor, and its maker alive for so long."""
    connection.execute(_INSERT, {"id": successor_id, "duration": duration})


_KEEP = """
    UPDATE pgtrickle.pgt_successors
       SET alive_until = pg_catalog.clock_timestamp() + %(duration)s
     WHERE pgt_id = %(id)s
"""


def keep_successor(
    connection: Connection[TupleRow], successor_id: int, duration: timedelta
) -> None:
    """Say that the maker of a successor is still alive, if the successor is still there."""
    connection.execute(_KEEP, {"id": successor_id, "duration": duration})


_LIST_ABANDONED = f"""
    SELECT {STREAM_TABLE_COLUMNS}
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema = 'pgtrickle_state'
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_successors AS n
                        WHERE n.pgt_id = s.pgt_id
                          AND n.alive_until > pg_catalog.clock_timestamp())
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_shadow_builds AS b
                        WHERE b.shadow_id = s.pgt_id AND b.ended_at IS NULL)
     ORDER BY s.pgt_name
"""


def list_abandoned(connection: Connection[TupleRow]) -> list[StreamTable]:
    """Return the successors whose makers died, and the shadows whose builds have ended."""
    return [read_stream_table(row) for row in connection.execute(_LIST_ABANDONED)]


_ADOPT_DEFINITION = """
    UPDATE pgtrickle.pgt_stream_tables AS s
       SET defining_query = n.defining_query,
           original_query = n.original_query,
           query_search_path = n.query_search_path,
           refresh_mode = n.refresh_mode,
           effective_refresh_mode = n.effective_refresh_mode,
           downgrade_reason = n.downgrade_reason,
           function_hashes = n.function_hashes,
           bound = n.bound,
           -- What was measured of another query says nothing about this one.
           measured_since = (SELECT COALESCE(max(h.refresh_id), 0)
                               FROM pgtrickle.pgt_refresh_history AS h
                              WHERE h.pgt_id = s.pgt_id),
           updated_at = pg_catalog.now()
      FROM pgtrickle.pgt_stream_tables AS n
     WHERE s.pgt_id = %(id)s AND n.pgt_id = %(successor)s
"""
_FORGET_DEPENDENCIES = "DELETE FROM pgtrickle.pgt_dependencies WHERE pgt_id = %(id)s"
_ADOPT_DEPENDENCIES = """
    UPDATE pgtrickle.pgt_dependencies SET pgt_id = %(id)s WHERE pgt_id = %(successor)s
"""


def adopt_successor(
    connection: Connection[TupleRow], stream_table_id: int, successor_id: int
) -> None:
    """Give a stream table the query of its successor, and what belongs to a query."""
    values = {"id": stream_table_id, "successor": successor_id}
    if connection.execute(_ADOPT_DEFINITION, values).rowcount != 1:
        raise StreamTableNotFoundError(
            "the stream table was dropped while its query was being replaced",
            hint="List them with: pgtrickle list.",
        )
    connection.execute(_FORGET_DEPENDENCIES, values)
    connection.execute(_ADOPT_DEPENDENCIES, values)
