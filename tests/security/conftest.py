"""One bench a test: a fresh database with an owner, a writer, a reader and an attacker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fakes.engine import DuckDbEngine
    from tests.fixtures.postgres import Migrated
    from tests.security.bench import Bench


@pytest.fixture
def bench(ordinary_catalog: Migrated, duckdb_engine: DuckDbEngine) -> Iterator[Bench]:
    """Make a bench whose owner has the catalog already."""
    from tests.security.bench import a_bench

    with a_bench(ordinary_catalog.dsn, duckdb_engine, ordinary_catalog.owner) as made:
        yield made


@pytest.fixture
def empty_bench(empty_database: str, duckdb_engine: DuckDbEngine) -> Iterator[Bench]:
    """Make a bench without a catalog: whoever connects first makes it."""
    from tests.security.bench import a_bench

    with a_bench(empty_database, duckdb_engine) as made:
        yield made
