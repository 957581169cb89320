"""The figures of all stream tables and sinks, read at once for metrics.

A fixed number of queries, however many there are; each looks rows up by an index or reads no more
than a table of stream tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    sla_seconds: float | None  # that must not be exceeded; None without a service level
    stretch: int  # a factor on its interval
    # Of the last refreshes, at most twenty; None without any that changed something.
    median_seconds: float | None
    p99_seconds: float | None
    lock_failures: int  # refreshes that gave up, because of a lock for example
    # Of the last one that changed something.
    action: str | None
    engine: str | None
    seconds: float | None
    rows_inserted: int | None
    rows_deleted: int | None
    predicted_seconds: float | None
    actual_seconds: float | None  # as far as it was predicted


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """The captured changes of one source that wait."""

    source: str
    rows: int
    bytes: int
    lag_seconds: float | None  # None if nobody has read it yet


@dataclass(frozen=True, slots=True)
class ImmediateFigures:
    """The writes that an IMMEDIATE stream table has followed."""

    stream_table: str
    lock_mode: str
    lock_reason: str | None
    statements: int
    rows_inserted: int
    rows_deleted: int


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


# Twenty rows for each, by an index: what it costs does not grow with the history.
_LIST_STREAM_TABLES = """
    SELECT s.pgt_schema, s.pgt_name,
           extract(epoch FROM pg_catalog.clock_timestamp() - s.data_timestamp)::float8,
           s.consecutive_errors, v.deadline_seconds, COALESCE(p.stretch, 1), l.seconds[1],
           l.seconds[2],
           l.lock_failures, r.action, COALESCE(r.cost ->> 'engine', 'spark'),
           extract(epoch FROM r.end_time - r.start_time)::float8, r.rows_inserted, r.rows_deleted,
           r.predicted_ms / 1000, r.actual_ms / 1000
      FROM (SELECT t.* FROM pgtrickle.pgt_stream_tables AS t
             WHERE t.pgt_schema <> 'pgtrickle_state'
             ORDER BY t.data_timestamp NULLS LAST, t.pgt_id
             LIMIT %s) AS s
      LEFT JOIN pgtrickle.pgt_paces AS p USING (pgt_id)
      LEFT JOIN pgtrickle.pgt_service_levels AS v USING (pgt_id)
     CROSS JOIN LATERAL (
               SELECT percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY h.seconds)
                          FILTER (WHERE h.done) AS seconds,
                      count(*) FILTER (WHERE h.error_code = 'ST408') AS lock_failures,
                      max(h.refresh_id) FILTER (WHERE h.done) AS last
                 FROM (SELECT one.refresh_id, one.error_code,
                              extract(epoch FROM one.end_time - one.start_time)::float8 AS seconds,
                              one.status = 'COMPLETED' AND one.action <> 'NO_DATA' AS done
                         FROM pgtrickle.pgt_refresh_history AS one
                        WHERE one.pgt_id = s.pgt_id
                        ORDER BY one.start_time DESC LIMIT 20) AS h) AS l
      LEFT JOIN pgtrickle.pgt_refresh_history AS r ON r.refresh_id = l.last
     ORDER BY s.data_timestamp NULLS LAST, s.pgt_id
"""


def list_stream_table_figures(
    connection: Connection[TupleRow], limit: int
) -> list[StreamTableFigures]:
    """Return how far stream tables are, the stalest first."""
    return [
        StreamTableFigures(QualifiedName(schema, name), *rest)
        for schema, name, *rest in connection.execute(_LIST_STREAM_TABLES, [limit])
    ]


_LIST_IMMEDIATE = """
    SELECT i.name, i.lock_mode, i.lock_reason, i.statements, i.rows_inserted, i.rows_deleted
      FROM pgtrickle.immediate_status() AS i
"""


def list_immediate_figures(connection: Connection[TupleRow]) -> list[ImmediateFigures]:
    """Return the writes that each IMMEDIATE stream table has followed."""
    return [ImmediateFigures(*row) for row in connection.execute(_LIST_IMMEDIATE)]


def count_lock_fallbacks(immediate: Sequence[ImmediateFigures]) -> dict[str, int]:
    """Return how many statements took an exclusive lock on a stream table, by the reason."""
    found = dict.fromkeys(LOCK_REASONS, 0)
    for one in immediate:
        if one.lock_mode == "exclusive" and one.lock_reason is not None:
            found[one.lock_reason] = found.get(one.lock_reason, 0) + one.statements
    return found


_LIST_SOURCES = """
    SELECT source_table, buffer_rows, buffer_bytes, lag_seconds FROM pgtrickle.capture_lag()
     LIMIT %s
"""


def list_source_figures(connection: Connection[TupleRow], limit: int) -> list[SourceFigures]:
    """Return the changes that wait, of the sources with the largest buffers."""
    return [SourceFigures(*row) for row in connection.execute(_LIST_SOURCES, [limit])]


_GET_SLOT_LAG = "SELECT pg_catalog.max(lag_bytes) FROM pgtrickle.slot_health()"


def get_slot_lag(connection: Connection[TupleRow]) -> int | None:
    """Return how much log the server keeps for the slot; None if there is none."""
    [(found,)] = connection.execute(_GET_SLOT_LAG).fetchall()
    return None if found is None else int(found)


_GET_OLDEST_TRANSACTION = """
    SELECT pg_catalog.max(extract(epoch FROM pg_catalog.clock_timestamp() - t.began))::float8
      FROM (SELECT a.xact_start FROM pg_catalog.pg_stat_activity AS a
             WHERE a.datname = pg_catalog.current_database()
               AND a.pid <> pg_catalog.pg_backend_pid() AND a.backend_type = 'client backend'
             UNION ALL
            SELECT p.prepared FROM pg_catalog.pg_prepared_xacts AS p
             WHERE p.database = pg_catalog.current_database()) AS t (began)
"""


def get_oldest_transaction(connection: Connection[TupleRow]) -> float | None:
    """Return for how many seconds the oldest visible transaction has gone on; None without one."""
    [(found,)] = connection.execute(_GET_OLDEST_TRANSACTION).fetchall()
    return None if found is None else float(found)


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
