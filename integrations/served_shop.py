"""A shop on a server of its own with a daemon beside it, for the tests of the integrations."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

import pgtrickle
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, Settings

_SOURCES = """
    CREATE TABLE customers (id int PRIMARY KEY, region text);
    CREATE TABLE orders (id int PRIMARY KEY, customer_id int, amount numeric);
    INSERT INTO customers VALUES (1, 'north'), (2, 'south');
    INSERT INTO orders VALUES (1, 1, 10), (2, 2, 25), (3, 1, 5)
"""
_REVENUE = """
    SELECT c.region, sum(o.amount) AS total
      FROM orders AS o JOIN customers AS c ON c.id = o.customer_id GROUP BY c.region
"""
_BEST = "SELECT max(total) AS total FROM revenue"


class Shop:
    """The shop, its stream tables ``revenue`` and ``best``, and its daemon."""

    def __init__(self, dsn: str, trickle: pgtrickle.Trickle, connection: psycopg.Connection[Any]):
        self.dsn = dsn
        self.trickle = trickle
        self.connection = connection
        self._daemon: subprocess.Popen[bytes] | None = None

    def order(self, number: int, customer: int, amount: int) -> None:
        """Take an order."""
        self.connection.execute(
            "INSERT INTO orders VALUES (%s, %s, %s)", [number, customer, amount]
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.connection.execute(query.encode()).fetchall()

    def start_daemon(self) -> None:
        """Start the daemon, and wait until it takes requests."""
        self._daemon = subprocess.Popen(
            [sys.executable, "-m", "pgtrickle", "run"],
            env={**os.environ, "PGTRICKLE_DSN": self.dsn, "PGTRICKLE_ENGINE": "postgres"},
            stdout=subprocess.DEVNULL,
        )
        for _ in range(600):
            if self.rows("SELECT pgtrickle.is_served()") == [(True,)]:
                return
            if self._daemon.poll() is not None:
                raise RuntimeError("the daemon has ended")
            time.sleep(0.1)
        raise TimeoutError("the daemon takes no requests after 60 seconds")

    def stop_daemon(self) -> None:
        """Stop the daemon."""
        if self._daemon is not None:
            self._daemon.terminate()
            self._daemon.wait(60)
            self._daemon = None


@contextmanager
def served_shop(*, schedule: str = "1h") -> Iterator[Shop]:
    """Open the shop with its daemon; stop both at the end."""
    with TemporaryDirectory(prefix="served-shop-") as directory:
        Path(directory).chmod(0o711)  # root's server runs as an account without rights
        with _opened(Path(directory) / "server", schedule) as shop:
            shop.start_daemon()
            try:
                yield shop
            finally:
                shop.stop_daemon()


@contextmanager
def _opened(home: Path, schedule: str) -> Iterator[Shop]:
    with (
        start_embedded(home) as server,
        pgtrickle.connect(server.dsn, settings=Settings(engine=POSTGRES), init=True) as trickle,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        connection.execute(_SOURCES)
        trickle.create_stream_table("revenue", _REVENUE, schedule)
        trickle.create_stream_table("best", _BEST, schedule)
        yield Shop(server.dsn, trickle, connection)
