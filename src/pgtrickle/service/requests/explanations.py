"""The verbs of requests that explain: groups, deltas, queries and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pgtrickle.algebra.printer import show
from pgtrickle.service.compile import compile_query
from pgtrickle.service.diagnose import diagnose_errors
from pgtrickle.service.explain import explain_stream_table
from pgtrickle.service.requests.caller import check_may_act_as_server, get_own_stream_table
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


def explain_query_rewrite(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Return what each pass makes of a query, in their order; the last may be a refusal."""
    check_may_act_as_server(ask)
    query = given["query"]
    with ask.runtime.connection() as connection:
        seconds = ask.runtime.settings.planning_timeout_seconds
        compiled = compile_query(connection, query, ask.search_path, seconds)
    bound = compiled.binding.query.sql
    passes = [{"pass": "bind", "changed": bound != query, "sql_after": bound}]
    if compiled.algebra is None:
        refused = str(compiled.refusal)
        return [*passes, {"pass": "lower", "changed": False, "sql_after": None, "refused": refused}]
    stages = "\n".join(f"{one.name}: {show(one.body)}" for one in compiled.staged.stages)
    return [
        *passes,
        {"pass": "lower", "changed": True, "sql_after": show(compiled.algebra.node)},
        {"pass": "cut", "changed": len(compiled.staged.stages) > 1, "sql_after": stages},
    ]


def explain_errors(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Return the latest errors of a stream table, their kind and what to do."""
    stream_table = get_own_stream_table(ask, given["name"])
    return [
        asdict(one) | {"event_time": one.event_time.isoformat()}
        for one in diagnose_errors(ask.runtime, stream_table.name)
    ]
