"""The verbs of requests that explain: groups, deltas and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgtrickle.catalog.refresh_history import RefreshStatus
from pgtrickle.errors import Retry, TrickleError
from pgtrickle.service.explain import explain_stream_table
from pgtrickle.service.requests.caller import get_own_stream_table
from pgtrickle.service.status import show_history, show_shape

if TYPE_CHECKING:  # which imports this module
    from pgtrickle.service.requests.verbs import Ask

_LOOKED_AT, _SHOWN = 1000, 5  # refreshes
_REMEDIES = {
    Retry.BACKOFF: "Nothing, unless it stays: the scheduler tries again.",
    Retry.REINITIALIZE: "Nothing, unless it stays: the next refresh starts anew.",
    Retry.NEVER: "Change what the error names, then CALL pgtrickle.resume_stream_table(...) if the"
    " stream table is suspended.",
}


def diamond_groups(ask: Ask, _given: Mapping[str, Any]) -> Any:
    """Tell which stream tables are refreshed together, and when."""
    shape = show_shape(ask.runtime)
    return [
        {
            "members": list(group),
            "schedule_policy": "slowest" if shape.slowest.intersection(group) else "fastest",
        }
        for group in shape.groups
    ]


def explain_delta(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Return the statements by which the engine computes a change, stage by stage."""
    stream_table = get_own_stream_table(ask, given["name"])
    document = json.loads(explain_stream_table(ask.runtime, stream_table.name, "json"))
    return "\n\n".join(
        f"-- stage {stage['name']}\n{stage['engine_sql']}" for stage in document["stages"]
    )


def diagnose_errors(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Return the latest errors of a stream table, their kind and what to do."""
    stream_table = get_own_stream_table(ask, given["name"])
    failed = [
        one
        for one in show_history(ask.runtime, stream_table.name, limit=_LOOKED_AT)
        if one.status is RefreshStatus.FAILED and one.error_code is not None
    ]
    return [
        {
            "refresh_id": one.id,
            "event_time": one.start_time.isoformat(),
            "error_code": one.error_code,
            "error_message": one.error_message,
            **_describe(one.error_code or ""),
        }
        for one in failed[:_SHOWN]
    ]


def _describe(code: str) -> dict[str, str]:
    kind = TrickleError.registry.get(code)
    if kind is None:  # of a newer version
        return {}
    meaning = " ".join((kind.__doc__ or "").split())
    return {"error_class": kind.retry.value, "meaning": meaning, "remedy": _REMEDIES[kind.retry]}
