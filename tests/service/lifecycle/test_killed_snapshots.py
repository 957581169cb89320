"""kill -9 at each step of a snapshot, a restore and a drop: all of it is there, or none of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from pgtrickle.service.lease_waits import when_free
from tests.labs.lab import Lab
from tests.service.lifecycle.die_in_snapshots import DROP_STEPS, RESTORE_STEPS, TAKE_STEPS
from tests.service.lifecycle.killing import all_or_nothing, killed, nothing_lost
from tests.service.lifecycle.test_snapshots import SUMS, T, all_of, restore, take

_DONE = {"after the commit", "with the lease given back"}


@contextmanager
def left_behind(lab: Lab) -> Iterator[None]:
    """Make a stream table with a snapshot that it has left behind."""
    runtime = lab.trickle._runtime
    before = runtime.settings
    runtime.settings = replace(before, snapshot_keeps_changes=True)
    try:
        lab.run(*T)
        lab.create("sums", SUMS)
        take(lab, target="saved")
        lab.window("UPDATE t SET v = v + 1 WHERE k = 1", "DELETE FROM t WHERE k = 2")
        lab.run("INSERT INTO t VALUES (70, 7, 7)")
        yield
    finally:
        runtime.settings = before


def goes_on(lab: Lab) -> None:
    """Refresh, restore and refresh again, by a process that waits for the lease of the dead."""
    with nothing_lost():
        when_free(lambda: lab.refresh("sums"))
        lab.window("UPDATE t SET v = v + 1")
        restore(lab, "public.saved")
        lab.refresh("sums")


def tables(lab: Lab) -> list[tuple[object, ...]]:
    return lab.rows(
        "SELECT relname FROM pg_class WHERE relkind = 'r'"
        " AND (relname LIKE 'snapshot%' OR relname IN ('saved', 'another'))"
    )


def kill_snapshot(lab: Lab, step: str) -> None:
    """Kill a process that takes a second snapshot."""
    with left_behind(lab):
        before, stood = all_of(lab), tables(lab)

        killed(lab, "die_in_snapshots", "take", step, "sums", "another")

        with all_or_nothing():
            listed = [one.snapshot_table for one in lab.trickle.snapshots.list_snapshots()]
            if step in _DONE:
                assert listed == ["saved", "another"]
                assert len(tables(lab)) == 2 * len(stood)
            else:
                assert listed == ["saved"]
                assert tables(lab) == stood
                assert all_of(lab) == before
        goes_on(lab)


def kill_restore(lab: Lab, step: str) -> None:
    """Kill a process that restores from the snapshot."""
    with left_behind(lab):
        before, saved = all_of(lab), lab.rows("TABLE saved")

        killed(lab, "die_in_snapshots", "restore", step, "sums", "saved")

        with all_or_nothing():
            if step in _DONE:
                assert lab.rows("TABLE sums") == saved
                assert lab.trickle.refresh_history("sums", 1)[0].reason.startswith("restored")
            else:
                assert all_of(lab) == before
        goes_on(lab)


def kill_drop(lab: Lab, step: str) -> None:
    """Kill a process that drops the snapshot."""
    with left_behind(lab):
        stood = tables(lab)

        killed(lab, "die_in_snapshots", "drop", step, "sums", "saved")

        with all_or_nothing():
            assert tables(lab) == ([] if step in _DONE else stood)
        if step in _DONE:
            take(lab, target="saved")
        goes_on(lab)


@pytest.mark.parametrize("step", TAKE_STEPS)
def test_killed_snapshot(lab: Lab, step: str):
    kill_snapshot(lab, step)


@pytest.mark.parametrize("step", RESTORE_STEPS)
def test_killed_restore(lab: Lab, step: str):
    kill_restore(lab, step)


@pytest.mark.parametrize("step", DROP_STEPS)
def test_killed_drop(lab: Lab, step: str):
    kill_drop(lab, step)
