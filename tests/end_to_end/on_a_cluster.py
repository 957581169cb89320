"""The way of a stream table through all its kinds of refresh, on the Spark of the environment.

Run as a process of its own, because one process cannot hold a Spark of each kind.  Prints one JSON
document: what each refresh did and how many rows its executors read.
"""

from __future__ import annotations

import json
import sys

import psycopg

import pgtrickle
from pgtrickle.model.report import RefreshReport
from pgtrickle.settings import Settings
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.session import SparkSessions

_SHOP = """
    CREATE TABLE customers (id integer PRIMARY KEY, region text);
    CREATE TABLE orders (id bigint PRIMARY KEY, customer_id integer, amount numeric(12, 2));
    CREATE INDEX ON orders (customer_id);
    INSERT INTO customers SELECT i, 'region ' || i % 7 FROM generate_series(1, 500) AS i;
    INSERT INTO orders SELECT i, 1 + i % 500, i * 0.25 FROM generate_series(1, 6000) AS i;
    ANALYZE customers, orders;
"""
_QUERY = """
    SELECT c.region, count(*) AS n, sum(o.amount) AS total
      FROM orders AS o JOIN customers AS c ON c.id = o.customer_id GROUP BY c.region
"""


def main(dsn: str) -> None:
    """Create, change and refresh in every way, and print what happened."""
    # Everything is on this machine; a name that others cannot resolve must not matter.
    spark = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    # Of a few thousand rows; the small profile does without.
    spark |= {"spark.sql.adaptive.coalescePartitions.initialPartitionNum": "4"}
    engine = SparkEngine(dsn, SparkSessions(driver_memory="512m", settings=spark))
    settings = Settings(large_read_bytes=30_000)
    with (
        pgtrickle.connect(dsn, engine=engine, settings=settings) as trickle,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute(_SHOP)
        reports = {"first": trickle.create_stream_table("t", _QUERY, refresh_mode="DIFFERENTIAL")}
        connection.execute("UPDATE orders SET amount = amount + 1 WHERE id <= 10")
        reports["small"] = trickle.refresh_stream_table("t")
        connection.execute("UPDATE orders SET amount = amount * 2, customer_id = 1 + id % 400")
        reports["large"] = trickle.refresh_stream_table("t")
        ok = trickle.verify_stream_table("t").ok
    print(json.dumps({"verified": ok} | {k: _show(v) for k, v in reports.items() if v}))


def _show(report: RefreshReport) -> dict[str, object]:
    rows = {
        f"{one.source} {one.kind}": one.rows for one in report.reads if "parts" in one.bounded_by
    }
    return {"action": report.action.value, "read by executors": rows}


if __name__ == "__main__":
    main(sys.argv[1])
