"""How long readers wait while a shadow build loads, follows and switches.

    python -m benchmarks.shadow_switch [--orders N] [--groups N] [--rate N] [--dsn DSN]

Readers ask for one row by its key, ``--rate`` times a second in all, half of them through a view,
at fixed moments: a read that had to wait for another one counts from its own moment.  Meanwhile a
writer changes ten orders twenty times a second.  Three phases are measured: nothing else happens;
a shadow build that keeps the columns; a shadow build that reorders them.  PostgreSQL computes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import psycopg

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from benchmarks.shop import create_database
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, load_settings

_SOURCE = """
    CREATE TABLE orders (id bigint PRIMARY KEY, k integer NOT NULL, amount integer NOT NULL);
    INSERT INTO orders SELECT g, g % {groups}, g % 97 FROM generate_series(1, {orders}) AS g;
    ANALYZE orders
"""
_OLD = "SELECT k, sum(amount) AS total, count(*) AS n FROM orders GROUP BY k"
_SAME_COLUMNS = "SELECT k, sum(amount) + 1 AS total, count(*) AS n FROM orders GROUP BY k"
_REORDERED = "SELECT count(*) AS n, k, sum(amount) + 2 AS total FROM orders GROUP BY k"
_READS = ("SELECT k, total FROM totals WHERE k = %s", "SELECT k, total FROM shown WHERE k = %s")
_WRITE = "UPDATE orders SET amount = (amount + 1) %% 97 WHERE id = ANY (%s)"
_NOTE = (
    "{:,} orders in {:,} groups; {} reads a second, half of them through a view, and 200 changed"
    " orders a second."
)
_READERS = 10
_CALM_SECONDS = 10.0


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table as Markdown; 1 if a read failed."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=100_000, help="rows of the stream table")
    parser.add_argument("--rate", type=int, default=500, help="reads a second")
    parser.add_argument("--dsn", help="a server to use; default: an embedded one")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        if arguments.dsn:
            results = _run(arguments.dsn, argv, arguments)
        else:
            with start_embedded(Path(directory) / "server") as server:
                results = _run(server.dsn, argv, arguments)
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return int(any(row[2] for row in results["tables"][0]["rows"]))


def _run(server: str, argv: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    dsn = create_database(server, "shadows")
    rows = list(_measure(dsn, arguments))
    with psycopg.connect(dsn) as connection:
        return describe_run(
            "benchmarks.shadow_switch",
            argv,
            connection,
            title="Readers while a shadow build loads, follows and switches",
            tables=[
                {
                    "columns": ["phase", "reads", "errors", "p50 ms", "p99 ms", "longest ms", "s"],
                    "rows": rows,
                }
            ],
            notes=[_NOTE.format(arguments.orders, arguments.groups, arguments.rate)],
        )


def _measure(dsn: str, arguments: argparse.Namespace) -> Iterator[list[object]]:
    source = _SOURCE.format(orders=int(arguments.orders), groups=int(arguments.groups))
    with psycopg.connect(dsn, autocommit=True) as connection:
        say(f"{arguments.orders:,} orders")
        for statement in source.split(";"):
            connection.execute(statement.encode())
        settings = load_settings({}, dsn=dsn, engine=POSTGRES)
        with pgtrickle.connect(dsn, settings=settings, init=True) as trickle:
            say("loading the stream table")
            trickle.create_stream_table("totals", _OLD, refresh_mode="DIFFERENTIAL")
            connection.execute("CREATE INDEX ON totals (k)")
            connection.execute("CREATE VIEW shown AS SELECT k, total FROM totals WHERE n > 0")

            def build(query: str, *, breaking: bool) -> None:
                trickle.alter_stream_table(
                    "totals", query=query, shadow_build=True, allow_breaking=breaking
                )

            phases: dict[str, Callable[[], None]] = {
                "nothing": lambda: time.sleep(_CALM_SECONDS),
                "shadow build, same columns": lambda: build(_SAME_COLUMNS, breaking=False),
                "shadow build, columns reordered": lambda: build(_REORDERED, breaking=True),
            }
            for phase, work in phases.items():
                say(phase)
                with _writing(dsn, arguments.orders), _Readers(dsn, arguments) as readers:
                    began = time.monotonic()
                    work()
                    seconds = time.monotonic() - began
                waits, errors = readers.waits, readers.errors
                for error in sorted(set(errors)):
                    say(f"a read failed: {error}")
                yield [
                    phase,
                    len(waits) + len(errors),
                    len(errors),
                    round(statistics.median(waits), 2),
                    round(statistics.quantiles(waits, n=100)[98], 2),
                    round(max(waits), 1),
                    round(seconds, 1),
                ]
            if not trickle.verify_stream_table("totals").ok:
                raise AssertionError("the stream table differs from its query")


class _Readers:
    """Readers in a process of their own, which share nothing with what they wait for."""

    def __init__(self, dsn: str, arguments: argparse.Namespace) -> None:
        context = multiprocessing.get_context("spawn")
        self._ready, self._stop = context.Event(), context.Event()
        self._found: Queue[tuple[list[float], list[str]]] = context.Queue()
        given = (dsn, arguments.groups, arguments.rate, self._ready, self._stop, self._found)
        self._process = context.Process(target=_read_all, args=given)
        self.waits: list[float] = []
        self.errors: list[str] = []

    def __enter__(self) -> _Readers:
        self._process.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(1.0)  # what happens right after the switch counts, too
        self._stop.set()
        self.waits, self.errors = self._found.get()
        self._process.join()


def _read_all(
    dsn: str,
    groups: int,
    rate: int,
    ready: Event,
    stop: Event,
    found: Queue[tuple[list[float], list[str]]],
) -> None:
    waits: list[float] = []
    errors: list[str] = []
    connected = threading.Barrier(_READERS, ready.set)

    def read(number: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connected.wait()
            every, turn = _READERS / rate, 0
            began = time.perf_counter() + every * number / _READERS
            while not stop.is_set():
                moment = began + turn * every
                time.sleep(max(0.0, moment - time.perf_counter()))
                try:
                    statement = _READS[turn % 2].encode()
                    rows = connection.execute(statement, [turn * 7919 % groups]).fetchall()
                    if len(rows) != 1:
                        errors.append(f"{len(rows)} rows")
                    waits.append((time.perf_counter() - moment) * 1000)
                except psycopg.Error as error:
                    errors.append(str(error))
                turn += 1

    threads = [threading.Thread(target=read, args=(number,)) for number in range(_READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.put((waits, errors))


@contextmanager
def _writing(dsn: str, orders: int) -> Iterator[None]:
    done = threading.Event()

    def write() -> None:
        turn = 0
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not done.wait(0.05):
                turn += 10
                connection.execute(_WRITE, [[turn % orders + one for one in range(1, 11)]])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
