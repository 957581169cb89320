"""Queries over the changes that snapshots need: which are kept, and which are gone for good."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.frontier import PgSnapshot

# Snapshots that somebody drops meanwhile are left out: that is what the statements below lock.
# What a snapshot lost once does not come back, and after a restore elsewhere nothing is of use.
_LIST_FRONTIERS = """
    SELECT n.snapshot_id, n.frontier #>> '{pg,snapshot}'
      FROM pgtrickle.pgt_snapshots AS n
      JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = n.pgt_id
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = n.pgt_id
     WHERE d.source_relid = %(relid)s AND s.refresh_mode <> 'IMMEDIATE' AND NOT n.needs_reinit
       AND pgtrickle.lies_here(n.frontier)
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_snapshot_gaps AS g
                        WHERE g.snapshot_id = n.snapshot_id)
     ORDER BY n.snapshot_id
"""


def list_snapshot_frontiers(
    connection: Connection[TupleRow], source_relid: int
) -> dict[int, PgSnapshot]:
    """Return, by id, the frontiers of the snapshots that could still use changes of a source."""
    cursor = connection.execute(_LIST_FRONTIERS, {"relid": source_relid})
    return {number: PgSnapshot.parse(frontier) for number, frontier in cursor}


_LIST_SOURCES = """
    SELECT DISTINCT d.source_relid
      FROM pgtrickle.pgt_snapshots AS n
      JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = n.pgt_id
      JOIN pgtrickle.pgt_change_tracking AS t ON t.source_relid = d.source_relid
     ORDER BY d.source_relid
"""


def list_snapshot_sources(connection: Connection[TupleRow]) -> list[int]:
    """Return the captured sources of the stream tables that have snapshots."""
    return [int(relid) for (relid,) in connection.execute(_LIST_SOURCES)]


_INSERT = """
    INSERT INTO pgtrickle.pgt_snapshot_gaps (snapshot_id, source_relid, reason)
    SELECT n.snapshot_id, %(relid)s, %(reason)s
      FROM pgtrickle.pgt_snapshots AS n WHERE n.snapshot_id = ANY (%(ids)s::pg_catalog.int8[])
       FOR KEY SHARE OF n
        ON CONFLICT DO NOTHING
"""


def insert_snapshot_gaps(
    connection: Connection[TupleRow], ids: Sequence[int], source_relid: int, reason: str
) -> None:
    """Record that the changes of a source after these snapshots are incomplete."""
    connection.execute(_INSERT, {"ids": list(ids), "relid": source_relid, "reason": reason})


_INSERT_REINITIALIZED = """
    INSERT INTO pgtrickle.pgt_snapshot_gaps (snapshot_id, source_relid, reason)
    SELECT n.snapshot_id, d.source_relid, 'it was reinitialized: ' || %(reason)s
      FROM pgtrickle.pgt_snapshots AS n
      JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = n.pgt_id
     WHERE n.pgt_id = %(id)s
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_snapshot_gaps AS g
                        WHERE g.snapshot_id = n.snapshot_id AND g.source_relid = d.source_relid)
       FOR KEY SHARE OF n
"""


def note_reinitialized(connection: Connection[TupleRow], stream_table_id: int, reason: str) -> None:
    """Record that the changes after the earlier snapshots of a stream table do not continue.

    It was reinitialized: a source, a function or the database was no longer the same.
    """
    connection.execute(_INSERT_REINITIALIZED, {"id": stream_table_id, "reason": reason})


# Called before gaps that every consumer has made good are forgotten.  A restore locks its snapshot:
# either it finds these rows, or whoever forgets gaps finds the frontier that it moved back.
_KEEP_GAPS = """
    INSERT INTO pgtrickle.pgt_snapshot_gaps (snapshot_id, source_relid, reason)
    SELECT n.snapshot_id, g.source_relid, g.reason
      FROM pgtrickle.pgt_capture_gaps AS g
      JOIN pgtrickle.pgt_dependencies AS d ON d.source_relid = g.source_relid
      JOIN pgtrickle.pgt_snapshots AS n ON n.pgt_id = d.pgt_id
     WHERE g.source_relid = ANY (%(relids)s::pg_catalog.oid[])
       AND (g.pgt_id IS NULL OR g.pgt_id = n.pgt_id)
       -- That is where a stream table is, which was restored from another snapshot.
       AND NOT pg_catalog.starts_with(g.reason, 'after the restored snapshot: ')
       AND NOT pg_catalog.pg_visible_in_snapshot(
               g.xid, (n.frontier #>> '{pg,snapshot}')::pg_catalog.pg_snapshot)
       FOR KEY SHARE OF n
        ON CONFLICT DO NOTHING
"""


def keep_gaps_of_snapshots(connection: Connection[TupleRow], relids: Sequence[int]) -> None:
    """Record the gaps of sources with each snapshot whose frontier does not see them."""
    connection.execute(_KEEP_GAPS, {"relids": list(relids)})


_INHERIT = """
    INSERT INTO pgtrickle.pgt_snapshot_gaps (snapshot_id, source_relid, reason)
    SELECT n.snapshot_id, g.source_relid, g.reason
      FROM pgtrickle.pgt_snapshots AS n
      JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = n.pgt_id
      JOIN pgtrickle.pgt_capture_gaps AS g ON g.source_relid = d.source_relid
     WHERE n.snapshot_id = %(id)s AND (g.pgt_id IS NULL OR g.pgt_id = n.pgt_id)
       AND NOT pg_catalog.pg_visible_in_snapshot(
               g.xid, (n.frontier #>> '{pg,snapshot}')::pg_catalog.pg_snapshot)
        ON CONFLICT DO NOTHING
"""


def inherit_gaps(connection: Connection[TupleRow], snapshot_id: int) -> None:
    """Give a new snapshot the gaps that its stream table has still to make good."""
    connection.execute(_INHERIT, {"id": snapshot_id})


# Those of a snapshot that it was restored from before mean nothing to this one, which has its own.
_FORGET_ADOPTED = """
    DELETE FROM pgtrickle.pgt_capture_gaps
     WHERE pgt_id = %(stream_table_id)s
       AND pg_catalog.starts_with(reason, 'after the restored snapshot: ')
"""
_ADOPT = """
    INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, pgt_id, reason)
    SELECT g.source_relid, %(stream_table_id)s,
           CASE WHEN pg_catalog.starts_with(g.reason, 'after the restored snapshot: ')
                THEN g.reason ELSE 'after the restored snapshot: ' || g.reason END
      FROM pgtrickle.pgt_snapshot_gaps AS g
      JOIN pgtrickle.pgt_dependencies AS d ON d.source_relid = g.source_relid
     WHERE g.snapshot_id = %(snapshot_id)s AND d.pgt_id = %(stream_table_id)s
       AND d.source_type IN ('TABLE', 'STREAM_TABLE')
"""
_HAS_GAPS = "SELECT FROM pgtrickle.pgt_snapshot_gaps WHERE snapshot_id = %(snapshot_id)s LIMIT 1"


def adopt_snapshot_gaps(
    connection: Connection[TupleRow], snapshot_id: int, stream_table_id: int
) -> bool:
    """Give a stream table the gaps of the snapshot that it was restored from.

    Returns whether there are gaps that only the mark for a reinitialization can express.
    """
    values = {"snapshot_id": snapshot_id, "stream_table_id": stream_table_id}
    connection.execute(_FORGET_ADOPTED, values)
    if connection.execute(_ADOPT, values).rowcount:
        return False
    return connection.execute(_HAS_GAPS, values).fetchone() is not None
