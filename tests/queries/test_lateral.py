"""LATERAL subqueries and functions that return sets (scenarios.md: P38)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE c (id int, name text)",
        "CREATE TABLE o (id int, c int, qty int)",
        "INSERT INTO c VALUES (1, 'a'), (2, 'b'), (3, 'c'), (NULL, 'd')",
        "INSERT INTO o VALUES (1, 1, 5), (2, 1, 7), (3, 1, 7), (4, 2, NULL), (5, NULL, 9)",
    )
    return lab


def change(lab: Lab) -> None:
    """Change the inside alone, then the outside alone, then both."""
    lab.window("INSERT INTO o VALUES (6, 1, 6), (7, 3, 1)")
    lab.window("DELETE FROM o WHERE id = 2", "UPDATE o SET qty = 8 WHERE id = 4")
    lab.window("INSERT INTO c VALUES (1, 'again')", "UPDATE c SET id = 2 WHERE name = 'c'")
    lab.window("UPDATE o SET c = 2 WHERE c = 1", "DELETE FROM c WHERE name = 'b'")
    lab.window("DELETE FROM o", "INSERT INTO c VALUES (9, 'z')")


def test_p38_inside_changes_and_the_outside_does_not(shop: Lab) -> None:
    shop.create(
        "s", "SELECT c.name, l.id, l.qty FROM c, LATERAL (SELECT * FROM o WHERE o.c = c.id) AS l"
    )

    [report] = shop.window("INSERT INTO o VALUES (8, 2, 3)")
    assert (report.rows_inserted, report.rows_deleted) == (1, 0)
    change(shop)


def test_p38_best_two_of_each(shop: Lab) -> None:
    shop.create(
        "s",
        "SELECT c.name, l.id, l.qty FROM c CROSS JOIN LATERAL (SELECT o.id, o.qty FROM o"
        " WHERE o.c = c.id ORDER BY o.qty DESC NULLS LAST, o.id LIMIT 2) AS l",
    )

    change(shop)


def test_p38_left_join_lateral_of_an_aggregate(shop: Lab) -> None:
    shop.create(
        "s",
        "SELECT c.name, l.n, l.m FROM c LEFT JOIN LATERAL"
        " (SELECT count(*) AS n, max(o.qty) AS m FROM o WHERE o.c = c.id) AS l ON true",
    )

    assert (0, None) in [row[1:] for row in shop.rows("TABLE s")]
    change(shop)


def test_p38_left_join_lateral_that_finds_nothing(shop: Lab) -> None:
    shop.create(
        "s",
        "SELECT c.name, l.id FROM c LEFT JOIN LATERAL"
        " (SELECT o.id FROM o WHERE o.c = c.id AND o.qty > 5) AS l ON true",
    )

    change(shop)


def test_p38_expression_of_the_outside(shop: Lab) -> None:
    shop.create(
        "s",
        "SELECT c.name, x.twice, y.more FROM c, LATERAL (SELECT c.id * 2 AS twice) AS x,"
        " LATERAL (SELECT x.twice + 1 AS more) AS y",
    )

    shop.window("UPDATE c SET id = 5 WHERE id = 1", "DELETE FROM c WHERE id IS NULL")
    shop.window("INSERT INTO c VALUES (NULL, 'n'), (7, 'm')")


def test_p38_table_beside_itself(shop: Lab) -> None:
    shop.create(
        "s",
        "SELECT a.id, b.id AS before FROM o AS a LEFT JOIN LATERAL (SELECT o.id FROM o"
        " WHERE o.c = a.c AND o.id < a.id ORDER BY o.id DESC LIMIT 1) AS b ON true",
    )

    shop.window("INSERT INTO o VALUES (0, 1, 1)")
    shop.window("DELETE FROM o WHERE id = 2", "UPDATE o SET c = 1 WHERE id = 4")
    shop.window("UPDATE o SET id = 10 - id")


@pytest.fixture
def lists(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int, n int, tags text[], doc jsonb)",
        """INSERT INTO t VALUES (1, 2, '{a,b,a}', '[1, "x", null]'), (2, 0, '{}', '[]'),
           (3, NULL, NULL, NULL), (4, 1, '{NULL,c}', '[{"k": 1}]')""",
    )
    return lab


def change_lists(lab: Lab) -> None:
    """Fill the empty, empty the filled, duplicate and delete."""
    lab.window("UPDATE t SET n = 3, tags = '{z}', doc = '[7]' WHERE id IN (2, 3)")
    lab.window("UPDATE t SET n = 0, tags = '{}', doc = '[]' WHERE id = 1")
    lab.window("INSERT INTO t SELECT * FROM t WHERE id = 4", "DELETE FROM t WHERE id = 2")
    lab.window("UPDATE t SET n = NULL, tags = NULL, doc = NULL WHERE id = 4")
    lab.window("DELETE FROM t")


def test_p38_elements_of_arrays_that_are_empty_or_null(lists: Lab) -> None:
    lists.create("s", "SELECT t.id, u.tag FROM t, unnest(t.tags) AS u (tag)")

    change_lists(lists)


def test_p38_left_join_of_elements_keeps_the_empty(lists: Lab) -> None:
    lists.create(
        "s", "SELECT t.id, u.tag FROM t LEFT JOIN LATERAL unnest(t.tags) AS u (tag) ON true"
    )

    change_lists(lists)


def test_p38_elements_with_their_positions(lists: Lab) -> None:
    lists.create(
        "s", "SELECT t.id, u.tag, u.n FROM t, unnest(t.tags) WITH ORDINALITY AS u (tag, n)"
    )

    change_lists(lists)


def test_p38_elements_of_documents(lists: Lab) -> None:
    lists.create("s", "SELECT t.id, e.value FROM t, jsonb_array_elements(t.doc) AS e (value)")

    change_lists(lists)


def test_p38_series_of_numbers(lists: Lab) -> None:
    lists.create("s", "SELECT t.id, g.i FROM t, generate_series(1, t.n) AS g (i)")

    change_lists(lists)


def test_p38_function_in_the_select_list(lists: Lab) -> None:
    lists.create("s", "SELECT id, unnest(tags) AS tag FROM t")

    change_lists(lists)


def test_p38_elements_counted_and_joined(lists: Lab) -> None:
    lists.run("CREATE TABLE names (tag text, name text)", "INSERT INTO names VALUES ('a', 'A')")
    lists.create(
        "s",
        "SELECT u.tag, count(*) AS n, max(m.name) AS name FROM t, unnest(t.tags) AS u (tag)"
        " LEFT JOIN names AS m ON m.tag = u.tag GROUP BY u.tag",
    )

    lists.window("INSERT INTO names VALUES ('c', 'C')")
    lists.window("DELETE FROM names WHERE tag = 'a'", "UPDATE t SET tags = '{c,c}' WHERE id = 2")
    change_lists(lists)
