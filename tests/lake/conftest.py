"""A DuckLake catalog that was made by SQL alone, a client that reads it, and stream tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgtrickle.lake.format.catalog import create_catalog
from tests.fakes.engine import DuckDbEngine
from tests.fakes.spreading import SpreadingEngine
from tests.fixtures.ducklake import lake_client
from tests.lake.shore import LAKE_DSN, SOURCE, FarShore, Shore, open_far_shore, open_shore
from tests.lake.workshop import Workshop


@pytest.fixture
def workshop(database: str, tmp_path: Path) -> Iterator[Workshop]:
    """Make a catalog in a schema of its own, with one table, and attach DuckDB to it."""
    with psycopg.connect(database, autocommit=True) as connection:
        catalog = create_catalog(connection, "lake", str(tmp_path))
        with lake_client(database, "lake") as client:
            workshop = Workshop(connection, catalog, client, tmp_path)
            with workshop.clients:
                yield workshop


@pytest.fixture
def shore(database: str, duckdb_engine: DuckDbEngine, tmp_path: Path) -> Iterator[Shore]:
    """Open a shore whose engine has no other processes, with a few rows."""
    with open_shore(database, duckdb_engine, tmp_path) as shore:
        shore.run(*SOURCE)
        yield shore


@pytest.fixture
def spreading(database: str) -> Iterator[SpreadingEngine]:
    """Open an engine with other processes."""
    engine = SpreadingEngine(database)
    yield engine
    engine.close()


@pytest.fixture
def far(
    database: str,
    other_database: str,
    duckdb_engine: DuckDbEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[FarShore]:
    """Open pgtrickle on a fresh database, with an empty lake whose catalog is in another."""
    monkeypatch.setenv(LAKE_DSN, other_database)
    with open_far_shore(database, other_database, duckdb_engine, tmp_path) as shore:
        shore.run(*SOURCE)
        yield shore
