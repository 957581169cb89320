"""How many row changes a second go through capture, a join with an aggregate, and the commit.

    python -m benchmarks.throughput [--rate N] [--seconds N] [--steps N,N] [--step-seconds N]

A writer commits batches of inserts, updates and deletes on a table of ``--orders`` rows, at a
steady rate, while ``pgtrickle run`` keeps a join of three tables, grouped, with the schedule '1s'.
A rate is *sustained* if the writer reaches it and the stream table is not further behind at the end
than at the beginning.  ``--rate`` is held for ``--seconds``; then each of ``--steps`` for
``--step-seconds``, until one is not sustained: that is the limit of the machine, on which writer,
server, Spark and the reader share the cores.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

_EACH = 334  # rows that a batch inserts and updates; it deletes one less
_BATCH = 3 * _EACH - 1
_INSERT = """
    INSERT INTO orders SELECT i, 1 + i * 7 %% 5000, 1 + i * 13 %% 500, 1 + i %% 9
      FROM generate_series(%(next)s::int8, %(next)s::int8 + %(each)s - 1) AS i
"""
_UPDATE = """
    UPDATE orders SET quantity = quantity %% 9 + 1
     WHERE id IN (SELECT %(oldest)s::int8 + %(each)s + i * 7919 %% %(span)s
                    FROM generate_series(1, %(each)s::int8) AS i)
"""
_DELETE = """
    DELETE FROM orders
     WHERE id >= %(oldest)s::int8 AND id < %(oldest)s::int8 + %(each)s - 1
"""
_REACHED = 0.98  # of the rate that was asked for
_BEHIND = 1.5  # times as far behind at the end as at the beginning, and a second, is growing
_GOAL = 20_000


@dataclass(frozen=True, slots=True)
class _Step:
    rate: float
    seconds: float
    load: Load | None  # None: the stream table did not follow at all

    @property
    def reached(self) -> float:
        return 0.0 if self.load is None else len(self.load.waits) * _BATCH / self.load.seconds

    @property
    def sustained(self) -> bool:
        """Whether the writer was as fast as asked, and the stream table did not fall behind."""
        if self.load is None or self.reached < _REACHED * self.rate:
            return False
        third = len(self.load.waits) // 3
        first, last = self.load.waits[:third], self.load.waits[-third:]
        return sum(last) / third <= _BEHIND * sum(first) / third + 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurement and print it as Markdown; 1 if the first rate is not sustained."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rate", type=float, default=_GOAL, help="row changes a second")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--steps", default="30000,40000,50000,60000,80000,100000")
    parser.add_argument("--step-seconds", type=float, default=60)
    parser.add_argument("--warm-up", type=float, default=20, help="seconds of writing before")
    parser.add_argument("--orders", type=int, default=100_000, help="rows to begin with")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with start_embedded(Path(directory) / "home") as server:
            steps = _measure(create_database(server.dsn, "shop"), arguments)
            with psycopg.connect(server.dsn) as connection:
                results = describe_run(
                    "benchmarks.throughput", argv, connection, **_describe(steps, arguments)
                )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return int(not steps[0].sustained)


def _measure(dsn: str, arguments: argparse.Namespace) -> list[_Step]:
    say(f"loading {arguments.orders:,} orders")
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        pgtrickle.connect(dsn, engine=DuckDbEngine(), init=True) as trickle,
    ):
        open_shop(connection, trickle, arguments.orders)
        write = _writer(connection, arguments.orders)
        steps = []
        with running_daemon(dsn):
            say("waiting for Spark")
            write()
            await_orders(connection, arguments.orders + 1)
            say("warming up")
            _hold(dsn, connection, write, arguments.rate, arguments.warm_up)
            wanted = [(arguments.rate, arguments.seconds)]
            wanted += [
                (float(rate), arguments.step_seconds) for rate in arguments.steps.split(",") if rate
            ]
            for rate, seconds in wanted:
                say(f"{rate:,.0f} row changes a second for {seconds:,.0f} s")
                step = _hold(dsn, connection, write, rate, seconds)
                steps.append(step)
                if not step.sustained:
                    break
            [(left,)] = connection.execute("SELECT count(*) FROM orders").fetchall()
            await_orders(connection, left)
        if not trickle.verify_stream_table("revenue").ok:
            raise InternalError("the stream table is not what its query says")
    return steps


def _writer(connection: psycopg.Connection, orders: int) -> Callable[[], None]:
    """Return what commits the next batch: the table grows by one row."""
    place = {"next": orders + 1, "oldest": 1, "each": _EACH, "span": orders // 2}

    def write() -> None:
        with connection.transaction():
            for statement in (_INSERT, _UPDATE, _DELETE):
                connection.execute(statement, place)
        place["next"] += _EACH
        place["oldest"] += _EACH - 1

    return write


def _hold(
    dsn: str, connection: psycopg.Connection, write: Callable[[], None], rate: float, seconds: float
) -> _Step:
    batches = rate / _BATCH
    try:
        load = write_steadily(
            dsn, connection, write, transactions=int(batches * seconds), rate=batches
        )
    except InternalError:
        return _Step(rate, seconds, None)
    return _Step(rate, seconds, load)


def _describe(steps: Sequence[_Step], arguments: argparse.Namespace) -> dict[str, Any]:
    rows: list[list[object]] = []
    for step in steps:
        lag = ["", ""]
        if step.load is not None:
            lag = [f"{step.load.percentile(percent):,.0f} ms" for percent in (50, 99)]
        verdict = "yes" if step.sustained else "no"
        rows.append(
            [f"{step.rate:,.0f}", f"{step.reached:,.0f}", f"{step.seconds:,.0f} s", *lag, verdict]
        )
    columns = ["changes/s asked", "written", "for", "visible p50", "p99", "sustained"]
    return {
        "title": "Row changes a second through capture, join, aggregate and commit",
        "tables": [{"columns": columns, "rows": rows}],
        "notes": [
            (
                f"Transactions of {_BATCH:,} row changes, a third each inserts, updates and"
                f" deletes, on {arguments.orders:,} orders; schedule '1s'. The goal is {_GOAL:,}"
                " a second for ten minutes."
            ),
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
