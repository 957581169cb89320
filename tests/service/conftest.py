"""The line on DuckDB: real PostgreSQL, no JVM."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from pgtrickle.bootstrap import Trickle
from tests.service.lab import Lab


@pytest.fixture
def lab(database: str, duckdb_trickle: Trickle) -> Iterator[Lab]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield Lab(duckdb_trickle, connection)
