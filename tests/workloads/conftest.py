"""The fast lane of the workloads: real PostgreSQL, DuckDB in Spark's place, fewer cycles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.workloads.play import Outcome, play
from tests.workloads.workload import Workload

if TYPE_CHECKING:
    from pgtrickle.bootstrap import Trickle

Play = Callable[[Workload], dict[str, Outcome]]
_CYCLES = 3  # every answer has changed by then; make workloads plays all ten


@pytest.fixture(scope="module")
def play_on_duckdb(shared_duckdb_trickle: Trickle) -> Play:
    """Return a function that plays a workload in an empty database."""
    from tests.service.lab import Lab

    def played(workload: Workload) -> dict[str, Outcome]:
        with psycopg.connect(shared_duckdb_trickle.dsn, autocommit=True) as connection:
            Lab(shared_duckdb_trickle, connection).reset()
            return play(shared_duckdb_trickle, connection, workload, cycles=_CYCLES)

    return played
