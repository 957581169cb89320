"""Delete the entries of outboxes that nobody needs any more, in small batches.

An entry goes when it is older than the outbox keeps entries, and every consumer group has dealt
with it.  The oldest go first, without a gap; then the changes that were kept apart from them.
"""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

# The clock may have been set back: what follows a younger entry stays with it.
_PRUNE_ENTRIES = """
    WITH kept AS (
        SELECT c.pgt_id, c.floor_id, c.retention_hours * interval '1 hour' AS age,
               (SELECT min(o.committed_id) FROM pgtrickle.pgt_consumer_groups AS g
                  JOIN pgtrickle.pgt_consumer_offsets AS o USING (group_id)
                 WHERE g.pgt_id = c.pgt_id) AS committed_id
          FROM pgtrickle.pgt_outbox_config AS c
    ), oldest AS (
        SELECT e.pgt_id, e.outbox_id,
               bool_and(e.outbox_id <= k.floor_id
                        OR (e.created_at < clock_timestamp() - k.age
                            AND e.outbox_id <= coalesce(k.committed_id, e.outbox_id)))
                   OVER (PARTITION BY e.pgt_id ORDER BY e.outbox_id) AS gone
          FROM kept AS k
         CROSS JOIN LATERAL (
                   SELECT o.pgt_id, o.outbox_id, o.created_at
                     FROM pgtrickle.pgt_outbox_entries AS o
                    WHERE o.pgt_id = k.pgt_id ORDER BY o.outbox_id LIMIT %(batch)s) AS e
    ), chosen AS (
        SELECT o.pgt_id, o.outbox_id FROM oldest AS o WHERE o.gone
         ORDER BY o.pgt_id, o.outbox_id LIMIT %(batch)s
    )
    DELETE FROM pgtrickle.pgt_outbox_entries AS e USING chosen AS x
     WHERE e.pgt_id = x.pgt_id AND e.outbox_id = x.outbox_id
"""
# By steps from one stream table to the next: each is found by the index.
_PRUNE_ROWS = """
    WITH RECURSIVE found (pgt_id) AS (
        (SELECT pgt_id FROM pgtrickle.pgt_outbox_rows ORDER BY pgt_id LIMIT 1)
         UNION ALL
        SELECT (SELECT t.pgt_id FROM pgtrickle.pgt_outbox_rows AS t WHERE t.pgt_id > f.pgt_id
                 ORDER BY t.pgt_id LIMIT 1)
          FROM found AS f WHERE f.pgt_id IS NOT NULL
    ), chosen AS (
        SELECT r.pgt_id, r.outbox_id, r.row_number
          FROM found AS f
         CROSS JOIN LATERAL (
                   SELECT o.pgt_id, o.outbox_id, o.row_number FROM pgtrickle.pgt_outbox_rows AS o
                    WHERE o.pgt_id = f.pgt_id
                      AND o.outbox_id < coalesce(pgtrickle.first_outbox_id(f.pgt_id),
                                                 9223372036854775807)
                    ORDER BY o.outbox_id, o.row_number LIMIT %(batch)s) AS r
         LIMIT %(batch)s
    )
    DELETE FROM pgtrickle.pgt_outbox_rows AS r USING chosen AS x
     WHERE r.pgt_id = x.pgt_id AND r.outbox_id = x.outbox_id AND r.row_number = x.row_number
"""
_PRUNE_LOST = """
    WITH RECURSIVE found (pgt_id) AS (
        (SELECT pgt_id FROM pgtrickle.pgt_outbox_entries ORDER BY pgt_id LIMIT 1)
         UNION ALL
        SELECT (SELECT t.pgt_id FROM pgtrickle.pgt_outbox_entries AS t WHERE t.pgt_id > f.pgt_id
                 ORDER BY t.pgt_id LIMIT 1)
          FROM found AS f WHERE f.pgt_id IS NOT NULL
    ), chosen AS (
        SELECT e.pgt_id, e.outbox_id
          FROM found AS f
         CROSS JOIN LATERAL (
                   SELECT o.pgt_id, o.outbox_id FROM pgtrickle.pgt_outbox_entries AS o
                    WHERE o.pgt_id = f.pgt_id
                      AND NOT EXISTS (SELECT FROM pgtrickle.pgt_outbox_config AS c
                                       WHERE c.pgt_id = f.pgt_id)
                    LIMIT %(batch)s) AS e
         LIMIT %(batch)s
    )
    DELETE FROM pgtrickle.pgt_outbox_entries AS e USING chosen AS x
     WHERE e.pgt_id = x.pgt_id AND e.outbox_id = x.outbox_id
"""
_PRUNE_SCHEMAS = """
    DELETE FROM pgtrickle.pgt_outbox_schemas AS s
     WHERE NOT EXISTS (SELECT FROM pgtrickle.pgt_outbox_config AS c WHERE c.pgt_id = s.pgt_id)
"""
_PRUNE_PENDING = """
    DELETE FROM pgtrickle.pgt_outbox_pending AS p
     WHERE NOT EXISTS (SELECT FROM pgtrickle.pgt_stream_tables AS s
                        WHERE s.pgt_id = p.pgt_id AND s.has_outbox)
"""


def prune_outboxes(connection: Connection[TupleRow], batch: int) -> int:
    """Delete up to ``batch`` entries, and as many changes apart; return the larger number."""
    values = {"batch": batch}
    connection.execute(_PRUNE_SCHEMAS)
    connection.execute(_PRUNE_PENDING)
    return max(
        connection.execute(_PRUNE_ENTRIES, values).rowcount,
        connection.execute(_PRUNE_LOST, values).rowcount,
        connection.execute(_PRUNE_ROWS, values).rowcount,
    )


_LIST_BLOCKED = """
    SELECT o.stream_table, o.blocked_by,
           pgtrickle.notify('pg_trickle_alert', json_build_object(
               'event', 'outbox_blocked', 'name', o.stream_table, 'group', o.blocked_by,
               'entries', o.entries)::text)
      FROM pgtrickle.outbox_status() AS o WHERE o.blocked_by IS NOT NULL
"""


def tell_blocked(connection: Connection[TupleRow]) -> list[tuple[str, str]]:
    """Send an alert for each outbox that a group keeps from being pruned; return both names."""
    return [(name, group) for name, group, _ in connection.execute(_LIST_BLOCKED).fetchall()]
