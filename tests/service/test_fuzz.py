"""Random cases on real PostgreSQL: what it prints, binds and answers, with a fresh seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.cases import read_case
from tests.fuzz.generate import NEIGHBOURS, generate
from tests.fuzz.pipeline import play_together
from tests.fuzz.play import Outcome
from tests.fuzz.work import KEPT
from tests.service.lab import Lab


@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", range(0, 48, NEIGHBOURS))
def test_a_stream_table_is_its_query(lab: Lab, fuzz_seed: int, start: int) -> None:
    cases = [generate(fuzz_seed, start + number, off=()) for number in range(NEIGHBOURS)]

    played = play_together(lab, cases)

    failures = [(c.query, p) for c, p in zip(cases, played, strict=True) if p.outcome.failure]
    assert failures == [], f"seed {fuzz_seed}: make fuzz-pipeline SEED={fuzz_seed} ENGINE=duckdb"
    assert Outcome.UNANSWERED not in {one.outcome for one in played}, played


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_kept_case(lab: Lab, path: Path) -> None:
    [played] = play_together(lab, [read_case(path)])

    assert played.outcome is Outcome.HELD, played.reason
