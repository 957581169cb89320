"""The verbs of requests that explain: groups, deltas and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pgtrickle.service.diagnose import diagnose_errors
from pgtrickle.service.explain import explain_stream_table
from pgtrickle.service.requests.caller import get_own_stream_table
from pgtrickle.service.status import show_shape

if TYPE_CHECKING:  # which imports this module
    from pgtrickle.service.requests.verbs import Ask


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


def explain_errors(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Return the latest errors of a stream table, their kind and what to do."""
    stream_table = get_own_stream_table(ask, given["name"])
    return [
        asdict(one) | {"event_time": one.event_time.isoformat()}
        for one in diagnose_errors(ask.runtime, stream_table.name)
    ]
