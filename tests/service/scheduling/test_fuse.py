"""Fuses: a sudden mass change stops the scheduler until someone decides."""

from __future__ import annotations

import json
import threading

import psycopg
import pytest

from pgtrickle.catalog.scheduling.fuses import find_usual_changes, get_fuse, reset_fuse, set_fuse
from pgtrickle.catalog.scheduling.holds import list_holds
from pgtrickle.errors import FuseBlownError, StatusForbidsError
from pgtrickle.model.scheduling.fuse import Fuse, FuseMode
from pgtrickle.scheduler.loop import Loop
from tests.labs.hearing import PATIENCE
from tests.labs.lab import Lab
from tests.scheduler.shop import Watched

MASS = "INSERT INTO t SELECT i FROM generate_series(1, 100) AS i"


@pytest.fixture
def fused(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (a int)")
    lab.create("counted", "SELECT count(*) AS n FROM t")
    set_fuse(lab.connection, number(lab), Fuse(FuseMode.ON, ceiling=50))
    return lab


def number(lab: Lab) -> int:
    return lab.trickle.get_stream_table("counted").id


def test_mass_change_blows_the_fuse_with_an_alert(fused: Lab):
    fused.run(MASS)
    with psycopg.connect(fused.trickle.dsn, autocommit=True) as listener:
        listener.execute("LISTEN pg_trickle_alert")
        with pytest.raises(FuseBlownError, match="100 changed rows, more than 50"):
            fused.trickle.daemon.refresh_unit(["counted"])
        [alert] = list(listener.notifies(timeout=PATIENCE, stop_after=1))

    assert json.loads(alert.payload)["event"] == "fuse_blown"
    assert fused.value("SELECT n FROM counted") == 0
    assert list_holds(fused.connection) == {
        number(fused): "its fuse has blown: 100 changed rows, more than 50"
    }
    assert fused.trickle.get_stream_table("counted").consecutive_errors == 0


def test_scheduler_waits_for_a_decision_and_then_applies(fused: Lab):
    fused.run(MASS)
    with pytest.raises(FuseBlownError):
        fused.trickle.daemon.refresh_unit(["counted"])
    watched = Watched()
    fused.run("UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - '1h'::interval")
    Loop(fused.trickle.daemon, watched).run_once(threading.Event())
    assert (watched.refreshed_names, watched.failures) == ([], [])

    reset_fuse(fused.connection, number(fused))
    Loop(fused.trickle.daemon, watched).run_once(threading.Event())

    assert watched.refreshed_names == ["public.counted"]
    assert fused.value("SELECT n FROM counted") == 100
    assert not get_fuse(fused.connection, number(fused)).bridged


def test_reset_may_start_anew(fused: Lab):
    fused.run(MASS)
    with pytest.raises(FuseBlownError):
        fused.trickle.daemon.refresh_unit(["counted"])

    reset_fuse(fused.connection, number(fused), reinitialize=True)

    [report] = fused.trickle.daemon.refresh_unit(["counted"])
    assert report.action.value == "REINITIALIZE"


def test_refresh_by_hand_passes_and_puts_the_fuse_in_again(fused: Lab):
    fused.run(MASS)
    with pytest.raises(FuseBlownError):
        fused.trickle.daemon.refresh_unit(["counted"])

    fused.refresh("counted")

    assert list_holds(fused.connection) == {}
    with pytest.raises(StatusForbidsError, match="has not blown"):
        reset_fuse(fused.connection, number(fused))


def test_auto_learns_what_is_usual(fused: Lab):
    set_fuse(fused.connection, number(fused), Fuse(FuseMode.AUTO, sensitivity=2.0))
    assert find_usual_changes(fused.connection, number(fused)) is None
    for _ in range(5):
        fused.run("INSERT INTO t SELECT i FROM generate_series(1, 600) AS i")
        fused.trickle.daemon.refresh_unit(["counted"])
    assert find_usual_changes(fused.connection, number(fused)) == 600

    fused.run("INSERT INTO t SELECT i FROM generate_series(1, 1201) AS i")
    with pytest.raises(FuseBlownError, match="more than 1200"):
        fused.trickle.daemon.refresh_unit(["counted"])
