"""Figures of all stream tables, sources and sinks, read often and cheaply, for metrics.

Whoever asks waits for a thread that reads, and not for longer than the settings say: a database
that does not answer at all keeps that thread, and nobody else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TakesTooLong
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
    get_slot_lag,
    list_immediate_figures,
    list_sink_figures,
    list_source_figures,
    list_stream_table_figures,
)
from pgtrickle.errors import ConnectionLostError, InternalError, TrickleError
from pgtrickle.model.lake.sink import DeliveryStatus
from pgtrickle.model.metrics import SHOWN
from pgtrickle.model.status_report import CacheStats
from pgtrickle.service.lock_waits import impatient
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.sinks.ducklake.totals import SinkCount, SinkTotals

_LONGEST_STATEMENT = 0.8  # of the time for a request, so that the server gives up first


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures read from the catalog at one moment, and those of this process."""

    stream_tables_by_status: dict[str, int]
    stream_tables: Sequence[StreamTableFigures]
    sources: Sequence[SourceFigures]
    slot_lag_bytes: int | None  # None: nothing is captured from the log
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
    _last: Figures | None = None
    _looked: float = float("-inf")  # on the monotonic clock: the end of the last look
    _look: Future[Figures] | None = None  # that is on its way
    _began: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def database(self) -> str:
        """The name of the database."""
        return self.runtime.database

    def read(self) -> Figures:
        """Return figures that are not too old, or raise when the time for a request is over.

        Any thread may call; one reads, the others wait for its result.
        """
        settings = self.runtime.settings
        timeout = settings.metrics_request_timeout_ms / 1000
        with self._lock:
            now = time.monotonic()
            fresh = now - self._looked <= settings.metrics_catalog_snapshot_ttl_ms / 1000
            if self._last is not None and fresh:
                return self._last
            if self._look is None:
                self._look, self._began = self._start(timeout), now
            look, began = self._look, self._began
        try:
            # Of one that should have ended before, nothing is expected.
            found = look.result(max(began + timeout - time.monotonic(), 0))
        except TakesTooLong:
            raise ConnectionLostError("PostgreSQL does not answer") from None
        finally:
            with self._lock:
                if look.done() and self._look is look:
                    self._look = None
        return found

    def _start(self, timeout: float) -> Future[Figures]:
        look: Future[Figures] = Future()

        def work() -> None:
            try:
                found = self._read(timeout)
            except TrickleError as error:
                self._last = None
                look.set_exception(error)
            except BaseException as error:  # noqa: BLE001 - who waits must not wait for ever
                self._last = None
                look.set_exception(InternalError(f"the metrics could not be read: {error}"))
            else:
                self._last, self._looked = found, time.monotonic()
                look.set_result(found)

        threading.Thread(target=work, name="pgtrickle-metrics", daemon=True).start()
        return look

    def _read(self, timeout: float) -> Figures:
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
            count_queued_requests(connection),
            immediate[:SHOWN],
            count_lock_fallbacks(immediate),
            count_sinks(connection),
            [(sink, totals[sink.stream_table_id]) for sink in sinks],
            self.runtime.remembered.stats(),
        )
