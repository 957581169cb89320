"""The oldest supported server, where its binaries are installed, has all that we rely on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgtrickle.catalog.migrate import check_version, migrate
from tests.capture.readers import capture, changes, next_window, snapshot
from tests.fixtures.postgres import plain_server

BINARIES = Path("/usr/lib/postgresql/15/bin")

pytestmark = pytest.mark.skipif(not BINARIES.exists(), reason="PostgreSQL 15 is not installed")


@pytest.fixture
def oldest_dsn() -> Iterator[str]:
    with plain_server(BINARIES) as dsn:
        yield dsn


def test_catalog_and_capture_work_on_the_oldest_server(oldest_dsn: str):
    with psycopg.connect(oldest_dsn, autocommit=True) as connection:
        migrate(connection)
        check_version(connection)
        connection.execute("CREATE TABLE orders (id int, qty int)")
        captured = capture(connection, "orders", "id", "qty")
        start = snapshot(connection)
        connection.execute("INSERT INTO orders VALUES (1, 1), (2, 2)")
        connection.execute("UPDATE orders SET qty = 3 WHERE id = 1")

        found, _ = next_window(connection, captured, start)

        assert found == changes(connection, captured) == Counter([(1, 3), (2, 2)])
