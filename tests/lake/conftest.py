"""A DuckLake catalog that was made by SQL alone, and a client that reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgtrickle.lake.catalog import create_catalog
from tests.fixtures.ducklake import lake_client
from tests.lake.workshop import Workshop


@pytest.fixture
def workshop(database: str, tmp_path: Path) -> Iterator[Workshop]:
    """Make a catalog in a schema of its own, with one table, and attach DuckDB to it."""
    with psycopg.connect(database, autocommit=True) as connection:
        catalog = create_catalog(connection, "lake", str(tmp_path))
        with lake_client(database, "lake") as client:
            yield Workshop(connection, catalog, client, tmp_path)
