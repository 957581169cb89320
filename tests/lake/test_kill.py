"""kill -9 at each named step of a delivery: nothing lost, nothing twice, nothing left behind.

``PGTRICKLE_LAKE_KILLS`` says how many; ``make lake-kill`` kills two hundred times.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle, islice
from typing import IO

import pytest
from psycopg.conninfo import make_conninfo

from pgtrickle.service.lease_waits import when_free
from tests.fixtures.ducklake import lake_client
from tests.lake.die_at import (
    DIFFERENCE_STEPS,
    ELSEWHERE_STEPS,
    LOAD_STEPS,
    SETTLE_STEPS,
    STEPS,
)
from tests.lake.shore import COPY, LAKE_DSN, SUMS, FarShore, Shore
from tests.seeds import seed_of

_KILLS = int(os.environ.get("PGTRICKLE_LAKE_KILLS", len(STEPS)))
_LOAD_KILLS = int(os.environ.get("PGTRICKLE_LAKE_KILLS", len(LOAD_STEPS)))
_DIFFERENCE_KILLS = int(os.environ.get("PGTRICKLE_LAKE_KILLS", len(DIFFERENCE_STEPS)))
_FAR_KILLS = int(os.environ.get("PGTRICKLE_LAKE_KILLS", len(ELSEWHERE_STEPS)))
_SETTLE_KILLS = int(os.environ.get("PGTRICKLE_LAKE_KILLS", len(SETTLE_STEPS)))
_SEED = seed_of("PGTRICKLE_LAKE_SEED", 7)
_NAMES = ("sums", "copies")
_DOOMED = "doomed"
_LONGEST_LIFE = 60.0


@contextmanager
def _reading(dsn: str) -> Iterator[list[str]]:
    """Let a client of its own read both copies all the while; collect what goes wrong."""
    errors: list[str] = []
    stop = threading.Event()

    def read() -> None:
        with lake_client(dsn, "lake") as client:
            while not stop.wait(0.05):
                try:
                    [(rows, listed)] = client.execute(
                        "SELECT (SELECT count(*) FROM copies), (SELECT sum(n) FROM sums)"
                    ).fetchall()
                except Exception as error:  # noqa: BLE001 - whatever it is fails the test
                    errors.append(str(error))
                    return
                if not rows or not listed:
                    errors.append(f"read {rows} copies, sums of {listed}")

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield errors
    finally:
        stop.set()
        thread.join()


def _change(shore: Shore, draw: random.Random) -> None:
    """Change a few rows or many, so that every way of writing and deleting is taken."""
    share = draw.choice([3, 20])
    shore.run(
        f"UPDATE t SET v = v + 1, k = (k + {draw.randrange(2)}) % 5 WHERE id % {share} = 0",
        f"DELETE FROM t WHERE id % {share + 7} = 1 AND id > 50",
        f"INSERT INTO t SELECT i, i % 5, 1, 'n' FROM (SELECT max(id) AS m FROM t) AS l,"
        f" generate_series(m + 1, m + {draw.choice([2, 60])}) AS i",
    )


@dataclass(slots=True)
class Doomed:
    """Starts processes that are to die."""

    process: subprocess.Popen[str]
    told: IO[str]

    def kill_at(
        self,
        shore: Shore,
        step: str,
        draw: random.Random,
        names: Sequence[str],
        kind: str = "refresh",
    ) -> None:
        """Start one, give it work until it dies at the step, wait for the server to notice."""
        dsn = make_conninfo(shore.trickle.dsn, application_name=_DOOMED)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([dsn, kind, step, list(names)]), file=self.process.stdin, flush=True)
        deadline = time.monotonic() + _LONGEST_LIFE
        while not select.select([self.process.stdout], [], [], 0)[0]:
            assert time.monotonic() < deadline, f"never came to: {step}"
            _change(shore, draw)
            time.sleep(0.1)
        assert self.process.stdout.readline() == "-9\n", self._find_error()
        left = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{_DOOMED}'"
        while shore.tell(left) != [(0,)]:
            time.sleep(0.02)

    def _find_error(self) -> str:
        self.told.seek(0)
        return self.told.read()


@pytest.fixture
def doomed(request: pytest.FixtureRequest) -> Iterator[Doomed]:
    """Have everything in memory once that the processes need."""
    environment = dict(os.environ)
    if "other_database" in request.fixturenames:
        there = request.getfixturevalue("other_database")
        environment[LAKE_DSN] = make_conninfo(there, application_name=_DOOMED)
    with (
        tempfile.TemporaryFile("w+") as told,
        subprocess.Popen(
            [sys.executable, "-m", "tests.lake.die_at"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            env=environment,
            start_new_session=True,  # so that all of them can be ended
        ) as process,
    ):
        try:
            yield Doomed(process, told)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.timeout(3600)
def test_kill_at_any_step_loses_nothing_and_delivers_nothing_twice(shore: Shore, doomed: Doomed):
    print(f"PGTRICKLE_LAKE_SEED={_SEED}")
    draw = random.Random(_SEED)
    shore.create("sums", SUMS)
    shore.create("copies", COPY)

    with _reading(shore.trickle.dsn) as errors:
        for step in islice(cycle(STEPS), _KILLS):
            doomed.kill_at(shore, step, draw, _NAMES)
            for name in _NAMES:
                shore.check(name)
    assert errors == []

    for name in _NAMES:
        _refresh(shore, name)
        assert shore.trickle.verify_stream_table(name).ok
    assert _provenance(shore) == _snapshots(shore)
    _sweep(shore)
    for name in _NAMES:
        shore.check(name)


@pytest.mark.timeout(3600)
def test_kill_at_any_step_of_a_large_load_loses_nothing_and_loads_nothing_twice(
    shore: Shore, doomed: Doomed
):
    print(f"PGTRICKLE_LAKE_SEED={_SEED}")
    draw = random.Random(_SEED)
    shore.run("INSERT INTO t SELECT i, i % 5, 1, 'm' FROM generate_series(101, 800) AS i")
    shore.create("sums", SUMS)
    shore.create("copies", COPY)

    with _reading(shore.trickle.dsn) as errors:
        for step in islice(cycle(LOAD_STEPS), _LOAD_KILLS):
            shore.run("UPDATE pgtrickle.pgt_ducklake_sinks SET needs_load = true")
            doomed.kill_at(shore, step, draw, ["copies"], "load")
            _refresh(shore, "copies")
    assert errors == []

    assert shore.trickle.verify_stream_table("copies").ok
    assert _provenance(shore) == _snapshots(shore)
    _sweep(shore)
    shore.check("copies")


@pytest.mark.timeout(3600)
def test_kill_at_any_step_of_a_large_difference_loses_nothing_and_no_row_id(
    shore: Shore, doomed: Doomed
):
    print(f"PGTRICKLE_LAKE_SEED={_SEED}")
    draw = random.Random(_SEED)
    shore.run("INSERT INTO t SELECT i, i % 5, 1, 'm' FROM generate_series(101, 800) AS i")
    shore.create("sums", SUMS)
    shore.create("copies", COPY)
    row_ids = shore.ask("SELECT k, rowid FROM sums ORDER BY k")

    with _reading(shore.trickle.dsn) as errors:
        for step in islice(cycle(DIFFERENCE_STEPS), _DIFFERENCE_KILLS):
            doomed.kill_at(shore, step, draw, _NAMES, "difference")
            for name in _NAMES:
                _refresh(shore, name)
    assert errors == []

    # No load has come in between: the groups are the rows that they were.
    assert shore.ask("SELECT k, rowid FROM sums ORDER BY k") == row_ids
    for name in _NAMES:
        assert shore.trickle.verify_stream_table(name).ok
    assert _provenance(shore) == _snapshots(shore)
    _sweep(shore)
    for name in _NAMES:
        shore.check(name)


@pytest.mark.timeout(3600)
def test_kill_at_any_step_of_a_delivery_to_another_database_delivers_exactly_once(
    far: FarShore, doomed: Doomed
):
    print(f"PGTRICKLE_LAKE_SEED={_SEED}")
    draw = random.Random(_SEED)
    far.create("sums", SUMS)
    far.create("copies", COPY)

    with _reading(os.environ[LAKE_DSN]) as errors:
        for step in islice(cycle(ELSEWHERE_STEPS), _FAR_KILLS):
            doomed.kill_at(far, step, draw, _NAMES, "elsewhere")
            _deliver_for_the_dead(far)
        for step, (before, _) in islice(cycle(SETTLE_STEPS.items()), _SETTLE_KILLS):
            doomed.kill_at(far, before, draw, _NAMES, "elsewhere")
            assert far.intents() == 1
            doomed.kill_at(far, step, draw, _NAMES, "settle")
            _deliver_for_the_dead(far)
    assert errors == []

    for name in _NAMES:
        assert far.trickle.verify_stream_table(name).ok
    assert far.intents() == 0
    assert far.provenance() == far.snapshots()
    refreshes = [refresh for _, refresh in far.provenance() if refresh is not None]
    assert len(set(refreshes)) == len(refreshes)
    assert not far.tell("SELECT FROM pgtrickle.pgt_ducklake_sinks WHERE needs_load")
    far.trickle.lake.maintain_lake(older_than=timedelta(0))
    assert set(far.files()) == far.known()
    for name in _NAMES:
        far.check(name)


def _deliver_for_the_dead(far: FarShore) -> None:
    """Refresh at once, without waiting for leases that run out, and check the copies."""
    far.run("DELETE FROM pgtrickle.pgt_leases")
    for name in _NAMES:
        far.window(name)


def _refresh(shore: Shore, name: str) -> None:
    """Refresh when the lease of the dead has run out, and check the copy."""
    when_free(lambda: shore.trickle.refresh_stream_table(name))
    shore.check(name)


def _sweep(shore: Shore) -> None:
    """Let housekeeping find all that the dead have left, and nothing else."""
    orphans = set(shore.files()) - _known(shore)
    care = shore.trickle.lake.maintain_lake(older_than=timedelta(0))
    assert {path for one in care.sinks for path in one.orphans} == {str(one) for one in orphans}
    assert set(shore.files()) == _known(shore)


def _provenance(shore: Shore) -> list[tuple[int, int]]:
    """Return which snapshot came from which refresh; no refresh may come twice."""
    rows = shore.tell(
        "SELECT ducklake_snapshot_id, refresh_id FROM pgtrickle.pgt_ducklake_provenance ORDER BY 1"
    )
    assert len({refresh for _, refresh in rows}) == len(rows)
    return rows


def _snapshots(shore: Shore) -> list[tuple[int, int]]:
    return shore.tell(
        "SELECT snapshot_id, (commit_extra_info::json ->> 'refresh_id')::bigint"
        " FROM lake.ducklake_snapshot_changes WHERE author = 'pgtrickle' ORDER BY 1"
    )


def _known(shore: Shore) -> set[object]:
    names = shore.tell(
        "SELECT path FROM lake.ducklake_data_file UNION ALL"
        " SELECT path FROM lake.ducklake_delete_file UNION ALL"
        " SELECT path FROM lake.ducklake_files_scheduled_for_deletion"
    )
    return {path for path in shore.files() for (name,) in names if str(path).endswith(name)}
