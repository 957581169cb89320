"""Measure what an IMMEDIATE stream table costs its writers.

    python -m benchmarks.immediate [--dsn DSN] [--orders N] [--rounds N] [--writers N]

Without ``--dsn`` it starts an embedded server in a temporary directory.  Statements run in turns on
tables without a stream table and on equal ones with it; the figures are medians.  The first stream
table joins three tables and groups; the second is an additive aggregate that several writers feed,
each in groups of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

import pgtrickle
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
    ANALYZE {s}_region, {s}_customer, {s}_orders
"""
_JOIN = """
    SELECT r.name, count(*) AS orders, sum(o.amount) AS amount
      FROM with_orders AS o JOIN with_customer AS c ON c.id = o.customer
      JOIN with_region AS r ON r.id = c.region
     GROUP BY r.name
"""
_GROUPS = "SELECT writer, count(*) AS n, sum(v) AS v FROM with_items GROUP BY writer"
_SIDES = ("plain", "with")
_WRITING_SECONDS = 4.0


def main() -> int:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="immediate", description=__doc__)
    parser.add_argument("--dsn")
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--writers", type=int, default=8)
    options = parser.parse_args()
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
            "writers": _write(dsn, options.writers),
        }
        right = all(trickle.verify_stream_table(one).ok for one in ("joined", "grouped"))
    print(json.dumps(found | {"right": right}, indent=2))
    return 0 if right else 1


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
    for number in range(rounds):
        for side in _SIDES:
            statement = (
                f"INSERT INTO {side}_orders SELECT {first + 1} + {number * rows} + n,"
                f" (7 * n + {number}) % 10000, 5 FROM generate_series(0, {rows - 1}) n"
            )
            began = time.perf_counter()
            connection.execute(statement.encode())
            taken[side].append(1000 * (time.perf_counter() - began))
    warm = {side: statistics.median(times[10:]) for side, times in taken.items()}
    added = warm["with"] - warm["plain"]
    return {
        **{f"{side}_ms": round(ms, 3) for side, ms in warm.items()},
        "added_ms": round(added, 3),
    }


def _write(dsn: str, writers: int) -> dict[str, float]:
    """Let several writers insert into groups of their own; return transactions a second."""
    rates = {side: _rate(dsn, side, writers) for side in _SIDES}
    return {**rates, "ratio": round(rates["with"] / rates["plain"], 3)}


def _rate(dsn: str, side: str, writers: int) -> float:
    counts = [0] * writers
    end = time.monotonic() + _WRITING_SECONDS

    def write(number: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while time.monotonic() < end:
                statement = f"INSERT INTO {side}_items VALUES ({number}, 1)"
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
