"""Which columns are unique, as the catalog of PostgreSQL tells."""

from __future__ import annotations

import psycopg

from pgtrickle.binding.unique_keys import list_unique_keys


def test_only_indexes_of_plain_columns_over_all_rows_count(database: str):
    with psycopg.connect(database) as connection:
        connection.execute(
            b"CREATE TABLE t (id int PRIMARY KEY, a int, b int, c int, d text, UNIQUE (b, a));"
            b"CREATE UNIQUE INDEX ON t (c) INCLUDE (d);"
            b"CREATE UNIQUE INDEX ON t (a) WHERE b > 0;"
            b"CREATE UNIQUE INDEX ON t (lower(d));"
            b"CREATE INDEX ON t (d);"
            b"CREATE TABLE plain (id int)"
        )
        [(t, plain)] = connection.execute(
            "SELECT 't'::regclass::oid::int, 'plain'::regclass::oid::int"
        ).fetchall()

        found = list_unique_keys(connection, [t, plain])

    assert found.keys() == {t}
    assert set(found[t]) == {frozenset({"id"}), frozenset({"a", "b"}), frozenset({"c"})}
