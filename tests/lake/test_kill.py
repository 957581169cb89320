"""kill -9 at each named step of a delivery: nothing lost, nothing twice, nothing left behind.

``PGTRICKLE_LAKE_KILLS`` says how many; ``make lake-kill`` kills two hundred times.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import cycle, islice

import pytest
from psycopg.conninfo import make_conninfo

from pgtrickle.service.refresh_stream_table import when_free
from tests.fixtures.ducklake import lake_client
from tests.lake.die_at import DIFFERENCE_STEPS, LOAD_STEPS, STEPS
from tests.lake.shore import COPY, SUMS, Shore

_KILLS = int(os.environ.get("PGTRICKLE_LAKE_KILLS", len(STEPS)))
_LOAD_KILLS = int(os.environ.get("PGTRICKLE_LAKE_KILLS", len(LOAD_STEPS)))
_DIFFERENCE_KILLS = int(os.environ.get("PGTRICKLE_LAKE_KILLS", len(DIFFERENCE_STEPS)))
_SEED = int(os.environ.get("PGTRICKLE_LAKE_SEED", random.SystemRandom().randrange(10**9)))
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


def _kill_at(
    shore: Shore, step: str, draw: random.Random, names: Sequence[str], kind: str = "refresh"
) -> None:
    """Start a process, give it work until it dies at the step, wait for the server to notice."""
    dsn = make_conninfo(shore.trickle.dsn, application_name=_DOOMED)
    command = [sys.executable, "-m", "tests.lake.die_at", dsn, kind, step, *names]
    deadline = time.monotonic() + _LONGEST_LIFE
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while process.poll() is None and time.monotonic() < deadline:
            _change(shore, draw)
            time.sleep(0.2)
        process.kill()
        assert process.wait() == -9, process.stderr.read()
    assert time.monotonic() < deadline, f"never came to: {step}"
    left = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{_DOOMED}'"
    while shore.tell(left) != [(0,)]:
        time.sleep(0.02)


@pytest.mark.timeout(3600)
def test_kill_at_any_step_loses_nothing_and_delivers_nothing_twice(shore: Shore):
    print(f"PGTRICKLE_LAKE_SEED={_SEED}")
    draw = random.Random(_SEED)
    shore.create("sums", SUMS)
    shore.create("copies", COPY)

    with _reading(shore.trickle.dsn) as errors:
        for step in islice(cycle(STEPS), _KILLS):
            _kill_at(shore, step, draw, _NAMES)
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
def test_kill_at_any_step_of_a_large_load_loses_nothing_and_loads_nothing_twice(shore: Shore):
    print(f"PGTRICKLE_LAKE_SEED={_SEED}")
    draw = random.Random(_SEED)
    shore.run("INSERT INTO t SELECT i, i % 5, 1, 'm' FROM generate_series(101, 800) AS i")
    shore.create("sums", SUMS)
    shore.create("copies", COPY)

    with _reading(shore.trickle.dsn) as errors:
        for step in islice(cycle(LOAD_STEPS), _LOAD_KILLS):
            shore.run("UPDATE pgtrickle.pgt_ducklake_sinks SET needs_load = true")
            _kill_at(shore, step, draw, ["copies"], "load")
            _refresh(shore, "copies")
    assert errors == []

    assert shore.trickle.verify_stream_table("copies").ok
    assert _provenance(shore) == _snapshots(shore)
    _sweep(shore)
    shore.check("copies")


@pytest.mark.timeout(3600)
def test_kill_at_any_step_of_a_large_difference_loses_nothing_and_no_row_id(shore: Shore):
    print(f"PGTRICKLE_LAKE_SEED={_SEED}")
    draw = random.Random(_SEED)
    shore.run("INSERT INTO t SELECT i, i % 5, 1, 'm' FROM generate_series(101, 800) AS i")
    shore.create("sums", SUMS)
    shore.create("copies", COPY)
    row_ids = shore.ask("SELECT k, rowid FROM sums ORDER BY k")

    with _reading(shore.trickle.dsn) as errors:
        for step in islice(cycle(DIFFERENCE_STEPS), _DIFFERENCE_KILLS):
            _kill_at(shore, step, draw, _NAMES, "difference")
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


def _refresh(shore: Shore, name: str) -> None:
    """Refresh when the lease of the dead has run out, and check the copy."""
    when_free(lambda: shore.trickle.refresh_stream_table(name))
    shore.check(name)


def _sweep(shore: Shore) -> None:
    """Let housekeeping find all that the dead have left, and nothing else."""
    orphans = set(shore.files()) - _known(shore)
    care = shore.trickle.maintain_lake(older_than=timedelta(0))
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
