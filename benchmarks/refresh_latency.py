"""How long a small refresh takes, beside the ways a user would do it without pgtrickle.

Over one shop (1 M orders by default) and one three-way join with GROUP BY, in one run:

* a refresh with nothing changed;
* a refresh after 100 changed rows: warm, the first since the first load, and cold: the first of a
  new process, once Spark has started; its start is measured beside it;
* the same query recomputed in full, and by REFRESH MATERIALIZED VIEW.

``--engine auto`` or ``postgres`` measures another engine than Spark.

Every result is verified against PostgreSQL's own answer before its time counts.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg

import pgtrickle
from benchmarks.engine_option import add_engine, engine_settings
from benchmarks.report.tables import print_tables
from benchmarks.results import Results, describe_run, write_results
from benchmarks.say import say
from pgtrickle.model.report import RefreshReport
from pgtrickle.settings import SPARK, Settings
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.sessions.pair import SparkSessions

_QUERY = """
    SELECT c.region, p.category, sum(o.quantity * p.price) AS revenue, count(*) AS orders
      FROM orders AS o
      JOIN customers AS c ON c.id = o.customer_id
      JOIN products AS p ON p.id = o.product_id
     GROUP BY c.region, p.category
"""

_SHOP = """
    DROP TABLE IF EXISTS orders, customers, products CASCADE;
    CREATE TABLE customers (id integer PRIMARY KEY, name text, region text);
    CREATE TABLE products (id integer PRIMARY KEY, category text, price numeric(10, 2));
    CREATE TABLE orders (
        id bigint PRIMARY KEY, customer_id integer, product_id integer, quantity integer
    );
    INSERT INTO customers SELECT i, 'customer ' || i, 'region ' || i % 20
      FROM generate_series(1, {customers}) AS i;
    INSERT INTO products SELECT i, 'category ' || i % 50, (i % 977 + 1) * 1.07
      FROM generate_series(1, 2000) AS i;
    INSERT INTO orders
    SELECT i, 1 + (i * 7919) % {customers}, 1 + (i * 104729) % 2000, 1 + i % 9
      FROM generate_series(1, {orders}::bigint) AS i;
    CREATE INDEX ON orders (customer_id);
    CREATE INDEX ON orders (product_id);
    CREATE MATERIALIZED VIEW revenue_view AS {query};
    VACUUM ANALYZE customers; VACUUM ANALYZE products; VACUUM ANALYZE orders;
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison and print it as a table."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--cold-starts", type=int, default=3)
    add_engine(parser)
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    parser.add_argument("--cold-refresh-of", help=argparse.SUPPRESS)  # what the new process does
    arguments = parser.parse_args(argv)
    if arguments.cold_refresh_of:
        return _refresh_once(arguments.cold_refresh_of, engine_settings(arguments))
    with (
        tempfile.TemporaryDirectory() as directory,
        pgtrickle.connect(
            directory=Path(directory), settings=engine_settings(arguments)
        ) as trickle,
        psycopg.connect(trickle.dsn, autocommit=True) as connection,
    ):
        tables, notes, ok = _compare(trickle, connection, arguments)
        results = describe_run(
            "benchmarks.refresh_latency",
            argv,
            connection,
            title=_title(arguments),
            tables=tables,
            notes=notes,
        )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0 if ok else 1


def _compare(
    trickle: pgtrickle.Trickle, connection: psycopg.Connection, arguments: argparse.Namespace
) -> tuple[list[Results], list[str], bool]:
    say(f"loading {arguments.orders:,} orders")
    _load(connection, arguments.orders)
    say("first load of the stream table")
    first = trickle.create_stream_table("revenue", _QUERY, refresh_mode="DIFFERENTIAL")
    rows: list[tuple[str, float, float]] = []

    say("refreshes with nothing changed")
    idle = [_ms(lambda: trickle.refresh_stream_table("revenue")) for _ in range(arguments.rounds)]
    rows.append(("nothing changed", _p(idle, 50), _p(idle, 95)))

    say(f"refreshes after {arguments.changes} changed rows")
    reports = []
    for number in range(arguments.rounds):
        _change(connection, arguments, number)
        reports.append(trickle.refresh_stream_table("revenue"))
    times = [report.duration_ms for report in reports]
    warm = times[arguments.rounds // 2 :]
    rows.append((f"{arguments.changes} changes, warm", _p(warm, 50), _p(warm, 95)))
    rows.append((f"{arguments.changes} changes, first since the load", times[0], times[0]))
    cold, starts = [], []
    for number in range(arguments.cold_starts):
        say("a refresh in a new process")
        _change(connection, arguments, arguments.rounds + number)
        start, refresh = _refresh_in_new_process(trickle.dsn, arguments.engine)
        starts.append(start)
        cold.append(refresh)
    if cold:
        rows.append((f"{arguments.changes} changes, cold", _p(cold, 50), max(cold)))
        if arguments.engine == SPARK:
            rows.append(("the start of Spark before it", _p(starts, 50), max(starts)))
    check = trickle.verify_stream_table("revenue")

    say("full recomputation")
    full = [_ms(lambda: trickle.refresh_stream_table("revenue", full=True)) for _ in range(3)]
    rows.append(("in full", _p(full, 50), max(full)))
    view = [
        _ms(lambda: connection.execute("REFRESH MATERIALIZED VIEW revenue_view")) for _ in range(5)
    ]
    rows.append(("REFRESH MATERIALIZED VIEW", _p(view, 50), max(view)))

    tables = [_times_table(rows, _p(warm, 50)), _reads_table(reports[-1])]
    notes = [
        f"Warm is the second half of {arguments.rounds} refreshes.",
        f"The last of them, ms: {_in_words(reports[-1])}.",
        *([f"First load, ms: {_in_words(first)}."] if first else []),
        f"Compared with PostgreSQL's answer: {'equal' if check.ok else 'DIFFERENT'}.",
    ]
    return tables, notes, check.ok


def _refresh_in_new_process(dsn: str, engine: str) -> tuple[float, float]:
    """Return how long Spark takes to start, and then the first refresh of a process."""
    command = [sys.executable, "-m", "benchmarks.refresh_latency", "--cold-refresh-of", dsn]
    command += ["--engine", engine]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    start, refresh = done.stdout.split()
    return float(start), float(refresh)


def _refresh_once(dsn: str, settings: Settings) -> int:
    sessions = SparkSessions(
        driver_memory=settings.spark_driver_memory, result_bytes=settings.driver_result_bytes
    )
    engine = SparkEngine(dsn, sessions)
    with pgtrickle.connect(dsn, settings=settings, engine=engine, init=True) as trickle:
        print(_ms(sessions.small) if settings.engine == SPARK else 0)
        print(_ms(lambda: trickle.refresh_stream_table("revenue")))
    return 0


def _title(arguments: argparse.Namespace) -> str:
    engine = "" if arguments.engine == SPARK else f" with engine = {arguments.engine}"
    return f"A refresh of a three-way join over {arguments.orders:,} orders{engine}"


def _load(connection: psycopg.Connection, orders: int) -> None:
    script = _SHOP.format(customers=max(orders // 20, 10), orders=orders, query=_QUERY)
    for statement in script.split(";"):
        if statement.strip():
            connection.execute(statement.encode())


def _change(connection: psycopg.Connection, arguments: argparse.Namespace, number: int) -> None:
    """Insert, update and delete ``changes`` rows in one transaction."""
    part = arguments.changes // 4
    start = 1 + (number * 7919) % (arguments.orders - 4 * part)
    with connection.transaction():
        connection.execute(
            "INSERT INTO orders SELECT %s + i, 1 + i %% 1000, 1 + i %% 2000, 3"
            " FROM generate_series(1, %s) AS i",
            [arguments.orders + number * part, part],
        )
        connection.execute(
            "UPDATE orders SET quantity = quantity + 1, product_id = 1 + product_id %% 2000"
            " WHERE id BETWEEN %s AND %s",
            [start, start + 2 * part - 1],
        )
        connection.execute(
            "DELETE FROM orders WHERE id BETWEEN %s AND %s",
            [start + 2 * part, start + 3 * part - 1],
        )


def _times_table(rows: list[tuple[str, float, float]], base: float) -> Results:
    return {
        "columns": ["what", "p50 ms", "p95 ms", "p50 / warm refresh"],
        "rows": [[name, median, high, median / base] for name, median, high in rows],
    }


def _reads_table(last: RefreshReport) -> Results:
    return {
        "title": "What a warm refresh reads",
        "columns": ["source", "kind", "bounded by", "rows"],
        "rows": [[read.source, read.kind, read.bounded_by, read.rows] for read in last.reads],
    }


def _in_words(report: RefreshReport) -> str:
    listed = ", ".join(f"{name} {ms:.0f}" for name, ms in report.timings_ms.items())
    return f"{report.duration_ms:.0f} ({listed})"


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _p(values: list[float], percent: int) -> float:
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    sys.exit(main())
