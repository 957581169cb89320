"""A shop whose revenue ``pgtrickle run`` keeps, and what its benchmarks have in common."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.errors import InternalError

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
_COUNT = "SELECT sum(orders)::int8 FROM revenue"
_READ_EVERY = 0.02
_FOLLOWS_WITHIN = 120.0  # seconds: Spark starts


def create_database(dsn: str, name: str) -> str:
    """Create a database and return how to connect to it."""
    with psycopg.connect(dsn, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        # Nobody prepares transactions here, so that changes may wake the daemon.
        server.execute(
            sql.SQL("ALTER DATABASE {} SET pg_trickle.event_wakeup = on").format(
                sql.Identifier(name)
            )
        )
    return make_conninfo(dsn, dbname=name)


def open_shop(connection: psycopg.Connection, trickle: pgtrickle.Trickle, orders: int) -> None:
    """Create the tables and the stream table ``revenue`` with the schedule '1s'."""
    connection.execute(_SHOP)
    connection.execute(_ORDERS, {"orders": orders})
    connection.execute("ANALYZE")
    trickle.create_stream_table("revenue", _REVENUE, "1s", "DIFFERENTIAL")


@contextmanager
def running_daemon(dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    """Let ``pgtrickle run`` work on a database, in a process of its own."""
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


@dataclass(frozen=True, slots=True)
class Load:
    """What came of a load: ms from each commit to a reader's notice, and how long writing took."""

    waits: list[float]
    seconds: float

    def percentile(self, percent: int) -> float:
        """Return the wait that so many percent do not exceed."""
        return statistics.quantiles(self.waits, n=100, method="inclusive")[percent - 1]


def write_steadily(
    dsn: str,
    connection: psycopg.Connection,
    write: Callable[[], None],
    *,
    transactions: int,
    rate: float,
) -> Load:
    """Commit so many transactions a second, each of which leaves one order more than before."""
    [(first,)] = connection.execute("SELECT count(*) FROM orders").fetchall()
    commits: list[float] = []
    with _reading(dsn) as seen:
        began = time.monotonic()
        while (number := len(commits)) < transactions:
            time.sleep(max(began + number / rate - time.monotonic(), 0))
            write()
            commits.append(time.monotonic())
        seconds = time.monotonic() - began
        await_orders(connection, first + len(commits))
        time.sleep(2 * _READ_EVERY)
    counts = [count for _, count in seen]
    waits = [
        1000 * (seen[bisect_left(counts, first + number)][0] - at)
        for number, at in enumerate(commits, start=1)
    ]
    return Load(waits, seconds)


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


def await_orders(connection: psycopg.Connection, wanted: int) -> None:
    """Wait until the stream table counts so many orders."""
    end = time.monotonic() + _FOLLOWS_WITHIN
    while connection.execute(_COUNT).fetchall() != [(wanted,)]:
        if time.monotonic() > end:
            raise InternalError("the daemon does not follow")
        time.sleep(_READ_EVERY)
