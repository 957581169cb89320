"""The metrics of a daemon in OpenTelemetry's form: the families of Prometheus, name for name."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric as Family
from prometheus_client.samples import Sample

from pgtrickle.model.version import VERSION
from pgtrickle.service.observing.otlp_spans import SECONDS, resource

_CUMULATIVE = AggregationTemporality.CUMULATIVE
_SCOPE = InstrumentationScope("pgtrickle", VERSION)


class MetricSender:
    """Sends families to a collector."""

    def __init__(self, endpoint: str, database: str) -> None:
        self._resource = resource(database)
        self._began = time.time_ns()
        self._exporter = OTLPMetricExporter(endpoint=endpoint, timeout=SECONDS)

    def send(self, families: Sequence[Family]) -> bool:
        """Send them as they are now; tell whether the collector has taken them."""
        now = time.time_ns()
        metrics = [self._metric(one, now) for one in families if one.samples]
        scope = ScopeMetrics(_SCOPE, metrics, "")
        found = MetricsData([ResourceMetrics(self._resource, [scope], "")])
        return self._exporter.export(found) is MetricExportResult.SUCCESS

    def close(self) -> None:
        """Let the collector go."""
        self._exporter.shutdown(timeout_millis=0)

    def _metric(self, family: Family, now: int) -> Metric:
        if family.type == "histogram":
            points = list(self._histograms(family.samples, now))
            data: Gauge | Sum | Histogram = Histogram(points, _CUMULATIVE)
            return Metric(family.name, family.documentation, "s", data)
        numbers = [
            NumberDataPoint(dict(one.labels), self._began, now, one.value) for one in family.samples
        ]
        counts = family.type == "counter"
        data = Sum(numbers, _CUMULATIVE, is_monotonic=True) if counts else Gauge(numbers)
        name = f"{family.name}_total" if counts else family.name
        return Metric(name, family.documentation, "", data)

    def _histograms(self, samples: Sequence[Sample], now: int) -> Iterator[HistogramDataPoint]:
        """Make one point of the buckets with the same labels, which count from the lowest on."""
        series: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
        for one in samples:
            labels = tuple(sorted((k, v) for k, v in one.labels.items() if k != "le"))
            what = one.labels.get("le") or one.name.rsplit("_", 1)[1]
            series.setdefault(labels, {})[what] = one.value
        for labels, values in series.items():
            total, count = values.pop("sum", 0.0), int(values.pop("count", 0))
            bounds = [float(one) for one in values if one != "+Inf"]
            upto = [int(value) for value in values.values()]
            counts = [after - before for before, after in zip([0, *upto], upto, strict=False)]
            yield HistogramDataPoint(
                dict(labels), self._began, now, count, total, counts, bounds, 0.0, 0.0
            )
