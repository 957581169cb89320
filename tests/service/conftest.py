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


@pytest.fixture
def wal(lab: Lab) -> Iterator[Lab]:
    """Take slot and publication away with the test that made them."""
    from tests.service.wal_lab import clear, need_log

    need_log(lab)
    yield lab
    clear(lab)


@pytest.fixture
def counted(wal: Lab) -> Lab:
    """Create two stream tables over one table that the log captures."""
    from tests.service.wal_lab import COPY, COUNTS, T, create, modes

    wal.run(*T)
    create(wal, "copy", COPY)
    create(wal, "counts", COUNTS)
    assert modes(wal) == {"t": "WAL"}
    return wal


@pytest.fixture
def writer(lab: Lab) -> Iterator[psycopg.Connection]:
    with psycopg.connect(lab.trickle.dsn) as connection:
        yield connection
