"""The verbs of requests that explain: groups, deltas, queries and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pgtrickle.service.insight.diagnose import diagnose_errors
from pgtrickle.service.insight.explain import explain_delta, explain_query_rewrite
from pgtrickle.service.insight.status import show_diamond_groups
from pgtrickle.service.lifecycle.self_monitoring.set_up import (
    set_up_self_monitoring,
    tear_down_self_monitoring,
)
from pgtrickle.service.requests.caller import check_may_act_as_server, get_own_stream_table

if TYPE_CHECKING:  # which imports this module
    from pgtrickle.service.requests.verbs import Ask


def diamond_groups(ask: Ask, _given: Mapping[str, Any]) -> Any:
    """Tell which stream tables are refreshed together, and when."""
    groups = [
        {"members": list(one.members), "schedule_policy": one.schedule_policy}
        for one in show_diamond_groups(ask.runtime)
    ]
    return {"groups": groups}


def delta(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Return the statements by which the engine computes a change, stage by stage."""
    return explain_delta(ask.runtime, get_own_stream_table(ask, given["name"]).name)


def query_rewrite(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Return what each pass makes of a query, in their order."""
    check_may_act_as_server(ask)
    return explain_query_rewrite(ask.runtime, given["query"], ask.search_path)


def cache_stats(ask: Ask, _given: Mapping[str, Any]) -> Any:
    """Return the counts of the server's cache of compiled queries."""
    return asdict(ask.runtime.remembered.stats())


def clear_caches(ask: Ask, _given: Mapping[str, Any]) -> Any:
    """Forget what the server has compiled; it compiles again at the next refreshes."""
    check_may_act_as_server(ask)
    return ask.runtime.remembered.clear()


def set_up_monitoring(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Create the stream tables over the history of refreshes."""
    check_may_act_as_server(ask)
    made = set_up_self_monitoring(ask.runtime, given.get("schedule", "1m"))
    return {"stream_tables": made}


def tear_down_monitoring(ask: Ask, _given: Mapping[str, Any]) -> Any:
    """Drop the stream tables over the history of refreshes."""
    check_may_act_as_server(ask)
    return {"dropped": tear_down_self_monitoring(ask.runtime)}


def explain_errors(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Return the latest errors of a stream table, their kind and what to do."""
    stream_table = get_own_stream_table(ask, given["name"])
    found = diagnose_errors(ask.runtime, stream_table.name)
    errors = [asdict(one) | {"event_time": one.event_time.isoformat()} for one in found]
    return {"errors": errors}
