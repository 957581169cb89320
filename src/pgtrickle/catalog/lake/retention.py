"""Forget old deliveries and their provenance, in batches; the totals of a sink stay."""

from __future__ import annotations

from datetime import timedelta

from psycopg import Connection
from psycopg.rows import TupleRow

# The last delivery of a sink says where it is.
_FORGET_DELIVERIES = """
    WITH old AS (
        SELECT d.delivery_id FROM pgtrickle.pgt_ducklake_sink_delivery AS d
         WHERE d.status = 'DELIVERED'
           AND d.finished_at < pg_catalog.statement_timestamp() - %(keep)s
           AND EXISTS (SELECT FROM pgtrickle.pgt_ducklake_sink_delivery AS n
                        WHERE n.stream_table_id = d.stream_table_id AND n.status = 'DELIVERED'
                          AND n.delivery_id > d.delivery_id)
         ORDER BY d.finished_at
         LIMIT %(batch)s
           FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM pgtrickle.pgt_ducklake_sink_delivery AS d
         USING old WHERE d.delivery_id = old.delivery_id
        RETURNING d.stream_table_id, d.rows_written, d.rows_deleted, d.bytes_written
    ), sums AS (
        SELECT g.stream_table_id, pg_catalog.count(*) AS deliveries,
               pg_catalog.sum(g.rows_written)::bigint AS rows_written,
               pg_catalog.sum(g.rows_deleted)::bigint AS rows_deleted,
               pg_catalog.sum(g.bytes_written)::bigint AS bytes_written
          FROM gone AS g GROUP BY g.stream_table_id
    ), kept AS (
        UPDATE pgtrickle.pgt_ducklake_sinks AS s
           SET forgotten_deliveries = s.forgotten_deliveries + n.deliveries,
               forgotten_rows_written = s.forgotten_rows_written + n.rows_written,
               forgotten_rows_deleted = s.forgotten_rows_deleted + n.rows_deleted,
               forgotten_bytes_written = s.forgotten_bytes_written + n.bytes_written
          FROM sums AS n WHERE s.pgt_id = n.stream_table_id
    )
    SELECT pg_catalog.count(*) FROM gone
"""
_FORGET_PROVENANCE = """
    DELETE FROM pgtrickle.pgt_ducklake_provenance AS p
     USING (SELECT old.provenance_id FROM pgtrickle.pgt_ducklake_provenance AS old
             WHERE old.written_at < pg_catalog.statement_timestamp() - %(keep)s
             ORDER BY old.written_at
             LIMIT %(batch)s
               FOR UPDATE SKIP LOCKED) AS old
     WHERE p.provenance_id = old.provenance_id
"""


def prune_deliveries(connection: Connection[TupleRow], keep: timedelta, batch: int) -> int:
    """Delete deliveries that ended longer ago than ``keep``, at most ``batch``; return how many."""
    values = {"keep": keep, "batch": batch}
    [(deleted,)] = connection.execute(_FORGET_DELIVERIES, values).fetchall()
    return int(deleted)


def prune_provenance(connection: Connection[TupleRow], keep: timedelta, batch: int) -> int:
    """Delete the provenance of older snapshots of lakes, at most ``batch``; return how many."""
    return connection.execute(_FORGET_PROVENANCE, {"keep": keep, "batch": batch}).rowcount
