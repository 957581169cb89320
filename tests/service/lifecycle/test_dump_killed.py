"""A killed dump is no dump; a killed or failed restoration is completed by the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from pgtrickle.errors import DumpDamagedError, TrickleError
from pgtrickle.service.lease_waits import when_free
from tests.labs.lab import Lab
from tests.service.lifecycle.die_in_dumps import DUMP_STEPS, RESTORE_STEPS
from tests.service.lifecycle.dumping import (
    contents,
    drop_everything,
    dump_text,
    opened,
    waits_for_lock,
)
from tests.service.lifecycle.killing import all_or_nothing, killed, nothing_lost

SOURCES = (
    "CREATE TABLE one (id int PRIMARY KEY, k int)",
    "CREATE TABLE two (id int PRIMARY KEY, k int)",
    "INSERT INTO one VALUES (1, 1), (2, 2)",
    "INSERT INTO two VALUES (1, 1), (3, 3)",
)


def make_three(lab: Lab) -> None:
    """Make three stream tables, one above the other."""
    lab.run(*SOURCES)
    lab.trickle.create_stream_table("a", "SELECT k, count(*) AS n FROM one GROUP BY k")
    lab.trickle.create_stream_table("b", "SELECT a.k, a.n, two.id FROM a JOIN two USING (k)")
    lab.trickle.create_stream_table("c", "SELECT count(*) AS n FROM b")
    lab.run(*(f"COMMENT ON TABLE {one} IS 'of {one}'" for one in "abc"))


@pytest.fixture
def dumped(database: str, tmp_path: Path) -> Iterator[Lab]:
    """Make three stream tables and dump them."""
    with opened(database) as lab:
        make_three(lab)
        lab.trickle.definitions.dump_definitions(tmp_path / "dump", format="yaml", with_data=True)
        lab.trickle.definitions.dump_definitions(tmp_path / "all.yaml")
        yield lab


@contextmanager
def three_to_save(lab: Lab) -> Iterator[Path]:
    """Make three stream tables with something added to each; yield a place for dumps."""
    make_three(lab)
    lab.run(
        *(f"CREATE INDEX {one}_again ON {one} ((n + 1)) WHERE n > 0" for one in "abc"),
        "GRANT SELECT ON b TO PUBLIC",
    )
    lab.trickle.scheduler.create_refresh_group("pair", ["a", "b"])
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def comes_back(
    lab: Lab, path: Path, before: str, rows: dict[str, list[tuple[object, ...]]]
) -> None:
    """Restore a dump, after which everything is as it was and goes on."""
    with nothing_lost():
        when_free(lambda: lab.trickle.definitions.restore_definitions(path))
        assert (dump_text(lab), contents(lab)) == (before, rows)
        lab.run("INSERT INTO one VALUES (7, 3)", "UPDATE two SET k = 2 WHERE id = 1")
        for name in "abc":
            when_free(lambda name=name: lab.trickle.refresh_stream_table(name))  # type: ignore[misc]
        assert all(lab.trickle.verify_stream_table(one).ok for one in "abc")
        drop_everything(lab)


def kill_dump(lab: Lab, step: str) -> None:
    """Kill a process that dumps with rows: what it leaves is a whole dump or none."""
    with three_to_save(lab) as directory:
        before, rows = dump_text(lab), contents(lab)
        first, second = directory / "first", directory / "second"

        killed(lab, "die_in_dumps", "dump", step, str(first))

        with all_or_nothing():
            assert (dump_text(lab), contents(lab)) == (before, rows)
            if step == "with the index":
                found = lab.trickle.definitions.restore_definitions(first)
                assert [one.status for one in found] == ["unchanged"] * 3
                second = first
            else:
                with pytest.raises(DumpDamagedError):
                    lab.trickle.definitions.restore_definitions(first)
        if second is not first:
            lab.trickle.definitions.dump_definitions(second, format="yaml", with_data=True)
        drop_everything(lab)
        comes_back(lab, second, before, rows)


def kill_restoration(lab: Lab, step: str) -> None:
    """Kill a process that restores with rows: what it has made is whole, and the rest follows."""
    with three_to_save(lab) as directory:
        before, rows, path = dump_text(lab), contents(lab), directory / "dump"
        lab.trickle.definitions.dump_definitions(path, format="yaml", with_data=True)
        drop_everything(lab)

        killed(lab, "die_in_dumps", "restore", step, str(path))

        with all_or_nothing():
            filled = lab.rows("SELECT name FROM pgtrickle.pgt_status() WHERE is_populated")
            assert {name: contents(lab)[name] for (name,) in filled} == {
                name: rows[name] for (name,) in filled
            }
            empty = contents(lab).keys() - {name for (name,) in filled}
            assert all(contents(lab)[name] == [] for name in empty)
        comes_back(lab, path, before, rows)


@pytest.mark.parametrize("step", DUMP_STEPS)
def test_killed_dump_is_whole_or_none(lab: Lab, step: str):
    kill_dump(lab, step)


@pytest.mark.parametrize("step", RESTORE_STEPS)
def test_killed_restoration_has_made_what_it_has_made(lab: Lab, step: str):
    kill_restoration(lab, step)


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
