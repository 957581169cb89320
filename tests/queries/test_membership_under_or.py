"""EXISTS and IN below OR, NOT and in the select list: each row once (scenarios.md: P31)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

MATCHED = "EXISTS (SELECT 1 FROM c WHERE c.id = o.c)"
MARKED = "EXISTS (SELECT 1 FROM p WHERE p.c = o.c AND p.w > 1)"

_QUERIES = {
    "exists or a column": f"SELECT id, c FROM o WHERE {MATCHED} OR flag",
    "two exists": f"SELECT id, c FROM o WHERE {MATCHED} OR {MARKED}",
    "exists or not exists": f"SELECT id, c FROM o WHERE {MATCHED} OR NOT {MARKED}",
    "not of an and": f"SELECT id, c FROM o WHERE NOT (flag AND {MATCHED})",
    "not of an or": f"SELECT id, c FROM o WHERE NOT ({MATCHED} OR {MARKED})",
    "in or in": "SELECT id FROM o WHERE c IN (SELECT id FROM c) OR id IN (SELECT w FROM p)",
    "mixed": f"SELECT id FROM o WHERE (flag OR {MATCHED}) AND ({MARKED} OR c IS NULL)",
    "shown": f"SELECT id, {MATCHED} AS matched, {MARKED} AS marked FROM o",
    "in a case": f"SELECT id, CASE WHEN {MATCHED} THEN 'c' WHEN {MARKED} THEN 'p' ELSE '-' END AS x"
    " FROM o",
    "under an aggregate": f"SELECT flag, count(*) AS n FROM o WHERE {MATCHED} OR {MARKED}"
    " GROUP BY flag",
}


@pytest.fixture
def members(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE o (id int, c int, flag bool)",
        "CREATE TABLE c (id int)",
        "CREATE TABLE p (c int, w int)",
        "INSERT INTO o VALUES (1, 1, true), (1, 1, true), (2, 2, false), (3, NULL, NULL),"
        " (4, 4, NULL), (5, 5, false)",
        "INSERT INTO c VALUES (1), (1), (2), (NULL)",
        "INSERT INTO p VALUES (1, 2), (4, 3), (5, 0), (NULL, 9)",
    )
    return lab


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_p31_branches_gain_and_lose_rows(members: Lab, query: str) -> None:
    members.create("s", query)
    every = "INSERT INTO o VALUES (9, 9, false)"

    members.window(every, "INSERT INTO c VALUES (4), (9)", "UPDATE p SET w = 5 WHERE c = 5")
    members.window(every, "DELETE FROM c WHERE id = 1", "DELETE FROM p WHERE c = 4")
    members.window(every, "DELETE FROM p WHERE c = 1", "UPDATE o SET flag = NOT flag")
    members.window(every, "UPDATE o SET c = 1 WHERE id = 3", "INSERT INTO p VALUES (1, 7), (1, 7)")
    members.window("DELETE FROM o WHERE id = 9", "DELETE FROM c", "UPDATE p SET c = 2 WHERE w = 5")
    members.window(every, "DELETE FROM p")


def test_p31_row_that_satisfies_both_branches_counts_once(members: Lab) -> None:
    members.create("s", f"SELECT id, c FROM o WHERE {MATCHED} OR {MARKED}")

    assert members.rows("SELECT id FROM s WHERE id = 1") == [(1,), (1,)]  # a bag: two rows, not one
    [one_branch_less] = members.window("DELETE FROM c WHERE id = 1")
    [none_left] = members.window("DELETE FROM p WHERE c = 1")
    [back_by_both] = members.window("INSERT INTO c VALUES (1)", "INSERT INTO p VALUES (1, 8)")

    assert (one_branch_less.rows_inserted, one_branch_less.rows_deleted) == (0, 0)
    assert (none_left.rows_inserted, none_left.rows_deleted) == (0, 2)
    assert (back_by_both.rows_inserted, back_by_both.rows_deleted) == (2, 0)
