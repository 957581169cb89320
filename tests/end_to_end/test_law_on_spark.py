"""The law of tests/delta on Spark, by sample: the same plans, written in Spark's dialect."""

from __future__ import annotations

import pytest

from pgtrickle.ports import Engine
from tests.delta.world import World
from tests.fuzz.generate import generate
from tests.fuzz.play import Outcome, play

_SEED = 20_24
_NUMBERS = range(0, 240, 8)  # each with tables and a history of its own


@pytest.mark.parametrize("number", _NUMBERS)
def test_old_result_plus_delta_is_new_result_on_spark(
    world: World, spark_engine: Engine, number: int
) -> None:
    played = play(world, generate(_SEED, number), spark_engine)

    if played.outcome is Outcome.REFUSED:
        pytest.skip(played.reason)  # refused by name, not approximated
    assert played.outcome is Outcome.HELD, played.reason
