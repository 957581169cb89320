"""Random cases on real PostgreSQL: what it prints, binds and answers, with a fresh seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.cases import read_case
from tests.fuzz.generate import NEIGHBOURS, generate, unknown_to
from tests.fuzz.pipeline import play_together
from tests.fuzz.play import Outcome
from tests.fuzz.work import KEPT
from tests.labs.lab import Lab


@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", range(0, 48, NEIGHBOURS))
def test_a_stream_table_is_its_query(lab: Lab, fuzz_seed: int, start: int) -> None:
    check_cases(lab, fuzz_seed, start, "duckdb")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", range(0, 24, NEIGHBOURS))
def test_the_same_by_postgresql_alone(postgres_lab: Lab, fuzz_seed: int, start: int) -> None:
    check_cases(postgres_lab, fuzz_seed, start, "postgres")


def check_cases(lab: Lab, fuzz_seed: int, start: int, engine: str) -> None:
    off = unknown_to(lab.connection.info.server_version)
    cases = [generate(fuzz_seed, start + number, off) for number in range(NEIGHBOURS)]

    played = play_together(lab, cases)

    failures = [(c.query, p) for c, p in zip(cases, played, strict=True) if p.outcome.failure]
    assert failures == [], f"seed {fuzz_seed}: make fuzz-pipeline SEED={fuzz_seed} ENGINE={engine}"
    assert Outcome.UNANSWERED not in {one.outcome for one in played}, played


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_kept_case(lab: Lab, path: Path) -> None:
    [played] = play_together(lab, [read_case(path)])

    assert played.outcome is Outcome.HELD, played.reason


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_kept_case_by_postgresql_alone(postgres_lab: Lab, path: Path) -> None:
    [played] = play_together(postgres_lab, [read_case(path)])

    assert played.outcome is Outcome.HELD, played.reason
