"""The JSON shapes that ``--json`` prints: their keys are a promise to scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from pgtrickle.errors import TrickleError
from pgtrickle.model.lake.sink import FailingSink, LakeCare, SinkNews, SinkStatus
from pgtrickle.model.lake.source import LakeSource
from pgtrickle.model.report import RefreshReport, VerifyReport
from pgtrickle.model.status_report import HealthCheck, StatusReport, worst
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.table_snapshot import SnapshotDiff
from pgtrickle.model.text.json_values import json_row
from pgtrickle.model.text.passwords import hide_passwords

if TYPE_CHECKING:  # psycopg and what lies above it are not needed for --help
    from pgtrickle.catalog.refreshes.history import Refresh
    from pgtrickle.service.insight.checkup.check import Check
    from pgtrickle.service.lifecycle.validate import Validation

Document = dict[str, object]


def values_document(value: Any) -> Document:
    """Describe a plain value by its fields: moments in ISO 8601, words for choices."""
    return {name: _plain(field) for name, field in asdict(value).items()}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def error_document(error: TrickleError) -> Document:
    """Describe an error."""
    return {
        "error": {
            "code": error.code,
            "message": hide_passwords(str(error)),
            "detail": hide_passwords(error.detail),
            "hint": hide_passwords(error.hint),
        }
    }


def stream_table_document(table: StreamTable) -> Document:
    """Describe a stream table as the catalog holds it."""
    return {
        "name": str(table.name),
        "query": table.original_query,
        "defining_query": table.defining_query,
        "schedule": table.schedule,
        "refresh_mode": table.refresh_mode.value,
        "effective_refresh_mode": table.effective_refresh_mode.value,
        "downgrade_reason": table.downgrade_reason,
        "pinned": list(table.pinned),
        "status": table.status.value,
        "populated": table.populated,
        "needs_reinit": table.needs_reinit,
        "frontier": None if table.frontier is None else table.frontier.to_json(),
        "data_timestamp": _moment(table.data_timestamp),
        "last_refresh_at": _moment(table.last_refresh_at),
        "next_change_at": _moment(table.next_change_at),
        "suspended_by": table.suspended_by,
        "consecutive_errors": table.consecutive_errors,
        "last_error": table.last_error_message,
        "owner": table.owner,
        "max_delta_fraction": table.max_delta_fraction,
        "cdc_mode": None if table.cdc_mode is None else table.cdc_mode.value,
        "engine": None if table.engine is None else table.engine.value,
    }


def row_text(row: Mapping[str, Any]) -> str:
    """Write a row on one line, as JSON.

    >>> from decimal import Decimal
    >>> row_text({"region": "north", "total": Decimal("15.50")})
    '{"region": "north", "total": "15.50"}'
    """
    return json.dumps(json_row(row), ensure_ascii=False)


def snapshot_diff_document(diff: SnapshotDiff) -> Document:
    """Describe how two snapshots differ; JSON has no exact decimals, so they are text."""
    changes = [{**asdict(one), "row": json_row(one.row)} for one in diff.changes]
    return {**asdict(diff), "changes": changes, "complete": diff.complete}


def report_document(report: RefreshReport) -> Document:
    """Describe the outcome of a refresh."""
    return asdict(report) | {
        "action": report.action.value,
        "reads": [asdict(read) for read in report.reads],
    }


def verify_document(report: VerifyReport) -> Document:
    """Describe the outcome of a verification."""
    return asdict(report) | {
        "missing_sample": [list(row) for row in report.missing_sample],
        "extra_sample": [list(row) for row in report.extra_sample],
    }


def refresh_document(refresh: Refresh) -> Document:
    """Describe a refresh of the past."""
    return {
        "refresh_id": refresh.id,
        "stream_table": str(refresh.stream_table),
        "action": None if refresh.action is None else refresh.action.value,
        "status": refresh.status.value,
        "reason": refresh.reason,
        "initiated_by": refresh.initiated_by.value,
        "start_time": _moment(refresh.start_time),
        "end_time": _moment(refresh.end_time),
        "data_timestamp": _moment(refresh.data_timestamp),
        "rows_inserted": refresh.rows_inserted,
        "rows_deleted": refresh.rows_deleted,
        "delta_row_count": refresh.delta_row_count,
        "changed_rows": refresh.changed_rows,
        "reads": [asdict(read) for read in refresh.reads],
        "timings_ms": refresh.timings_ms,
        "predicted_ms": refresh.predicted_ms,
        "predicted_differential_ms": refresh.predicted_differential_ms,
        "predicted_full_ms": refresh.predicted_full_ms,
        "actual_ms": refresh.actual_ms,
        "rows_read": refresh.rows_read,
        "bytes_read": refresh.bytes_read,
        "error_code": refresh.error_code,
        "error_message": refresh.error_message,
        "error_hint": refresh.error_hint,
    }


def status_document(report: StatusReport) -> Document:
    """Describe one look at a database."""
    listed = ("daemons", "running", "behind", "failing", "suspended", "holds")
    return {
        "severity": report.severity.value,
        "checks": [values_document(one) for one in report.checks],
        "requests": values_document(report.queue),
        "stream_tables": report.stream_tables,
        **{name: [values_document(one) for one in getattr(report, name)] for name in listed},
        "sinks": [sink_document(one) for one in report.sinks],
    }


def health_document(checks: Sequence[HealthCheck]) -> Document:
    """Describe what is checked, and what is wrong."""
    return {
        "severity": worst(checks).value,
        "checks": [values_document(one) for one in checks],
    }


def check_document(check: Check) -> Document:
    """Describe one check of ``doctor``."""
    return {
        "name": check.name,
        "ok": check.ok,
        "severity": check.severity.value,
        "detail": check.detail,
        "hint": check.hint,
        "evidence": check.evidence,
        "command": check.command,
    }


def validation_document(validation: Validation) -> Document:
    """Describe what creating a stream table of a query would come to."""
    # The writer lies above psycopg, which --help does not need.
    from pgtrickle.service.insight.explanation.document import explanation_document  # noqa: PLC0415

    mode, explanation = validation.refresh_mode, validation.explanation
    return {
        "differential": validation.differential,
        "usable": validation.usable,
        "refresh_mode": None if mode is None else mode.value,
        "reasons": [error_document(reason)["error"] for reason in validation.reasons],
        "columns": [
            {"name": column.name, "type": column.type.display} for column in validation.columns
        ],
        "sources": [
            {"name": str(source.name), "columns": list(source.columns)}
            for source in validation.sources
        ],
        "plan": None if explanation is None else explanation_document(explanation),
    }


def sink_document(status: SinkStatus) -> Document:
    """Return a copy in the lake, and how far it is."""
    return {
        **asdict(status),
        "status": status.status.value,
        "last_delivered_at": _moment(status.last_delivered_at),
        "next_attempt_at": _moment(status.next_attempt_at),
        "failing_since": _moment(status.failing_since),
    }


def failing_document(sink: FailingSink) -> Document:
    """Return a copy in the lake that could not be brought up to date."""
    return {
        "stream_table": str(sink.stream_table),
        "lake_table": str(sink.lake_table),
        "status": sink.status.value,
        "failing_since": _moment(sink.since),
        "attempts": sink.attempts,
        "next_attempt_at": _moment(sink.next_attempt_at),
        "error": sink.error,
        "remedy": sink.remedy,
    }


def sink_news_document(news: SinkNews) -> Document:
    """Return that a delivery has failed, or that a copy is up to date again."""
    return {
        "event": "sink_recovered" if news.recovered else "sink_failed",
        **failing_document(news.sink),
    }


def source_document(source: LakeSource) -> Document:
    """Return an attached lake table, and how far it has been read."""
    return {
        "landing": str(source.landing),
        "lake_table": str(source.lake_table),
        "catalog_schema": source.catalog_schema,
        "columns": [one.name for one in source.columns],
        "compaction_policy": source.policy.value,
        "snapshot_id": source.snapshot_id,
        "followed_at": _moment(source.followed_at),
        "last_error": source.last_error,
    }


def care_document(care: LakeCare) -> Document:
    """Return what tending the lake came to."""
    sinks = [
        {
            **asdict(one),
            "orphans": list(one.orphans),
            "replaced": list(one.replaced),
        }
        for one in care.sinks
    ]
    return {"sinks": sinks, "expired": care.expired}


def _moment(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
