"""What it costs to snapshot a large stream table, and to restore it, beside a plain copy.

    python -m benchmarks.snapshots [--rows N] [--rounds N] [--share S ...]

In turns, on one server: ``CREATE TABLE AS`` of the rows; a snapshot; a restore after a share of the
rows was changed; a restore after all rows were deleted.  The rows are changed behind the back of
the guard, as in an accident, so nothing but the restore is timed.  A VACUUM and a CHECKPOINT come
before each timed step, and each ratio is the median of those to the plain copy of the same round.
At the end the rows must be those of the beginning.
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

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import Results, describe_run, write_results
from benchmarks.say import say
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, Settings

_SOURCE = """
    CREATE TABLE orders (id bigint PRIMARY KEY, customer int, price numeric(12, 2), note text)
"""
_FILL = """
    INSERT INTO orders
    SELECT i, i %% 5000, (i * 7 %% 100000) / 100.0, 'order of customer ' || i %% 5000
      FROM generate_series(1, %s) AS i
"""
_QUERY = "SELECT id, customer, price, note FROM orders"
_COPY = "CREATE TABLE plain AS SELECT id, customer, price, note FROM ONLY kept"
_CHANGE = "UPDATE kept SET price = price + 1 WHERE hashint8(id) %% 10000 BETWEEN 0 AND %s"
_ANSWER = "SELECT count(*), sum(price), sum(id), sum(hashtextextended(note, id)) FROM kept"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table; 1 if a restore brought back other rows."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, nargs="+", default=[0.01, 0.1])
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with (
            start_embedded(Path(directory) / "home") as server,
            pgtrickle.connect(server.dsn, settings=Settings(engine=POSTGRES), init=True) as trickle,
            psycopg.connect(server.dsn, autocommit=True) as connection,
        ):
            bench = _Bench(trickle, connection)
            right = bench.run(arguments.rows, arguments.rounds, arguments.share)
            results = describe_run(
                "benchmarks.snapshots",
                argv,
                connection,
                title=f"Snapshot and restore of {arguments.rows:,} rows",
                tables=[bench.tell()],
                notes=[_conclude(arguments.rounds, right=right)],
            )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0 if right else 1


def _conclude(rounds: int, *, right: bool) -> str:
    same = "the same" if right else "DIFFERENT"
    return (
        f"{rounds} rounds, in turns; the rows after all restores are {same}."
        f" Load at the end, with all who share the machine: {os.getloadavg()[0]:.1f}."
    )


@dataclass(slots=True)
class _Bench:
    """The measurements, by what was done."""

    trickle: pgtrickle.Trickle
    connection: Connection[TupleRow]
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def run(self, rows: int, rounds: int, shares: Sequence[float]) -> bool:
        """Load, and measure in turns; return whether the rows are those of the beginning."""
        say(f"loading {rows:,} rows")
        self.connection.execute(_SOURCE)
        self.connection.execute(_FILL, [rows])
        self.trickle.create_stream_table("kept", _QUERY, refresh_mode="DIFFERENTIAL")
        before = self._answer()
        for number in range(rounds):
            say(f"round {number + 1}")
            self._time("CREATE TABLE AS", lambda: self._execute(_COPY))
            self._execute("DROP TABLE plain")
            self._time("snapshot", self._take)
            for share in shares:
                self._behind_the_guard(_CHANGE, round(share * 10_000) - 1)
                self._time(f"restore, {share:.4g} of the rows changed", self._restore)
            self._behind_the_guard("DELETE FROM kept")
            self._time("restore, all rows deleted", self._restore)
            self.trickle.snapshots.drop_snapshot("saved")
        return self._answer() == before

    def tell(self) -> Results:
        """Return the table of the results."""
        plain = self.seconds["CREATE TABLE AS"]
        return {
            "columns": ["what", "seconds, median", "of CREATE TABLE AS, median"],
            "rows": [
                [
                    what,
                    statistics.median(found),
                    statistics.median(a / b for a, b in zip(found, plain, strict=True)),
                ]
                for what, found in self.seconds.items()
            ],
        }

    def _time(self, what: str, work: Callable[[], object]) -> None:
        self._execute("VACUUM (ANALYZE) kept")
        self._execute("CHECKPOINT")
        began = time.perf_counter()
        work()
        self.seconds[what].append(time.perf_counter() - began)
        say(f"{what}: {self.seconds[what][-1]:.2f} s")

    def _take(self) -> None:
        self.trickle.snapshots.snapshot_stream_table("kept", "saved")

    def _restore(self) -> None:
        self.trickle.snapshots.restore_from_snapshot("kept", "saved")

    def _behind_the_guard(self, statement: str, *values: int) -> None:
        self._execute("ALTER TABLE kept DISABLE TRIGGER USER")
        self._execute(statement, *values)
        self._execute("ALTER TABLE kept ENABLE TRIGGER USER")

    def _execute(self, statement: str, *values: int) -> None:
        self.connection.execute(statement.encode(), values or None)

    def _answer(self) -> list[TupleRow]:
        return self.connection.execute(_ANSWER).fetchall()


if __name__ == "__main__":
    sys.exit(main())
