"""What a thousand stream tables with nothing to do cost: one query, for all of them.

    python -m benchmarks.idle_tables [--tables N] [--sources N ...] [--rounds N]

For each number of sources it makes a database, loads stream tables that share them, changes each
source once and brings all up to date.  Then it times, with nothing changed since:

* the query that finds the idle ones (``Daemon.find_idle``), with buffers that still have the
  pages of the changes already read, and again after a VACUUM has given those back;
* a whole pass of the loop behind ``pgtrickle run``, with its list of stream tables;
* for comparison, a refresh of one stream table, times their number.

The stream tables are loaded by DuckDB in Spark's place: nothing of that is measured.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import InternalError, TrickleError
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.report import RefreshReport
from pgtrickle.scheduler.loop import Loop
from pgtrickle.scheduler.pace import Cycle
from tests.fakes.engine import DuckDbEngine

_SOURCE = """
    CREATE TABLE {source} (id integer PRIMARY KEY, a integer, b text, c numeric(10, 2));
    INSERT INTO {source} SELECT g, g, 'x', g FROM generate_series(1, 10) AS g
"""
_QUERY = "SELECT id, a, b FROM source_{source} WHERE a > {least}"
_GOAL_MS = 100


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurements and print them as Markdown; 1 if the goal is missed."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--sources", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    rows: list[tuple[int, str, list[float]]] = []
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with start_embedded(Path(directory) / "home") as server:
            for sources in arguments.sources:
                with _loaded(server.dsn, arguments.tables, sources) as trickle:
                    for what, times in _measure(trickle, arguments.rounds):
                        rows.append((sources, what, times))
            with psycopg.connect(server.dsn) as connection:
                results = describe_run(
                    "benchmarks.idle_tables",
                    argv,
                    connection,
                    title=f"{arguments.tables:,} stream tables with nothing to do",
                    tables=[
                        {
                            "columns": ["what", "sources", "p50 ms", "p95 ms"],
                            "rows": [
                                [what, sources, _p(times, 50), _p(times, 95)]
                                for sources, what, times in rows
                            ],
                        }
                    ],
                    notes=[f"{arguments.rounds} rounds."],
                )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    found = [times for _, what, times in rows if what.startswith("find idle")]
    return 0 if all(_p(times, 50) <= _GOAL_MS for times in found) else 1


@contextmanager
def _loaded(dsn: str, tables: int, sources: int) -> Iterator[pgtrickle.Trickle]:
    name = f"idle_{sources}"
    with psycopg.connect(dsn, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    address = make_conninfo(dsn, dbname=name)
    say(f"loading {tables:,} stream tables over {sources:,} sources")
    with psycopg.connect(address, autocommit=True) as connection:
        for number in range(sources):
            source = sql.Identifier(f"source_{number}")
            for statement in _SOURCE.split(";"):
                connection.execute(sql.SQL(statement).format(source=source))
        with pgtrickle.connect(address, engine=DuckDbEngine(), init=True) as trickle:
            for number in range(tables):
                trickle.create_stream_table(
                    f"st_{number}",
                    _QUERY.format(source=number % sources, least=number % 7),
                    refresh_mode="DIFFERENTIAL",
                )
            say("one change in every source")
            for number in range(sources):
                connection.execute(
                    sql.SQL("UPDATE {} SET a = a + 1").format(sql.Identifier(f"source_{number}"))
                )
            for number in range(tables):
                trickle.refresh_stream_table(f"st_{number}")
            yield trickle


def _measure(trickle: pgtrickle.Trickle, rounds: int) -> Iterator[tuple[str, list[float]]]:
    tables = trickle.list_stream_tables()

    def find() -> None:
        if len(trickle.daemon.find_idle(tables)) != len(tables):
            raise InternalError("a stream table was not idle")

    say("measuring")
    yield "find idle, buffers with pages of old changes", _times(find, rounds)
    with psycopg.connect(trickle.dsn, autocommit=True) as connection:
        connection.execute("VACUUM")
    yield "find idle, empty buffers", _times(find, rounds)
    clock = _Clock()
    loop = Loop(trickle.daemon, _Silent(), now=clock)

    def one_pass() -> None:
        clock.at += timedelta(minutes=1)
        loop.run_once(threading.Event())

    yield "a pass of the loop", _times(one_pass, rounds)
    name = str(tables[0].name)
    single = _times(lambda: trickle.refresh_stream_table(name), rounds)
    yield (
        f"{len(tables):,} refreshes one by one (one, times {len(tables):,})",
        [each * len(tables) for each in single],
    )


class _Clock:
    """A clock on which every stream table is due whenever it is asked."""

    def __init__(self) -> None:
        self.at = datetime.now(UTC) + timedelta(days=1)

    def __call__(self) -> datetime:
        return self.at


class _Silent:
    """A watcher for whom a refresh, or a failure, spoils the measurement."""

    def refreshed(self, report: RefreshReport) -> None:
        raise InternalError(f"{report.stream_table} was refreshed")

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        raise InternalError(f"{name} failed, next attempt in {retry_in}") from error

    def resumed(self, name: str) -> None:
        raise InternalError(f"{name} was suspended")

    def fell_behind(self, cycle: Cycle) -> None:
        """Do nothing."""

    def sink_changed(self, news: SinkNews) -> None:
        raise InternalError(f"there is no sink: {news}")


def _times(work: Callable[[], object], rounds: int) -> list[float]:
    work()  # the session's caches are filled once
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    return times


def _p(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    sys.exit(main())
