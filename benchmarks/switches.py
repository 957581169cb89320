"""How soon a changed setting is in effect in four processes, and what a scrape of metrics takes.

    python -m benchmarks.switches [--rounds N] [--tables N]

Two daemons and two programs share a database.  A setting is changed in turn by ``set_setting``, by
ALTER DATABASE and by a reload of the server's configuration; each process writes down when it has
the new value.  Then metrics are read with a thousand stream tables and their history on record,
which nobody refreshes: what is timed is a whole page, and the look at the catalog in it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import Results, describe_run, write_results
from benchmarks.say import say
from pgtrickle.cli.daemon.metrics import Metrics
from pgtrickle.cli.daemon.probes import Health
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, Settings

_GOAL_SECONDS, _GOAL_MS = 2.0, 200.0
_PATIENCE = 30.0
_SETTING = "planning_timeout_seconds"
_WATCH = """
import json, sys, threading, time
import pgtrickle
name, mode = sys.argv[1:]
with pgtrickle.connect() as trickle:
    if mode == "daemon":
        stop = threading.Event()
        threading.Thread(target=trickle.run, args=[stop], daemon=True).start()
    last = None
    while True:
        if mode == "program":
            trickle.list_stream_tables()
        value = getattr(trickle._runtime.settings, name)
        if value != last:
            print(json.dumps([value, time.time()]), flush=True)
            last = value
        time.sleep(0.02)
"""
_TABLES = """
    INSERT INTO pgtrickle.pgt_stream_tables
           (pgt_relid, pgt_schema, pgt_name, defining_query, original_query, query_search_path,
            schedule, refresh_mode, effective_refresh_mode, status, is_populated)
    SELECT 900000 + n, 'public', 'table_' || n, '', '', 'public', '1m', 'AUTO', 'DIFFERENTIAL',
           'SUSPENDED', false
      FROM pg_catalog.generate_series(1, %s) AS n
"""
_HISTORY = """
    INSERT INTO pgtrickle.pgt_refresh_history
           (pgt_id, start_time, end_time, action, status, reason, rows_inserted, rows_deleted,
            delta_row_count, reads, timings, initiated_by, cost)
    SELECT s.pgt_id, at, at + interval '20 ms', 'DIFFERENTIAL', 'COMPLETED', 'changed', 1, 1, 2,
           '[]', '{}', 'SCHEDULER', '{"engine": "spark"}'
      FROM pgtrickle.pgt_stream_tables AS s, pg_catalog.generate_series(1, 100) AS n,
           LATERAL (SELECT pg_catalog.now() - n * interval '1 minute') AS moment (at)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print tables; 1 if a goal is missed."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        home = Path(directory) / "home"
        with (
            start_embedded(home) as server,
            pgtrickle.connect(server.dsn, init=True) as trickle,
            psycopg.connect(server.dsn, autocommit=True) as connection,
        ):
            switches = _time_switches(server.dsn, connection, home, arguments.rounds)
            scrapes, took = _time_scrapes(trickle, connection, arguments.tables)
            slowest = max(max(found) for found in switches.values())
            results = describe_run(
                "benchmarks.switches",
                argv,
                connection,
                title="Settings that change, and metrics that are read",
                tables=[_tell_switches(switches), scrapes],
                notes=[
                    f"Load at the end, with all who share the machine: {os.getloadavg()[0]:.1f}."
                ],
            )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0 if slowest <= _GOAL_SECONDS and took <= _GOAL_MS else 1


def _time_switches(
    dsn: str, connection: Connection[TupleRow], home: Path, rounds: int
) -> dict[str, list[float]]:
    """Return how long each process took to follow each change, by who made it."""
    configuration = next(home.rglob("postgresql.conf"))
    before = configuration.read_text()
    database = sql.Identifier(connection.info.dbname)
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        kinds = ("daemon", "daemon", "program", "program")
        watched = [stack.enter_context(_process(dsn, kind)) for kind in kinds]
        for one in watched:
            _await(one, None)
        say("four processes run")
        value = 20.0

        def measure(who: str) -> None:
            changed = time.time()
            for one in watched:
                found.setdefault(who, []).append(_await(one, value) - changed)

        for _ in range(rounds):
            value += 1
            connection.execute("SELECT pgtrickle.set_setting(%s, %s)", [_SETTING, str(value)])
            measure("set_setting")
            value += 1
            assign = sql.SQL("ALTER DATABASE {} SET {} = {}")
            name = sql.Identifier("pg_trickle", _SETTING)
            connection.execute(assign.format(database, name, sql.Literal(str(value))))
            measure("ALTER DATABASE")
            value += 1
            connection.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(database))
            configuration.write_text(f"{before}\npg_trickle.{_SETTING} = {value}\n")
            connection.execute("SELECT pg_catalog.pg_reload_conf()")
            measure("reload of the server")
            configuration.write_text(before)
            connection.execute("SELECT pg_catalog.pg_reload_conf()")
            for one in watched:
                _await(one, float(connection.execute(_STORED).fetchall()[0][0]))
    return found


_STORED = f"SELECT value FROM pgtrickle.pgt_settings WHERE name = '{_SETTING}'"


@contextmanager
def _process(dsn: str, kind: str) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"PGTRICKLE_DSN": dsn, "PGTRICKLE_ENGINE": POSTGRES}
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", _WATCH, _SETTING, kind],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _await(process: subprocess.Popen[str], value: float | None) -> float:
    """Return when a process had a value, the first one if it is None."""
    while True:
        line = process.stdout.readline() if process.stdout is not None else ""
        if not line:
            raise SystemExit("a process has ended")
        has, at = json.loads(line)
        if value is None or has == value:
            return float(at)


def _tell_switches(found: dict[str, list[float]]) -> Results:
    return {
        "columns": ["changed by", "s, median of 4 processes", "longest", "goal"],
        "rows": [
            [who, statistics.median(took), max(took), _GOAL_SECONDS] for who, took in found.items()
        ],
    }


def _time_scrapes(
    trickle: pgtrickle.Trickle, connection: Connection[TupleRow], tables: int
) -> tuple[Results, float]:
    """Return a table of what a page of metrics takes, and the median of the whole page."""
    connection.execute(_TABLES, [tables])
    connection.execute(_HISTORY)
    connection.execute("ANALYZE pgtrickle.pgt_refresh_history")
    runtime = trickle._runtime  # noqa: SLF001 - each look is to be a new one
    runtime.live = None
    runtime.settings = Settings(metrics_catalog_snapshot_ttl_ms=0, metrics_request_timeout_ms=60000)
    reader = trickle.daemon.figure_reader()
    health = Health()
    health.round("leading")
    metrics = Metrics(health, figures=reader.read, database="bench")
    looks, pages = [], []
    for _ in range(12):
        began = time.perf_counter()
        reader.read()
        looks.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        metrics.page()
        pages.append((time.perf_counter() - began) * 1000)
    rows = [
        ["the look at the catalog", tables, statistics.median(looks), max(looks), ""],
        ["the whole page", tables, statistics.median(pages), max(pages), _GOAL_MS],
    ]
    columns = ["what", "stream tables", "ms, median", "longest", "goal"]
    return {"columns": columns, "rows": rows}, statistics.median(pages)


if __name__ == "__main__":
    raise SystemExit(main())
