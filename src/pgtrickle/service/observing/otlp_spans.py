"""Refreshes as spans of OpenTelemetry: one for the refresh, below it one for each step.

Names, numbers and codes go out, never the text of an error or a query.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from pgtrickle.errors import ConnectionLostError
from pgtrickle.model.version import VERSION
from pgtrickle.service.observing.courier import Courier
from pgtrickle.service.observing.observer import Ended

SECONDS = 5.0  # for which one attempt to send may last
_SCOPE = InstrumentationScope("pgtrickle", VERSION)


def resource(database: str) -> Resource:
    """Return what all that is sent says of its sender; OTEL_RESOURCE_ATTRIBUTES adds to it."""
    own = {"service.name": "pgtrickle", "service.version": VERSION, "db.namespace": database}
    found = Resource(own).merge(Resource.create())
    if str(found.attributes.get("service.name", "")).startswith("unknown_service"):
        found = found.merge(Resource({"service.name": "pgtrickle"}))
    return found


class SpanSender:
    """An observer that sends refreshes as spans to a collector."""

    def __init__(self, endpoint: str, database: str) -> None:
        self._resource = resource(database)
        self._exporter = OTLPSpanExporter(endpoint=endpoint, timeout=SECONDS)
        self._courier: Courier[ReadableSpan] = Courier("traces", self._send)

    def ended(self, ended: Ended) -> None:
        """Hand the spans of a refresh over."""
        self._courier.hand_over(self._spans(ended))

    def close(self) -> None:
        """Send what waits, and let the collector go."""
        self._courier.close()
        self._exporter.shutdown()

    def _send(self, spans: Sequence[ReadableSpan]) -> None:
        if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise ConnectionLostError("the collector does not take traces")

    def _spans(self, ended: Ended) -> list[ReadableSpan]:
        root = _context(ended)
        spans = [
            self._span(step.name, _context(ended), root, step.began, step.ended)
            for step in ended.trace.steps
        ]
        whole = ReadableSpan(
            f"refresh {ended.refresh.stream_table.name}",
            root,
            resource=self._resource,
            attributes=_attributes(ended),
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.OK)
            if ended.error is None
            else Status(StatusCode.ERROR, ended.error.code),
            start_time=ended.trace.began,
            end_time=ended.ended,
            instrumentation_scope=_SCOPE,
        )
        return [whole, *spans]

    def _span(
        self, name: str, context: SpanContext, parent: SpanContext, began: int, ended: int
    ) -> ReadableSpan:
        return ReadableSpan(
            name,
            context,
            parent,
            self._resource,
            start_time=began,
            end_time=ended,
            instrumentation_scope=_SCOPE,
        )


def _context(ended: Ended) -> SpanContext:
    return SpanContext(
        int(ended.trace.id, 16),
        secrets.randbits(64) or 1,  # zero is no id
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


def _attributes(ended: Ended) -> dict[str, str | int]:
    refresh, report = ended.refresh, ended.report
    found: dict[str, str | int] = {
        "pgtrickle.stream_table": str(refresh.stream_table.name),
        "pgtrickle.initiated_by": refresh.initiated_by.value,
    }
    if ended.error is not None:
        found["error.type"] = ended.error.code
    if report is not None:
        found |= {
            "pgtrickle.action": report.action.value,
            "pgtrickle.rows_inserted": report.rows_inserted,
            "pgtrickle.rows_deleted": report.rows_deleted,
            "pgtrickle.rows_read": sum(max(read.rows, 0) for read in report.reads),
        }
        if report.refresh_id is not None:
            found["pgtrickle.refresh_id"] = report.refresh_id
    if ended.prepared is not None:
        found["pgtrickle.engine"] = ended.prepared.dialect.value
    return found
