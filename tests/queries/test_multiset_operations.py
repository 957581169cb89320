"""INTERSECT ALL and EXCEPT ALL: how often a row occurs on each side counts (scenarios.md: P34)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab


@pytest.fixture
def copies(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE l (k int, v text)",
        "CREATE TABLE r (k int, v text)",
        "INSERT INTO l VALUES (1, 'a'), (1, 'a'), (1, 'a'), (2, 'b'), (NULL, NULL), (NULL, NULL)",
        "INSERT INTO r VALUES (1, 'a'), (1, 'a'), (3, 'c'), (NULL, NULL)",
    )
    return lab


def one_less(table: str, k: str) -> str:
    """Delete one of several equal rows."""
    where = f"k IS NOT DISTINCT FROM {k}"
    return f"DELETE FROM {table} WHERE ctid = (SELECT min(ctid) FROM {table} WHERE {where})"


def change(lab: Lab) -> None:
    """Take and give single copies on either side, then on both, then everything."""
    lab.window(one_less("r", "1"))
    lab.window(one_less("l", "1"), "INSERT INTO l VALUES (3, 'c')")
    lab.window("INSERT INTO r VALUES (1, 'a'), (1, 'a'), (1, 'a')", one_less("l", "NULL"))
    lab.window("INSERT INTO l VALUES (1, 'a')", one_less("r", "1"))
    lab.window("UPDATE l SET k = 3, v = 'c' WHERE k = 2", "DELETE FROM r WHERE k IS NULL")
    lab.window("DELETE FROM r", "INSERT INTO l VALUES (NULL, NULL)")
    lab.window("DELETE FROM l", "INSERT INTO r VALUES (1, 'a')")


def test_p34_intersect_all_has_the_smaller_number_of_copies(copies: Lab) -> None:
    copies.create("s", "SELECT k, v FROM l INTERSECT ALL SELECT k, v FROM r")

    assert copies.rows("SELECT k FROM s WHERE k = 1") == [(1,), (1,)]
    [report] = copies.window("INSERT INTO l VALUES (1, 'a')")
    assert (report.rows_inserted, report.rows_deleted) == (0, 0)
    change(copies)


def test_p34_except_all_has_the_copies_that_are_left(copies: Lab) -> None:
    copies.create("s", "SELECT k, v FROM l EXCEPT ALL SELECT k, v FROM r")

    [fewer] = copies.window("INSERT INTO r VALUES (1, 'a')")
    [none_to_take] = copies.window("INSERT INTO r VALUES (1, 'a')")
    [still_covered] = copies.window("INSERT INTO l VALUES (1, 'a')")

    assert [x.rows_deleted for x in (fewer, none_to_take, still_covered)] == [1, 0, 0]
    change(copies)


def test_p34_rows_of_null_are_equal_under_all(copies: Lab) -> None:
    copies.create("in_both", "SELECT k, v FROM l INTERSECT ALL SELECT k, v FROM r")
    copies.create("left_only", "SELECT k, v FROM l EXCEPT ALL SELECT k, v FROM r")

    assert copies.rows("SELECT k FROM in_both WHERE k IS NULL") == [(None,)]
    copies.window("INSERT INTO r VALUES (NULL, NULL), (NULL, 'n'), (2, NULL)")
    copies.window(one_less("l", "NULL"), "UPDATE l SET v = NULL WHERE k = 2")
    copies.window("DELETE FROM r WHERE k IS NULL")


def test_p34_chain_under_all(copies: Lab) -> None:
    copies.create(
        "s",
        "(SELECT k FROM l EXCEPT ALL SELECT k FROM r) UNION ALL"
        " (SELECT k FROM r INTERSECT ALL SELECT k FROM l) EXCEPT ALL SELECT 2 FROM r",
    )

    change(copies)


def test_p34_projection_above_except_all_keeps_counts(copies: Lab) -> None:
    copies.create(
        "s", "SELECT k % 2 AS odd FROM (SELECT k, v FROM l EXCEPT ALL SELECT k, v FROM r) AS x"
    )
    copies.create(
        "counts",
        "SELECT v, count(*) AS n FROM (SELECT k, v FROM l EXCEPT ALL SELECT k, v FROM r) AS x"
        " GROUP BY v",
    )

    copies.window("INSERT INTO l VALUES (5, 'e'), (5, 'e'), (7, 'g')")
    change(copies)
