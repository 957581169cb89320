"""A stream table as a DataFrame of Spark, read by the executors."""

from __future__ import annotations

from decimal import Decimal

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgtrickle.errors import SparkSessionError
from pgtrickle.spark.sessions.pair import SparkSessions
from tests.labs.lab import Lab


@pytest.fixture
def filled(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (a int, n numeric, j jsonb)")
    lab.run("INSERT INTO t SELECT i, i / 8.0, '{}' FROM generate_series(1, 1000) AS i")
    lab.create("s", "SELECT a, n, j FROM t")
    return lab


def test_executors_read_it_and_it_stays_as_it_was(filled: Lab):
    frame = filled.trickle.table("s").to_spark()
    filled.window("DELETE FROM t WHERE a > 10")

    assert frame.count() == 1000
    [row] = frame.where("a = 3").collect()
    assert (row.n, row.j) == (Decimal("0.375"), "{}")
    assert filled.trickle.table("s").to_spark().count() == 10


def test_session_of_the_user_gets_it_and_no_plan_tells_of_the_server(
    filled: Lab, spark_sessions: SparkSessions
):
    session = spark_sessions.large().newSession()
    frame = filled.trickle.table("s").to_spark(session)
    plan = frame._jdf.queryExecution().toString()

    assert frame.sparkSession is session
    assert frame.count() == 1000
    told = conninfo_to_dict(filled.trickle.dsn)
    for secret in filter(None, (told.get("password"), told.get("host"), "connection_file")):
        assert str(secret) not in plan


def test_several_sessions_get_it_again_and_again(filled: Lab, spark_sessions: SparkSessions):
    sessions = [spark_sessions.large().newSession() for _ in range(2)]
    table = filled.trickle.table("s")

    for session in [*sessions, None, *sessions]:
        assert table.to_spark(session).count() == 1000


def test_what_is_no_session_is_refused(filled: Lab):
    nothing: object = "local[*]"
    with pytest.raises(SparkSessionError):
        filled.trickle.table("s").to_spark(nothing)  # type: ignore[arg-type]
