"""The benchmarks' database: only the tables that are read, and changes that those allow."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from benchmarks.tpch.changes import change
from benchmarks.tpch.database import Database, tables_of
from tests.workloads.tpch.data import TABLES
from tests.workloads.tpch.workload import load_scale, queries_at

_SCALE = 0.01


@pytest.fixture
def connection(database: str) -> Iterator[Connection[TupleRow]]:
    """Yield a connection to a database of its own."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def _count(connection: Connection[TupleRow], table: str) -> int:
    [(count,)] = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()
    return int(count)


def test_only_the_tables_named_are_filled_and_later_ones_added(connection: Connection[TupleRow]):
    load_scale(connection, _SCALE, ["orders"])
    filled = {table for table in TABLES if _count(connection, table)}
    orders = _count(connection, "orders")

    added = load_scale(connection, _SCALE, ["orders", "nation"])

    assert added == ["nation"]
    assert filled == {"orders"}
    assert _count(connection, "orders") == orders
    assert _count(connection, "nation") == 25


def test_progress_is_told_of_every_table(connection: Connection[TupleRow]):
    told: dict[str, int] = {}

    load_scale(connection, _SCALE, ["nation", "part"], told.__setitem__)

    assert list(told) == ["nation", "part"]
    assert told["part"] > told["nation"] > 0


# Queries that lack tables which the changes draw from: customers of orders, suppliers of lines.
@pytest.mark.parametrize("query", ["q04", "q06", "q13", "q16", "q22"])
def test_windows_change_what_a_query_alone_needs(query: str, connection: Connection[TupleRow]):
    tables = tables_of([queries_at(_SCALE)[query]])
    load_scale(connection, _SCALE, tables)

    change(connection, 0.1, 1)

    assert {table for table in TABLES if _count(connection, table)} == set(tables)


def test_windows_are_numbered_on(connection: Connection[TupleRow]):
    load_scale(connection, _SCALE, ["supplier"])
    database = Database(connection, "", _SCALE, queries_at(_SCALE))

    assert [database.change(0.01), database.change(0.01)] == [1, 2]
    assert database.next_window() == 3
