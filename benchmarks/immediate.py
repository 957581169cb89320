"""Measure what an IMMEDIATE stream table costs its writers.

    python -m benchmarks.immediate [--dsn DSN] [--orders N] [--rounds N] [--writers N]
                                   [--output FILE]

Without ``--dsn`` it starts an embedded server in a temporary directory, which has to be on a disk:
in memory a commit costs nothing, and the comparison is one with next to nothing.  Statements run in
turns on tables without a stream table and on equal ones with it; the figures are medians.  Beside
the time that passes, ``cpu`` is what the server's process used of it, where the server is on this
Linux machine: under load it tells more.  Writers are measured with commits that wait for the disk,
as is the default, and without.

The first stream table joins three tables and groups.  The second has the shape of TPC-H's query 3;
updates of 1,500 orders' lines change some 6,000 of its rows.  The third is an additive aggregate
that several writers feed, each in groups of its own, with statements of 1, 10 and 100 rows: what a
statement costs is shared by its rows.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, Settings

_TABLES = """
    CREATE TABLE {s}_region (id int PRIMARY KEY, name text);
    CREATE TABLE {s}_customer (id int PRIMARY KEY, region int);
    CREATE TABLE {s}_orders (id bigint PRIMARY KEY, customer int, amount numeric(12, 2));
    INSERT INTO {s}_region SELECT n, 'region ' || n FROM generate_series(0, 24) n;
    INSERT INTO {s}_customer SELECT n, n %% 25 FROM generate_series(0, 9999) n;
    INSERT INTO {s}_orders SELECT n, n %% 10000, n %% 1000 FROM generate_series(1, %(orders)s) n;
    CREATE INDEX ON {s}_orders (customer);
    CREATE TABLE {s}_items (writer int, v int);
    CREATE TABLE {s}_lines (
        "order" bigint, number int, price numeric(12, 2), discount numeric(12, 2), shipped date,
        part int, supplier int, comment text, PRIMARY KEY ("order", number));
    INSERT INTO {s}_lines
    SELECT o, n, 1000 + o %% 900, 0.01 * n, date '1992-01-01' + (o %% 2400 + 20 * n)::int,
           (o * n) %% 20000, o %% 1000, 'no comment on line ' || n
      FROM generate_series(1, least(%(orders)s, 150000)) o, generate_series(1, 4) n;
    CREATE INDEX ON {s}_lines (part, supplier);
    ANALYZE {s}_region, {s}_customer, {s}_orders, {s}_lines
"""
_JOIN = """
    SELECT r.name, count(*) AS orders, sum(o.amount) AS amount
      FROM with_orders AS o JOIN with_customer AS c ON c.id = o.customer
      JOIN with_region AS r ON r.id = c.region
     GROUP BY r.name
"""
_SHAPE_OF_Q3 = """
    SELECT l."order", sum(l.price * (1 - l.discount)) AS revenue, o.amount
      FROM with_customer AS c JOIN with_orders AS o ON o.customer = c.id
      JOIN with_lines AS l ON l."order" = o.id
     WHERE c.region < 5 AND o.amount < 500 AND l.shipped > date '1995-03-15'
     GROUP BY l."order", o.amount
"""
_GROUPS = "SELECT writer, count(*) AS n, sum(v) AS v FROM with_items GROUP BY writer"
_SIDES = ("plain", "with")
_WRITING_SECONDS = 3.0
_RATE = "of the throughput"
_ROWS = (1, 10, 100)  # in a statement of a writer

_GOALS = (
    # What is measured, the figure, its unit, and what it should be.
    ("INSERT of 1 row", "one_row", "added_ms", "ms added", "at most 3"),
    ("INSERT of 1 row", "one_row", "added_cpu_ms", "ms of the processor added", ""),
    ("INSERT of 100 rows", "hundred_rows", "added_ms", "ms added", "at most 5"),
    ("INSERT of 100 rows", "hundred_rows", "added_cpu_ms", "ms of the processor added", ""),
    ("UPDATE of 6,000 lines", "six_thousand_rows", "ratio", "times as long", "at most 1.5"),
    ("UPDATE of 6,000 lines", "six_thousand_rows", "cpu_ratio", "times the processor time", ""),
    ("writers of groups of their own, 1 row", "writers_1", "ratio", _RATE, "at least 0.7"),
    ("the same, 10 rows", "writers_10", "ratio", _RATE, "at least 0.7"),
    ("the same, 100 rows", "writers_100", "ratio", _RATE, "at least 0.7"),
    ("1 row, commits not waiting", "writers_1_asynchronous", "ratio", _RATE, ""),
    ("10 rows, commits not waiting", "writers_10_asynchronous", "ratio", _RATE, ""),
    ("100 rows, commits not waiting", "writers_100_asynchronous", "ratio", _RATE, ""),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the figures as a table; 1 if the contents are wrong."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="immediate", description=__doc__)
    parser.add_argument("--dsn")
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    options = parser.parse_args(argv)
    settings = Settings(engine=POSTGRES)
    with (
        _server(options.dsn) as dsn,
        pgtrickle.connect(dsn, settings=settings, init=True) as trickle,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        for side in _SIDES:
            for statement in _TABLES.format(s=side).split(";"):
                values = {"orders": options.orders} if "%(" in statement else None
                text = statement if values else statement.replace("%%", "%")
                connection.execute(text.encode(), values)
        trickle.create_stream_table("joined", _JOIN, refresh_mode="IMMEDIATE")
        trickle.create_stream_table("grouped", _GROUPS, refresh_mode="IMMEDIATE")
        found = {
            "orders": options.orders,
            "one_row": _insert(connection, options.orders, options.rounds, 1),
            "hundred_rows": _insert(connection, 10 * options.orders, options.rounds, 100),
        }
        # Apart: both stream tables read the orders.
        trickle.create_stream_table("lines", _SHAPE_OF_Q3, refresh_mode="IMMEDIATE")
        found |= {
            "six_thousand_rows": _update(
                connection, min(options.orders, 150_000), options.rounds // 4
            ),
            **{f"writers_{n}": _write(dsn, options.writers, "on", n) for n in _ROWS},
            **{f"writers_{n}_asynchronous": _write(dsn, options.writers, "off", n) for n in _ROWS},
            "fsync": connection.execute("SHOW fsync").fetchone()[0],  # type: ignore[index]
            "load": [round(one, 1) for one in os.getloadavg()],
        }
        right = all(trickle.verify_stream_table(one).ok for one in ("joined", "lines", "grouped"))
        results = describe_run(
            "benchmarks.immediate", argv, connection, **_tables(found, right=right)
        )
    print_tables(results)
    if options.output:
        write_results(options.output, results)
    return 0 if right else 1


def _tables(found: Mapping[str, Any], *, right: bool) -> dict[str, Any]:
    rows = [
        [what, found[part][figure], unit, goal or "-"] for what, part, figure, unit, goal in _GOALS
    ]
    measured = [
        [part, figure, value]
        for part, values in found.items()
        if isinstance(values, dict)
        for figure, value in values.items()
    ]
    loads = ", ".join(map(str, found["load"]))
    note = (
        f"{found['orders']:,} orders; fsync is {found['fsync']}; load averages at the end: {loads}."
        f" The contents were {'right' if right else 'WRONG'}."
    )
    return {
        "title": "What an IMMEDIATE stream table costs its writers",
        "right": right,
        "tables": [
            {"columns": ["statement", "measured", "unit", "goal"], "rows": rows},
            {
                "title": "Medians of both sides",
                "columns": ["part", "figure", "value"],
                "rows": measured,
            },
        ],
        "notes": [note],
    }


@contextlib.contextmanager
def _server(dsn: str | None) -> Iterator[str]:
    if dsn is not None:
        yield dsn
        return
    with (
        tempfile.TemporaryDirectory() as directory,
        start_embedded(Path(directory) / "home") as server,
    ):
        yield server.dsn


def _insert(
    connection: Connection[TupleRow], first: int, rounds: int, rows: int
) -> dict[str, float]:
    """Insert rows in turns; return the medians in milliseconds, and what the stream table adds."""
    taken: dict[str, list[float]] = {side: [] for side in _SIDES}
    used: dict[str, list[float]] = {side: [] for side in _SIDES}
    for number in range(rounds):
        for side in _SIDES:
            statement = (
                f"INSERT INTO {side}_orders SELECT {first + 1} + {number * rows} + n,"
                f" (7 * n + {number}) % 10000, 5 FROM generate_series(0, {rows - 1}) n"
            )
            _timed(connection, statement, taken[side], used[side])
    found: dict[str, float] = {}
    for what, times in (("", taken), ("cpu_", used)):
        warm = {side: statistics.median(some[10:]) for side, some in times.items()}
        found |= {f"{side}_{what}ms": round(ms, 3) for side, ms in warm.items()}
        found[f"added_{what}ms"] = round(warm["with"] - warm["plain"], 3)
    return found


def _update(connection: Connection[TupleRow], orders: int, rounds: int) -> dict[str, float]:
    """Update the lines of 1,500 orders in turns; return the medians and their ratio."""
    taken: dict[str, list[float]] = {side: [] for side in _SIDES}
    used: dict[str, list[float]] = {side: [] for side in _SIDES}
    step = max(1, orders // 1500)
    for number in range(rounds):
        for side in _SIDES:
            statement = (
                f'UPDATE {side}_lines SET price = price + 1 WHERE "order" IN'
                f" (SELECT {number} + {step} * n FROM generate_series(1, 1500) n)"
            )
            _timed(connection, statement, taken[side], used[side])
    found: dict[str, float] = {}
    for what, times in (("", taken), ("cpu_", used)):
        warm = {side: statistics.median(some[2:]) for side, some in times.items()}
        found |= {f"{side}_{what}ms": round(ms, 1) for side, ms in warm.items()}
        found[f"{what}ratio"] = round(warm["with"] / warm["plain"], 2) if warm["plain"] else 0.0
    return found


def _timed(
    connection: Connection[TupleRow], statement: str, taken: list[float], used: list[float]
) -> None:
    """Run a statement; add the milliseconds that passed, and those of the server's processor."""
    before, began = _cpu_ms(connection), time.perf_counter()
    connection.execute(statement.encode())
    taken.append(1000 * (time.perf_counter() - began))
    used.append(_cpu_ms(connection) - before)


def _cpu_ms(connection: Connection[TupleRow]) -> float:
    """Return the processor time of the server's process so far; 0 if it cannot be seen."""
    try:
        seen = Path(f"/proc/{connection.info.backend_pid}/schedstat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(seen.split()[0]) / 1e6


def _write(dsn: str, writers: int, commit: str, rows: int) -> dict[str, float]:
    """Let several writers insert into groups of their own; return transactions a second."""
    turns = [(side, _rate(dsn, side, writers, commit, rows)) for side in _SIDES * 3]
    rates = {side: round(sum(r for s, r in turns if s == side) / 3, 1) for side in _SIDES}
    return {**rates, "ratio": round(rates["with"] / rates["plain"], 3)}


def _rate(dsn: str, side: str, writers: int, commit: str, rows: int) -> float:
    counts = [0] * writers
    end = time.monotonic() + _WRITING_SECONDS

    def write(number: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"SET synchronous_commit = {commit}".encode())
            values = ", ".join([f"({number}, 1)"] * rows)
            statement = f"INSERT INTO {side}_items VALUES {values}"
            while time.monotonic() < end:
                connection.execute(statement.encode())
                counts[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return round(sum(counts) / _WRITING_SECONDS, 1)


if __name__ == "__main__":
    sys.exit(main())
