"""What a pass of the scheduler costs while stream tables change: alone, and while workers refresh.

    python -m benchmarks.dispatch [--tables N ...] [--rounds N] [--seconds N] [--rate N]

For each number of stream tables it makes a database in which ten of them share a source, with the
schedule '1s'.  Then it times passes of the loop behind ``pgtrickle run``:

* *alone*: every source has changed, every stream table is due, and a refresh does nothing: what is
  left is what the scheduler does until each of them is handed to a worker;
* *under load*: for ``--seconds``, transactions change sources at ``--rate`` a second, and workers
  refresh in PostgreSQL what has changed.  The processor time is that of the deciding thread.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from benchmarks.shop import create_database
from pgtrickle.daemon import Daemon
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import InternalError, TrickleError
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.report import RefreshReport
from pgtrickle.scheduler.admission import Admission
from pgtrickle.scheduler.loop import Loop
from pgtrickle.scheduler.pace import Cycle
from pgtrickle.scheduler.units import Unit
from pgtrickle.scheduler.workers import Workers
from pgtrickle.settings import POSTGRES, Settings

_SHARED_BY = 10
_SOURCE = """
    CREATE TABLE {source} (id integer PRIMARY KEY, a integer, b text);
    INSERT INTO {source} SELECT g, g, 'x' FROM generate_series(1, 10) AS g
"""
_QUERY = "SELECT id, a, b FROM source_{source} WHERE a > {least}"
_CHANGE = "UPDATE {source} SET a = a + 1 WHERE id = 1 + {number} % 10"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurements and print them as Markdown."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", type=int, nargs="+", default=[500, 1000])
    parser.add_argument("--rounds", type=int, default=100, help="passes without refreshes")
    parser.add_argument("--seconds", type=float, default=60, help="of passes with refreshes")
    parser.add_argument("--rate", type=float, default=5, help="changed sources a second")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with start_embedded(Path(directory) / "home") as server:
            for tables in arguments.tables:
                dsn = create_database(server.dsn, f"active_{tables}")
                with _loaded(dsn, tables) as (trickle, connection):
                    alone = _time_alone(trickle, connection, arguments.rounds)
                    rows.append(_row("alone, all are handed over", tables, alone))
                    load = _time_under_load(trickle, arguments.seconds, arguments.rate)
                    rows += _under_load(tables, load)
            with psycopg.connect(server.dsn) as connection:
                results = describe_run(
                    "benchmarks.dispatch",
                    argv,
                    connection,
                    title="A pass of the scheduler with stream tables that change",
                    tables=[{"columns": _COLUMNS, "rows": rows}],
                    notes=[
                        _NOTE.format(arguments=arguments, shared=_SHARED_BY),
                        f"Load at the end, with all on the machine: {os.getloadavg()[0]:.1f}.",
                    ],
                )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0


_NOTE = (
    "{arguments.rounds} rounds alone; {arguments.seconds:g} s under load, in which"
    " {arguments.rate:g} sources a second changed, each of {shared} stream tables."
)
_COLUMNS = [
    "pass", "stream tables", "passes", "p50 ms", "p99 ms", "p50 ms of processor", "handed over",
    "per second",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Pass:
    ms: float
    processor_ms: float
    handed_over: int


@dataclass(slots=True)
class _TimedLoop(Loop):
    """A loop that notes what each pass took, while it leads."""

    passes: list[_Pass] = field(default_factory=list)

    def _pass(
        self, pool: Executor, stop: threading.Event, decided: set[Unit] | None = None
    ) -> datetime | None:
        counted = _Counted(pool)
        began, spent = time.perf_counter(), time.thread_time()
        try:
            return Loop._pass(self, counted, stop, decided)  # noqa: SLF001 - which is timed
        finally:
            took, used = time.perf_counter() - began, time.thread_time() - spent
            self.passes.append(_Pass(took * 1000, used * 1000, counted.number))


class _Counted(Executor):
    """Counts what is given to a pool."""

    def __init__(self, pool: Executor) -> None:
        self._pool, self.number = pool, 0

    def submit(self, job: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
        self.number += 1
        return self._pool.submit(job, *arguments, **more)


class _Failures:
    """A watcher that counts refreshes, and for whom a failure spoils the measurement."""

    def __init__(self) -> None:
        self.refreshes = 0
        self.failure: TrickleError | None = None

    def refreshed(self, report: RefreshReport) -> None:  # noqa: ARG002 - a watcher's
        self.refreshes += 1

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:  # noqa: ARG002 - a watcher's
        self.failure = error

    def resumed(self, name: str) -> None:
        """Do nothing: none is suspended."""

    def fell_behind(self, cycle: Cycle) -> None:
        """Do nothing: under load that is expected."""

    def sink_changed(self, news: SinkNews) -> None:
        """Do nothing: there is no sink."""

    def check(self) -> None:
        """Raise what has failed."""
        if self.failure is not None:
            raise InternalError("a refresh failed") from self.failure


class _WithoutRefreshes:
    """A daemon that is asked everything but to refresh."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def __getattr__(self, name: str) -> object:
        return getattr(self._daemon, name)

    def refresh_unit(self, names: Sequence[str]) -> list[RefreshReport]:  # noqa: ARG002 - a daemon's
        return []


@contextmanager
def _loaded(dsn: str, tables: int) -> Iterator[tuple[pgtrickle.Trickle, psycopg.Connection]]:
    say(f"loading {tables:,} stream tables")
    settings = Settings(engine=POSTGRES)
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        pgtrickle.connect(dsn, settings=settings, init=True) as trickle,
    ):
        for number in range(tables):
            source, least = divmod(number, _SHARED_BY)
            if not least:
                name = sql.Identifier(f"source_{source}")
                for statement in _SOURCE.split(";"):
                    connection.execute(sql.SQL(statement).format(source=name))
            query = _QUERY.format(source=source, least=least)
            trickle.create_stream_table(f"st_{number}", query, "1s", "DIFFERENTIAL")
        connection.execute("VACUUM ANALYZE")
        yield trickle, connection


def _change(connection: psycopg.Connection, source: int, number: int) -> None:
    name = sql.Identifier(f"source_{source}")
    change = sql.SQL(_CHANGE).format(source=name, number=sql.Literal(number))
    connection.execute(change)


def _time_alone(
    trickle: pgtrickle.Trickle, connection: psycopg.Connection, rounds: int
) -> list[_Pass]:
    tables = len(trickle.list_stream_tables())
    for source in range(tables // _SHARED_BY):
        _change(connection, source, 0)
    say(f"{rounds} passes that hand over {tables:,} stream tables")
    now = [datetime.now(UTC) + timedelta(days=1)]
    watcher = _Failures()
    loop = _TimedLoop(
        _WithoutRefreshes(trickle.daemon),  # type: ignore[arg-type]  # a daemon, but for one method
        watcher,
        now=lambda: now[0],
    )
    for _ in range(rounds + 1):
        now[0] += timedelta(minutes=1)
        loop.run_once(threading.Event())
    watcher.check()
    found = [one for one in loop.passes if one.handed_over == tables]
    if len(found) != rounds + 1:
        raise InternalError(f"{len(found)} of {rounds + 1} passes handed everything over")
    return found[1:]  # the first loads the timetable


def _time_under_load(
    trickle: pgtrickle.Trickle, seconds: float, rate: float
) -> tuple[list[_Pass], float, int]:
    """Return the passes, how long that took, and how many refreshes workers made."""
    say(f"refreshing for {seconds:g} s")
    daemon, stop, watcher = trickle.daemon, threading.Event(), _Failures()
    sources = len(trickle.list_stream_tables()) // _SHARED_BY
    number = daemon.max_concurrent_refreshes
    loop = _TimedLoop(
        daemon,
        watcher,
        workers=lambda: Workers(lambda: number),
        admission=Admission(lambda: number),
    )
    writer = threading.Thread(target=_write, args=[trickle.dsn, sources, rate, stop])
    runner = threading.Thread(target=loop.run, args=[stop])
    with daemon.listening_for_changes() as loop.bell:
        began = time.monotonic()
        for thread in (writer, runner):
            thread.start()
        time.sleep(seconds)
        stop.set()
        took = time.monotonic() - began
        for thread in (writer, runner):
            thread.join()
    watcher.check()
    return loop.passes[1:], took, watcher.refreshes


def _write(dsn: str, sources: int, rate: float, stop: threading.Event) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        began, number = time.monotonic(), 0
        while not stop.wait(max(began + number / rate - time.monotonic(), 0)):
            _change(connection, number % sources, number // sources)
            number += 1


def _under_load(tables: int, load: tuple[list[_Pass], float, int]) -> Iterator[list[object]]:
    passes, seconds, refreshes = load
    handing = [one for one in passes if one.handed_over]
    yield _row("under load, all", tables, passes, seconds)
    yield _row("under load, that hand something over", tables, handing, seconds)
    say(f"{refreshes / seconds:.1f} refreshes/s")


def _row(what: str, tables: int, passes: Sequence[_Pass], seconds: float = 0.0) -> list[object]:
    handed = sum(one.handed_over for one in passes)
    each = [[one.ms for one in passes], [one.processor_ms for one in passes]]
    return [
        *(what, tables, len(passes), _p(each[0], 50), _p(each[0], 99), _p(each[1], 50), handed),
        len(passes) / seconds if seconds else "",
    ]


def _p(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    sys.exit(main())
