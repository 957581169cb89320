"""Figures of all stream tables, sources and sinks, read often and cheaply, for metrics.

Whoever asks waits for a thread that reads, and not for longer than the settings say: a database
that does not answer at all keeps that thread, and nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from psycopg import Connection

from pgtrickle.catalog.figures.metric_values import (
    ImmediateFigures,
    SinkFigures,
    SourceFigures,
    StreamTableFigures,
    count_lock_fallbacks,
    count_queued_requests,
    count_sinks,
    count_stream_tables,
    get_oldest_transaction,
    get_slot_lag,
    list_immediate_figures,
    list_sink_figures,
    list_source_figures,
    list_stream_table_figures,
)
from pgtrickle.errors import ConnectionLostError, TrickleError
from pgtrickle.model.insight.engine_figures import EngineFigures, SparkFigures
from pgtrickle.model.lake.sink import DeliveryStatus
from pgtrickle.model.metrics import SHOWN
from pgtrickle.model.status_report import CacheStats
from pgtrickle.service.insight.one_look import OneLook, TakesTooLong
from pgtrickle.service.lock_waits import impatient
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.sinks.ducklake.totals import SinkCount, SinkTotals

_LONGEST_STATEMENT = 0.8  # of the time for a request, so that the server gives up first
_SPARK_ANSWERS_WITHIN = 1.0  # seconds; it takes some milliseconds, and is no reason to wait longer


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures read from the catalog at one moment, and those of this process."""

    stream_tables_by_status: dict[str, int]
    stream_tables: Sequence[StreamTableFigures]
    sources: Sequence[SourceFigures]
    slot_lag_bytes: int | None  # None: nothing is captured from the log
    oldest_transaction_seconds: float | None  # None: none is open, as far as is shown
    queued_requests: int
    immediate: Sequence[ImmediateFigures]
    lock_fallbacks: dict[str, int]  # by the reason
    sinks_by_state: dict[DeliveryStatus, int]
    sinks: Sequence[tuple[SinkFigures, SinkTotals]]
    queries: CacheStats


@dataclass(slots=True)
class FigureReader:
    """Reads the catalog, at most once in the time that a look at it is good for."""

    runtime: Runtime
    _count: SinkCount = field(default_factory=SinkCount)
    _catalog: OneLook[Figures] = field(init=False)
    _spark: OneLook[SparkFigures | None] = field(init=False)

    def __post_init__(self) -> None:
        """Prepare both looks, of which neither has begun."""
        self._catalog = OneLook(self._read, "pgtrickle-metrics")
        self._spark = OneLook(self.runtime.engine.measure, "pgtrickle-spark-metrics")

    @property
    def database(self) -> str:
        """The name of the database."""
        return self.runtime.database

    def read(self) -> Figures:
        """Return figures that are not too old, or raise when the time for a request is over.

        Any thread may call; one reads, the others wait for its result.
        """
        try:
            return self._catalog.read(self._good_for(), self._timeout())
        except TakesTooLong:
            raise ConnectionLostError("PostgreSQL does not answer") from None

    def read_engine(self) -> EngineFigures:
        """Return what is known of the engine of this process, which need not run or answer."""
        counts = self.runtime.engine.counts
        if counts is None or not counts.started:
            return EngineFigures(counts)
        try:
            timeout = min(self._timeout(), _SPARK_ANSWERS_WITHIN)
            return EngineFigures(counts, self._spark.read(self._good_for(), timeout))
        except (TakesTooLong, TrickleError):
            return EngineFigures(counts)

    def _good_for(self) -> float:
        return self.runtime.settings.metrics_catalog_snapshot_ttl_ms / 1000

    def _timeout(self) -> float:
        return self.runtime.settings.metrics_request_timeout_ms / 1000

    def _read(self) -> Figures:
        timeout = self._timeout()
        with (
            translated_errors(),
            self.runtime.pool.connection(timeout=timeout) as connection,
            impatient(connection, f"{timeout * _LONGEST_STATEMENT * 1000:.0f}ms"),
        ):
            connection.execute(
                "SELECT pg_catalog.set_config('statement_timeout', %s, true)",
                [f"{timeout * _LONGEST_STATEMENT * 1000:.0f}ms"],
            )
            return self._figures(connection)

    def _figures(self, connection: Connection) -> Figures:
        sinks = list_sink_figures(connection, SHOWN)
        totals = self._count.count(connection, sinks)
        immediate = list_immediate_figures(connection)
        return Figures(
            count_stream_tables(connection),
            list_stream_table_figures(connection, SHOWN),
            list_source_figures(connection, SHOWN),
            get_slot_lag(connection),
            get_oldest_transaction(connection),
            count_queued_requests(connection),
            immediate[:SHOWN],
            count_lock_fallbacks(immediate),
            count_sinks(connection),
            [(sink, totals[sink.stream_table_id]) for sink in sinks],
            self.runtime.remembered.stats(),
        )
