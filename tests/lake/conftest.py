"""A DuckLake catalog that was made by SQL alone, a client that reads it, and stream tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import pgtrickle
from pgtrickle.lake.catalog import create_catalog
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.ducklake import lake_client
from tests.fixtures.engines import Borrowed
from tests.lake.shore import LAKE_DSN, SOURCE, FarShore, Shore
from tests.lake.workshop import Workshop


@pytest.fixture
def workshop(database: str, tmp_path: Path) -> Iterator[Workshop]:
    """Make a catalog in a schema of its own, with one table, and attach DuckDB to it."""
    with psycopg.connect(database, autocommit=True) as connection:
        catalog = create_catalog(connection, "lake", str(tmp_path))
        with lake_client(database, "lake") as client:
            yield Workshop(connection, catalog, client, tmp_path)


@pytest.fixture
def shore(database: str, duckdb_engine: DuckDbEngine, tmp_path: Path) -> Iterator[Shore]:
    """Open pgtrickle on a fresh database with an empty lake, and a client of each side."""
    settings = load_settings({}, dsn=database, ducklake_catalog_schema="lake")
    with (
        psycopg.connect(database, autocommit=True) as connection,
        pgtrickle.connect(database, engine=Borrowed(duckdb_engine), settings=settings) as trickle,
    ):
        create_catalog(connection, "lake", str(tmp_path))
        with lake_client(database, "lake") as client:
            shore = Shore(trickle, connection, client, tmp_path)
            shore.run(*SOURCE)
            yield shore


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
    settings = load_settings(
        {},
        dsn=database,
        ducklake_catalog_schema="lake",
        ducklake_catalog_dsn=f"${{ENV:{LAKE_DSN}}}",
    )
    with (
        psycopg.connect(database, autocommit=True) as connection,
        psycopg.connect(other_database, autocommit=True) as other,
        pgtrickle.connect(database, engine=Borrowed(duckdb_engine), settings=settings) as trickle,
    ):
        create_catalog(other, "lake", str(tmp_path))
        with lake_client(other_database, "lake") as client:
            shore = FarShore(trickle, connection, client, tmp_path, other)
            shore.run(*SOURCE)
            yield shore
