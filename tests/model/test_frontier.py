"""Windows are cut by snapshots: every transaction falls into exactly one of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrickle.capture.windows import consumed_predicate, window_predicate
from pgtrickle.model.frontier import Frontier, PgSnapshot

_FIRST = 100
_XIDS = range(_FIRST, _FIRST + 12)


@dataclass(frozen=True)
class Schedule:
    """When each transaction got its id and when it committed; when snapshots were taken."""

    begun: dict[int, int]
    committed: dict[int, int]
    snapshots: tuple[int, ...]

    def snapshot(self, moment: int) -> PgSnapshot:
        """Take the snapshot PostgreSQL would take at ``moment``."""
        xmax = max((x for x, at in self.begun.items() if at <= moment), default=_FIRST - 1) + 1
        running = [x for x in range(_FIRST, xmax) if self.committed[x] > moment]
        return PgSnapshot(min(running, default=xmax), xmax, frozenset(running))


@st.composite
def schedules(draw: Callable[..., Any]) -> Schedule:
    begun, committed, now = {}, {}, 0
    for xid in _XIDS:
        now += draw(st.integers(0, 2))
        begun[xid] = now
        committed[xid] = now + draw(st.integers(0, 9))
    moments = draw(st.lists(st.integers(0, 30), min_size=1, max_size=5))
    return Schedule(begun, committed, tuple(sorted(moments)))


@given(schedules())
def test_each_transaction_falls_into_exactly_one_window(schedule: Schedule) -> None:
    frontiers = [PgSnapshot(0, 0, frozenset())]
    frontiers += [schedule.snapshot(moment) for moment in (*schedule.snapshots, 100)]

    windows = [
        {xid for xid in _XIDS if new.sees(xid) and not old.sees(xid)}
        for old, new in pairwise(frontiers)
    ]

    assert sorted(xid for window in windows for xid in window) == list(_XIDS)


@given(schedules())
def test_a_snapshot_sees_what_had_committed(schedule: Schedule) -> None:
    moment = schedule.snapshots[0]

    seen = {xid for xid in _XIDS if schedule.snapshot(moment).sees(xid)}

    assert seen == {
        xid for xid in _XIDS if schedule.committed[xid] <= moment and schedule.begun[xid] <= moment
    }


def _holds(predicate: str, xid: int) -> bool:
    """Evaluate a condition on ``__xid`` for one transaction."""
    python = re.sub(r"'(\d+)'::pg_catalog\.xid8", r"\1,", predicate)
    python = re.sub(r"(>=|<) (\d+),", r"\1 \2", python).replace(",,", ",")
    python = python.replace("NOT IN", "not in").replace(" IN ", " in ")
    python = python.replace(" OR ", " or ").replace(" AND ", " and ").replace("__xid", str(xid))
    return bool(eval(python))  # noqa: S307 - arithmetic of our own making


@given(schedules())
def test_the_sql_of_a_window_says_the_same(schedule: Schedule) -> None:
    frontier = schedule.snapshot(schedule.snapshots[0])

    for xid in _XIDS:
        assert _holds(window_predicate(frontier), xid) == (not frontier.sees(xid))


@given(schedules())
def test_consumed_is_what_every_frontier_sees(schedule: Schedule) -> None:
    frontiers = [schedule.snapshot(moment) for moment in schedule.snapshots]

    for xid in _XIDS:
        everyone = all(frontier.sees(xid) for frontier in frontiers)
        assert _holds(consumed_predicate(frontiers), xid) == everyone


@given(schedules())
def test_a_snapshot_survives_its_text(schedule: Schedule) -> None:
    snapshot = schedule.snapshot(schedule.snapshots[0])

    assert PgSnapshot.parse(str(snapshot)) == snapshot


@pytest.mark.parametrize("text", ["", "1:2", "1:2:x", "1:2:3,", "a:b:", "1:2:3:4"])
def test_other_text_is_no_snapshot(text: str) -> None:
    with pytest.raises(ValueError, match="not a snapshot"):
        PgSnapshot.parse(text)


def test_frontiers_of_another_cluster_are_told_apart() -> None:
    here = Frontier("7", 5, PgSnapshot.parse("1:1:"))

    assert not here.same_database(Frontier("8", 5, here.snapshot))
    assert not here.same_database(Frontier("7", 6, here.snapshot))
