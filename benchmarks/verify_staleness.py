"""How old a stream table gets while PostgreSQL's own answer to its query is compared with it.

    python -m benchmarks.verify_staleness [--verify-seconds N] [--around N] [--fan-out N]

A join with many rows for each key, grouped, with the schedule '3s'.  A change concerns one key and
is followed in a moment; the whole query takes PostgreSQL ``--verify-seconds``, for which the number
of keys is chosen.  A writer changes a row five times a second, and the age of the contents is asked
for as often, before, during and after a ``CALL pgtrickle.verify_stream_table``.  The daemon is a
process of its own with Spark; the first load is made by DuckDB in Spark's place.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from benchmarks.shop import create_database, running_daemon
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import InternalError
from tests.fakes.engine import DuckDbEngine

_TABLES = """
    CREATE TABLE orders (id bigint PRIMARY KEY, k integer, v integer);
    CREATE TABLE items (id bigint PRIMARY KEY, k integer, v integer);
"""
_FILL = """
    INSERT INTO {} SELECT i, i / %(fan_out)s, i %% 97
      FROM generate_series(0, %(keys)s::int8 * %(fan_out)s - 1) AS i
"""
_INDEXES = "CREATE INDEX ON orders (k); CREATE INDEX ON items (k); ANALYZE"
_QUERY = """
    SELECT o.k, count(*) AS pairs, sum(o.v * i.v) AS total
      FROM orders AS o JOIN items AS i ON i.k = o.k GROUP BY o.k
"""
_SAMPLE_KEYS = 20
_MOST_KEYS = 5000
_WRITE = "UPDATE orders SET v = (v + 1) %% 97 WHERE id = %(id)s"
_AGE = "SELECT pgtrickle.get_staleness('pairs')"
_FOLLOWED = """
    SELECT count(*) > 3 FROM pgtrickle.get_refresh_history('pairs')
     WHERE initiated_by = 'SCHEDULER' AND status = 'COMPLETED'
"""
_EVERY = 0.2  # seconds
_FOLLOWS_WITHIN = 240.0  # seconds: Spark starts
_SETTLED = 5.0  # seconds, in which the age has been young
_GOAL = 10.0  # seconds


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table as Markdown; 1 if the goal is missed."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--verify-seconds", type=float, default=100, help="of comparing")
    parser.add_argument("--around", type=float, default=30, help="seconds before and after")
    parser.add_argument("--fan-out", type=int, default=1000, help="rows of a key")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with start_embedded(Path(directory) / "server") as server:
            dsn = create_database(server.dsn, "pairs")
            ages, seconds = _measure(dsn, arguments)
            with psycopg.connect(server.dsn) as connection:
                described = _describe(ages, seconds)
                results = describe_run("benchmarks.verify_staleness", argv, connection, **described)
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return int(max(map(max, ages.values())) > _GOAL)


def _describe(ages: dict[str, list[float]], seconds: float) -> dict[str, Any]:
    rows: list[list[object]] = [
        [when, f"{max(found):.1f} s", f"{sum(found) / len(found):.1f} s", f"{_GOAL:.0f} s"]
        for when, found in ages.items()
    ]
    return {
        "title": "The age of a stream table while it is verified",
        "tables": [{"columns": ["when", "oldest", "on average", "goal"], "rows": rows}],
        "notes": [f"Schedule '3s'; the verify took {seconds:.0f} s."],
    }


def _measure(dsn: str, arguments: argparse.Namespace) -> tuple[dict[str, list[float]], float]:
    """Return the ages that were seen before, during and after a verify, and how long that took."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        _load(connection, arguments)
        say("loading the stream table")
        with pgtrickle.connect(dsn, engine=DuckDbEngine(), init=True) as trickle:
            trickle.create_stream_table("pairs", _QUERY, "3s", "DIFFERENTIAL")
        with running_daemon(dsn), _writing(dsn):
            say("waiting for Spark")
            _await_young(connection)
            ages: dict[str, list[float]] = {}
            ages["before"] = _watch(connection, threading.Event(), arguments.around)
            done, seconds = threading.Event(), [0.0]
            verifying = threading.Thread(target=_verify, args=(dsn, done, seconds))
            verifying.start()
            ages["during"] = _watch(connection, done, None)
            verifying.join()
            if not seconds[0]:
                raise InternalError("the stream table could not be verified")
            ages["after"] = _watch(connection, threading.Event(), arguments.around)
    return ages, seconds[0]


def _load(connection: psycopg.Connection, arguments: argparse.Namespace) -> None:
    """Fill the tables with as many keys as the query takes the wanted time for."""
    connection.execute(_TABLES)
    keys = _SAMPLE_KEYS
    for _ in range(2):
        say(f"loading {keys:,} keys of {arguments.fan_out:,} rows")
        connection.execute("TRUNCATE orders, items")
        for table in ("orders", "items"):
            values = {"keys": keys, "fan_out": arguments.fan_out}
            connection.execute(_FILL.replace("{}", table).encode(), values)
        if keys == _SAMPLE_KEYS:
            began = time.monotonic()
            connection.execute(f"SELECT count(*) FROM ({_QUERY}) AS q".encode())
            took = time.monotonic() - began
            keys = min(max(int(keys * arguments.verify_seconds / took), 21), _MOST_KEYS)
    connection.execute(_INDEXES)


def _verify(dsn: str, done: threading.Event, seconds: list[float]) -> None:
    """Ask the daemon for a comparison, as somebody in psql does."""
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SET pg_trickle.request_timeout = 1800")
            say("verifying")
            began = time.monotonic()
            [(report,)] = connection.execute(
                "CALL pgtrickle.verify_stream_table('pairs')"
            ).fetchall()
            if report["ok"]:
                seconds[0] = time.monotonic() - began
            say(f"verified in {time.monotonic() - began:.0f} s: {report}")
    finally:
        done.set()


def _watch(
    connection: psycopg.Connection, done: threading.Event, seconds: float | None
) -> list[float]:
    """Return the ages that are seen until something is done, or for so long."""
    ages: list[float] = []
    end = time.monotonic() + (seconds if seconds is not None else float("inf"))
    while not done.wait(_EVERY) and time.monotonic() < end:
        [(age,)] = connection.execute(_AGE).fetchall()
        ages.append(age)
    return ages


def _await_young(connection: psycopg.Connection) -> None:
    """Wait until the daemon follows, and has done so for a while."""
    end = time.monotonic() + _FOLLOWS_WITHIN
    while (
        connection.execute(_FOLLOWED).fetchall() != [(True,)]
        or max(_watch(connection, threading.Event(), _SETTLED)) > 2 * _SETTLED
    ):
        if time.monotonic() > end:
            raise InternalError("the daemon does not follow")


@contextmanager
def _writing(dsn: str) -> Iterator[None]:
    """Change a row after the other, a few times a second, for the length of a block."""
    done = threading.Event()

    def write() -> None:
        number = 0
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not done.wait(_EVERY):
                number += 1
                connection.execute(_WRITE, {"id": number * 7919 % 10_000})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
