"""Random cases through the whole line, PostgreSQL and Spark, with a fresh seed."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.generate import NEIGHBOURS, generate, unknown_to
from tests.fuzz.pipeline import play_together
from tests.labs.lab import Lab

_CASES = int(os.environ.get("PGTRICKLE_FUZZ_PIPELINE_CASES", "30"))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("start", range(0, _CASES, NEIGHBOURS))
def test_a_stream_table_is_its_query(lab: Lab, fuzz_seed: int, start: int) -> None:
    numbers = range(start, min(start + NEIGHBOURS, _CASES))
    off = unknown_to(lab.connection.info.server_version)
    cases = [generate(fuzz_seed, number, off) for number in numbers]

    played = play_together(lab, cases)

    failures = [(c.query, p) for c, p in zip(cases, played, strict=True) if p.outcome.failure]
    assert failures == [], f"seed {fuzz_seed}: make fuzz-pipeline SEED={fuzz_seed}"
