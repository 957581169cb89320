"""What an outbox costs a refresh: the same stream table with one and without, in turns.

    python -m benchmarks.outbox [--rows N] [--changes N ...] [--rounds N] [--engine spark]

Two stream tables of one query read the same changes; one has an outbox.  Each round updates rows of
the source, and refreshes both, the one that comes first in turns.  Two queries: one shows rows, so
as much goes into the outbox as into the table; one groups them.  At the end the outbox must hold as
many changes as the refreshes wrote.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
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

_SOURCES = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer int, price numeric(12, 2), note text)",
    "CREATE TABLE customers (id int PRIMARY KEY, region text)",
    "INSERT INTO customers SELECT i, 'region ' || i % 500 FROM generate_series(0, 4999) AS i",
)
_FILL = """
    INSERT INTO orders
    SELECT i, i %% 5000, (i * 7 %% 100000) / 100.0, 'order of customer ' || i %% 5000
      FROM generate_series(1, %s) AS i
"""
_QUERIES = {
    "rows": "SELECT o.id, c.region, o.price, o.note FROM orders AS o"
    " JOIN customers AS c ON c.id = o.customer",
    "groups": "SELECT o.customer, c.region, count(*) AS n, sum(o.price) AS total"
    " FROM orders AS o JOIN customers AS c ON c.id = o.customer GROUP BY o.customer, c.region",
}
_CHANGE = "UPDATE orders SET price = price + 1 WHERE id > %s AND id <= %s"
_COUNT = (
    "SELECT coalesce(sum(inserted + 2 * updated + deleted), 0) FROM pgtrickle.pgt_outbox_entries"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table; 1 if the outbox does not hold what was written."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--engine", default=POSTGRES)
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        settings = Settings(engine=arguments.engine, cost_model_safety_margin=0.0)
        with (
            start_embedded(Path(directory) / "home") as server,
            pgtrickle.connect(server.dsn, settings=settings, init=True) as trickle,
            psycopg.connect(server.dsn, autocommit=True) as connection,
        ):
            bench = _Bench(trickle, connection)
            right = bench.run(arguments)
            results = describe_run(
                "benchmarks.outbox",
                argv,
                connection,
                title=f"Refreshes with an outbox and without, by {arguments.engine}",
                tables=[bench.tell()],
                notes=[_conclude(arguments.rounds, right=right)],
            )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0 if right else 1


def _conclude(rounds: int, *, right: bool) -> str:
    held = "all" if right else "NOT ALL"
    return (
        f"{rounds} rounds, in turns; the outboxes hold {held} changes that were written."
        f" Load at the end, with all who share the machine: {os.getloadavg()[0]:.1f}."
    )


@dataclass(slots=True)
class _Bench:
    """The measurements, by query and number of changes: milliseconds without and with an outbox."""

    trickle: pgtrickle.Trickle
    connection: Connection[TupleRow]
    found: dict[tuple[str, int], list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    written: int = 0

    def run(self, arguments: argparse.Namespace) -> bool:
        """Load, and measure in turns; return whether the outboxes hold what was written."""
        say(f"loading {arguments.rows:,} rows")
        for statement in _SOURCES:
            self.connection.execute(statement.encode())
        self.connection.execute(_FILL, [arguments.rows])
        for name, query in _QUERIES.items():
            for kind in ("off", "on"):
                self.trickle.create_stream_table(
                    f"{name}_{kind}", query, refresh_mode="DIFFERENTIAL"
                )
            self.trickle.outbox.enable_outbox(f"{name}_on")
        self.connection.execute("VACUUM (ANALYZE)")
        for changes in arguments.changes:
            say(f"{changes:,} changed rows")
            for number in range(-arguments.warm_up, arguments.rounds):
                self._round(number, changes, arguments.rows)
        [(held,)] = self.connection.execute(_COUNT).fetchall()
        return int(held) == self.written

    def _round(self, number: int, changes: int, rows: int) -> None:
        first = (number * 7919 * changes) % max(rows - changes, 1)
        self.connection.execute(_CHANGE, [first, first + changes])
        for name in _QUERIES:
            kinds = ("off", "on") if number % 2 else ("on", "off")
            took = {kind: self._refresh(f"{name}_{kind}") for kind in kinds}
            if number >= 0:
                self.found[name, changes].append((took["off"], took["on"]))

    def _refresh(self, name: str) -> float:
        began = time.perf_counter()
        report = self.trickle.refresh_stream_table(name)
        took = (time.perf_counter() - began) * 1000
        if name.endswith("_on"):
            self.written += report.rows_inserted + report.rows_deleted
        return took

    def tell(self) -> Results:
        """Return the table of the results."""
        rows = []
        for (name, changes), found in self.found.items():
            off, on = (statistics.median(one) for one in zip(*found, strict=True))
            ratio = statistics.median(b / a for a, b in found)
            rows.append([name, changes, off, on, ratio])
        return {
            "columns": ["query", "changed rows", "ms without", "ms with", "with / without, median"],
            "rows": rows,
        }


if __name__ == "__main__":
    sys.exit(main())
