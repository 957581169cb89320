"""The same refreshes on a standalone cluster and through Spark Connect as on ``local[*]``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import psycopg
import pytest


def _run(dsn: str, **environment: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.on_a_cluster", dsn],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def _check(report: Any) -> None:
    assert report["verified"]
    assert report["files"] == 4
    assert report["first"]["action"] == "FULL"
    assert report["first"]["read by executors"] == {"public.orders full": 6000}
    assert report["small"] == {"action": "DIFFERENTIAL", "read by executors": {}}
    assert report["large"]["action"] == "DIFFERENTIAL"
    assert report["large"]["read by executors"]["public.orders changes"] == 12_000
    for lost in ("without executors", "without a session"):
        assert report[lost]["action"] == "DIFFERENTIAL"


def test_on_a_master_with_two_workers(database: str, spark_master: str) -> None:
    report = _run(database, SPARK_MASTER=spark_master)

    _check(report)
    assert report["killed"] > 0
    assert report["measured"] == report["killed"]


def test_through_spark_connect(database: str, spark_connect: str) -> None:
    pytest.importorskip("grpc", reason="the extra pgtrickle[connect] is not installed")

    report = _run(database, SPARK_REMOTE=spark_connect)

    _check(report)
    assert report["measured"] is None  # it does not tell


_BESIDE_CONNECT = """
import sys
from pyspark.sql import SparkSession
import pgtrickle

dsn, remote = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "Europe/Paris")
spark.range(4).createOrReplaceTempView("mine")
for given in (spark, None):
    with pgtrickle.connect(dsn, spark=given) as trickle:
        name = "given" if given else "found"
        trickle.create_stream_table(name, "SELECT k, sum(v) AS total FROM t GROUP BY k")
        assert trickle.verify_stream_table(name).ok
    assert spark.conf.get("spark.sql.session.timeZone") == "Europe/Paris"
    assert [one.name for one in spark.catalog.listTables()] == ["mine"]
    assert spark.table("mine").count() == 4
    assert SparkSession.builder.remote(remote).getOrCreate() is spark
spark.stop()
try:
    pgtrickle.connect(dsn, spark=spark)
except pgtrickle.TrickleError as error:
    print(error.code)
"""


def test_connect_session_of_the_user_is_worked_beside(database: str, spark_connect: str) -> None:
    pytest.importorskip("grpc", reason="the extra pgtrickle[connect] is not installed")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (k int, v int)")
        connection.execute("INSERT INTO t VALUES (1, 2), (1, 3), (2, 4)")

    done = subprocess.run(
        [sys.executable, "-c", _BESIDE_CONNECT, database, spark_connect],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.stdout == "ST411\n", done.stderr[-4000:]
