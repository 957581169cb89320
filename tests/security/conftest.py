"""One bench a test: a fresh database with an owner, a writer, a reader and an attacker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fakes.engine import DuckDbEngine
    from tests.security.bench import Bench


@pytest.fixture
def bench(database: str, duckdb_engine: DuckDbEngine) -> Iterator[Bench]:
    from tests.security.bench import a_bench

    with a_bench(database, duckdb_engine) as made:
        yield made
