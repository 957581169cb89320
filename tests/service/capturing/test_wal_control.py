"""The switches of capture, on sources that are captured from the log."""

from __future__ import annotations

from pgtrickle.service.capturing.mode import settle_capture
from tests.labs.lab import Lab
from tests.labs.wal_lab import modes, triggers


def test_a_pause_ends_the_capture_from_the_log_until_it_is_over(counted: Lab):
    assert counted.trickle.capture.pause_cdc() == ["public.t"]
    counted.run("INSERT INTO t VALUES (3, 2, 'c')")
    settle_capture(counted.trickle._runtime)
    assert modes(counted) == {"t": "TRIGGER"}

    assert counted.trickle.capture.resume_cdc() == ["public.t"]

    counted.window(action="REINITIALIZE")
    settle_capture(counted.trickle._runtime)
    assert modes(counted) == {"t": "WAL"}
    counted.window("DELETE FROM t WHERE id = 3")


def test_rebuilding_leaves_the_log_in_charge(counted: Lab):
    [before] = counted.trickle.capture.check_cdc_health()
    assert (before.cdc_mode, before.alert) == ("WAL", None)

    counted.trickle.capture.rebuild_cdc_triggers()

    assert triggers(counted) == 0
    counted.window("INSERT INTO t VALUES (3, 2, 'c')")
    counted.window("UPDATE t SET k = 5")
