"""The metrics of a daemon, in the text format of Prometheus, for ``/metrics``.

What the scheduler of this process did is counted as it happens.  What the catalog knows is read
when somebody asks, and only by the daemon that leads: several daemons never tell it twice.  Names,
numbers and codes go out, never the text of an error.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.core import (
    Metric as Family,
)

from pgtrickle import __version__
from pgtrickle.cli.daemon.catalog_readings import catalog_readings
from pgtrickle.cli.daemon.metrics_text import PageWriter
from pgtrickle.cli.daemon.probes import Health
from pgtrickle.cli.daemon.readings import Reading
from pgtrickle.cli.daemon.spark_readings import spark_readings
from pgtrickle.cli.outboxes.relay_metrics import METRICS as RELAY_METRICS
from pgtrickle.errors import RefreshCancelledError, TrickleError
from pgtrickle.model import metrics
from pgtrickle.model.insight.engine_figures import EngineFigures
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.metrics import Metric
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.streams.relay import RelayStatus
from pgtrickle.scheduler.loop import Loop
from pgtrickle.scheduler.pace import Cycle
from pgtrickle.service.insight.metric_values import Figures

_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


@dataclass(slots=True)
class _Durations:
    """How many refreshes of one action took up to each bound, and how long they took in all."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BOUNDS, seconds)] += 1
        self.seconds += seconds


@dataclass(slots=True)
class Metrics:
    """Counts what the loop does, and writes that down with what else is known."""

    health: Health
    loop: Loop | None = None  # while there is one
    figures: Callable[[], Figures] | None = None  # while there is a database
    engine: Callable[[], EngineFigures] | None = None  # of this process
    relays: Callable[[], Sequence[RelayStatus]] | None = None  # if it runs a relay
    database: str = ""  # its name
    _counts: dict[str, Counter[tuple[str, ...]]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    _durations: dict[str, _Durations] = field(default_factory=lambda: defaultdict(_Durations))
    _writer: PageWriter = field(default_factory=PageWriter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refreshed(self, report: RefreshReport) -> None:
        """Count a refresh that completed."""
        action = report.action.value
        with self._lock:
            self._add(metrics.REFRESHES, action, "completed")
            self._add(metrics.ROWS, "inserted", number=report.rows_inserted)
            self._add(metrics.ROWS, "deleted", number=report.rows_deleted)
            self._durations[action].add(report.duration_ms / 1000)

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:  # noqa: ARG002 - a watcher's
        """Count a refresh that failed; looking for what is due is none."""
        if name is None:
            return
        called_off = isinstance(error, RefreshCancelledError)
        with self._lock:
            self._add(metrics.REFRESHES, "NONE", "cancelled" if called_off else "failed")
            if not called_off:
                self._add(metrics.FAILURES, error.code)

    def resumed(self, name: str) -> None:
        """Take no note: the catalog tells who is suspended."""

    def sink_changed(self, news: SinkNews) -> None:
        """Sinks are counted from what the catalog says of them."""

    def fell_behind(self, cycle: Cycle) -> None:  # noqa: ARG002 - a watcher's
        """Count a refresh that took longer than its interval."""
        with self._lock:
            self._add(metrics.FALLING_BEHIND)

    def _add(self, metric: Metric, *labels: str, number: int = 1) -> None:
        self._counts[metric.name][labels] += number

    def page(self) -> bytes:
        """Return all of it as it is now; a database that does not answer leaves its part out."""
        return self._writer.write(self._all(), self.database)

    def families(self) -> list[Family]:
        """Return the same as values, each sample with the label of the database."""
        families = [one.family() if isinstance(one, Reading) else one for one in self._all()]
        for one in families:
            of_database = {"database": self.database}
            one.samples = [
                sample._replace(labels=of_database | sample.labels) for sample in one.samples
            ]
        return families

    def _all(self) -> Iterator[Family | Reading]:
        yield from self._own()
        if self.engine is not None:
            yield from spark_readings(self.engine())
        yield from self._read()

    def _own(self) -> Iterator[Family | Reading]:
        health, loop = self.health, self.loop
        running, queued = (0, 0) if loop is None else loop.busy()
        with self._lock:
            yield Reading(metrics.VERSION, {(__version__,): 1})
            yield Reading(metrics.LEADING, {(): health.leading})
            yield Reading(metrics.READY, {(): health.ready})
            yield Reading(metrics.LAST_ROUND, {(): health.seconds_since_last_round})
            for metric in (metrics.REFRESHES, metrics.FAILURES, metrics.ROWS):
                yield Reading(metric, self._counts[metric.name])
            late = self._counts[metrics.FALLING_BEHIND.name][()]
            yield Reading(metrics.FALLING_BEHIND, {(): late})
            yield self._duration_family()
            yield Reading(metrics.RUNNING, {(): running})
            yield Reading(metrics.QUEUED, {(): queued})
            yield Reading(metrics.ADMITTED, {(): 0 if loop is None else loop.admission.limit})

    def _duration_family(self) -> Family:
        metric = metrics.DURATION
        family = HistogramMetricFamily(metric.name, metric.doc, labels=metric.labels)
        for action, durations in self._durations.items():
            bounds = [*(str(bound) for bound in _BOUNDS), "+Inf"]
            buckets = list(zip(bounds, accumulate(durations.counts), strict=True))
            family.add_metric([action], buckets, durations.seconds)
        return family

    def _read(self) -> Iterator[Family | Reading]:
        figures, relays = None, None
        try:
            if self.figures is not None and self.health.leading:
                figures = self.figures()
            if self.relays is not None and self.health.leading:
                relays = self.relays()
        except TrickleError:
            with self._lock:
                self._add(metrics.NOT_READ)
        yield Reading(metrics.NOT_READ, {(): self._counts[metrics.NOT_READ.name][()]})
        if figures is not None:
            yield from catalog_readings(figures)
        if relays is not None:
            yield from RELAY_METRICS.families(relays, self.database)
