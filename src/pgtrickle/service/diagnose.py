"""``diagnose_errors``: what went wrong with a stream table lately, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pgtrickle.catalog.refresh_history import Refresh, RefreshStatus
from pgtrickle.errors import Retry, TrickleError
from pgtrickle.model.names import QualifiedName
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.status import show_history

_LOOKED_AT, _SHOWN = 1000, 5  # refreshes
_REMEDIES = {
    Retry.BACKOFF: "Nothing, unless it stays: the scheduler tries again.",
    Retry.REINITIALIZE: "Nothing, unless it stays: the next refresh starts anew.",
    Retry.NEVER: "Change what the error names; resume the stream table if it is suspended.",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One refresh that failed."""

    refresh_id: int
    event_time: datetime
    error_code: str
    error_message: str
    error_class: str  # what the scheduler does: backoff, reinitialize or never
    meaning: str
    remedy: str


def diagnose_errors(runtime: Runtime, name: QualifiedName) -> list[Diagnosis]:
    """Return the latest errors of a stream table, the newest first."""
    failed = [
        one
        for one in show_history(runtime, name, limit=_LOOKED_AT)
        if one.status is RefreshStatus.FAILED
    ]
    return [_diagnose(one) for one in failed[:_SHOWN]]


def _diagnose(refresh: Refresh) -> Diagnosis:
    code = refresh.error_code or ""
    # An error of a newer version is known by its code alone.
    kind = TrickleError.registry.get(code)
    return Diagnosis(
        refresh.id,
        refresh.start_time,
        code,
        refresh.error_message or "",
        kind.retry.value if kind else "",
        " ".join((kind.__doc__ or "").split()) if kind else "",
        _REMEDIES[kind.retry] if kind else "",
    )
