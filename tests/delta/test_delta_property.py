"""The one law every plan obeys: old result + delta = new result."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, given, settings

from pgtrickle.delta.reads import ReadKind
from tests.delta.law import DefiningQuery, History, check_law
from tests.delta.strategies import chains, histories, queries
from tests.delta.world import World
from tests.fakes.engine import DuckDbEngine

# Finding the smallest failing example may take minutes; a run that passes takes seconds.
pytestmark = pytest.mark.timeout(3600)

# The world is shared by all examples on purpose: every history starts it afresh.
_EXAMPLES = settings().max_examples
_SHARED = settings(suppress_health_check=list(HealthCheck))
_MANY = settings(_SHARED, max_examples=_EXAMPLES)
_SOME = settings(_SHARED, max_examples=max(50, _EXAMPLES // 10))
_FEW = settings(_SHARED, max_examples=max(15, _EXAMPLES // 20))


@_MANY
@given(query=queries(), history=histories())
def test_old_result_plus_delta_is_new_result(
    world: World, query: DefiningQuery, history: History
) -> None:
    observed = check_law(world, query, history)

    event(f"keyed reads: {ReadKind.KEYED in observed.kinds}")
    event(f"changes of stages: {ReadKind.STAGE in observed.kinds}")


@_SOME
@given(query=chains(), history=histories(windows=2))
def test_bounds_reach_every_row_along_chains_of_joins(
    world: World, query: DefiningQuery, history: History
) -> None:
    check_law(world, query, history)


@_FEW
@given(query=queries(), history=histories(windows=2))
def test_the_law_holds_through_the_engine_port(
    world: World, duckdb_engine: DuckDbEngine, query: DefiningQuery, history: History
) -> None:
    check_law(world, query, history, duckdb_engine)
