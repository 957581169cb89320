"""The values of a metric at one moment, lighter than a family of ``prometheus_client``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family

from pgtrickle.model.metrics import Metric, MetricKind

Values = Mapping[tuple[str, ...], float]  # by the values of the labels, in the metric's order


@dataclass(frozen=True, slots=True)
class Reading:
    """A gauge or a counter with its values."""

    metric: Metric
    values: Values

    def family(self) -> Family:
        """Return the same as a family."""
        metric = self.metric
        kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
        found = kind(metric.name, metric.doc, labels=metric.labels)
        for labels, value in self.values.items():
            found.add_metric(labels, float(value))
        return found
