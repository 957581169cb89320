"""A collector of OpenTelemetry: it takes OTLP by gRPC, and keeps what it took."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_messages
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_service


@dataclass
class Collector:
    """What has arrived."""

    endpoint: str = ""
    requests: list[Any] = field(default_factory=list)
    measured: list[Any] = field(default_factory=list)

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def metrics(self) -> dict[str, Any]:
        """Return the metrics of the last request, by name."""
        return {
            metric.name: metric
            for request in self.measured[-1:]
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a free port."""
    found = Collector()

    class Traces(trace_service.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's names
            found.requests.append(request)
            return trace_messages.ExportTraceServiceResponse()

    class Metrics(metrics_service.MetricsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's names
            found.measured.append(request)
            return metrics_messages.ExportMetricsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    trace_service.add_TraceServiceServicer_to_server(Traces(), server)
    metrics_service.add_MetricsServiceServicer_to_server(Metrics(), server)
    found.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield found
    finally:
        server.stop(None).wait()
