"""ORDER BY with LIMIT, OFFSET and FETCH, and DISTINCT ON (scenarios.md: P39).

Ties are broken by a key, or kept by WITH TIES, so that there is one answer.
"""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

TOP = "SELECT id, score FROM t ORDER BY score DESC NULLS LAST, id LIMIT 3"


@pytest.fixture
def scores(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int, score int)",
        "INSERT INTO t VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30), (4, 2, 20), (5, 3, NULL)",
    )
    return lab


def test_p39_row_enters(scores: Lab) -> None:
    scores.create("s", TOP)

    [enters] = scores.window("INSERT INTO t VALUES (6, 1, 25)")
    [stays_out] = scores.window("INSERT INTO t VALUES (7, 1, 5)")
    [climbs] = scores.window("UPDATE t SET score = 100 WHERE id = 7")

    assert (enters.rows_inserted, enters.rows_deleted) == (1, 1)
    assert (stays_out.rows_inserted, stays_out.rows_deleted) == (0, 0)
    assert (climbs.rows_inserted, climbs.rows_deleted) == (1, 1)


def test_p39_row_falls_out(scores: Lab) -> None:
    scores.create("s", TOP)

    scores.window("UPDATE t SET score = 1 WHERE id = 3")
    scores.window("UPDATE t SET score = NULL WHERE id = 2")
    scores.window("UPDATE t SET score = -score")


def test_p39_tie_at_the_cut_off(scores: Lab) -> None:
    scores.create("s", "SELECT id, score FROM t ORDER BY score DESC NULLS LAST, id LIMIT 2")

    assert scores.rows("TABLE s") == [(2, 20), (3, 30)]
    [behind] = scores.window("INSERT INTO t VALUES (6, 1, 20)")
    scores.window("INSERT INTO t VALUES (0, 1, 20)")
    scores.window("DELETE FROM t WHERE id IN (0, 2)")

    assert (behind.rows_inserted, behind.rows_deleted) == (0, 0)
    assert scores.rows("TABLE s") == [(3, 30), (4, 20)]


def test_p39_with_ties_keeps_them_all(scores: Lab) -> None:
    scores.create(
        "s", "SELECT id, score FROM t ORDER BY score DESC NULLS LAST FETCH FIRST 2 ROWS WITH TIES"
    )

    assert len(scores.rows("TABLE s")) == 3
    scores.window("INSERT INTO t VALUES (6, 1, 20), (7, 1, 30)")
    scores.window("DELETE FROM t WHERE score = 30")
    scores.window("UPDATE t SET score = 7")
    scores.window("DELETE FROM t WHERE id < 7")


def test_p39_equal_rows_at_the_cut_off(lab: Lab) -> None:
    lab.run("CREATE TABLE bag (v int)", "INSERT INTO bag VALUES (1), (1), (1), (2)")
    lab.create("s", "SELECT v FROM bag ORDER BY v LIMIT 2")

    lab.window("INSERT INTO bag VALUES (0), (1)")
    lab.window("DELETE FROM bag WHERE v < 2")
    lab.window("INSERT INTO bag VALUES (2), (2)")


def test_p39_top_row_is_deleted(scores: Lab) -> None:
    scores.create("s", TOP)

    scores.window("DELETE FROM t WHERE id = 3")
    scores.window("DELETE FROM t WHERE score = 20")
    scores.window("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (9, 9, 9)")


def test_p39_pages_shift(scores: Lab) -> None:
    order = "ORDER BY score DESC NULLS LAST, id"
    scores.create("one", f"SELECT id FROM t {order} LIMIT 2")
    scores.create("two", f"SELECT id FROM t {order} LIMIT 2 OFFSET 2")
    scores.create("rest", f"SELECT id FROM t {order} OFFSET 4")

    [one, two, rest] = scores.window("INSERT INTO t VALUES (6, 1, 99)")
    assert [(x.rows_inserted, x.rows_deleted) for x in (one, two, rest)] == [(1, 1), (1, 1), (1, 0)]
    scores.window("DELETE FROM t WHERE id IN (3, 6)")
    scores.window("UPDATE t SET score = id", "INSERT INTO t VALUES (7, 1, 0), (8, 1, 0)")
    scores.window("DELETE FROM t WHERE id > 2")


def test_p39_fewer_rows_than_asked_for(scores: Lab) -> None:
    scores.create("s", "SELECT id, score FROM t ORDER BY id LIMIT 10")

    scores.window("DELETE FROM t WHERE id > 1")
    scores.window("DELETE FROM t")
    scores.window("INSERT INTO t SELECT i, i, i FROM generate_series(1, 12) AS i")
    scores.window("DELETE FROM t WHERE id < 5")


def test_limit_all_keeps_all(scores: Lab) -> None:
    scores.create("every", "SELECT id, k FROM t LIMIT ALL")
    scores.create("later", "SELECT id FROM t ORDER BY id LIMIT ALL OFFSET 1")

    scores.window("INSERT INTO t VALUES (6, 1, 1)", "DELETE FROM t WHERE id = 1")


def test_p39_limit_zero_is_always_empty(scores: Lab) -> None:
    scores.create("s", "SELECT id FROM t ORDER BY id LIMIT 0")

    scores.window("INSERT INTO t VALUES (6, 1, 1)", "DELETE FROM t WHERE id = 1")

    assert scores.rows("TABLE s") == []


def test_p39_top_of_groups(scores: Lab) -> None:
    scores.create(
        "s",
        "SELECT k, sum(score) AS total FROM t GROUP BY k"
        " ORDER BY sum(score) DESC NULLS LAST, k LIMIT 2",
    )

    scores.window("UPDATE t SET score = 60 WHERE id = 5")
    scores.window("DELETE FROM t WHERE k = 2")
    scores.window("UPDATE t SET k = 4 WHERE id = 1", "INSERT INTO t VALUES (6, 7, 61)")


def test_p39_top_rows_joined_and_counted(scores: Lab) -> None:
    scores.run(
        "CREATE TABLE names (k int, name text)", "INSERT INTO names VALUES (1, 'a'), (2, 'b')"
    )
    scores.create(
        "s",
        "SELECT n.name, count(*) AS n, max(x.score) AS best FROM (SELECT k, score FROM t"
        " ORDER BY score DESC NULLS LAST, id LIMIT 3) AS x JOIN names AS n ON n.k = x.k"
        " GROUP BY n.name",
    )

    scores.window("UPDATE t SET score = 50 WHERE id = 1")
    scores.window("DELETE FROM t WHERE id = 3", "UPDATE names SET name = 'c' WHERE k = 1")
    scores.window("DELETE FROM names WHERE k = 2", "INSERT INTO names VALUES (3, 'z')")


def test_p39_order_by_a_column_of_another_table(scores: Lab) -> None:
    scores.run("CREATE TABLE weight (k int, w int)", "INSERT INTO weight VALUES (1, 5), (2, 1)")
    scores.create(
        "s",
        "SELECT t.id FROM t JOIN weight AS w ON w.k = t.k"
        " ORDER BY t.score * w.w DESC NULLS LAST, t.id LIMIT 2",
    )

    scores.window("UPDATE weight SET w = 10 WHERE k = 2")
    scores.window("INSERT INTO weight VALUES (3, 1)", "UPDATE t SET score = 1 WHERE id = 3")
    scores.window("DELETE FROM weight WHERE k = 2", "UPDATE t SET score = 0 WHERE id = 5")


def test_p35_distinct_on_keeps_the_first_of_each(scores: Lab) -> None:
    scores.create(
        "s", "SELECT DISTINCT ON (k) k, id, score FROM t ORDER BY k, score DESC NULLS LAST, id"
    )

    scores.window("INSERT INTO t VALUES (6, 1, 15), (7, NULL, 1)")
    scores.window("DELETE FROM t WHERE id IN (2, 3)")
    scores.window("UPDATE t SET k = 2 WHERE k = 1", "UPDATE t SET k = NULL WHERE id = 5")
    scores.window("DELETE FROM t WHERE k IS NULL")
