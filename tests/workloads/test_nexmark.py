"""Nexmark q0 to q9 are maintained incrementally and stay equal to PostgreSQL's answers."""

from __future__ import annotations

import pytest

from tests.workloads.conftest import Play
from tests.workloads.nexmark.workload import NEXMARK
from tests.workloads.outcome import Outcome

pytestmark = pytest.mark.timeout(600)  # the first test waits for the whole workload


@pytest.fixture(scope="module")
def outcomes(play_on_engine: Play) -> dict[str, Outcome]:
    return play_on_engine(NEXMARK)


@pytest.mark.parametrize("query", [f"q{number}" for number in range(10)])
def test_stream_table_is_the_query_after_every_cycle(outcomes: dict[str, Outcome], query: str):
    assert outcomes[query].failure is None
