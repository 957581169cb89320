"""The metrics of a daemon, in the text format of Prometheus, for ``/metrics``.

What the scheduler of this process did is counted as it happens.  What the catalog knows is read
when somebody asks, and only by the daemon that leads: several daemons never tell it twice.  Names,
numbers and codes go out, never the text of an error.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.registry import Collector

from pgtrickle import __version__
from pgtrickle.cli.daemon.probes import Health
from pgtrickle.errors import RefreshCancelledError, TrickleError
from pgtrickle.model import metrics
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.metrics import Metric, MetricKind
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Status
from pgtrickle.scheduler.loop import Loop
from pgtrickle.scheduler.pace import Cycle
from pgtrickle.service.insight.metric_values import Figures

_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)

Values = Mapping[tuple[str, ...], float]


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
    _counts: dict[str, Counter[tuple[str, ...]]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    _durations: dict[str, _Durations] = field(default_factory=lambda: defaultdict(_Durations))
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
        return generate_latest(_Page([*self._own(), *self._read()]))

    def _own(self) -> Iterator[Family]:
        health, loop = self.health, self.loop
        running, queued = (0, 0) if loop is None else loop.busy()
        with self._lock:
            yield _family(metrics.VERSION, {(__version__,): 1})
            yield _family(metrics.LEADING, {(): health.leading})
            yield _family(metrics.READY, {(): health.ready})
            yield _family(metrics.LAST_ROUND, {(): health.seconds_since_last_round})
            for metric in (metrics.REFRESHES, metrics.FAILURES, metrics.ROWS):
                yield _family(metric, self._counts[metric.name])
            late = self._counts[metrics.FALLING_BEHIND.name][()]
            yield _family(metrics.FALLING_BEHIND, {(): late})
            yield self._duration_family()
            yield _family(metrics.RUNNING, {(): running})
            yield _family(metrics.QUEUED, {(): queued})
            yield _family(metrics.ADMITTED, {(): 0 if loop is None else loop.admission.limit})

    def _duration_family(self) -> Family:
        metric = metrics.DURATION
        family = HistogramMetricFamily(metric.name, metric.doc, labels=metric.labels)
        for action, durations in self._durations.items():
            bounds = [*(str(bound) for bound in _BOUNDS), "+Inf"]
            buckets = list(zip(bounds, accumulate(durations.counts), strict=True))
            family.add_metric([action], buckets, durations.seconds)
        return family

    def _read(self) -> Iterator[Family]:
        figures = None
        try:
            if self.figures is not None and self.health.leading:
                figures = self.figures()
        except TrickleError:
            with self._lock:
                self._add(metrics.NOT_READ)
        yield _family(metrics.NOT_READ, {(): self._counts[metrics.NOT_READ.name][()]})
        if figures is not None:
            yield from _families(figures)


def _families(figures: Figures) -> Iterator[Family]:
    """Write down one look at the catalog."""
    counted = figures.stream_tables_by_status
    yield _family(
        metrics.STREAM_TABLES, {(one.value,): counted.get(one.value, 0) for one in Status}
    )
    tables = [(str(one.stream_table), one) for one in figures.stream_tables]
    staleness = [(name, one.staleness_seconds) for name, one in tables]
    yield _by_table(metrics.STALENESS, staleness)
    yield _by_table(metrics.STRETCH, [(name, one.stretch) for name, one in tables])
    yield _by_table(metrics.ERRORS, [(name, one.consecutive_errors) for name, one in tables])
    waits = figures.lock_fallbacks.items()
    yield _family(metrics.LOCK_FALLBACKS, {(reason,): number for reason, number in waits})
    yield _family(metrics.REQUESTS, {(): figures.queued_requests})
    states = figures.sinks_by_state.items()
    yield _family(metrics.SINKS, {(state.value,): number for state, number in states})
    sinks = [(str(one.stream_table), one, totals) for one, totals in figures.sinks]
    yield _by_table(metrics.DELIVERIES, [(name, total.deliveries) for name, _, total in sinks])
    yield _by_table(metrics.ATTEMPTS, [(name, total.attempts) for name, _, total in sinks])
    yield _by_table(metrics.DELIVERY_FAILURES, [(name, total.failures) for name, _, total in sinks])
    rows: dict[tuple[str, ...], float] = {}
    for name, _, total in sinks:
        rows |= {(name, "inserted"): total.rows_written, (name, "deleted"): total.rows_deleted}
    yield _family(metrics.DELIVERED_ROWS, rows)
    yield _by_table(
        metrics.DELIVERED_BYTES, [(name, total.bytes_written) for name, _, total in sinks]
    )
    yield _by_table(metrics.LAG_REFRESHES, [(name, one.lag_refreshes) for name, one, _ in sinks])
    yield _by_table(metrics.LAG_SECONDS, [(name, one.lag_seconds) for name, one, _ in sinks])
    yield _by_table(metrics.SNAPSHOT, [(name, one.snapshot_id) for name, one, _ in sinks])


def _by_table(metric: Metric, values: Iterable[tuple[str, float | None]]) -> Family:
    return _family(metric, {(name,): value for name, value in values if value is not None})


def _family(metric: Metric, values: Values) -> Family:
    kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.doc, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, float(value))
    return family


@dataclass(frozen=True, slots=True)
class _Page(Collector):
    """What is asked for, made before."""

    families: list[Family]

    def collect(self) -> Iterator[Family]:
        """Return it all."""
        return iter(self.families)
