"""The daemon from Python: ``Trickle.run``, in this thread or another."""

from __future__ import annotations

import threading
import time

import pytest

from pgtrickle.scheduler.loop import Loop
from tests.labs.lab import Lab
from tests.scheduler.shop import Watched

LONG_AGO = "UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - '1h'::interval"


@pytest.fixture
def counted(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (a int)")
    lab.create("counted", "SELECT count(*) AS n FROM t")
    lab.run("INSERT INTO t VALUES (1)", LONG_AGO)
    return lab


def test_one_pass_refreshes_what_is_due_and_returns(counted: Lab):
    watched = Watched()

    counted.trickle.run(once=True, watcher=watched)

    assert watched.refreshed_names == ["public.counted"]
    assert counted.value("SELECT n FROM counted") == 1


def test_run_in_a_thread_works_until_its_event_is_set(counted: Lab):
    stop, watched = threading.Event(), Watched()
    thread = threading.Thread(target=counted.trickle.run, args=[stop], kwargs={"watcher": watched})
    thread.start()
    try:
        until = time.monotonic() + 30
        while not watched.refreshed_names and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        stop.set()
        thread.join(30)

    assert not thread.is_alive()
    assert watched.refreshed_names[:1] == ["public.counted"]
    assert counted.value("SELECT count(*) FROM pgtrickle.daemons()") == 0


def test_run_executes_requests_from_sql(counted: Lab):
    stop = threading.Event()
    thread = threading.Thread(target=counted.trickle.run, args=[stop])
    thread.start()
    try:
        until = time.monotonic() + 30
        while not counted.value("SELECT count(*) FROM pgtrickle.daemons()"):
            assert time.monotonic() < until
            time.sleep(0.05)
        counted.run("CALL pgtrickle.refresh_stream_table('counted')")
    finally:
        stop.set()
        thread.join(30)

    assert counted.value("SELECT n FROM counted") == 1


def test_what_interrupts_run_stops_the_loop_first(counted: Lab, monkeypatch: pytest.MonkeyPatch):
    ended: list[bool] = []

    def interrupted(loop: Loop, stop: threading.Event) -> None:
        ended.append(stop.is_set())
        raise KeyboardInterrupt

    monkeypatch.setattr(Loop, "run", interrupted)
    stop = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        counted.trickle.run(stop)

    assert ended == [False]
    assert stop.is_set()


def test_failures_go_to_the_log_where_nobody_watches(
    counted: Lab, caplog: pytest.LogCaptureFixture
):
    counted.run("UPDATE pgtrickle.pgt_stream_tables SET schedule = 'never so'")

    counted.trickle.run(once=True)

    [record] = [one for one in caplog.records if one.name == "pgtrickle.daemon"]
    assert record.getMessage().startswith("public.counted: ")
