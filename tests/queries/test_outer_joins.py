"""Outer joins: first match gained, last match lost, keys that are NULL or move.

scenarios.md: P4, P6, P12 and P19 as far as outer joins are concerned, P32, P33.
"""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

_QUERIES = {
    "left": "SELECT o.id, o.c, c.name FROM o LEFT JOIN c ON c.id = o.c",
    "right": "SELECT o.id, c.id AS cid, c.name FROM o RIGHT JOIN c ON c.id = o.c",
    "full": "SELECT o.id, c.id AS cid, coalesce(c.name, o.note, '-') AS n"
    " FROM o FULL JOIN c ON c.id = o.c",
    "full of groups": "SELECT x.c, x.n, y.m FROM (SELECT c, count(*) AS n FROM o GROUP BY c) AS x"
    " FULL JOIN (SELECT id, max(name) AS m FROM c GROUP BY id) AS y ON x.c = y.id",
    "conditions on one side": "SELECT o.id, c.name FROM o LEFT JOIN c"
    " ON c.id = o.c AND c.name > 'b' AND o.note IS NOT NULL",
    "two columns": "SELECT o.id, p.w FROM o LEFT JOIN p ON p.c = o.c AND p.note = o.note",
    "using": "SELECT o.id, d.name FROM o LEFT JOIN (SELECT id AS c, name FROM c) AS d USING (c)",
    "anti": "SELECT o.id FROM o LEFT JOIN c ON c.id = o.c WHERE c.id IS NULL",
    "chain": "SELECT o.id, c.name, p.w FROM o LEFT JOIN c ON c.id = o.c"
    " LEFT JOIN p ON p.note = c.name",
    "inner above left": "SELECT o.id, c.name, p.w FROM o LEFT JOIN c ON c.id = o.c"
    " JOIN p ON p.c = o.c WHERE upper(coalesce(c.name, 'x')) <> 'Q'",
    "aggregate on top": "SELECT c.name, count(o.id) AS n, count(*) AS all_rows, sum(o.id) AS s"
    " FROM c LEFT JOIN o ON o.c = c.id GROUP BY c.name",
    "aggregate over full": "SELECT count(*) AS n, count(o.id) AS l, count(c.id) AS r,"
    " sum(o.id) AS s FROM o FULL JOIN c ON o.c = c.id",
    "types meet": "SELECT o.id, b.v FROM o LEFT JOIN b ON b.k = o.c",
}


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_partners_come_and_go(lab: Lab, query: str) -> None:
    lab.run(
        "CREATE TABLE o (id int, c int, note text)",
        "CREATE TABLE c (id int, name text)",
        "CREATE TABLE p (c int, note text, w int)",
        "CREATE TABLE b (k bigint, v numeric)",
        "INSERT INTO o VALUES (1, 1, 'a'), (1, 1, 'a'), (2, 2, NULL), (3, NULL, 'b'), (4, 9, 'c')",
        "INSERT INTO c VALUES (1, 'a'), (1, 'b'), (3, 'c'), (NULL, 'd')",
        "INSERT INTO p VALUES (1, 'a', 7), (2, NULL, 8), (NULL, 'b', 9), (9, 'c', 1)",
        "INSERT INTO b VALUES (1, 1.5), (5, 2.5), (NULL, 0)",
    )
    lab.create("s", query)
    every = "INSERT INTO o VALUES (0, 5, 'z')"  # each table of each query changes in each window

    lab.window(every, "INSERT INTO c VALUES (2, 'e')", "INSERT INTO p VALUES (5, 'z', 2)")
    lab.window(every, "DELETE FROM c WHERE id = 1", "DELETE FROM b WHERE k = 1")
    lab.window(every, "UPDATE o SET c = 3 WHERE id = 4", "UPDATE c SET id = 9 WHERE id = 3")
    lab.window(every, "UPDATE o SET c = NULL WHERE id = 2", "UPDATE c SET id = 5 WHERE id IS NULL")
    lab.window("DELETE FROM o WHERE c = 5", "DELETE FROM c WHERE id = 5", "DELETE FROM p")
    lab.window("DELETE FROM o", "INSERT INTO c VALUES (1, 'x'), (1, 'x')")
    lab.window("INSERT INTO o VALUES (1, 1, 'a'), (7, 7, 'q')", "DELETE FROM c WHERE name = 'x'")


PAIRS = (
    "CREATE TABLE l (id int, k int, v int)",
    "CREATE TABLE r (id int, k int, w int)",
    "INSERT INTO l VALUES (1, 1, 10), (2, 2, 20), (3, 3, 30), (4, NULL, 40)",
    "INSERT INTO r VALUES (1, 1, 100), (2, 2, 200), (5, 5, 500), (6, NULL, 600)",
)
LEFT = "SELECT l.id, l.v, r.id AS rid, r.w FROM l LEFT JOIN r ON r.k = l.k"
FULL = "SELECT l.id, l.v, r.id AS rid, r.w FROM l FULL JOIN r ON r.k = l.k"


@pytest.mark.parametrize("query", [LEFT, FULL], ids=["left", "full"])
def test_p04_both_sides_of_a_pair_deleted_under_an_outer_join(lab: Lab, query: str) -> None:
    lab.run(*PAIRS)
    lab.create("s", query)

    [report] = lab.window("DELETE FROM l WHERE k = 1", "DELETE FROM r WHERE k = 1")

    assert (report.rows_inserted, report.rows_deleted) == (0, 1)


@pytest.mark.parametrize("query", [LEFT, FULL], ids=["left", "full"])
def test_p06_both_sides_of_a_pair_inserted_under_an_outer_join(lab: Lab, query: str) -> None:
    lab.run(*PAIRS)
    lab.create("s", query)

    [report] = lab.window("INSERT INTO l VALUES (9, 9, 90)", "INSERT INTO r VALUES (9, 9, 900)")

    assert (report.rows_inserted, report.rows_deleted) == (1, 0)


@pytest.mark.parametrize("query", [LEFT, FULL], ids=["left", "full"])
def test_p12_null_join_key_under_an_outer_join(lab: Lab, query: str) -> None:
    lab.run(*PAIRS)
    lab.create("s", query)

    lab.window("INSERT INTO l VALUES (7, NULL, 70)", "INSERT INTO r VALUES (7, NULL, 700)")
    lab.window("UPDATE l SET k = 5 WHERE id = 7")
    lab.window("UPDATE l SET k = NULL WHERE id IN (1, 7)", "UPDATE r SET k = 3 WHERE id = 7")
    lab.window("UPDATE r SET k = NULL WHERE k = 3")
    lab.window("DELETE FROM l WHERE k IS NULL", "DELETE FROM r WHERE k IS NULL")


@pytest.mark.parametrize("side", ["LEFT", "RIGHT", "FULL"])
def test_p12_null_in_one_of_two_key_columns_under_an_outer_join(lab: Lab, side: str) -> None:
    lab.run("CREATE TABLE l (a int, b text, v int)", "CREATE TABLE r (a int, b text, w int)")
    rows = "(1, 'x', 1), (1, NULL, 2), (NULL, 'x', 3), (NULL, NULL, 4)"
    lab.run(f"INSERT INTO l VALUES {rows}", f"INSERT INTO r VALUES {rows}")
    lab.create("s", f"SELECT l.v, r.w FROM l {side} JOIN r ON r.a = l.a AND r.b = l.b")

    lab.window("UPDATE l SET b = 'x' WHERE v = 2", "UPDATE r SET a = 1 WHERE w = 3")
    lab.window("UPDATE l SET a = NULL WHERE v < 3", "INSERT INTO r VALUES (NULL, 'x', 5)")
    lab.window("DELETE FROM l WHERE a IS NULL AND b = 'x'", "DELETE FROM r WHERE b IS NULL")
    lab.window("INSERT INTO l VALUES (1, 'x', 9)", "UPDATE r SET b = NULL")


def test_p19_sum_over_the_padded_side_of_a_full_join(lab: Lab) -> None:
    lab.run(*PAIRS)
    lab.create(
        "s",
        "SELECT coalesce(l.k, r.k) AS k, sum(l.v) AS v, sum(r.w) AS w, count(*) AS n"
        " FROM l FULL JOIN r ON r.k = l.k GROUP BY coalesce(l.k, r.k)",
    )

    lab.window("DELETE FROM r WHERE k = 1", "DELETE FROM l WHERE k = 2")
    lab.window("UPDATE l SET v = NULL WHERE k = 3", "INSERT INTO r VALUES (3, 3, NULL)")
    lab.window("INSERT INTO l VALUES (5, 5, NULL)", "UPDATE r SET w = NULL WHERE k IS NULL")

    assert lab.rows("SELECT k, v, w FROM s WHERE k IN (1, 2, 3)") == [
        (1, 10, None),
        (2, None, 200),
        (3, None, None),
    ]


@pytest.fixture
def left(lab: Lab) -> Lab:
    lab.run(*PAIRS)
    lab.create("s", LEFT)
    return lab


def test_p32_first_match_replaces_the_padded_row(left: Lab) -> None:
    [first] = left.window("INSERT INTO r VALUES (3, 3, 300)")
    [second] = left.window("INSERT INTO r VALUES (33, 3, 333)")

    assert (first.rows_inserted, first.rows_deleted) == (1, 1)
    assert (second.rows_inserted, second.rows_deleted) == (1, 0)


def test_p32_last_match_lost_brings_the_padded_row_back(left: Lab) -> None:
    left.run("INSERT INTO r VALUES (11, 1, 111)")
    left.window()

    [one_of_two] = left.window("DELETE FROM r WHERE id = 1")
    [last] = left.window("DELETE FROM r WHERE id = 11")

    assert (one_of_two.rows_inserted, one_of_two.rows_deleted) == (0, 1)
    assert (last.rows_inserted, last.rows_deleted) == (1, 1)


def test_p32_key_update_moves_the_match(left: Lab) -> None:
    left.window("UPDATE r SET k = 3 WHERE k = 1")
    left.window("UPDATE l SET k = 2 WHERE k = 1")
    left.window("UPDATE l SET k = 5 - k WHERE k IN (2, 3)", "UPDATE r SET k = 5 - k WHERE k < 4")


def test_p32_duplicates_on_the_right(left: Lab) -> None:
    left.window("INSERT INTO r VALUES (1, 1, 100), (1, 1, 100), (3, 3, 300), (3, 3, 300)")
    left.window("DELETE FROM r WHERE ctid = (SELECT min(ctid) FROM r WHERE k = 3)")
    left.window("INSERT INTO l VALUES (1, 1, 10)", "DELETE FROM r WHERE k = 3")
    left.window("DELETE FROM r WHERE k = 1")


@pytest.fixture
def full(lab: Lab) -> Lab:
    lab.run(*PAIRS)
    lab.create("s", FULL)
    return lab


def test_p33_both_sides_without_a_partner(full: Lab) -> None:
    [report] = full.window("INSERT INTO l VALUES (8, 8, 80)", "INSERT INTO r VALUES (9, 9, 900)")
    full.window("UPDATE l SET k = 9 WHERE id = 8")
    full.window("DELETE FROM l WHERE k = 9", "UPDATE r SET k = 8 WHERE k = 9")

    assert (report.rows_inserted, report.rows_deleted) == (2, 0)


def test_p33_keys_migrate(full: Lab) -> None:
    full.window("UPDATE l SET k = k + 1")
    full.window("UPDATE r SET k = k + 1", "UPDATE l SET k = 6 WHERE k = 4")
    full.window("UPDATE l SET k = NULL WHERE k = 2", "UPDATE r SET k = 4 WHERE k IS NULL")


def test_p33_several_rows_without_a_partner(full: Lab) -> None:
    full.window("INSERT INTO l VALUES (8, 8, 1), (8, 8, 1), (8, 8, 2)", "DELETE FROM r WHERE k = 1")
    full.window("INSERT INTO r VALUES (8, 8, 3), (8, 8, 3)")
    full.window("DELETE FROM l WHERE k = 8")
    full.window("DELETE FROM r WHERE k = 8")


def test_p33_key_of_two_columns(lab: Lab) -> None:
    lab.run(*PAIRS)
    lab.create("s", "SELECT l.v, r.w FROM l FULL JOIN r ON r.k = l.k AND r.id = l.id")

    lab.window("UPDATE r SET id = 9 WHERE k = 1", "UPDATE l SET k = 5, id = 5 WHERE k = 3")
    lab.window("UPDATE l SET id = 9 WHERE k = 1", "DELETE FROM r WHERE k = 2")
    lab.window("UPDATE l SET k = NULL", "INSERT INTO r VALUES (9, 1, 1)")


def test_p33_nested_full_joins(lab: Lab) -> None:
    lab.run(*PAIRS, "CREATE TABLE m (k int, x int)", "INSERT INTO m VALUES (1, 7), (3, 8), (7, 9)")
    lab.create(
        "s",
        "SELECT l.v, r.w, m.x FROM l FULL JOIN r ON r.k = l.k"
        " FULL JOIN m ON m.k = coalesce(l.k, r.k)",
    )
    lab.create(
        "other_way",
        "SELECT l.v, j.w, j.x FROM l FULL JOIN (SELECT coalesce(r.k, m.k) AS k, w, x"
        " FROM r FULL JOIN m ON m.k = r.k) AS j ON j.k = l.k",
    )

    lab.window("DELETE FROM l WHERE k = 1", "INSERT INTO m VALUES (5, 6), (NULL, 0)")
    lab.window("UPDATE m SET k = 2 WHERE k = 3", "UPDATE r SET k = 7 WHERE k = 5")
    lab.window("DELETE FROM m WHERE k = 1", "DELETE FROM r WHERE k = 1", "UPDATE l SET k = k + 1")


def test_p33_aggregate_on_top(lab: Lab) -> None:
    lab.run(*PAIRS)
    lab.create(
        "s",
        "SELECT count(*) AS n, count(l.id) AS l, count(r.id) AS r, sum(coalesce(l.v, 0) +"
        " coalesce(r.w, 0)) AS total FROM l FULL JOIN r ON r.k = l.k",
    )

    lab.window("DELETE FROM r WHERE k = 1", "INSERT INTO l VALUES (5, 5, 50)")
    lab.window("UPDATE l SET k = 2", "UPDATE r SET k = 2 WHERE k = 5")
    lab.window("DELETE FROM l")
    lab.window("DELETE FROM r")


def test_p33_aggregates_below_and_above_for_ten_windows(lab: Lab) -> None:
    lab.run(*PAIRS)
    lab.create(
        "s",
        "SELECT x.n AS rows, count(*) AS keys, sum(x.v) AS v, max(y.w) AS w FROM"
        " (SELECT k, count(*) AS n, sum(v) AS v FROM l GROUP BY k) AS x FULL JOIN"
        " (SELECT k, sum(w) AS w FROM r GROUP BY k) AS y ON y.k = x.k GROUP BY x.n",
    )

    for i in range(10):
        lab.window(
            f"INSERT INTO l VALUES ({i}, {i % 4}, {i}), ({i}, {i % 3}, {i})",
            f"UPDATE r SET k = (k + {i}) % 6, w = w + 1 WHERE id % 2 = {i % 2}",
            f"DELETE FROM l WHERE k = {(i + 1) % 5}",
        )
