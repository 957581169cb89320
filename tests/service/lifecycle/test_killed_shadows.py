"""kill -9 at each step of a shadow build and its switch: nothing is lost, and nothing is half."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pgtrickle.service.lease_waits import when_free
from pgtrickle.service.lifecycle.replacing.successors import discard_abandoned
from pgtrickle.service.lifecycle.shadows.run import follow_due
from tests.labs.lab import Lab
from tests.service.lifecycle.die_in_shadows import (
    BEGIN_STEPS,
    CANCEL_STEPS,
    FOLLOW_STEPS,
    PROMOTE_STEPS,
)
from tests.service.lifecycle.killing import all_or_nothing, killed, nothing_lost
from tests.service.lifecycle.test_replace_query import SHOP, SUMS
from tests.service.lifecycle.test_shadow_builds import build, settings, status

NEW = "SELECT k, sum(v) AS v, count(*) AS n FROM u GROUP BY k"
REORDERED = "SELECT sum(v) AS v, k FROM t GROUP BY k"
_DONE = {"after the commit", "before the clearing up", "before the comment"}


@contextmanager
def open_shop(lab: Lab) -> Iterator[None]:
    """Make a stream table that another one reads."""
    lab.run(*SHOP)
    lab.create("s", SUMS)
    lab.create("top", "SELECT max(v) AS v FROM s")
    with settings(lab, shadow_refresh_throttle_ms=0):
        yield


def held(lab: Lab) -> None:
    """Begin a shadow build that waits for somebody, and let changes be left."""
    build(lab, NEW, hold=True)
    lab.run("UPDATE u SET v = v - 3 WHERE id < 9", "UPDATE t SET v = v + 1 WHERE k = 1")
    lab.run("UPDATE pgtrickle.pgt_shadow_builds SET next_round_at = now()")


def goes_on(lab: Lab) -> None:
    """Maintain the old query, then have the new one all the same, and leave nothing behind."""
    with nothing_lost():
        discard_abandoned(lab.trickle._runtime)
        found = lab.trickle.shadows.view_evolution_status("s")
        lab.run("UPDATE t SET v = v - 1 WHERE k = 3")
        if found is None or found.state == "cancelled":
            when_free(lambda: lab.refresh("s"))
            build(lab, NEW)
        elif found.state != "promoted":
            when_free(lambda: lab.refresh("s"))
            when_free(lambda: lab.trickle.shadows.promote_shadow("s"))
        lab.queries["s"] = NEW
        lab.run("UPDATE u SET v = v * 2 WHERE k = 1", "DELETE FROM u WHERE k = 2")
        when_free(lambda: lab.refresh("s"))
        when_free(lambda: lab.refresh("top"))
        assert status(lab).state == "promoted"
        lab.trickle.drop_stream_table("s", cascade=True)
        assert lab.leftovers() == []


def kill_switch(lab: Lab, step: str) -> None:
    """Kill a process that promotes the shadow."""
    with open_shop(lab):
        held(lab)
        before = lab.rows("TABLE s")

        killed(lab, "die_in_shadows", "promote", step, "s", NEW)

        with all_or_nothing():
            found = status(lab)
            if step in _DONE:
                assert (found.state, found.shadow_table_name) == ("promoted", None)
                assert lab.rows("TABLE s") == lab.rows(NEW)
            else:
                assert found.state == "ready"
                assert lab.rows("TABLE s") == before
        goes_on(lab)


def kill_change_of_columns(lab: Lab, step: str) -> None:
    """Kill a process that promotes a shadow with the columns in another order."""
    with open_shop(lab):
        lab.run("CREATE VIEW of_s AS SELECT v, k FROM s")
        build(lab, REORDERED, hold=True, allow_breaking=True)
        before, view = lab.rows("TABLE s"), lab.rows("TABLE of_s")

        killed(lab, "die_in_shadows", "promote", step, "s", NEW)

        with all_or_nothing():
            if step in _DONE:
                assert lab.rows("TABLE s") == lab.rows(REORDERED)
            else:
                assert lab.rows("TABLE s") == before
            assert lab.rows("TABLE of_s") == view
        with nothing_lost():
            if step not in _DONE:
                when_free(lambda: lab.trickle.shadows.promote_shadow("s"))
            assert lab.rows("TABLE s") == lab.rows(REORDERED)
            assert lab.rows("TABLE of_s") == view
            lab.queries["s"] = REORDERED
            lab.run("UPDATE t SET v = v * 2 WHERE k = 1")
            when_free(lambda: lab.refresh("s"))


def kill_beginning(lab: Lab, step: str) -> None:
    """Kill a process that begins a shadow build."""
    with open_shop(lab):
        before = lab.rows("TABLE s")

        killed(lab, "die_in_shadows", "begin", step, "s", NEW)

        with all_or_nothing():
            found = lab.trickle.shadows.view_evolution_status("s")
            assert (found is None) == (step != "begun")
            assert lab.rows("TABLE s") == before
        goes_on(lab)


def kill_following(lab: Lab, step: str) -> None:
    """Kill a process that refreshes the shadow."""
    with open_shop(lab):
        held(lab)
        before = lab.rows("TABLE s")

        killed(lab, "die_in_shadows", "follow", step, "s", NEW)

        with all_or_nothing():
            assert lab.rows("TABLE s") == before
            lab.run("UPDATE pgtrickle.pgt_shadow_builds SET next_round_at = now()")
            when_free(lambda: follow_due(lab.trickle._runtime))
            assert status(lab).state == "ready"
        goes_on(lab)


def kill_cancel(lab: Lab, step: str) -> None:
    """Kill a process that cancels the shadow build."""
    with open_shop(lab):
        held(lab)
        before = lab.rows("TABLE s")

        killed(lab, "die_in_shadows", "cancel", step, "s", NEW)

        with all_or_nothing():
            expected = "ready" if step == "before the end is on record" else "cancelled"
            assert status(lab).state == expected
            assert lab.rows("TABLE s") == before
        goes_on(lab)


@pytest.mark.parametrize("step", PROMOTE_STEPS)
def test_killed_switch(lab: Lab, step: str):
    kill_switch(lab, step)


@pytest.mark.parametrize("step", ["with the columns", "with the rows", "after the commit"])
def test_killed_change_of_columns(lab: Lab, step: str):
    kill_change_of_columns(lab, step)


@pytest.mark.parametrize("step", BEGIN_STEPS)
def test_killed_beginning(lab: Lab, step: str):
    kill_beginning(lab, step)


@pytest.mark.parametrize("step", FOLLOW_STEPS)
def test_killed_while_it_follows(lab: Lab, step: str):
    kill_following(lab, step)


@pytest.mark.parametrize("step", CANCEL_STEPS)
def test_killed_cancel(lab: Lab, step: str):
    kill_cancel(lab, step)
