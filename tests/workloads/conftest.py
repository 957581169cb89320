"""The fast lane of the workloads: DuckDB in Spark's place, or PostgreSQL alone; fewer cycles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.workloads.outcome import Outcome
from tests.workloads.play import play
from tests.workloads.workload import Workload

if TYPE_CHECKING:
    from pgtrickle.client.trickle import Trickle

Play = Callable[[Workload], dict[str, Outcome]]
_CYCLES = 3  # every answer has changed by then; make workloads plays all ten


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def play_on_engine(request: pytest.FixtureRequest) -> Play:
    """Return a function that plays a workload in an empty database, by each of two engines."""
    from tests.labs.lab import Lab

    trickle: Trickle = request.getfixturevalue(f"shared_{request.param}_trickle")

    def played(workload: Workload) -> dict[str, Outcome]:
        with psycopg.connect(trickle.dsn, autocommit=True) as connection:
            Lab(trickle, connection).reset()
            return play(trickle, connection, workload, cycles=_CYCLES)

    return played
