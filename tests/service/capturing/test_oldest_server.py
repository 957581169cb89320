"""The whole line on the oldest supported server, where its binaries are installed."""

from __future__ import annotations

import psycopg

import pgtrickle
from tests.catalog.test_oldest_server import oldest_dsn, pytestmark  # noqa: F401 - a fixture
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.lab import Lab
from tests.queries.test_aggregates import ALL_AGGREGATES, SALES
from tests.queries.test_joins import PAIRS, SHOP


def test_line_on_the_oldest_server(oldest_dsn: str, duckdb_engine: DuckDbEngine):  # noqa: F811
    with (
        pgtrickle.connect(oldest_dsn, engine=Borrowed(duckdb_engine), init=True) as trickle,
        psycopg.connect(oldest_dsn, autocommit=True) as connection,
    ):
        lab = Lab(trickle, connection)
        lab.run(*SHOP, *SALES)
        lab.create("pairs", PAIRS)
        lab.create("by_shop", ALL_AGGREGATES)
        lab.create("top", "SELECT max(rows) AS rows, count(*) AS shops FROM by_shop")
        lab.create("kinds", "SELECT DISTINCT kind, price FROM sales")

        lab.run("UPDATE orders SET customer_id = 5 WHERE customer_id = 3")
        lab.window("DELETE FROM customers WHERE id = 3", "UPDATE sales SET shop = 'n' WHERE id > 3")
        lab.run("TRUNCATE sales")
        assert [trickle.refresh_stream_table(name).action.value for name in lab.queries] == [
            "NO_DATA", "FULL", "DIFFERENTIAL", "FULL",
        ]  # fmt: skip
        lab.check("top")
        lab.trickle.drop_stream_table("by_shop", cascade=True)
