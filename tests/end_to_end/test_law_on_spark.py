"""The law of tests/delta on Spark, by sample: the same plans, written in Spark's dialect."""

from __future__ import annotations

from hypothesis import HealthCheck, given, reject, settings

from pgtrickle.errors import UnsupportedExpressionError
from pgtrickle.ports import Engine
from tests.delta.law import DefiningQuery, History, check_law
from tests.delta.strategies import histories, queries
from tests.delta.world import World


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(query=queries(), history=histories(windows=1))
def test_old_result_plus_delta_is_new_result_on_spark(
    world: World, spark_engine: Engine, query: DefiningQuery, history: History
) -> None:
    try:
        check_law(world, query, history, spark_engine)
    except UnsupportedExpressionError:
        reject()  # refused by name, not approximated
