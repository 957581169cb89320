"""The line on DuckDB: real PostgreSQL, no JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from pgtrickle.bootstrap import Trickle
    from tests.service.lab import Lab


@pytest.fixture
def lab(shared_duckdb_trickle: Trickle) -> Iterator[Lab]:
    from tests.service.lab import Lab

    with psycopg.connect(shared_duckdb_trickle.dsn, autocommit=True) as connection:
        lab = Lab(shared_duckdb_trickle, connection)
        lab.reset()
        yield lab
