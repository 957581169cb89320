"""The database that the TPC-H benchmarks measure on: its server, data and windows of changes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import sqlglot
from psycopg import Connection
from psycopg.rows import TupleRow
from sqlglot import exp

from benchmarks.say import say
from benchmarks.tpch.changes import change, share_for_rows
from pgtrickle.embedded.server import start_embedded
from tests.fixtures.postgres import enterable_directory
from tests.workloads.tpch.data import TABLES, Progress
from tests.workloads.tpch.workload import load_scale, queries_at

_SECONDS_BETWEEN_LINES = 10


@dataclass(frozen=True, slots=True)
class Database:
    """A server with the tables that the chosen queries read."""

    connection: Connection[TupleRow]
    dsn: str
    scale: float
    queries: Mapping[str, str]

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the queries read."""
        return tables_of(self.queries.values())

    def change(self, share: float) -> int:
        """Change a share of all rows, as no window before it did; return the window's number."""
        number = self.next_window()
        say(f"window {number}: changing {share:.4%} of the rows")
        change(self.connection, share, number)
        self.connection.execute("INSERT INTO bench_rounds VALUES (%s)", [number])
        return number

    def next_window(self) -> int:
        """Return the number of the next window; the first has number 1."""
        self.connection.execute("CREATE TABLE IF NOT EXISTS bench_rounds (round integer)")
        [(number,)] = self.connection.execute(
            "SELECT COALESCE(max(round), 0) + 1 FROM bench_rounds"
        ).fetchall()
        return int(number)


def add_options(parser: argparse.ArgumentParser, shares: tuple[float, ...]) -> None:
    """Add what all benchmarks over this database let one choose."""
    parser.add_argument("queries", nargs="*", help="such as q03; all 22 by default")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument(
        "--share",
        type=share_list,
        default=shares,
        help="of rows that each window changes; several, with commas, are run one after another",
    )
    parser.add_argument("--rows", type=int, help="about so many rows instead of a share")
    parser.add_argument("--home", type=Path, help="keep the database here, and use what is there")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")


def share_list(text: str) -> tuple[float, ...]:
    """Read shares separated by commas.

    >>> share_list("0.001,0.5")
    (0.001, 0.5)
    """
    return tuple(float(one) for one in text.split(",") if one)


def shares_of(options: argparse.Namespace) -> tuple[float, ...]:
    """Return the shares to run."""
    if options.rows:
        return (share_for_rows(options.rows, options.scale),)
    shares: tuple[float, ...] = options.share
    return shares


@contextmanager
def open_database(options: argparse.Namespace) -> Iterator[Database]:
    """Start the server, load what the chosen queries read, and yield the database."""
    found = queries_at(options.scale)
    if unknown := set(options.queries) - set(found):
        raise SystemExit(f"no such query: {', '.join(sorted(unknown))}")
    queries = {
        name: sql for name, sql in found.items() if not options.queries or name in options.queries
    }
    with (
        _home(options.home) as home,
        start_embedded(home) as server,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        database = Database(connection, server.dsn, options.scale, queries)
        say(f"loading {', '.join(database.tables)} at scale factor {options.scale:g}")
        if load_scale(connection, options.scale, database.tables, _progress()):
            connection.execute("VACUUM ANALYZE")
        yield database


def tables_of(queries: Iterable[str]) -> tuple[str, ...]:
    """Return the tables of TPC-H that queries read, and orders with lineitem: lines change by them.

    >>> tables_of(["SELECT 1 FROM orders, (SELECT 1 FROM nation) AS n"])
    ('nation', 'orders')
    >>> tables_of(["SELECT 1 FROM lineitem"])
    ('orders', 'lineitem')
    """
    named = {
        table.name
        for sql in queries
        for table in sqlglot.parse_one(sql, dialect="postgres").find_all(exp.Table)
    }
    if "lineitem" in named:
        named.add("orders")
    return tuple(table for table in TABLES if table in named)


@contextmanager
def _home(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        yield directory
        return
    with enterable_directory() as temporary:
        yield temporary / "home"


def _progress() -> Progress:
    """Return a listener that says how far the load is, now and then."""
    last = time.monotonic()

    def report(table: str, copied: int) -> None:
        nonlocal last
        if time.monotonic() - last > _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            say(f"{table}: {copied / 2**20:,.0f} MB copied")

    return report
