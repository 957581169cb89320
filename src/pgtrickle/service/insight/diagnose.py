"""``diagnose_errors``: the recent errors of a stream table, and what to do about them.

Its sink belongs to it: a failing delivery comes first, since nothing else shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar

from pgtrickle.catalog.lake.sinks import list_failing_sinks
from pgtrickle.catalog.refreshes.history import Refresh, RefreshStatus
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import TrickleError
from pgtrickle.model.lake.sink import FailingSink
from pgtrickle.model.remedies import remedy_for
from pgtrickle.model.stream_table import Status, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Shown
from pgtrickle.service.insight.status import show_history
from pgtrickle.service.runtime import Runtime

_LOOKED_AT, _SHOWN = 1000, 5  # refreshes


@dataclass(frozen=True, slots=True)
class Diagnosis(Shown):
    """One failed refresh, or a failing delivery to the lake."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "event_time",
        "part",
        "error_code",
        "error_message",
        "remedy",
    )

    refresh_id: int | None  # None: a delivery outside of a refresh
    event_time: datetime
    error_code: str
    error_message: str
    error_class: str  # what the scheduler does: backoff, reinitialize or never
    meaning: str
    remedy: str
    part: str = "refresh"  # or delivery


def diagnose_errors(runtime: Runtime, name: QualifiedName) -> list[Diagnosis]:
    """Return the latest errors of a stream table, the newest first.

    The remedy is the one that was shown with the error. Refreshes of earlier versions have no
    recorded remedy; then it is the general remedy for this error.
    """
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        failing = [one for one in list_failing_sinks(connection) if one.stream_table == name]
    failed = [
        one
        for one in show_history(runtime, name, limit=_LOOKED_AT)
        if one.status is RefreshStatus.FAILED
    ]
    found = [_diagnose(one) for one in failed[:_SHOWN]]
    if found and stream_table.status is Status.SUSPENDED:
        found[0] = replace(found[0], remedy=f"{found[0].remedy} {_how_to_resume(stream_table)}")
    return [*map(_diagnose_delivery, failing), *found]


def _how_to_resume(stream_table: StreamTable) -> str:
    resume = f"pgtrickle alter {stream_table.name} --status ACTIVE"
    if stream_table.suspended_by is None:
        return f"It is suspended; resume it with: {resume}."
    return (
        f"It is suspended because of {stream_table.suspended_by}: it is tried again now and then,"
        f" and resumed if that succeeds. Resume it at once with: {resume}."
    )


def _diagnose_delivery(sink: FailingSink) -> Diagnosis:
    code, _, message = sink.error.partition(": ")
    kind = TrickleError.registry.get(code)
    again = "given up" if sink.next_attempt_at is None else f"next {sink.next_attempt_at:%H:%M:%S}"
    return Diagnosis(
        sink.refresh_id,
        sink.since,
        code,
        f'delivery to the lake table "{sink.lake_table}", {sink.attempts} attempts, {again}:'
        f" {message}",
        kind.retry.value if kind else "",
        " ".join((kind.__doc__ or "").split()) if kind else "",
        sink.remedy,
        "delivery",
    )


def _diagnose(refresh: Refresh) -> Diagnosis:
    code = refresh.error_code or ""
    # An error of a newer version is known only by its code.
    kind = TrickleError.registry.get(code)
    return Diagnosis(
        refresh.id,
        refresh.start_time,
        code,
        refresh.error_message or "",
        kind.retry.value if kind else "",
        " ".join((kind.__doc__ or "").split()) if kind else "",
        refresh.error_hint or remedy_for(code, str(refresh.stream_table)),
    )
