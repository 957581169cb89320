"""How long short commands take, from Enter to the prompt, on a database with 25 stream tables.

    python -m benchmarks.command_times [--rounds N] [--before DIRECTORY]

Each is a process of its own, as in a shell.  The fastest and the median of the rounds are shown; of
the fastest also the processor time, which other work on the machine disturbs least.  ``--before``
names a checkout of an earlier version, which is measured on a database of its own.

Last, beside a daemon with Spark that has refreshed a few times: a refresh of one small change.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from benchmarks.shop import create_database, running_daemon
from pgtrickle.embedded.server import start_embedded

_TABLES = 25
_WARM_UP = 5  # refreshes
_CREATE_BESIDE = """
    CALL pgtrickle.create_stream_table(
        's0', 'SELECT a, count(*) AS n FROM t GROUP BY a', schedule => '1d')
"""
_COMMANDS = (
    ("--help",),
    ("--version",),
    ("list",),
    ("show", "s0"),
    ("history", "s0"),
    ("status",),
    ("health",),
    ("doctor",),
)
# Those of monitoring say by it how things are; of the others only this one means that it worked.
_WORKED = {"status": (0, 3, 4), "health": (0, 3, 4), "doctor": (0, 1)}
_HERE = Path(__file__).parents[1]
_FILL = f"""
import os, psycopg, pgtrickle
from tests.fakes.engine import DuckDbEngine

dsn = os.environ["PGTRICKLE_DSN"]
with psycopg.connect(dsn, autocommit=True) as connection:
    connection.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
with pgtrickle.connect(dsn, engine=DuckDbEngine(), init=True) as trickle:
    for number in range({_TABLES}):
        trickle.create_stream_table("s%d" % number, "SELECT a FROM t WHERE a > %d" % number)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table as Markdown."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with start_embedded(Path(directory) / "server") as server:
            now = _Version(_HERE, create_database(server.dsn, "commands"))
            before = None
            if arguments.before is not None:
                root = arguments.before.resolve()
                before = _Version(root, create_database(server.dsn, "before"))
            table = _compare(now, before, arguments.rounds)
            beside = _Version(_HERE, create_database(server.dsn, "beside"))
            table["rows"].append(_beside_daemon(beside, arguments.rounds))
            with psycopg.connect(server.dsn) as connection:
                results = describe_run(
                    "benchmarks.command_times",
                    argv,
                    connection,
                    title="How long short commands take",
                    tables=[table],
                    notes=[f"{_TABLES} stream tables; {arguments.rounds} rounds."],
                )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0


@dataclass(frozen=True, slots=True)
class _Version:
    """The program of one checkout, and the database that it made."""

    root: Path
    dsn: str

    def run(self, *arguments: str) -> int:
        """Run Python with its modules; return the exit code."""
        modules = os.pathsep.join([str(self.root / "src"), str(self.root)])
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, *arguments],
            env=os.environ | {"PGTRICKLE_DSN": self.dsn, "PYTHONPATH": modules},
            capture_output=True,
            check=False,
        )
        return done.returncode

    def fill(self) -> None:
        """Make the stream tables."""
        say(f"creating {_TABLES} stream tables")
        if self.run("-c", _FILL) != 0:
            raise SystemExit(f"the stream tables could not be made by {self.root}")

    def measure(self, command: tuple[str, ...], rounds: int) -> _Times | None:
        """Run a command so many times; None if there is none of this name."""
        say(f"pgtrickle {' '.join(command)}")
        self.time(command)  # which compiles its modules
        found = [self.time(command) for _ in range(rounds)]
        return _sum_up(found)

    def time(self, command: tuple[str, ...]) -> tuple[float, float] | None:
        """Return the seconds that passed and those of the processor; None if it failed."""
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        code = self.run("-m", "pgtrickle", *command)
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if code not in _WORKED.get(command[0], (0,)):
            return None
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds of one command."""

    fastest: float
    median: float
    processor: float


def _sum_up(found: Sequence[tuple[float, float] | None]) -> _Times | None:
    times = [one for one in found if one is not None]
    if len(times) < len(found):
        return None
    walls = [wall for wall, _ in times]
    return _Times(min(walls), statistics.median(walls), min(spent for _, spent in times))


def _beside_daemon(version: _Version, rounds: int) -> list[str]:
    """Return what a refresh of one changed row takes where a daemon does it."""
    say("a refresh beside a daemon")
    command = ("refresh", "s0")
    with psycopg.connect(version.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, a int)")
        if version.run("-m", "pgtrickle", "init") != 0:
            raise SystemExit("the catalog could not be made")
        with running_daemon(version.dsn):
            while not connection.execute("SELECT pgtrickle.is_served()").fetchall()[0][0]:
                time.sleep(0.1)
            connection.execute(_CREATE_BESIDE)
            times = []
            for _ in range(_WARM_UP + rounds):
                connection.execute("INSERT INTO t (a) VALUES (1)")
                times.append(version.time(command))
    return [f"`{' '.join(command)}` beside a daemon", *_cells(_sum_up(times[_WARM_UP:]))]


def _compare(now: _Version, before: _Version | None, rounds: int) -> dict[str, Any]:
    """Return the table of all commands, with what an earlier version took."""
    columns = ["command", "fastest", "median", "processor"]
    if before is not None:
        columns += ["before: fastest", "median", "processor"]
        before.fill()
    now.fill()
    rows: list[list[object]] = []
    for command in _COMMANDS:
        taken = now.measure(command, rounds)
        if taken is None:
            raise SystemExit(f"pgtrickle {' '.join(command)} failed")
        row: list[object] = [f"`{' '.join(command)}`", *_cells(taken)]
        rows.append(row if before is None else row + _cells(before.measure(command, rounds)))
    return {"columns": columns, "rows": rows}


def _cells(times: _Times | None) -> list[str]:
    if times is None:  # there was no such command
        return ["", "", ""]
    return [f"{one:.2f} s" for one in (times.fastest, times.median, times.processor)]


if __name__ == "__main__":
    sys.exit(main())
