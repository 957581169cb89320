"""The decision of a refresh: the first reason that applies, and its words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pgtrickle.model.frontier import Frontier, PgSnapshot
from pgtrickle.model.stream_table import Action, RefreshMode, Status, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.plan.cost.choose import Forecast, choose
from pgtrickle.plan.cost.work import Work
from pgtrickle.plan.decide import Decision, Facts, decide


def _frontier(snapshot: str, system: str = "7") -> Frontier:
    return Frontier(system, 5, PgSnapshot.parse(snapshot))


_TABLE = StreamTable(
    id=1,
    relid=100,
    name=QualifiedName("public", "sums"),
    defining_query="",
    original_query="",
    schedule="1m",
    refresh_mode=RefreshMode.AUTO,
    effective_refresh_mode=RefreshMode.AUTO,
    downgrade_reason=None,
    status=Status.ACTIVE,
    populated=True,
    needs_reinit=False,
    frontier=_frontier("10:10:"),
    data_timestamp=None,
    last_refresh_at=None,
    consecutive_errors=0,
    last_error_message=None,
    owner="me",
)
_FACTS = Facts(
    stream_table=_TABLE,
    frontier=_frontier("20:20:"),
    changed_rows={"public.t": 3, "public.s": 4},
    truncated=(),
    source_rows=1000.0,
    refusal=None,
    reshaped=(),
    polled=(),
    rewritten=(),
    time_dependent=False,
    requested_full=False,
    forced_full=False,
    max_change_ratio=0.15,
)


def _decide(table: dict[str, Any] | None = None, **facts: Any) -> Decision:
    return decide(replace(_FACTS, stream_table=replace(_TABLE, **(table or {})), **facts))


_NOTHING: dict[str, int] = {}


@pytest.mark.parametrize(
    ("table", "facts", "action", "reason"),
    [
        ({}, {}, Action.DIFFERENTIAL, "changed rows in public.s: 4, public.t: 3"),
        ({}, {"changed_rows": _NOTHING}, Action.NO_DATA, "no source changed"),
        ({"frontier": None}, {}, Action.FULL, "first load"),
        ({"populated": False}, {"changed_rows": _NOTHING}, Action.FULL, "first load"),
        ({}, {"reshaped": ("columns of t changed",)}, Action.REINITIALIZE, "columns of t changed"),
        (
            {"frontier": _frontier("10:10:", system="8")},
            {},
            Action.REINITIALIZE,
            "the database was restored or cloned elsewhere",
        ),
        (
            {"frontier": _frontier("30:30:")},
            {"changed_rows": _NOTHING},
            Action.REINITIALIZE,
            "the server's transaction ids moved back",
        ),
        (
            {"needs_reinit": True},
            {},
            Action.REINITIALIZE,
            "marked after an error or a change of a source",
        ),
        ({}, {"requested_full": True, "changed_rows": _NOTHING}, Action.FULL, "requested"),
        (
            {},
            {"forced_full": True, "changed_rows": _NOTHING},
            Action.FULL,
            "force_full_refresh is set",
        ),
        (
            {"refresh_mode": RefreshMode.DIFFERENTIAL},
            {"forced_full": True},
            Action.FULL,
            "force_full_refresh is set",
        ),
        (
            {},
            {"time_dependent": True, "changed_rows": _NOTHING},
            Action.FULL,
            "the query depends on the current time",
        ),
        ({}, {"refusal": "no delta rule for LIMIT"}, Action.FULL, "no delta rule for LIMIT"),
        ({"refresh_mode": RefreshMode.FULL}, {}, Action.FULL, "refresh_mode is FULL"),
        (
            {"refresh_mode": RefreshMode.FULL},
            {"changed_rows": _NOTHING},
            Action.NO_DATA,
            "no source changed",
        ),
        (
            {},
            {"truncated": ("public.t",), "changed_rows": _NOTHING},
            Action.FULL,
            "public.t was truncated",
        ),
        (
            {},
            {"changed_rows": {"public.t": 151}},
            Action.FULL,
            "151 changed rows exceed 15% of about 1000 source rows",
        ),
        (
            {"refresh_mode": RefreshMode.DIFFERENTIAL},
            {"changed_rows": {"public.t": 900}},
            Action.DIFFERENTIAL,
            "changed rows in public.t: 900",
        ),
        (
            {},
            {"changed_rows": {"public.t": 900}, "source_rows": 0.0},
            Action.DIFFERENTIAL,
            "changed rows in public.t: 900",
        ),
    ],
)
def test_decision(
    table: dict[str, Any], facts: dict[str, Any], action: Action, reason: str
) -> None:
    only_time = reason == "the query depends on the current time"
    assert _decide(table, **facts) == Decision(action, reason, only_time=only_time)


def _forecast(differential_ms: float, full_ms: float) -> Forecast:
    work = {
        Action.DIFFERENTIAL: Work(refreshes=differential_ms),
        Action.FULL: Work(refreshes=full_ms),
    }
    return choose(work, {}, margin=0.9, prices=Work(refreshes=1))


_CHEAP, _DEAR = _forecast(140, 2300), _forecast(2300, 140)
_CHANGES = "changed rows in public.s: 4, public.t: 3"


@pytest.mark.parametrize(
    ("mode", "forecast", "facts", "action", "reason"),
    [
        (
            RefreshMode.AUTO,
            _CHEAP,
            {},
            Action.DIFFERENTIAL,
            f"DIFFERENTIAL predicted 140 ms, FULL 2.3 s; {_CHANGES}",
        ),
        (
            RefreshMode.AUTO,
            _DEAR,
            {},
            Action.FULL,
            f"DIFFERENTIAL predicted 2.3 s, FULL 140 ms; {_CHANGES}",
        ),
        (
            RefreshMode.AUTO,
            _CHEAP,
            {"max_change_ratio": 0.0},
            Action.FULL,
            "7 changed rows exceed 0% of about 1000 source rows",
        ),
        (RefreshMode.DIFFERENTIAL, _DEAR, {}, Action.DIFFERENTIAL, _CHANGES),
        (RefreshMode.FULL, _CHEAP, {}, Action.FULL, "refresh_mode is FULL"),
        (
            RefreshMode.AUTO,
            _CHEAP,
            {"truncated": ("public.t",)},
            Action.FULL,
            "public.t was truncated",
        ),
    ],
)
def test_cost_decides_last_and_only_under_auto(
    mode: RefreshMode, forecast: Forecast, facts: dict[str, Any], action: Action, reason: str
) -> None:
    decision = _decide({"refresh_mode": mode}, forecast=forecast, **facts)

    assert decision == Decision(action, reason, forecast)
