"""The metrics of pipelines, of either direction, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from pgtrickle.model.metrics import Metric, MetricKind


class Told(Protocol):
    """What a pipeline does."""

    @property
    def pipeline(self) -> str:
        """Its name."""
        ...

    @property
    def state(self) -> str:
        """Its state."""
        ...


S = TypeVar("S", bound=Told)


@dataclass(frozen=True, slots=True)
class PipelineMetrics(Generic[S]):
    """The metrics of one direction."""

    values: Sequence[tuple[Metric, Callable[[S], float | None]]]
    state: Metric
    states: Sequence[str]

    def families(self, found: Sequence[S], database: str) -> Iterator[Family]:
        """Yield the metrics of pipelines; a value that is not known is left out."""
        for metric, value in self.values:
            family = _empty(metric)
            for one in found:
                known = value(one)
                if known is not None:
                    family.add_metric([database, one.pipeline], known)
            yield family
        state = _empty(self.state)
        for one in found:
            for word in self.states:
                state.add_metric([database, one.pipeline, word], float(one.state == word))
        yield state

    def write_page(self, found: Sequence[S], database: str) -> bytes:
        """Return the metrics of pipelines, for ``/metrics``."""
        return generate_latest(_Page(list(self.families(found, database))))


@dataclass(frozen=True, slots=True)
class _Page(Collector):
    families: Iterable[Family]

    def collect(self) -> Iterable[Family]:
        """Return it all."""
        return self.families


def _empty(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    return kind(metric.name, metric.doc, labels=["database", *metric.labels])
