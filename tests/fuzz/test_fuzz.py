"""Random cases of one seed, and every case that ever failed.

``PGTRICKLE_FUZZ_SEED`` names another seed, ``PGTRICKLE_FUZZ_CASES`` makes it longer or shorter.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.delta.world import World
from tests.fuzz.cases import read_case
from tests.fuzz.play import Outcome, play
from tests.fuzz.work import KEPT, orders, play_all

_CASES = int(os.environ.get("PGTRICKLE_FUZZ_CASES", "500"))
_AT_ONCE = 24


@pytest.mark.timeout(600)  # a failure is shrunk before it is reported
@pytest.mark.parametrize("start", range(0, _CASES, _AT_ONCE))
def test_a_delta_leads_to_the_answer(fuzz_seed: int, start: int) -> None:
    numbers = range(start, min(start + _AT_ONCE, _CASES))
    tally = play_all(list(orders(fuzz_seed, numbers)), jobs=1)

    assert tally.failures == [], f"seed {fuzz_seed}: make fuzz SEED={fuzz_seed} CASE=<number>"
    assert tally.outcomes[Outcome.HELD], tally.reasons


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_kept_case(world: World, path: Path) -> None:
    played = play(world, read_case(path))

    assert played.outcome is Outcome.HELD, played.reason
