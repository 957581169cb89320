"""Keep change buffers small: delete changes read by all consumers, move those read by some.

Both functions do a bounded amount of work and yield to another process at the same buffer.  Look
at a buffer first: most have nothing to trim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import buffer_of, settled_of
from pgtrickle.capture.locks import try_lock_buffer
from pgtrickle.capture.windows import consumed_predicate, window_predicate
from pgtrickle.model.frontier import PgSnapshot
from pgtrickle.model.text.names import QualifiedName

# Below this size a sequential scan takes about as long as its round trip.
_SETTLE_FROM_BYTES = 4 * 1024 * 1024

_LOOK = sql.SQL("""
    SELECT {relid}, EXISTS (SELECT FROM {buffer}),
           pg_catalog.pg_relation_size({name}::pg_catalog.regclass)
""")


@dataclass(frozen=True, slots=True)
class Fill:
    """How full a buffer is."""

    has_changes: bool  # in the buffer or in its indexed child
    size: int  # bytes, without the child

    @property
    def needs_settling(self) -> bool:
        """Whether readers gain from an index on what some consumer has read."""
        return self.size >= _SETTLE_FROM_BYTES


def look_at_buffers(connection: Connection[TupleRow], relids: Sequence[int]) -> dict[int, Fill]:
    """Tell whether buffers have anything to trim or to settle, without a lock or a write."""
    looks = [
        _LOOK.format(relid=relid, buffer=_identifier(buffer), name=sql.Literal(buffer.sql))
        for relid in relids
        for buffer in [buffer_of(relid)]
    ]
    if not looks:
        return {}
    rows = connection.execute(sql.SQL(" UNION ALL ").join(looks))
    return {relid: Fill(has_changes, size) for relid, has_changes, size in rows}


_DELETE = sql.SQL("""
    DELETE FROM ONLY {table}
     WHERE ctid = ANY (ARRAY(
               SELECT ctid FROM ONLY {table} WHERE {consumed} LIMIT {limit}
           ))
""")


def trim_buffer(
    connection: Connection[TupleRow], relid: int, frontiers: Sequence[PgSnapshot], limit: int
) -> int:
    """Delete up to ``limit`` changes that all ``frontiers`` see; return how many.

    ``frontiers`` are those of all consumers.  An empty list deletes nothing, because a consumer
    without a frontier may still need every row.
    """
    if not frontiers or not try_lock_buffer(connection, relid):
        return 0
    consumed = _condition(frontiers)
    deleted = 0
    for table in (buffer_of(relid), settled_of(relid)):
        if deleted < limit:
            deleted += connection.execute(
                _DELETE.format(
                    table=_identifier(table), consumed=consumed, limit=sql.Literal(limit - deleted)
                )
            ).rowcount
    return deleted


_WOULD_LOSE = sql.SQL("SELECT EXISTS (SELECT FROM {buffer} WHERE {consumed} AND {later})")


def list_losers(
    connection: Connection[TupleRow],
    relid: int,
    frontiers: Sequence[PgSnapshot],
    snapshots: Mapping[int, PgSnapshot],
) -> list[int]:
    """Return which snapshots of stream tables need changes that ``trim_buffer`` would delete."""
    lost: dict[PgSnapshot, bool] = {}
    for frontier in set(snapshots.values()):
        statement = _WOULD_LOSE.format(
            buffer=_identifier(buffer_of(relid)),
            consumed=_condition(frontiers),
            later=sql.SQL(window_predicate(frontier)),
        )
        [(lost[frontier],)] = connection.execute(statement).fetchall()
    return [number for number, frontier in snapshots.items() if lost[frontier]]


_COUNT_CONSUMED = sql.SQL("SELECT pg_catalog.count(*) FROM {buffer} WHERE {consumed}")


def count_consumed(
    connection: Connection[TupleRow], relid: int, frontiers: Sequence[PgSnapshot]
) -> int:
    """Count the changes in a buffer that all consumers have read."""
    if not frontiers:
        return 0
    statement = _COUNT_CONSUMED.format(
        buffer=_identifier(buffer_of(relid)), consumed=_condition(frontiers)
    )
    [(rows,)] = connection.execute(statement).fetchall()
    return int(rows)


_MOVE = sql.SQL("""
    WITH moved AS (
        DELETE FROM ONLY {buffer}
         WHERE ctid = ANY (ARRAY(
                   SELECT ctid FROM ONLY {buffer} WHERE {consumed} LIMIT {limit}
               ))
        RETURNING *
    )
    INSERT INTO {settled} SELECT * FROM moved
""")
# Without statistics the planner expects a third of the table after any xid, and scans all of it.
_ANALYZE = sql.SQL("ANALYZE {settled} (__xid)")


def settle_buffer(
    connection: Connection[TupleRow], relid: int, frontiers: Sequence[PgSnapshot], limit: int
) -> int:
    """Move up to ``limit`` changes that some consumer has read into the indexed child.

    Call it after ``trim_buffer``.  It does nothing while the buffer is small.  A row is in one of
    the two tables in every snapshot, so readers of the buffer see no difference.
    """
    if not frontiers or not look_at_buffers(connection, [relid])[relid].needs_settling:
        return 0
    if not try_lock_buffer(connection, relid):
        return 0
    newest = max(frontiers, key=lambda frontier: frontier.xmax)
    settled = _identifier(settled_of(relid))
    moved = connection.execute(
        _MOVE.format(
            buffer=_identifier(buffer_of(relid)),
            settled=settled,
            consumed=_condition([newest]),
            limit=sql.Literal(limit),
        )
    ).rowcount
    if moved:
        connection.execute(_ANALYZE.format(settled=settled))
    return moved


def _condition(frontiers: Sequence[PgSnapshot]) -> sql.SQL:
    return sql.SQL(consumed_predicate(frontiers))


def _identifier(name: QualifiedName) -> sql.Identifier:
    return sql.Identifier(name.schema, name.name)
