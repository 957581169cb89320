"""IMMEDIATE stream tables equal their queries after every statement, whatever it does."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

_TABLES = (
    "CREATE TABLE customers (id int PRIMARY KEY, region text, credit numeric)",
    "CREATE TABLE orders (id int PRIMARY KEY, customer int, amount numeric, note text)",
    "INSERT INTO customers VALUES (1, 'north', 10), (2, 'south', 20), (3, NULL, NULL)",
    "INSERT INTO orders SELECT n, 1 + n % 4, n * 1.5, 'n' || n % 3 FROM generate_series(1, 20) n",
)

QUERIES = {
    "copy": "SELECT id, amount FROM orders WHERE amount > 5",
    "texts": "SELECT note FROM orders",
    "totals": "SELECT customer, count(*), sum(amount), avg(amount) FROM orders GROUP BY customer",
    "extremes": "SELECT note, min(amount), max(amount), count(DISTINCT customer)"
    " FROM orders GROUP BY note",
    "whole": "SELECT count(*) AS n, sum(amount) AS s FROM orders",
    "kinds": "SELECT DISTINCT note FROM orders",
    "ranked": "SELECT id, rank() OVER (PARTITION BY note ORDER BY amount) AS place FROM orders",
    "regions": "SELECT c.region, count(*), sum(o.amount) FROM orders o"
    " JOIN customers c ON c.id = o.customer GROUP BY c.region",
    "left_join": "SELECT o.id, c.region FROM orders o LEFT JOIN customers c ON c.id = o.customer",
    "pairs": "SELECT a.id AS one, b.id AS other FROM orders a JOIN orders b"
    " ON a.note = b.note AND a.id < b.id",
    "rich": "SELECT c.id FROM customers c WHERE c.credit > (SELECT avg(credit) FROM customers)",
    "busy": "SELECT region, max(n) FROM (SELECT c.region, c.id, count(*) AS n FROM customers c"
    " JOIN orders o ON o.customer = c.id GROUP BY c.region, c.id) AS x GROUP BY region",
    "missing": "SELECT id FROM customers c WHERE NOT EXISTS"
    " (SELECT FROM orders o WHERE o.customer = c.id)",
    "all_ids": "SELECT id FROM orders UNION ALL SELECT id FROM customers",
    "either": "SELECT id FROM orders UNION SELECT id FROM customers",
    "top": "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 3",
}

STATEMENTS = (
    "INSERT INTO orders VALUES (21, 1, 3, 'n0'), (22, 3, 100, 'new')",
    "UPDATE orders SET amount = amount + 1 WHERE id % 2 = 0",
    "UPDATE orders SET note = NULL, customer = 2 WHERE id IN (3, 4)",
    "DELETE FROM orders WHERE id = 22",
    "INSERT INTO orders VALUES (21, 2, 9, 'n1'), (30, 2, 9, 'n1')"
    " ON CONFLICT (id) DO UPDATE SET amount = excluded.amount, note = excluded.note",
    "INSERT INTO orders VALUES (21, 2, 9, 'n1') ON CONFLICT DO NOTHING",
    "MERGE INTO orders o USING (VALUES (1, 7.0), (2, NULL), (99, 5.0)) AS v (id, amount)"
    " ON o.id = v.id WHEN MATCHED AND v.amount IS NULL THEN DELETE"
    " WHEN MATCHED THEN UPDATE SET amount = v.amount"
    " WHEN NOT MATCHED THEN INSERT VALUES (v.id, 3, v.amount, 'merged')",
    "WITH gone AS (DELETE FROM customers WHERE id = 2 RETURNING id),"
    " new AS (INSERT INTO customers VALUES (4, 'west', 5) RETURNING id)"
    " UPDATE orders SET customer = 4 WHERE customer = 2",
    "WITH one AS (UPDATE orders SET amount = 1 WHERE id = 5),"
    " two AS (INSERT INTO orders VALUES (40, 1, 2, 'n2')) DELETE FROM orders WHERE id = 6",
    "UPDATE customers SET region = 'east' WHERE id = 1",
    "UPDATE customers SET id = id + 10",
    "UPDATE customers SET id = id - 10",
    "DELETE FROM customers WHERE false",
    "TRUNCATE customers",
    "INSERT INTO customers SELECT n, 'r' || n % 2, n FROM generate_series(1, 5) n",
    "TRUNCATE orders, customers",
    "INSERT INTO orders SELECT n, n % 5, n, 'x' FROM generate_series(1, 10) n",
    "INSERT INTO customers VALUES (1, 'north', 10)",
    "DELETE FROM orders",
)


@pytest.mark.parametrize("name", QUERIES)
def test_every_statement(lab: Lab, name: str) -> None:
    lab.run(*_TABLES)
    lab.create(name, QUERIES[name], "IMMEDIATE")
    for statement in STATEMENTS:
        lab.run(statement)
        assert lab.differences(name) == [], statement
    lab.trickle.drop_stream_table(name)
    assert lab.leftovers() == []


def test_one_table_is_read_by_keys_of_two_types(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, b int, n numeric(10, 2))",
        "CREATE TABLE u (id int PRIMARY KEY, a int, b int)",
        "INSERT INTO u VALUES (1, 3, 5), (2, 3, 9)",
    )
    lab.create(
        "s",
        "SELECT t.id, (SELECT u.id FROM u WHERE u.b < t.b) AS one, l.total FROM t,"
        " LATERAL (SELECT sum(u.b) AS total FROM u WHERE u.a = t.n) AS l",
        "IMMEDIATE",
    )

    for statement in (
        "INSERT INTO t VALUES (4, NULL, -1.50), (5, 7, 3), (6, 2, NULL)",
        "UPDATE t SET n = 2.5, b = 8 WHERE id = 4",
        "UPDATE u SET a = a - 1, b = b + 1 WHERE id = 2",
        "DELETE FROM t WHERE n = 3",
        "DELETE FROM u",
    ):
        lab.run(statement)
        assert lab.differences("s") == [], statement
