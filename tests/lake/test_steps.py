"""The steps at which other tests kill processes are places of the code."""

from __future__ import annotations

import pytest

from tests.lake.die_at import KINDS, SETTLE_STEPS


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_a_place_of_the_code(kind: str) -> None:
    missing = [
        f"{step}: {owner.__name__}.{attribute}"
        for step, (owner, attribute, _) in KINDS[kind].items()
        if not hasattr(owner, attribute)
    ]

    assert missing == []


def test_a_process_settles_after_a_step_that_exists() -> None:
    assert {after for after, _ in SETTLE_STEPS.values()} <= KINDS["elsewhere"].keys()
