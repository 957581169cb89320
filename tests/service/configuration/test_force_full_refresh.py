"""``force_full_refresh`` overrides every mode and idle passes, for as long as it is set."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.labs.lab import Lab

MODES = ("AUTO", "DIFFERENTIAL", "FULL", "IMMEDIATE")
FORCED = """
    SELECT h.pgt_id, count(*) FROM pgtrickle.pgt_refresh_history AS h
     WHERE starts_with(h.reason, 'force_full_refresh is set')
     GROUP BY h.pgt_id HAVING count(*) > 1
"""
TIMES = """SELECT count(*) FROM pgtrickle.pgt_refresh_history
            WHERE starts_with(reason, 'force_full_refresh is set')"""
PATIENCE = 60.0


@pytest.fixture
def counted(lab: Lab) -> Iterator[Lab]:
    """Make a stream table of each mode, and keep nothing of a switch."""
    lab.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    for mode in MODES:
        lab.create(mode.lower() + "_st", "SELECT count(*) AS n FROM t", mode=mode)
    yield lab
    force(lab, None)


def force(lab: Lab, value: str | None) -> None:
    lab.trickle.set_setting("force_full_refresh", value)


def await_(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "it does not come about"
        time.sleep(0.05)


@pytest.mark.parametrize("mode", MODES)
def test_refresh_by_hand_recomputes_and_says_why(counted: Lab, mode: str):
    force(counted, "on")
    forced = counted.trickle.refresh_stream_table(f"{mode.lower()}_st")
    force(counted, None)
    after = counted.trickle.refresh_stream_table(f"{mode.lower()}_st")

    assert forced.action.value == "FULL"
    assert forced.reason.startswith("force_full_refresh is set")
    assert "force_full" not in after.reason
    assert mode == "IMMEDIATE" or after.action.value == "NO_DATA"


def test_daemon_recomputes_what_is_idle_exactly_as_long(counted: Lab):
    counted.run("UPDATE pgtrickle.pgt_stream_tables SET schedule = '1s' WHERE schedule IS NOT NULL")
    stop = threading.Event()
    thread = threading.Thread(target=counted.trickle.run, args=[stop])
    thread.start()
    try:
        await_(lambda: counted.value("SELECT count(*) FROM pgtrickle.daemons()"))
        assert counted.value(TIMES) == 0
        # Elsewhere, as an operator does it.
        counted.run("SELECT pgtrickle.set_setting('force_full_refresh', 'on')")
        await_(lambda: counted.value(f"SELECT count(*) FROM ({FORCED}) AS one") == len(MODES))
        counted.run("SELECT pgtrickle.set_setting('force_full_refresh', NULL)")
        await_(lambda: not counted.trickle._runtime.settings.force_full_refresh)
        await_(lambda: not counted.value("SELECT count(*) FROM pgtrickle.running_refreshes()"))
        before = counted.value(TIMES)
        counted.run("INSERT INTO t VALUES (2)")
        await_(lambda: counted.value("SELECT n FROM differential_st") == 2)
        await_(lambda: counted.value("SELECT n FROM immediate_st") == 2)
        assert counted.value(TIMES) == before
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert not thread.is_alive()
