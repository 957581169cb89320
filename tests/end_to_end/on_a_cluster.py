"""The way of a stream table through all its kinds of refresh, on the Spark of the environment.

Run as a process of its own, because one process cannot hold a Spark of each kind.  Prints one JSON
document: what each refresh did, how many rows its executors read, and how many files of the lake
they wrote.  Then executors are killed, and the session is lost: neither keeps the next refresh from
doing its work.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg

import pgtrickle
from pgtrickle.errors import Retry, TrickleError
from pgtrickle.model.report import RefreshReport
from pgtrickle.settings import Settings
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.sessions.pair import SparkSessions
from tests.fixtures.ducklake import lake_client

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
_EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"


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
        measured = engine.measure()
        reports["large"] = trickle.refresh_stream_table("t")
        ok = trickle.verify_stream_table("t").ok
        files = _load_lake(trickle)
        killed = 0 if engine.sessions.remote else _kill_executors(engine)
        connection.execute("UPDATE orders SET amount = amount + 1 WHERE id <= 20")
        reports["without executors"] = _refresh(trickle)
        engine.sessions.large().stop()
        connection.execute("UPDATE orders SET amount = amount + 1 WHERE id <= 30")
        reports["without a session"] = _refresh(trickle)
        ok = ok and trickle.verify_stream_table("t").ok
    shown = {k: _show(v) for k, v in reports.items() if v}
    counted = {"files": files, "killed": killed, "measured": measured and measured.executors}
    print(json.dumps({"verified": ok} | counted | shown))


def _kill_executors(engine: SparkEngine) -> int:
    """Kill every executor of this application, and tell how many there were."""
    application = engine.sessions.large().sparkContext.applicationId.encode()
    killed = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if _EXECUTOR in words and application in words:
                os.kill(int(path.parent.name), signal.SIGKILL)
                killed += 1
    return killed


def _refresh(trickle: pgtrickle.Trickle) -> RefreshReport:
    """Refresh as a daemon does: what failed for a while is tried again."""
    for pause in (1, 2, 4):
        try:
            return trickle.refresh_stream_table("t")
        except TrickleError as error:
            if error.retry is not Retry.BACKOFF:
                raise
            time.sleep(pause)
    return trickle.refresh_stream_table("t")


def _load_lake(trickle: pgtrickle.Trickle) -> int:
    """Load a copy in the lake, let DuckDB count it, and return how many files it has."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)  # executors may be somebody else
        trickle.create_stream_table(
            "copied",
            "SELECT id, amount FROM orders",
            sink="ducklake",
            ducklake_sink_path=directory,
        )
        with lake_client(trickle.dsn, "ducklake") as client:
            counted = client.execute("SELECT count(*), count(DISTINCT id) FROM copied").fetchall()
        assert counted == [(6000, 6000)]
        return len(list(Path(directory).rglob("*.parquet")))


def _show(report: RefreshReport) -> dict[str, object]:
    rows = {
        f"{one.source} {one.kind}": one.rows for one in report.reads if "parts" in one.bounded_by
    }
    return {"action": report.action.value, "read by executors": rows}


if __name__ == "__main__":
    main(sys.argv[1])
