"""How long a project of many stream tables takes to plan and to apply, and what a change touches.

    python -m benchmarks.projects [--tables N] [--rounds N]

Half of the stream tables read a table, the other half join two of those.  Planned are a new
project, the same when it was applied and nothing has changed, and with one changed file; then that
is applied.  PostgreSQL is the engine, so that no start of Spark is timed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import Results, describe_run, write_results
from benchmarks.say import say
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, Settings

T = TypeVar("T")

_SOURCES = 10
_SOURCE = """
    CREATE TABLE source_{n} (id int PRIMARY KEY, region text, amount int, placed_at timestamptz);
    INSERT INTO source_{n}
    SELECT i, 'region ' || i % 7, i % 1000, '2026-01-01'::timestamptz + i * interval '1 minute'
      FROM generate_series(1, 1000) AS i;
    ANALYZE source_{n}
"""
_LOW = "SELECT region, count(*) AS n, sum(amount) AS total FROM source_{n} GROUP BY region"
_HIGH = (
    "SELECT a.region, a.total + b.total AS total FROM {{{{ ref('t_{a}') }}}} AS a"
    " JOIN {{{{ ref('t_{b}') }}}} AS b ON b.region = a.region"
)
_TOUCHED = """
    SELECT count(DISTINCT h.pgt_id) FROM pgtrickle.pgt_refresh_history AS h WHERE h.refresh_id > %s
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table; 1 if a changed file touches another number than one."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with (
            start_embedded(Path(directory) / "home") as server,
            pgtrickle.connect(server.dsn, settings=Settings(engine=POSTGRES), init=True) as trickle,
            psycopg.connect(server.dsn, autocommit=True) as connection,
        ):
            folder = Path(directory) / "project"
            bench = _Bench(trickle, connection, folder)
            touched = bench.run(arguments.tables, arguments.rounds)
            results = describe_run(
                "benchmarks.projects",
                argv,
                connection,
                title=f"A project of {arguments.tables} stream tables",
                tables=[bench.tell()],
                notes=[_conclude(touched)],
            )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0 if set(touched) == {1} else 1


def _conclude(touched: Sequence[int]) -> str:
    return (
        f"One changed file touched {', '.join(map(str, touched))} stream tables."
        f" Load at the end, with all who share the machine: {os.getloadavg()[0]:.1f}."
    )


@dataclass(slots=True)
class _Bench:
    """The measurements, by what was done."""

    trickle: pgtrickle.Trickle
    connection: Connection[TupleRow]
    folder: Path
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def run(self, tables: int, rounds: int) -> list[int]:
        """Measure; return for each round how many stream tables the changed file touched."""
        for number in range(_SOURCES):
            self.connection.execute(_SOURCE.format(n=number).encode())
        self._write(tables)
        projects = self.trickle.projects
        for _ in range(rounds):
            new = self._time("plan a new project", lambda: projects.plan_project(self.folder))
            if len(new.pending) != tables or new.refused:
                raise SystemExit(f"{len(new.pending)} of {tables} to create")
        self._time("apply a new project", lambda: projects.apply_project(self.folder))
        touched = []
        for number in range(rounds):
            same = self._time("plan without a change", lambda: projects.plan_project(self.folder))
            if same.pending:
                raise SystemExit(f"{len(same.pending)} differ")
            path = self.folder / "stream_tables" / "t_0.sql"
            path.write_text(_LOW.format(n=0).replace("sum(amount)", f"sum(amount) + {number + 1}"))
            changed = self._time(
                "plan one changed file", lambda: projects.plan_project(self.folder)
            )
            before = self._newest()
            self._time("apply one changed file", lambda: projects.apply_project(self.folder))
            [(count,)] = self.connection.execute(_TOUCHED, [before]).fetchall()
            touched.append(max(count, len(changed.pending)))
        return touched

    def tell(self) -> Results:
        """Return the table of the results."""
        return {
            "columns": ["what", "seconds, median", "longest"],
            "rows": [
                [what, statistics.median(found), max(found)] for what, found in self.seconds.items()
            ],
        }

    def _write(self, tables: int) -> None:
        queries = self.folder / "stream_tables"
        queries.mkdir(parents=True)
        (self.folder / "pgtrickle.yml").write_text("project: bench\n")
        low = tables // 2
        for number in range(tables):
            other = number - low
            text = (
                _LOW.format(n=number % _SOURCES)
                if number < low
                else _HIGH.format(a=other, b=(other + 1) % low)
            )
            (queries / f"t_{number}.sql").write_text(text)

    def _newest(self) -> int:
        query = "SELECT coalesce(max(refresh_id), 0) FROM pgtrickle.pgt_refresh_history"
        [(found,)] = self.connection.execute(query).fetchall()
        return int(found)

    def _time(self, what: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        done = work()
        self.seconds[what].append(time.perf_counter() - began)
        say(f"{what}: {self.seconds[what][-1]:.2f} s")
        return done


if __name__ == "__main__":
    sys.exit(main())
