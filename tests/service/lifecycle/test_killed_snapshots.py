"""kill -9 at each step of a snapshot, a restore and a drop: all of it is there, or none of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pgtrickle.service.lease_waits import when_free
from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.service.lifecycle.die_in_snapshots import DROP_STEPS, RESTORE_STEPS, TAKE_STEPS
from tests.service.lifecycle.test_snapshots import SUMS, T, all_of, restore, take

_DONE = {"after the commit", "with the lease given back"}


@pytest.fixture
def shop(lab: Lab) -> Iterator[Lab]:
    """Make a stream table with a snapshot that it has left behind."""
    runtime = lab.trickle._runtime
    before = runtime.settings
    runtime.settings = replace(before, snapshot_keeps_changes=True)
    lab.run(*T)
    lab.create("sums", SUMS)
    take(lab, target="saved")
    lab.window("UPDATE t SET v = v + 1 WHERE k = 1", "DELETE FROM t WHERE k = 2")
    lab.run("INSERT INTO t VALUES (70, 7, 7)")
    yield lab
    runtime.settings = before


def killed(lab: Lab, kind: str, step: str, snapshot: str) -> None:
    """Let a process die at a step, and wait until the server has undone what it had begun."""
    command = [sys.executable, "-m", "tests.service.lifecycle.die_in_snapshots"]
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    others += " AND backend_type = 'client backend'"
    before = lab.value(others)
    ended = subprocess.run(
        [*command, lab.trickle.dsn, kind, step, "sums", snapshot],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    await_(lambda: lab.value(others) <= before)


def goes_on(lab: Lab) -> None:
    """Refresh, restore and refresh again, by a process that waits for the lease of the dead."""
    when_free(lambda: lab.refresh("sums"))
    lab.window("UPDATE t SET v = v + 1")
    restore(lab, "public.saved")
    lab.refresh("sums")


def tables(lab: Lab) -> list[tuple[object, ...]]:
    return lab.rows(
        "SELECT relname FROM pg_class WHERE relkind = 'r'"
        " AND (relname LIKE 'snapshot%' OR relname IN ('saved', 'another'))"
    )


@pytest.mark.parametrize("step", TAKE_STEPS)
def test_killed_snapshot(shop: Lab, step: str):
    before, stood = all_of(shop), tables(shop)

    killed(shop, "take", step, "another")

    listed = [one.snapshot_table for one in shop.trickle.snapshots.list_snapshots()]
    if step in _DONE:
        assert listed == ["saved", "another"]
        assert len(tables(shop)) == 2 * len(stood)
    else:
        assert listed == ["saved"]
        assert tables(shop) == stood
        assert all_of(shop) == before
    goes_on(shop)


@pytest.mark.parametrize("step", RESTORE_STEPS)
def test_killed_restore(shop: Lab, step: str):
    before, saved = all_of(shop), shop.rows("TABLE saved")

    killed(shop, "restore", step, "saved")

    if step in _DONE:
        assert shop.rows("TABLE sums") == saved
        assert shop.trickle.refresh_history("sums", 1)[0].reason.startswith("restored")
    else:
        assert all_of(shop) == before
    goes_on(shop)


@pytest.mark.parametrize("step", DROP_STEPS)
def test_killed_drop(shop: Lab, step: str):
    stood = tables(shop)

    killed(shop, "drop", step, "saved")

    if step in _DONE:
        assert tables(shop) == []
        take(shop, target="saved")
    else:
        assert tables(shop) == stood
    goes_on(shop)
