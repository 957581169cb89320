"""What Spark counts for the stages of a refresh."""

from __future__ import annotations

import json

import psycopg
import pyarrow as pa

from pgtrickle.client.trickle import Trickle
from pgtrickle.ports import job_named
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.sessions.pair import SparkSessions

_MANY = pa.table({"a": pa.array(range(1000), pa.int64())})


def test_stages_are_those_of_the_refresh(spark_sessions: SparkSessions) -> None:
    engine = SparkEngine("", spark_sessions)
    with job_named("public.one"):
        engine.run("SELECT a % 7 AS k, count(*) AS n FROM {t} GROUP BY 1", {"t": _MANY})
    with job_named("public.two"):
        engine.run("SELECT a FROM {t}", {"t": _MANY})

    one, two = engine.list_work("public.one"), engine.list_work("public.two")

    assert one
    assert two
    assert {stage.stage for stage in one}.isdisjoint(stage.stage for stage in two)
    assert all(stage.tasks >= 1 and stage.failed_tasks == 0 for stage in one)
    assert sum(stage.run_ms for stage in one) > 0
    assert engine.list_work("public.none") == ()


def test_a_rehearsal_has_the_work_of_spark(database: str, spark_trickle: Trickle) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, k int)")
        connection.execute("INSERT INTO t SELECT n, n % 5 FROM generate_series(1, 100) AS n")
        spark_trickle.create_stream_table("s", "SELECT k, count(*) AS n FROM t GROUP BY k")
        connection.execute("INSERT INTO t VALUES (101, 1)")

    found = json.loads(spark_trickle.explain_stream_table("s", "json", with_analyze=True))

    [stage, *_] = found["stages"]
    assert stage["engine"] == "spark"
    assert sum(one["tasks"] for one in stage["spark"]) >= 1
    assert spark_trickle.refresh_stream_table("s").rows_inserted == found["rows_inserted"] == 1
