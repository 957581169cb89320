"""How soon ``pgtrickle run`` shows what was committed, and what it costs when nothing is.

    python -m benchmarks.daemon [--seconds N] [--warm-up N] [--rate N] [--orders N] [--tables N]

*Commit to visible*: a join of three tables, grouped, with the schedule '1s'.  A writer commits
``--rate`` transactions a second, each with a new order and a change of another; a reader asks the
stream table every 20 ms how many orders it counts.  For each commit the time is taken until a
reader sees it.  The daemon is a process of its own with Spark, and has seen changes for a while.

*Idle*: another daemon on ``--tables`` stream tables with the schedule '1s' and nothing to do: the
processor time of it and of the server, as a share of one core.  They are loaded by DuckDB in
Spark's place: nothing of that is measured.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import InternalError
from tests.fakes.engine import DuckDbEngine

_SHOP = """
    CREATE TABLE customers (id integer PRIMARY KEY, region integer);
    CREATE TABLE products (id integer PRIMARY KEY, category integer, price numeric(10, 2));
    CREATE TABLE orders (id bigint PRIMARY KEY, customer_id integer, product_id integer,
                         quantity integer);
    CREATE INDEX ON orders (customer_id);
    CREATE INDEX ON orders (product_id);
    INSERT INTO customers SELECT i, i % 10 FROM generate_series(1, 5000) AS i;
    INSERT INTO products SELECT i, i % 20, i % 100 + 0.99 FROM generate_series(1, 500) AS i;
"""
_ORDERS = """
    INSERT INTO orders SELECT i, 1 + i %% 5000, 1 + i %% 500, 1 + i %% 9
      FROM generate_series(1, %(orders)s::int) AS i
"""
_REVENUE = """
    SELECT c.region, p.category, count(*) AS orders, sum(o.quantity * p.price) AS revenue
      FROM orders AS o
      JOIN customers AS c ON c.id = o.customer_id
      JOIN products AS p ON p.id = o.product_id
     GROUP BY c.region, p.category
"""
_WRITE = """
    WITH changed AS (UPDATE orders SET quantity = quantity %% 9 + 1 WHERE id = %(id)s / 2)
    INSERT INTO orders VALUES (%(id)s, 1 + %(id)s * 7 %% 5000, 1 + %(id)s * 13 %% 500, 1)
"""
_COUNT = "SELECT sum(orders)::int8 FROM revenue"
_READ_EVERY = 0.02
_START = 120.0  # seconds that Spark may take
_GOALS = {50: 1000.0, 99: 3000.0}  # ms by percentile
_IDLE_GOAL = 2.0  # % of a core


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurements and print them as Markdown; 1 if a goal is missed."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=600, help="of writing, and of idleness")
    parser.add_argument("--warm-up", type=float, default=20, help="seconds of writing before")
    parser.add_argument("--rate", type=float, default=50, help="transactions a second")
    parser.add_argument("--orders", type=int, default=100_000, help="rows to begin with")
    parser.add_argument("--tables", type=int, default=1000, help="idle stream tables; 0: none")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with start_embedded(Path(directory) / "home") as server:
            waits = _measure_visibility(_database(server.dsn, "busy"), arguments)
            share = None
            if arguments.tables:
                share = _measure_idleness(_database(server.dsn, "idle"), arguments)
            with psycopg.connect(server.dsn) as connection:
                results = describe_run(
                    "benchmarks.daemon", argv, connection, **_describe(waits, share, arguments)
                )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    slow = any(_percentile(waits, percent) > goal for percent, goal in _GOALS.items())
    return int(slow or (share is not None and share > _IDLE_GOAL))


def _describe(
    waits: Sequence[float], share: float | None, arguments: argparse.Namespace
) -> dict[str, Any]:
    rows: list[list[object]] = [
        [f"commit to visible, p{percent}", f"{_percentile(waits, percent):,.0f} ms", f"{goal:,.0f}"]
        for percent, goal in _GOALS.items()
    ]
    rows.append(["commit to visible, longest", f"{max(waits):,.0f} ms", ""])
    if share is not None:
        idle = f"{arguments.tables:,} idle stream tables, of one core"
        rows.append([idle, f"{share:.2f} %", f"{_IDLE_GOAL:.0f}"])
    return {
        "title": "How soon the daemon shows a change, and what it costs to wait",
        "tables": [{"columns": ["what", "measured", "goal"], "rows": rows}],
        "notes": [f"{len(waits):,} transactions over {arguments.orders:,} orders; schedule '1s'."],
    }


def _percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _database(dsn: str, name: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        # Nobody prepares transactions here, so that changes may wake the daemon.
        server.execute(
            sql.SQL("ALTER DATABASE {} SET pg_trickle.event_wakeup = on").format(
                sql.Identifier(name)
            )
        )
    return make_conninfo(dsn, dbname=name)


def _measure_visibility(dsn: str, arguments: argparse.Namespace) -> list[float]:
    """Return for each transaction how many ms passed between its commit and a reader's notice."""
    say(f"loading {arguments.orders:,} orders")
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        pgtrickle.connect(dsn, engine=DuckDbEngine()) as trickle,
    ):
        connection.execute(_SHOP)
        connection.execute(_ORDERS, {"orders": arguments.orders})
        connection.execute("ANALYZE")
        trickle.create_stream_table("revenue", _REVENUE, "1s", "DIFFERENTIAL")
        with _daemon(dsn):
            say("waiting for Spark")
            _write(connection, arguments.orders + 1)
            _await_count(connection, arguments.orders + 1)
            say("warming up")
            _load(dsn, connection, arguments, arguments.warm_up)
            say(f"measuring for {arguments.seconds:,.0f} s")
            waits = _load(dsn, connection, arguments, arguments.seconds)
        if not trickle.verify_stream_table("revenue").ok:
            raise InternalError("the stream table is not what its query says")
    return waits


def _load(
    dsn: str, connection: psycopg.Connection, arguments: argparse.Namespace, seconds: float
) -> list[float]:
    """Write for a while, and return the waits."""
    [(first,)] = connection.execute("SELECT count(*) FROM orders").fetchall()
    commits: list[float] = []
    with _reading(dsn) as seen:
        began = time.monotonic()
        while (number := len(commits)) < seconds * arguments.rate:
            time.sleep(max(began + number / arguments.rate - time.monotonic(), 0))
            _write(connection, first + number + 1)
            commits.append(time.monotonic())
        _await_count(connection, first + len(commits))
        time.sleep(2 * _READ_EVERY)
    counts = [count for _, count in seen]
    return [
        1000 * (seen[bisect_left(counts, first + number)][0] - at)
        for number, at in enumerate(commits, start=1)
    ]


def _write(connection: psycopg.Connection, number: int) -> None:
    connection.execute(_WRITE, {"id": number})


@contextmanager
def _reading(dsn: str) -> Iterator[list[tuple[float, int]]]:
    """Ask from a thread how many orders are visible, and when."""
    seen: list[tuple[float, int]] = []
    done = threading.Event()

    def read() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not done.wait(_READ_EVERY):
                [(count,)] = connection.execute(_COUNT).fetchall()
                seen.append((time.monotonic(), count))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _await_count(connection: psycopg.Connection, wanted: int) -> None:
    end = time.monotonic() + _START
    while connection.execute(_COUNT).fetchall() != [(wanted,)]:
        if time.monotonic() > end:
            raise InternalError("the daemon does not follow")
        time.sleep(_READ_EVERY)


def _measure_idleness(dsn: str, arguments: argparse.Namespace) -> float:
    """Return the processor time of daemon and server as a share of a core, in percent."""
    say(f"loading {arguments.tables:,} stream tables")
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        pgtrickle.connect(dsn, engine=DuckDbEngine()) as trickle,
    ):
        for number in range(arguments.tables):
            if number % 10 == 0:
                connection.execute(f"CREATE TABLE t{number // 10} (a integer)".encode())
            query = f"SELECT a FROM t{number // 10} WHERE a > {number % 10}"
            trickle.create_stream_table(f"s{number}", query, "1s", "DIFFERENTIAL")
        connection.execute("VACUUM ANALYZE")
        postmaster = _parent_of(connection.info.backend_pid)
    with _daemon(dsn) as process:
        time.sleep(10)
        say(f"doing nothing for {arguments.seconds:,.0f} s")
        before, began = _spent(process.pid) + _spent(postmaster), time.monotonic()
        time.sleep(arguments.seconds)
        spent = _spent(process.pid) + _spent(postmaster) - before
        return 100 * spent / (time.monotonic() - began)


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def _spent(pid: int) -> float:
    """Return the processor seconds of a process, of its children, and of those that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        children = [int(child) for path in tasks for child in path.read_text().split()]
    except OSError:  # it ended meanwhile: its parent has counted it
        return 0.0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(_spent, children))


@contextmanager
def _daemon(dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    program = "from pgtrickle.cli.main import app; app(['run'])"
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        env=os.environ | {"PGTRICKLE_DSN": dsn},
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
