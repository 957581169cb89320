"""The metrics of inbound pipelines, in the text format of Prometheus, for ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from pgtrickle.model import metrics
from pgtrickle.model.metrics import Metric, MetricKind
from pgtrickle.model.streams.inbound import InboundStatus

_VALUES: tuple[tuple[Metric, Callable[[InboundStatus], float | None]], ...] = (
    (metrics.INBOUND_MESSAGES, lambda one: one.messages),
    (metrics.INBOUND_DUPLICATES, lambda one: one.duplicates),
    (metrics.INBOUND_RETRIES, lambda one: one.retries),
    (metrics.INBOUND_LAG, lambda one: one.lag),
    (metrics.INBOUND_DEAD_LETTERS, lambda one: one.dead_letters),
)
STATES = (
    "new",
    "starting",
    "receiving",
    "full",
    "retrying",
    "waiting",
    "paused",
    "blocked",
    "lost",
    "failed",
    "stopped",
)


def write_page(found: Sequence[InboundStatus], database: str) -> bytes:
    """Return the metrics of inbound pipelines."""
    return generate_latest(_Page(found, database))


@dataclass(frozen=True, slots=True)
class _Page(Collector):
    found: Sequence[InboundStatus]
    database: str

    def collect(self) -> Iterator[Family]:
        """Return it all."""
        for metric, value in _VALUES:
            family = _empty(metric)
            for one in self.found:
                known = value(one)
                if known is not None:
                    family.add_metric([self.database, one.pipeline], known)
            yield family
        state = _empty(metrics.INBOUND_STATE)
        for one in self.found:
            for word in STATES:
                state.add_metric([self.database, one.pipeline, word], float(one.state == word))
        yield state


def _empty(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    return kind(metric.name, metric.doc, labels=["database", *metric.labels])
