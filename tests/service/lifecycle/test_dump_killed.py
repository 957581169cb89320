"""A restoration that is killed, or fails, is completed by the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgtrickle.errors import TrickleError
from tests.labs.lab import Lab
from tests.service.lifecycle.dumping import (
    contents,
    drop_everything,
    dump_text,
    opened,
    waits_for_lock,
)

SOURCES = (
    "CREATE TABLE one (id int PRIMARY KEY, k int)",
    "CREATE TABLE two (id int PRIMARY KEY, k int)",
    "INSERT INTO one VALUES (1, 1), (2, 2)",
    "INSERT INTO two VALUES (1, 1), (3, 3)",
)


@pytest.fixture
def dumped(database: str, tmp_path: Path) -> Iterator[Lab]:
    """Make three stream tables, dump them, and drop them."""
    with opened(database) as lab:
        lab.run(*SOURCES)
        lab.trickle.create_stream_table("a", "SELECT k, count(*) AS n FROM one GROUP BY k")
        lab.trickle.create_stream_table("b", "SELECT a.k, a.n, two.id FROM a JOIN two USING (k)")
        lab.trickle.create_stream_table("c", "SELECT count(*) AS n FROM b")
        lab.run(*(f"COMMENT ON TABLE {one} IS 'of {one}'" for one in "abc"))
        lab.trickle.definitions.dump_definitions(tmp_path / "dump", format="yaml", with_data=True)
        lab.trickle.definitions.dump_definitions(tmp_path / "all.yaml")
        yield lab


def restore(lab: Lab, path: Path) -> subprocess.Popen[str]:
    """Start the command."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "src"),
        "PGTRICKLE_DSN": lab.trickle.dsn,
        "PGTRICKLE_ENGINE": "postgres",
        "PGTRICKLE_LEASE_SECONDS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "pgtrickle", "restore", str(path)],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("dump", ["all.yaml", "dump"])
@pytest.mark.parametrize("locked", ["two", "pgtrickle.pgt_leases"])
def test_killed_restoration_is_completed_by_the_next(
    dumped: Lab, tmp_path: Path, dump: str, locked: str
):
    """While it declares the second stream table, or before the first load of the first."""
    before, rows, path = dump_text(dumped), contents(dumped), tmp_path / dump
    drop_everything(dumped)

    with psycopg.connect(dumped.trickle.dsn) as other:
        other.execute(f"LOCK TABLE {locked} IN ACCESS EXCLUSIVE MODE".encode())
        process = restore(dumped, path)
        waits_for_lock(dumped)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        made = dumped.rows("SELECT name FROM pgtrickle.pgt_status()")
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    assert made == [("public.a",)]
    done = restore(dumped, path)
    out, err = done.communicate(timeout=60)

    assert done.returncode == 0, err
    first = "unchanged" if locked == "two" else "completed"
    assert [line.split(" with ")[0] for line in out.splitlines()] == [
        f"public.a: {first}",
        "public.b: created",
        "public.c: created",
    ]
    assert (dump_text(dumped), contents(dumped)) == (before, rows)
    assert all(dumped.trickle.verify_stream_table(one).ok for one in "abc")


def test_failed_restoration_is_completed_by_the_next(dumped: Lab, tmp_path: Path):
    """The query of the second fails on a row that its source has."""
    before, rows, path = dump_text(dumped), contents(dumped), tmp_path / "all.yaml"
    drop_everything(dumped)
    dumped.run(
        "CREATE TABLE aside AS TABLE two", "DROP TABLE two", "CREATE TABLE two (id int, k text)"
    )

    with pytest.raises(TrickleError):
        dumped.trickle.definitions.restore_definitions(path)

    assert dumped.rows("SELECT name FROM pgtrickle.pgt_status()") == [("public.a",)]
    dumped.run("DROP TABLE two", SOURCES[1], "INSERT INTO two TABLE aside")
    done = dumped.trickle.definitions.restore_definitions(path)
    assert [one.status for one in done] == ["unchanged", "created", "created"]
    assert (dump_text(dumped), contents(dumped)) == (before, rows)
