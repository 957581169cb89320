"""The generator and the shrinker themselves: reproducible, consistent, and able to shrink."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.delta.dialect import to_duckdb
from tests.delta.world import World
from tests.fuzz.cases import Case, read_case
from tests.fuzz.generate import generate
from tests.fuzz.play import Outcome, Played
from tests.fuzz.shrink import shrink


def test_a_case_can_be_drawn_alone() -> None:
    assert generate(7, 123) == generate(7, 123)
    assert generate(7, 123).query != generate(8, 123).query


@pytest.mark.parametrize("number", range(40))
def test_a_history_changes_only_rows_that_exist(number: int) -> None:
    assert generate(7, number * 8).is_consistent()


def test_a_case_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    for number in range(0, 200, 8):
        case = generate(7, number)
        path.write_text(case.text())

        assert read_case(path) == case


def test_a_feature_can_be_switched_off() -> None:
    cases = [generate(7, number, off=("join", "with", "aggregate.sum")) for number in range(200)]

    drawn = {feature for case in cases for feature in case.features}
    assert not {one for one in drawn if one.startswith(("join.", "with", "aggregate.sum"))}
    assert "aggregate.avg" in drawn


def test_a_failure_shrinks_to_what_causes_it(world: World) -> None:
    """The failure is made up: a FULL JOIN whose sources change at all."""
    case = next(
        case
        for case in (generate(7, number) for number in range(1000))
        if "FULL JOIN" in case.query and len(case.query) > 400 and _fails(world, case)
    )

    small = shrink(case, lambda one: _judge(world, one))

    assert _fails(world, small)
    assert len(small.query) < 120
    assert sum(len(window) for window in small.windows) == 1
    assert sum(len(table.rows) for table in small.tables) <= 1


def _judge(world: World, case: Case) -> Played:
    return Played(Outcome.DIFFERS if _fails(world, case) else Outcome.HELD)


def _fails(world: World, case: Case) -> bool:
    world.define(case.history().tables)
    try:
        world.rows(to_duckdb(case.query))
    except Exception:  # noqa: BLE001 - a query that means nothing does not count
        return False
    return "FULL JOIN" in case.query and any(case.windows)
