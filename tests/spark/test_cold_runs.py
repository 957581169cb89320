"""The first computations of a session are cold: what they took says nothing of later ones."""

from __future__ import annotations

import pyarrow as pa

from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.sessions.pair import SparkSessions

_ONE = pa.table({"a": pa.array([1], pa.int64())})


def test_first_runs_are_cold_and_later_ones_are_not(spark_sessions: SparkSessions) -> None:
    engine = SparkEngine("", spark_sessions)
    found = []

    for _ in range(5):
        engine.run("SELECT a FROM {t}", {"t": _ONE})
        found.append(engine.cold_runs)

    assert found == [1, 2, 3, 3, 3]
