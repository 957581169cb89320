"""UNION, INTERSECT and EXCEPT with and without ALL, and several groupings at once (P34)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

_QUERIES = {
    "union": "SELECT k, v FROM l UNION SELECT k, v FROM r",
    "intersect": "SELECT k, v FROM l INTERSECT SELECT k, v FROM r",
    "except": "SELECT k, v FROM l EXCEPT SELECT k, v FROM r",
    "a chain": "(SELECT k FROM l UNION ALL SELECT k FROM r) EXCEPT SELECT k FROM l WHERE v = 'a'",
    "types meet": "SELECT k FROM l UNION SELECT k + 0.5 FROM r",
    "over groups": "SELECT k, count(*) AS n FROM l GROUP BY k EXCEPT"
    " SELECT k, count(*) FROM r GROUP BY k",
    "joined": "SELECT x.k, l.v FROM (SELECT k FROM l INTERSECT SELECT k FROM r) AS x"
    " JOIN l ON l.k = x.k",
    "rollup": "SELECT k, v, count(*) AS n, grouping(k, v) AS g FROM l GROUP BY ROLLUP (k, v)",
    "cube": "SELECT l.k, r.v, sum(l.k) AS s FROM l JOIN r USING (k) GROUP BY CUBE (l.k, r.v)",
    "distinct sets": "SELECT k, v, count(*) AS n, grouping(k) AS g FROM l"
    " GROUP BY DISTINCT ROLLUP (k), ROLLUP (k, v)",
    "grouping of one": "SELECT k, grouping(k) AS g, sum(k) AS s FROM l GROUP BY k",
    "grouping sets": "SELECT DISTINCT coalesce(v, '-') AS v, max(k) AS m FROM l"
    " GROUP BY GROUPING SETS ((k, v), (v), ()) HAVING count(*) > 0",
}


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_both_sides_change_in_one_window(lab: Lab, query: str) -> None:
    lab.run(
        "CREATE TABLE l (k int, v text)",
        "CREATE TABLE r (k int, v text)",
        "INSERT INTO l VALUES (1, 'a'), (1, 'a'), (2, 'b'), (NULL, NULL), (3, NULL)",
        "INSERT INTO r VALUES (1, 'a'), (3, 'c'), (NULL, NULL)",
    )
    lab.create("s", query)

    lab.window("INSERT INTO r VALUES (2, 'b'), (2, 'b')", "DELETE FROM l WHERE k IS NULL")
    lab.window("UPDATE l SET v = 'z' WHERE k = 1", "DELETE FROM r WHERE k = 1")
    lab.window(
        "DELETE FROM r WHERE ctid = (SELECT ctid FROM r WHERE k = 2 LIMIT 1)",
        "INSERT INTO l VALUES (5, 'a')",
    )
    lab.window("INSERT INTO l SELECT * FROM r", "UPDATE r SET k = k + 1")
    lab.window("DELETE FROM l", "INSERT INTO r VALUES (9, 'q')")
    lab.window("DELETE FROM r", "INSERT INTO l VALUES (7, 'x')")


@pytest.fixture
def bags(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE l (k int, v text)",
        "CREATE TABLE r (k int, v text)",
        "INSERT INTO l VALUES (1, 'a'), (1, 'a'), (1, 'a'), (2, 'b'), (NULL, NULL), (NULL, NULL)",
        "INSERT INTO r VALUES (1, 'a'), (1, 'a'), (3, 'c'), (NULL, NULL)",
    )
    return lab


def test_p34_rows_of_null_are_equal(bags: Lab) -> None:
    bags.create("in_both", "SELECT k, v FROM l INTERSECT SELECT k, v FROM r")
    bags.create("left_only", "SELECT k, v FROM l EXCEPT SELECT k, v FROM r")

    assert (None, None) in bags.rows("TABLE in_both")
    bags.window("DELETE FROM r WHERE k IS NULL")
    assert (None, None) in bags.rows("TABLE left_only")
    bags.window("INSERT INTO r VALUES (NULL, NULL), (NULL, 'n'), (2, NULL)")
    bags.window("DELETE FROM l WHERE k IS NULL", "UPDATE l SET v = NULL WHERE k = 2")


def test_p34_chain_without_all(bags: Lab) -> None:
    bags.create(
        "s",
        "(SELECT k FROM l UNION SELECT k + 1 FROM r) EXCEPT"
        " (SELECT k FROM r INTERSECT SELECT k FROM l) UNION SELECT 0 FROM r WHERE k = 3",
    )

    bags.window("DELETE FROM r WHERE k = 1")
    bags.window("INSERT INTO r VALUES (2, 'b')", "DELETE FROM l WHERE k = 1")
    bags.window("DELETE FROM r WHERE k = 3", "INSERT INTO l VALUES (3, 'c'), (4, 'd')")


def test_p34_projection_above_except_keeps_counts(bags: Lab) -> None:
    bags.create("s", "SELECT k % 2 AS odd FROM (SELECT k, v FROM l EXCEPT SELECT k, v FROM r) AS x")

    bags.window("INSERT INTO l VALUES (5, 'e'), (7, 'g'), (9, 'i')")
    assert bags.rows("SELECT odd FROM s WHERE odd = 1") == [(1,), (1,), (1,)]
    bags.window("INSERT INTO r VALUES (7, 'g')")
    bags.window("DELETE FROM r WHERE k = 1", "UPDATE l SET k = k + 2 WHERE k > 4")
