"""A shop whose stream table has a copy in a lake, and a DuckDB client that reads it meanwhile.

    python -m benchmarks.lake_demo [--seconds N] [--orders N]

Shows how long a row takes from its INSERT in PostgreSQL until DuckDB sees it, and compares copy
and stream table row by row, under one snapshot of both, while they change.  Exits 1 if they ever
differ, if a row never came to DuckDB, or if the copy is not the query's own answer at the end.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import duckdb
import psycopg
from psycopg import IsolationLevel

import pgtrickle
from benchmarks.say import say
from pgtrickle.demo.generator import Generator
from pgtrickle.demo.shop import REVENUE_BY_REGION, load_shop
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import TrickleError
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.report import RefreshReport
from pgtrickle.scheduler.loop import Loop
from pgtrickle.scheduler.pace import Cycle
from pgtrickle.settings import Settings
from tests.fixtures.ducklake import lake_client

_SCHEMA = "lake"
_NAME = REVENUE_BY_REGION.name
_TICKS = "CREATE TABLE ticks (id bigint PRIMARY KEY, at double precision NOT NULL)"
_POLL_SECONDS = 0.05


@dataclass(slots=True)
class Lag:
    """Inserts a row twice a second and waits for DuckDB to see it."""

    dsn: str
    stop: threading.Event
    seconds: list[float] = field(default_factory=list)
    inserted: int = 0

    def run(self) -> None:
        """Measure until told to stop."""
        with (
            psycopg.connect(self.dsn, autocommit=True) as connection,
            lake_client(self.dsn, _SCHEMA) as client,
        ):
            while not self.stop.is_set():
                self.inserted = number = self.inserted + 1
                began = time.monotonic()
                connection.execute("INSERT INTO ticks VALUES (%s, %s)", [number, began])
                while not self.stop.wait(_POLL_SECONDS):
                    if client.execute("SELECT max(id) FROM pulse").fetchall() == [(number,)]:
                        self.seconds.append(time.monotonic() - began)
                        break


class _Watcher:
    def refreshed(self, report: RefreshReport) -> None:
        """Leave it to the figures."""

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        """Say what went wrong; the loop tries again."""
        say(f"{name}: {error} (again in {retry_in.total_seconds():.0f} s)")

    def resumed(self, name: str) -> None:
        """Say what errors had suspended and works again."""
        say(f"{name}: works again")

    def fell_behind(self, cycle: Cycle) -> None:
        """Do nothing."""

    def sink_changed(self, news: SinkNews) -> None:
        """Say what became of the copy."""
        what = "is up to date again" if news.recovered else news.sink.error
        say(f"the copy of {news.sink.stream_table} {what}")


@dataclass(slots=True)
class Comparison:
    """Compares stream table and copy again and again."""

    dsn: str
    stop: threading.Event
    lag: Lag
    compared: int = 0
    differences: int = 0

    def run(self) -> None:
        """Compare once a second until told to stop."""
        with lake_client(self.dsn, _SCHEMA) as client:
            while not self.stop.wait(1):
                self.compare(client)

    def compare(self, client: duckdb.DuckDBPyConnection) -> None:
        """Read both as of one moment: the catalog of the lake is rows beside the table."""
        with psycopg.connect(self.dsn) as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            [(snapshot,)] = connection.execute(
                "SELECT max(snapshot_id) FROM lake.ducklake_snapshot"
            ).fetchall()
            stored = Counter(connection.execute(f"TABLE {_NAME}".encode()).fetchall())
        copied = Counter(
            client.execute(f"SELECT * FROM {_NAME} AT (VERSION => {snapshot})").fetchall()
        )
        self.compared += 1
        self.differences += stored != copied
        seen = self.lag.seconds
        say(
            f"snapshot {snapshot:>4}: {stored.total():,} rows in PostgreSQL, {copied.total():,} in"
            f" the lake, {'equal' if stored == copied else 'DIFFERENT'};"
            f" insert to DuckDB {f'{seen[-1]:.2f} s' if seen else 'under way'}"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the shop; 1 if PostgreSQL and the lake ever differed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--orders", type=int, default=100_000)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        settings = Settings(ducklake_catalog_schema=_SCHEMA)
        with (
            start_embedded(Path(directory) / "home") as server,
            pgtrickle.connect(server.dsn, settings=settings, init=True) as trickle,
        ):
            _open(trickle, Path(directory) / "lake", arguments.orders)
            lag, comparison = _do_business(trickle, arguments.seconds, arguments.orders)
            return _close(trickle, lag, comparison)


def _open(trickle: pgtrickle.Trickle, lake: Path, orders: int) -> None:
    say(f"loading {orders:,} orders")
    with psycopg.connect(trickle.dsn, autocommit=True) as connection:
        load_shop(connection, orders=orders)
        connection.execute(_TICKS)
    for name, query in ((_NAME, REVENUE_BY_REGION.query), ("pulse", "SELECT id, at FROM ticks")):
        say(f"creating {name} with its copy in the lake")
        trickle.create_stream_table(
            name, query, schedule="1s", sink="ducklake", ducklake_sink_path=str(lake)
        )


def _do_business(trickle: pgtrickle.Trickle, seconds: float, orders: int) -> tuple[Lag, Comparison]:
    say(f"changing orders, products and customers for {seconds:.0f} seconds")
    stop = threading.Event()
    generator = Generator(trickle.dsn, 1, orders)
    lag = Lag(trickle.dsn, stop)
    comparison = Comparison(trickle.dsn, stop, lag)
    timer = threading.Timer(seconds, stop.set)
    generator.start()
    timer.start()
    with ThreadPoolExecutor(2, "reader") as threads:
        running = [threads.submit(one.run) for one in (lag, comparison)]
        for one in running:
            one.add_done_callback(lambda _: stop.set())  # a reader that fails ends it all
        try:
            Loop(trickle.daemon, _Watcher()).run(stop)
        finally:
            stop.set()
            timer.cancel()
            generator.stop()
    for one in running:
        one.result()
    return lag, comparison


def _close(trickle: pgtrickle.Trickle, lag: Lag, comparison: Comparison) -> int:
    say("the shop is closed: refreshing what is left, and comparing once more")
    for name in (_NAME, "pulse"):
        trickle.refresh_stream_table(name)
    right = trickle.verify_stream_table(_NAME).ok
    with lake_client(trickle.dsn, _SCHEMA) as client:
        comparison.compare(client)
        [(arrived,)] = client.execute("SELECT count(*) FROM pulse").fetchall()
    for one in trickle.lake.ducklake_sink_status():
        say(
            f"{one.stream_table}: {one.deliveries} deliveries, {one.rows_written:,} rows,"
            f" {one.bytes_written:,} bytes"
        )
    if lag.seconds:
        print(
            f"insert to visible in DuckDB: median {statistics.median(lag.seconds):.2f} s,"
            f" greatest {max(lag.seconds):.2f} s of {len(lag.seconds)}"
        )
    print(
        f"{arrived} of {lag.inserted} inserts in DuckDB at the end;"
        f" {comparison.compared} comparisons, {comparison.differences} differences;"
        f" the stream table is {'the' if right else 'NOT the'} query's own answer"
    )
    return 0 if right and comparison.differences == 0 and arrived == lag.inserted else 1


if __name__ == "__main__":
    sys.exit(main())
