"""A stage takes Arrow tables, answers in Arrow, and leaves no view behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

from pgtrickle.errors import DataError, SparkFailedError
from pgtrickle.spark.run_stage import run, run_small
from pgtrickle.spark.sessions.pair import SparkSessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Run = Callable[["SparkSession", Mapping[str, pa.Table], str], pa.Table]


@pytest.fixture(params=[run, run_small], ids=["as DataFrames", "as views"])
def run_stage(request: pytest.FixtureRequest) -> Run:
    """Both ways of handing tables to Spark."""
    return cast("Run", request.param)


def _numbers(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def test_inputs_are_joined_by_their_placeholders(
    spark_sessions: SparkSessions, run_stage: Run
) -> None:
    session = spark_sessions.small()

    result = run_stage(
        session,
        {"l": _numbers(1, 2, 3), "r": _numbers(2, 3, 4)},
        "SELECT l.a, '{x}' AS brace FROM {l} AS l JOIN {r} AS r ON l.a = r.a ORDER BY l.a",
    )

    assert result.to_pydict() == {"a": [2, 3], "brace": ["{x}", "{x}"]}
    assert [view.name for view in session.catalog.listTables()] == []


def test_an_empty_input_and_an_empty_result_keep_their_schema(
    spark_sessions: SparkSessions, run_stage: Run
) -> None:
    result = run_stage(spark_sessions.small(), {"t": _numbers()}, "SELECT a, a + 1 AS b FROM {t}")

    assert result.num_rows == 0
    assert result.schema.types == [pa.int64(), pa.int64()]


def test_threads_that_share_a_session_do_not_meet(
    spark_sessions: SparkSessions, run_stage: Run
) -> None:
    session = spark_sessions.small()

    def total(n: int) -> int:
        result = run_stage(session, {"t": _numbers(n, n)}, "SELECT sum(a) AS s FROM {t}")
        return int(result.column("s")[0].as_py())

    with ThreadPoolExecutor(4) as threads:
        totals = list(threads.map(total, range(12)))

    assert totals == [2 * n for n in range(12)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a / 0 FROM {t}",
        "SELECT a + 9223372036854775807 FROM {t}",
        "SELECT CAST('x' AS int) + a FROM {t}",
        "SELECT CAST(a * 100000 AS smallint) FROM {t}",
    ],
)
def test_failing_on_the_data_is_a_data_error(
    spark_sessions: SparkSessions, run_stage: Run, sql: str
) -> None:
    with pytest.raises(DataError) as caught:
        run_stage(spark_sessions.small(), {"t": _numbers(1)}, sql)

    assert caught.value.hint


def test_any_other_failure_is_a_spark_error(spark_sessions: SparkSessions, run_stage: Run) -> None:
    with pytest.raises(SparkFailedError):
        run_stage(spark_sessions.small(), {"t": _numbers(1)}, "SELECT nope FROM {t}")


def test_a_small_join_runs_without_an_exchange(spark_sessions: SparkSessions) -> None:
    session = spark_sessions.small()
    for name in ("exchange_l", "exchange_r"):
        session.createDataFrame(_numbers(1)).coalesce(1).createOrReplaceTempView(name)

    plan = session.sql(
        "EXPLAIN SELECT a, count(*) FROM exchange_l JOIN exchange_r USING (a) GROUP BY a"
    ).collect()[0][0]
    for name in ("exchange_l", "exchange_r"):
        session.catalog.dropTempView(name)

    assert "Exchange" not in plan
