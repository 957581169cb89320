"""Figures of all stream tables and sinks, read often and cheaply, for metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from psycopg import Connection

from pgtrickle.catalog.metric_values import (
    SinkFigures,
    StreamTableFigures,
    count_lock_fallbacks,
    count_queued_requests,
    count_sinks,
    count_stream_tables,
    list_sink_figures,
    list_stream_table_figures,
)
from pgtrickle.errors import ConnectionLostError, TrickleError
from pgtrickle.model.lake.sink import DeliveryStatus
from pgtrickle.model.metrics import SHOWN
from pgtrickle.service.lock_waits import impatient
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.sinks.ducklake.totals import SinkCount, SinkTotals

_FRESH = 1.0  # seconds for which figures are reused
_PATIENCE = 2.0  # seconds after which a waiting caller gets an error


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures read from the catalog at one moment."""

    stream_tables_by_status: dict[str, int]
    stream_tables: Sequence[StreamTableFigures]
    queued_requests: int
    lock_fallbacks: dict[str, int]  # by the reason
    sinks_by_state: dict[DeliveryStatus, int]
    sinks: Sequence[tuple[SinkFigures, SinkTotals]]


@dataclass(slots=True)
class FigureReader:
    """Reads the catalog, at most once per second."""

    runtime: Runtime
    _count: SinkCount = field(default_factory=SinkCount)
    _last: Figures | None = None
    _failed: TrickleError | None = None
    _looked: float = float("-inf")  # on the monotonic clock
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> Figures:
        """Return figures that are at most a second old, or raise within a few seconds.

        Any thread may call; one reads, the others wait for its result.
        """
        if not self._lock.acquire(timeout=_PATIENCE):
            raise ConnectionLostError("PostgreSQL does not answer")
        try:
            if time.monotonic() - self._looked > _FRESH:
                self._look()
            if self._last is None:
                raise self._failed or ConnectionLostError("PostgreSQL does not answer")
            return self._last
        finally:
            self._lock.release()

    def _look(self) -> None:
        self._last = None
        try:
            with (
                translated_errors(),
                self.runtime.pool.connection(timeout=_PATIENCE) as connection,
                impatient(connection, "1s"),
            ):
                connection.execute("SET LOCAL statement_timeout = '2s'")
                self._last = self._read(connection)
        except TrickleError as error:
            self._failed = error
        finally:
            self._looked = time.monotonic()

    def _read(self, connection: Connection) -> Figures:
        sinks = list_sink_figures(connection, SHOWN)
        totals = self._count.count(connection, sinks)
        return Figures(
            count_stream_tables(connection),
            list_stream_table_figures(connection, SHOWN),
            count_queued_requests(connection),
            count_lock_fallbacks(connection),
            count_sinks(connection),
            [(sink, totals[sink.stream_table_id]) for sink in sinks],
        )
