"""The metrics of pipelines, in the text format of Prometheus, for ``/metrics`` of a relay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from pgtrickle.model import metrics
from pgtrickle.model.metrics import Metric, MetricKind
from pgtrickle.model.streams.relay import RelayStatus

_VALUES: tuple[tuple[Metric, Callable[[RelayStatus], float]], ...] = (
    (metrics.RELAY_MESSAGES, lambda one: one.messages),
    (metrics.RELAY_RETRIES, lambda one: one.retries),
    (metrics.RELAY_IN_FLIGHT, lambda one: one.in_flight),
    (metrics.RELAY_LAG_ENTRIES, lambda one: one.lag_entries),
    (metrics.RELAY_LAG_ROWS, lambda one: one.lag_rows),
    (metrics.RELAY_LAG_SECONDS, lambda one: one.lag_seconds),
    (metrics.RELAY_DEAD_LETTERS, lambda one: one.dead_letters),
)
STATES = (
    "new",
    "starting",
    "snapshot",
    "streaming",
    "retrying",
    "waiting",
    "paused",
    "blocked",
    "needs_snapshot",
    "failed",
    "stopped",
)


def write_page(found: Sequence[RelayStatus], database: str) -> bytes:
    """Return the metrics of pipelines."""
    return generate_latest(_Page(found, database))


@dataclass(frozen=True, slots=True)
class _Page(Collector):
    found: Sequence[RelayStatus]
    database: str

    def collect(self) -> Iterator[Family]:
        """Return it all."""
        return relay_families(self.found, self.database)


def relay_families(found: Sequence[RelayStatus], database: str) -> Iterator[Family]:
    """Yield the metrics of pipelines."""
    for metric, value in _VALUES:
        family = _empty(metric)
        for one in found:
            family.add_metric([database, one.pipeline], value(one))
        yield family
    state = _empty(metrics.RELAY_STATE)
    for one in found:
        for word in STATES:
            state.add_metric([database, one.pipeline, word], float(one.state == word))
    yield state


def _empty(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    return kind(metric.name, metric.doc, labels=["database", *metric.labels])
