"""Queries over ``pgt_capture_gaps``: changes that are in no buffer, and who has to know of them."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

_LIST = "SELECT source, reason FROM pgtrickle.list_gaps(ARRAY[%(id)s]::pg_catalog.int8[])"


def list_capture_gaps(connection: Connection[TupleRow], stream_table_id: int) -> tuple[str, ...]:
    """Say which changes after the frontier of a stream table no buffer holds, and why."""
    cursor = connection.execute(_LIST, {"id": stream_table_id})
    return tuple(sorted(f"changes of {source} are missing: {reason}" for source, reason in cursor))


def tells_of_crash(gap: str) -> bool:
    """Tell whether a gap is a buffer that crash recovery has emptied."""
    return gap.endswith("a crash emptied its buffer")


_INSERT = """
    INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, pgt_id, reason)
    VALUES (%(relid)s, %(stream_table_id)s, %(reason)s) ON CONFLICT DO NOTHING
"""


def insert_gap(
    connection: Connection[TupleRow],
    source_relid: int,
    reason: str,
    stream_table_id: int | None = None,
) -> None:
    """Record that changes up to this transaction may be missing: for all consumers, or for one."""
    connection.execute(
        _INSERT, {"relid": source_relid, "stream_table_id": stream_table_id, "reason": reason}
    )


_NOTE_CRASHES = "SELECT FROM pgtrickle.note_crashes()"


def note_crashes(connection: Connection[TupleRow]) -> int:
    """Record a gap for each unlogged buffer that crash recovery has emptied; return how many."""
    return len(connection.execute(_NOTE_CRASHES).fetchall())


_HAS_GAPS = """
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_capture_gaps AS g
                    WHERE g.source_relid = ANY(%(relids)s::pg_catalog.oid[]))
"""


def has_gaps(connection: Connection[TupleRow], relids: Sequence[int]) -> bool:
    """Tell whether any of these sources has a gap on record."""
    [(found,)] = connection.execute(_HAS_GAPS, {"relids": list(relids)}).fetchall()
    return bool(found)


# A gap that every consumer's frontier sees has done its work.
_DELETE = """
    DELETE FROM pgtrickle.pgt_capture_gaps AS g
     WHERE g.source_relid = ANY(%(relids)s::pg_catalog.oid[])
       AND NOT EXISTS (
               SELECT FROM pgtrickle.pgt_dependencies AS d
                 JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
                WHERE d.source_relid = g.source_relid AND (g.pgt_id IS NULL OR g.pgt_id = s.pgt_id)
                  AND (s.frontier IS NULL OR NOT pg_catalog.pg_visible_in_snapshot(
                           g.xid, (s.frontier #>> '{pg,snapshot}')::pg_catalog.pg_snapshot)))
"""


def delete_gaps(connection: Connection[TupleRow], relids: Sequence[int]) -> None:
    """Forget the gaps that every consumer has made good."""
    connection.execute(_DELETE, {"relids": list(relids)})


_NOTE_TRIMMED = """
    UPDATE pgtrickle.pgt_change_tracking
       SET trimmed_before = GREATEST(trimmed_before, %(xmax)s::pg_catalog.text::pg_catalog.xid8)
     WHERE source_relid = %(relid)s
"""


def note_trimmed(connection: Connection[TupleRow], source_relid: int, xmax: int) -> None:
    """Record up to which end of frontiers changes were deleted: an older one has a gap."""
    connection.execute(_NOTE_TRIMMED, {"relid": source_relid, "xmax": str(xmax)})
