"""The figures of all stream tables and sinks, read at once for metrics.

A fixed number of queries, however many there are; each looks rows up by an index or reads no more
than a table of stream tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.lake.sink import DeliveryStatus
from pgtrickle.model.metrics import LOCK_REASONS
from pgtrickle.model.text.names import QualifiedName


@dataclass(frozen=True, slots=True)
class StreamTableFigures:
    """How far one stream table is."""

    stream_table: QualifiedName
    staleness_seconds: float | None  # None before the first load
    consecutive_errors: int
    stretch: int  # a factor on its interval


@dataclass(frozen=True, slots=True)
class SinkFigures:
    """How far the copy of one stream table is."""

    stream_table_id: int
    stream_table: QualifiedName
    open_since: datetime | None  # of the delivery that has not succeeded yet
    lag_seconds: float
    lag_refreshes: int
    snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class DeliveryFigures:
    """The figures of one delivery."""

    stream_table_id: int
    id: int
    started_at: datetime
    delivered: bool
    attempts: int
    rows_written: int
    rows_deleted: int
    bytes_written: int


_COUNT_STATUSES = """
    SELECT s.status, count(*) FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema <> 'pgtrickle_state'
     GROUP BY s.status
"""


def count_stream_tables(connection: Connection[TupleRow]) -> dict[str, int]:
    """Return how many stream tables have each status."""
    return dict(connection.execute(_COUNT_STATUSES).fetchall())


_LIST_STREAM_TABLES = """
    SELECT s.pgt_schema, s.pgt_name,
           extract(epoch FROM pg_catalog.clock_timestamp() - s.data_timestamp)::float8,
           s.consecutive_errors, COALESCE(p.stretch, 1)
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN pgtrickle.pgt_paces AS p USING (pgt_id)
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY s.data_timestamp NULLS LAST, s.pgt_id
     LIMIT %s
"""


def list_stream_table_figures(
    connection: Connection[TupleRow], limit: int
) -> list[StreamTableFigures]:
    """Return how far stream tables are, the stalest first."""
    return [
        StreamTableFigures(QualifiedName(schema, name), *rest)
        for schema, name, *rest in connection.execute(_LIST_STREAM_TABLES, [limit])
    ]


_COUNT_LOCK_FALLBACKS = """
    SELECT i.lock_reason, pg_catalog.sum(i.statements)::pg_catalog.int8
      FROM pgtrickle.immediate_status() AS i
     WHERE i.lock_mode = 'exclusive'
     GROUP BY i.lock_reason
"""


def count_lock_fallbacks(connection: Connection[TupleRow]) -> dict[str, int]:
    """Return how many statements took an exclusive lock on a stream table, by the reason."""
    found: dict[str, int] = dict(connection.execute(_COUNT_LOCK_FALLBACKS).fetchall())
    return dict.fromkeys(LOCK_REASONS, 0) | found


_COUNT_QUEUED = "SELECT count(*) FROM pgtrickle.pgt_requests WHERE status = 'QUEUED'"


def count_queued_requests(connection: Connection[TupleRow]) -> int:
    """Return how many requests nobody works on yet."""
    return int(connection.execute(_COUNT_QUEUED).fetchall()[0][0])


_COUNT_SINKS = """
    SELECT COALESCE(o.status, 'DELIVERED'), count(*)
      FROM pgtrickle.pgt_ducklake_sinks AS s
      LEFT JOIN pgtrickle.pgt_ducklake_sink_delivery AS o
        ON o.stream_table_id = s.pgt_id AND o.status <> 'DELIVERED'
     GROUP BY 1
"""


def count_sinks(connection: Connection[TupleRow]) -> dict[DeliveryStatus, int]:
    """Return how many sinks are in each state."""
    found: dict[str, int] = dict(connection.execute(_COUNT_SINKS).fetchall())
    return {one: found.get(one.value, 0) for one in DeliveryStatus}


_LIST_SINKS = """
    SELECT s.pgt_id, t.pgt_schema, t.pgt_name, o.started_at,
           COALESCE(extract(epoch FROM pg_catalog.clock_timestamp() - o.started_at), 0)::float8,
           missing.refreshes, last.snapshot_id
      FROM pgtrickle.pgt_ducklake_sinks AS s
      JOIN pgtrickle.pgt_stream_tables AS t USING (pgt_id)
      LEFT JOIN pgtrickle.pgt_ducklake_sink_delivery AS o
        ON o.stream_table_id = s.pgt_id AND o.status <> 'DELIVERED'
      LEFT JOIN LATERAL (
               SELECT d.finished_at, d.snapshot_id
                 FROM pgtrickle.pgt_ducklake_sink_delivery AS d
                WHERE d.stream_table_id = s.pgt_id AND d.status = 'DELIVERED'
                ORDER BY d.started_at DESC LIMIT 1) AS last ON true
     CROSS JOIN LATERAL (
               -- Refreshes of one stream table follow one another, so none straddles a delivery.
               SELECT count(*) AS refreshes
                 FROM (SELECT FROM pgtrickle.pgt_refresh_history AS h
                        WHERE o.delivery_id IS NOT NULL AND h.pgt_id = s.pgt_id
                          AND h.start_time > COALESCE(last.finished_at, '-infinity')
                          AND h.status = 'COMPLETED' AND h.rows_inserted + h.rows_deleted > 0
                        ORDER BY h.start_time DESC LIMIT 1000) AS h) AS missing
     WHERE t.pgt_schema <> 'pgtrickle_state'
     ORDER BY o.started_at NULLS LAST, s.pgt_id
     LIMIT %s
"""


def list_sink_figures(connection: Connection[TupleRow], limit: int) -> list[SinkFigures]:
    """Return how far sinks are, first those that have lacked something for longest."""
    return [
        SinkFigures(id_, QualifiedName(schema, name), *rest)
        for id_, schema, name, *rest in connection.execute(_LIST_SINKS, [limit])
    ]


_LIST_DELIVERIES = """
    SELECT d.stream_table_id, d.delivery_id, d.started_at, d.status = 'DELIVERED',
           d.attempt_count, d.rows_written, d.rows_deleted, d.bytes_written
      FROM unnest(%s::bigint[], %s::timestamptz[]) AS wanted (id, since)
      JOIN pgtrickle.pgt_ducklake_sink_delivery AS d
        ON d.stream_table_id = wanted.id AND d.started_at >= wanted.since
     ORDER BY d.delivery_id
"""


def list_deliveries_since(
    connection: Connection[TupleRow], since: Mapping[int, datetime]
) -> list[DeliveryFigures]:
    """Return the deliveries of sinks that began at a moment given for each, or later."""
    rows = connection.execute(_LIST_DELIVERIES, [list(since), list(since.values())])
    return [DeliveryFigures(*row) for row in rows]
