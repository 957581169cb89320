"""kill -9 at each step of a shadow build and its switch: nothing is lost, and nothing is half."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pgtrickle.service.lease_waits import when_free
from pgtrickle.service.lifecycle.replacing.successors import discard_abandoned
from pgtrickle.service.lifecycle.shadows.run import follow_due
from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.service.lifecycle.die_in_shadows import (
    BEGIN_STEPS,
    CANCEL_STEPS,
    FOLLOW_STEPS,
    PROMOTE_STEPS,
)
from tests.service.lifecycle.test_replace_query import SHOP, SUMS
from tests.service.lifecycle.test_shadow_builds import build, settings, status

NEW = "SELECT k, sum(v) AS v, count(*) AS n FROM u GROUP BY k"
REORDERED = "SELECT sum(v) AS v, k FROM t GROUP BY k"
_DONE = {"after the commit", "before the clearing up", "before the comment"}


@pytest.fixture
def shop(lab: Lab) -> Iterator[Lab]:
    lab.run(*SHOP)
    lab.create("s", SUMS)
    lab.create("top", "SELECT max(v) AS v FROM s")
    with settings(lab, shadow_refresh_throttle_ms=0):
        yield lab


def held(lab: Lab) -> None:
    """Begin a shadow build that waits for somebody, and let changes be left."""
    build(lab, NEW, hold=True)
    lab.run("UPDATE u SET v = v - 3 WHERE id < 9", "UPDATE t SET v = v + 1 WHERE k = 1")
    lab.run("UPDATE pgtrickle.pgt_shadow_builds SET next_round_at = now()")


def killed(lab: Lab, kind: str, step: str) -> None:
    """Let a process die at a step, and wait until the server has undone what it had begun."""
    command = [sys.executable, "-m", "tests.service.lifecycle.die_in_shadows"]
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    others += " AND backend_type = 'client backend'"
    before = lab.value(others)
    ended = subprocess.run(
        [*command, lab.trickle.dsn, kind, step, "s", NEW],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    await_(lambda: lab.value(others) <= before)


def goes_on(lab: Lab) -> None:
    """Maintain the old query, then have the new one all the same, and leave nothing behind."""
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


@pytest.mark.parametrize("step", PROMOTE_STEPS)
def test_killed_switch(shop: Lab, step: str):
    held(shop)
    before = shop.rows("TABLE s")

    killed(shop, "promote", step)

    found = status(shop)
    if step in _DONE:
        assert (found.state, found.shadow_table_name) == ("promoted", None)
        assert shop.rows("TABLE s") == shop.rows(NEW)
    else:
        assert found.state == "ready"
        assert shop.rows("TABLE s") == before
    goes_on(shop)


@pytest.mark.parametrize("step", ["with the columns", "with the rows", "after the commit"])
def test_killed_change_of_columns(shop: Lab, step: str):
    shop.run("CREATE VIEW of_s AS SELECT v, k FROM s")
    build(shop, REORDERED, hold=True, allow_breaking=True)
    before, view = shop.rows("TABLE s"), shop.rows("TABLE of_s")

    killed(shop, "promote", step)

    if step not in _DONE:
        assert (shop.rows("TABLE s"), shop.rows("TABLE of_s")) == (before, view)
        when_free(lambda: shop.trickle.shadows.promote_shadow("s"))
    assert shop.rows("TABLE s") == shop.rows(REORDERED)
    assert shop.rows("TABLE of_s") == view
    shop.queries["s"] = REORDERED
    shop.run("UPDATE t SET v = v * 2 WHERE k = 1")
    when_free(lambda: shop.refresh("s"))


@pytest.mark.parametrize("step", BEGIN_STEPS)
def test_killed_beginning(shop: Lab, step: str):
    before = shop.rows("TABLE s")

    killed(shop, "begin", step)

    found = shop.trickle.shadows.view_evolution_status("s")
    assert (found is None) == (step != "begun")
    assert shop.rows("TABLE s") == before
    goes_on(shop)


@pytest.mark.parametrize("step", FOLLOW_STEPS)
def test_killed_while_it_follows(shop: Lab, step: str):
    held(shop)

    killed(shop, "follow", step)
    shop.run("UPDATE pgtrickle.pgt_shadow_builds SET next_round_at = now()")
    when_free(lambda: follow_due(shop.trickle._runtime))

    assert status(shop).state == "ready"
    goes_on(shop)


@pytest.mark.parametrize("step", CANCEL_STEPS)
def test_killed_cancel(shop: Lab, step: str):
    held(shop)

    killed(shop, "cancel", step)

    assert status(shop).state == ("ready" if step == "before the end is on record" else "cancelled")
    goes_on(shop)
