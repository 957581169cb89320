"""The ``database`` fixture gives every test a database of its own."""

from __future__ import annotations

import psycopg
import pytest


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_gets_an_empty_database(database, turn):
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE only_mine AS SELECT 1")
