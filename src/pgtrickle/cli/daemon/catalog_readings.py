"""What one look at the catalog comes to, as readings of metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgtrickle.catalog.figures.metric_values import SinkFigures, StreamTableFigures
from pgtrickle.cli.daemon.readings import Reading
from pgtrickle.model import metrics
from pgtrickle.model.metrics import Metric
from pgtrickle.model.stream_table import Status
from pgtrickle.service.insight.metric_values import Figures
from pgtrickle.service.sinks.ducklake.totals import SinkTotals


def catalog_readings(figures: Figures) -> Iterator[Reading]:
    """Write down one look at the catalog."""
    counted = figures.stream_tables_by_status
    yield Reading(
        metrics.STREAM_TABLES, {(one.value,): counted.get(one.value, 0) for one in Status}
    )
    yield from _of_tables([(str(one.stream_table), one) for one in figures.stream_tables])
    yield from _of_capture(figures)
    yield from _of_writers(figures)
    yield Reading(metrics.QUERY_HITS, {(): figures.queries.hits})
    yield Reading(metrics.QUERY_MISSES, {(): figures.queries.misses})
    yield Reading(metrics.QUERY_ENTRIES, {(): figures.queries.entries})
    yield Reading(metrics.REQUESTS, {(): figures.queued_requests})
    states = figures.sinks_by_state.items()
    yield Reading(metrics.SINKS, {(state.value,): number for state, number in states})
    yield from _of_sinks([(str(one.stream_table), one, total) for one, total in figures.sinks])


def _of_tables(tables: list[tuple[str, StreamTableFigures]]) -> Iterator[Reading]:
    yield _by_name(metrics.STALENESS, [(name, one.staleness_seconds) for name, one in tables])
    yield _by_name(metrics.SLA, [(name, one.sla_seconds) for name, one in tables])
    yield _by_name(metrics.STRETCH, [(name, one.stretch) for name, one in tables])
    latency: dict[tuple[str, ...], float] = {}
    rows: dict[tuple[str, ...], float] = {}
    info: dict[tuple[str, ...], float] = {}
    for name, one in tables:
        if one.median_seconds is not None and one.p99_seconds is not None:
            latency |= {(name, "0.5"): one.median_seconds, (name, "0.99"): one.p99_seconds}
        if one.action is not None and one.engine is not None:
            info[name, one.action, one.engine] = 1
            rows |= {
                (name, "inserted"): one.rows_inserted or 0,
                (name, "deleted"): one.rows_deleted or 0,
            }
    yield Reading(metrics.LATENCY, latency)
    yield Reading(metrics.LAST_INFO, info)
    yield _by_name(metrics.LAST_SECONDS, [(name, one.seconds) for name, one in tables])
    yield Reading(metrics.LAST_ROWS, rows)
    yield _by_name(metrics.PREDICTED, [(name, one.predicted_seconds) for name, one in tables])
    yield _by_name(metrics.ACTUAL, [(name, one.actual_seconds) for name, one in tables])
    yield _by_name(metrics.LOCK_FAILURES, [(name, one.lock_failures) for name, one in tables])
    yield _by_name(metrics.ERRORS, [(name, one.consecutive_errors) for name, one in tables])


def _of_capture(figures: Figures) -> Iterator[Reading]:
    sources = figures.sources
    yield _by_name(metrics.BUFFER_ROWS, [(one.source, one.rows) for one in sources])
    yield _by_name(metrics.BUFFER_BYTES, [(one.source, one.bytes) for one in sources])
    yield _by_name(metrics.CAPTURE_LAG, [(one.source, one.lag_seconds) for one in sources])
    lag = figures.slot_lag_bytes
    yield Reading(metrics.SLOT_LAG, {} if lag is None else {(): lag})
    oldest = figures.oldest_transaction_seconds
    yield Reading(metrics.OLDEST_TRANSACTION, {} if oldest is None else {(): oldest})


def _of_writers(figures: Figures) -> Iterator[Reading]:
    waits = figures.lock_fallbacks.items()
    yield Reading(metrics.LOCK_FALLBACKS, {(reason,): number for reason, number in waits})
    followed = figures.immediate
    yield _by_name(
        metrics.IMMEDIATE_STATEMENTS, [(one.stream_table, one.statements) for one in followed]
    )
    rows: dict[tuple[str, ...], float] = {}
    for one in followed:
        name = one.stream_table
        rows |= {(name, "inserted"): one.rows_inserted, (name, "deleted"): one.rows_deleted}
    yield Reading(metrics.IMMEDIATE_ROWS, rows)


def _of_sinks(sinks: list[tuple[str, SinkFigures, SinkTotals]]) -> Iterator[Reading]:
    yield _by_name(metrics.DELIVERIES, [(name, total.deliveries) for name, _, total in sinks])
    yield _by_name(metrics.ATTEMPTS, [(name, total.attempts) for name, _, total in sinks])
    yield _by_name(metrics.DELIVERY_FAILURES, [(name, total.failures) for name, _, total in sinks])
    rows: dict[tuple[str, ...], float] = {}
    for name, _, total in sinks:
        rows |= {(name, "inserted"): total.rows_written, (name, "deleted"): total.rows_deleted}
    yield Reading(metrics.DELIVERED_ROWS, rows)
    written = [(name, total.bytes_written) for name, _, total in sinks]
    yield _by_name(metrics.DELIVERED_BYTES, written)
    yield _by_name(metrics.LAG_REFRESHES, [(name, one.lag_refreshes) for name, one, _ in sinks])
    yield _by_name(metrics.LAG_SECONDS, [(name, one.lag_seconds) for name, one, _ in sinks])
    yield _by_name(metrics.SNAPSHOT, [(name, one.snapshot_id) for name, one, _ in sinks])


def _by_name(metric: Metric, values: Iterable[tuple[str, float | None]]) -> Reading:
    return Reading(metric, {(name,): value for name, value in values if value is not None})
