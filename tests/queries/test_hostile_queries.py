"""Hostile texts on real PostgreSQL: each ends with an answer or a clear error (docs/fuzzing.md)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.hostile.judge import judge
from tests.fuzz.hostile.run import KEPT, hostile_lab
from tests.fuzz.hostile.texts import draw_text, read_text
from tests.labs.lab import Lab

_TEXTS = 1200
_AT_ONCE = 25


@pytest.fixture
def shop(lab: Lab) -> Iterator[Lab]:
    with hostile_lab(lab):
        yield lab


@pytest.mark.timeout(600)
@pytest.mark.parametrize("start", range(0, _TEXTS, _AT_ONCE))
def test_text_ends_with_an_answer_or_a_clear_error(shop: Lab, fuzz_seed: int, start: int) -> None:
    failures = []
    for number in range(start, start + _AT_ONCE):
        judged = judge(shop, draw_text(fuzz_seed, number))
        if judged.verdict.failure:
            failures.append((number, judged))

    assert failures == [], f"make fuzz-hostile SEED={fuzz_seed} CASE=<number>"


def test_kept_text(shop: Lab) -> None:
    judged = {path.stem: judge(shop, read_text(path)) for path in sorted(KEPT.glob("*.json"))}

    assert {name: one for name, one in judged.items() if one.verdict.failure} == {}
