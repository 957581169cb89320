"""How long a small refresh takes, beside the ways a user would do it without pgtrickle.

Over one shop (1 M orders by default) and one three-way join with GROUP BY, in one run:

* a refresh with nothing changed;
* a refresh after 100 changed rows, cold (the first after Spark's start) and warm;
* the same query recomputed in full on Spark, and by REFRESH MATERIALIZED VIEW.

Every result is verified against PostgreSQL's own answer before its time counts.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

import pgtrickle
from pgtrickle.model.report import RefreshReport
from pgtrickle.settings import Settings

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


def main() -> int:
    """Run the comparison and print it as a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        pgtrickle.connect(directory=Path(directory), settings=Settings()) as trickle,
        psycopg.connect(trickle.dsn, autocommit=True) as connection,
    ):
        return _compare(trickle, connection, arguments)


def _compare(
    trickle: pgtrickle.Trickle, connection: psycopg.Connection, arguments: argparse.Namespace
) -> int:
    _say(f"loading {arguments.orders:,} orders")
    _load(connection, arguments.orders)
    _say("first load of the stream table")
    first = trickle.create_stream_table("revenue", _QUERY, refresh_mode="DIFFERENTIAL")
    rows: list[tuple[str, float, float]] = []

    _say("refreshes with nothing changed")
    idle = [_ms(lambda: trickle.refresh_stream_table("revenue")) for _ in range(arguments.rounds)]
    rows.append(("nothing changed", _p(idle, 50), _p(idle, 95)))

    _say(f"refreshes after {arguments.changes} changed rows")
    reports = []
    for number in range(arguments.rounds):
        _change(connection, arguments, number)
        reports.append(trickle.refresh_stream_table("revenue"))
    times = [report.duration_ms for report in reports]
    rows.append((f"{arguments.changes} changes, cold", times[0], times[0]))
    warm = times[arguments.rounds // 2 :]
    rows.append((f"{arguments.changes} changes, warm", _p(warm, 50), _p(warm, 95)))
    check = trickle.verify_stream_table("revenue")

    _say("full recomputation")
    full = [_ms(lambda: trickle.refresh_stream_table("revenue", full=True)) for _ in range(3)]
    rows.append(("Spark, full", _p(full, 50), max(full)))
    view = [
        _ms(lambda: connection.execute("REFRESH MATERIALIZED VIEW revenue_view")) for _ in range(5)
    ]
    rows.append(("REFRESH MATERIALIZED VIEW", _p(view, 50), max(view)))

    _print(rows, _p(warm, 50), reports[-1], first, arguments)
    print(f"\nverified against PostgreSQL: {'equal' if check.ok else 'DIFFERENT'}")
    return 0 if check.ok else 1


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


def _print(
    rows: list[tuple[str, float, float]],
    base: float,
    last: RefreshReport,
    first: RefreshReport | None,
    arguments: argparse.Namespace,
) -> None:
    machine = f"{platform.machine()}, {platform.python_version()}"
    print(f"\n{arguments.orders:,} orders, {arguments.rounds} rounds, {machine}\n")
    print("| what | p50 ms | p95 ms | p50 / warm refresh |")
    print("|---|---:|---:|---:|")
    for name, median, high in rows:
        print(f"| {name} | {median:.1f} | {high:.1f} | {median / base:.2f} |")
    print("\nwhere a warm refresh spends its time (ms):", last.timings_ms)
    print("what it read:")
    for read in last.reads:
        print(f"  {read.source}: {read.rows} rows ({read.kind}), bounded by {read.bounded_by}")
    if first is not None:
        print(f"first load: {first.duration_ms:.0f} ms", first.timings_ms)


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _p(values: list[float], percent: int) -> float:
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _say(text: str) -> None:
    print(f"... {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
