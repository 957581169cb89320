"""How soon ``pgtrickle run`` shows what was committed, and what it costs when nothing is.

    python -m benchmarks.daemon [--seconds N] [--warm-up N] [--rate N] [--orders N] [--tables N]
        [--idle-seconds N]

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
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from benchmarks.shop import (
    Load,
    await_orders,
    create_database,
    open_shop,
    running_daemon,
    write_steadily,
)
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import InternalError
from tests.fakes.engine import DuckDbEngine

_WRITE = """
    WITH changed AS (UPDATE orders SET quantity = quantity %% 9 + 1 WHERE id = %(id)s / 2)
    INSERT INTO orders VALUES (%(id)s, 1 + %(id)s * 7 %% 5000, 1 + %(id)s * 13 %% 500, 1)
"""
_GOALS = {50: 1000.0, 99: 3000.0}  # ms by percentile
_IDLE_GOAL = 2.0  # % of a core
_SETTLED = 30.0  # seconds after its start, when a daemon has looked at everything once


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurements and print them as Markdown; 1 if a goal is missed."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=600, help="of writing")
    parser.add_argument("--warm-up", type=float, default=20, help="seconds of writing before")
    parser.add_argument("--rate", type=float, default=50, help="transactions a second")
    parser.add_argument("--orders", type=int, default=100_000, help="rows to begin with")
    parser.add_argument("--tables", type=int, default=1000, help="idle stream tables; 0: none")
    parser.add_argument("--idle-seconds", type=float, default=120, help="of idleness")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        share = None
        if arguments.tables:
            # A server of its own: after the other load it would have a lot to vacuum.
            with start_embedded(Path(directory) / "idle") as server:
                share = _measure_idleness(create_database(server.dsn, "idle"), arguments)
        with start_embedded(Path(directory) / "busy") as server:
            load = _measure_visibility(create_database(server.dsn, "busy"), arguments)
            with psycopg.connect(server.dsn) as connection:
                results = describe_run(
                    "benchmarks.daemon", argv, connection, **_describe(load, share, arguments)
                )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    slow = any(load.percentile(percent) > goal for percent, goal in _GOALS.items())
    return int(slow or (share is not None and share > _IDLE_GOAL))


def _describe(load: Load, share: float | None, arguments: argparse.Namespace) -> dict[str, Any]:
    rows: list[list[object]] = [
        [f"commit to visible, p{percent}", f"{load.percentile(percent):,.0f} ms", f"{goal:,.0f}"]
        for percent, goal in _GOALS.items()
    ]
    rows.append(["commit to visible, longest", f"{max(load.waits):,.0f} ms", ""])
    if share is not None:
        idle = f"{arguments.tables:,} idle stream tables, of one core"
        rows.append([idle, f"{share:.2f} %", f"{_IDLE_GOAL:.0f}"])
    return {
        "title": "How soon the daemon shows a change, and what it costs to wait",
        "tables": [{"columns": ["what", "measured", "goal"], "rows": rows}],
        "notes": [
            f"{len(load.waits):,} transactions over {arguments.orders:,} orders; schedule '1s'."
        ],
    }


def _measure_visibility(dsn: str, arguments: argparse.Namespace) -> Load:
    """Return for each transaction how many ms passed between its commit and a reader's notice."""
    say(f"loading {arguments.orders:,} orders")
    numbers = itertools.count(arguments.orders + 1)
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        pgtrickle.connect(dsn, engine=DuckDbEngine(), init=True) as trickle,
    ):

        def write() -> None:
            connection.execute(_WRITE, {"id": next(numbers)})

        def load(seconds: float) -> Load:
            transactions = int(seconds * arguments.rate)
            return write_steadily(
                dsn, connection, write, transactions=transactions, rate=arguments.rate
            )

        open_shop(connection, trickle, arguments.orders)
        with running_daemon(dsn):
            say("waiting for Spark")
            write()
            await_orders(connection, arguments.orders + 1)
            say("warming up")
            load(arguments.warm_up)
            say(f"measuring for {arguments.seconds:,.0f} s")
            found = load(arguments.seconds)
        if not trickle.verify_stream_table("revenue").ok:
            raise InternalError("the stream table is not what its query says")
    return found


def _measure_idleness(dsn: str, arguments: argparse.Namespace) -> float:
    """Return the processor time of daemon and server as a share of a core, in percent."""
    say(f"loading {arguments.tables:,} stream tables")
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        pgtrickle.connect(dsn, engine=DuckDbEngine(), init=True) as trickle,
    ):
        for number in range(arguments.tables):
            if number % 10 == 0:
                connection.execute(f"CREATE TABLE t{number // 10} (a integer)".encode())
            query = f"SELECT a FROM t{number // 10} WHERE a > {number % 10}"
            trickle.create_stream_table(f"s{number}", query, "1s", "DIFFERENTIAL")
        connection.execute("VACUUM ANALYZE")
        postmaster = _parent_of(connection.info.backend_pid)
    with running_daemon(dsn) as process:
        time.sleep(_SETTLED)
        say(f"doing nothing for {arguments.idle_seconds:,.0f} s")
        before, began = _spent(process.pid) + _spent(postmaster), time.monotonic()
        time.sleep(arguments.idle_seconds)
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


if __name__ == "__main__":
    sys.exit(main())
