"""A database with a captured table, and readers of its windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.catalog.databases import Database, ordinary_role

ORDERS = """
    CREATE TABLE public.orders (
        id bigint PRIMARY KEY, customer_id int, qty int, price numeric(10, 2), status text
    )
"""


@pytest.fixture
def connect(database: str) -> Iterator[Callable[[], Database]]:
    """Open further connections to the test's database."""
    opened: list[Database] = []

    def open_another() -> Database:
        opened.append(psycopg.connect(database, autocommit=True))
        return opened[-1]

    yield open_another
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect: Callable[[], Database]) -> Database:
    """Connect to a database with the catalog and an empty table of orders."""
    connection = connect()
    connection.execute(ORDERS)
    return connection


@pytest.fixture
def role(database: str) -> Iterator[str]:
    """Make an ordinary role."""
    with ordinary_role(database) as name:
        yield name


@pytest.fixture
def another_role(database: str) -> Iterator[str]:
    """Make a second ordinary role."""
    with ordinary_role(database) as name:
        yield name
