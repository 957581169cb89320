"""EXISTS, NOT EXISTS and IN: matches gained and lost, both sides in one window (P28)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

_QUERIES = {
    "exists": "SELECT id, c FROM o WHERE EXISTS (SELECT 1 FROM c WHERE c.id = o.c)",
    "not exists": "SELECT id, c FROM o WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.id = o.c)",
    "with conditions": "SELECT id FROM o WHERE note <> 'z' AND EXISTS"
    " (SELECT * FROM c WHERE c.id = o.c AND c.name > 'a' AND o.id > 1)",
    "not exists with conditions": "SELECT id FROM o WHERE NOT EXISTS"
    " (SELECT * FROM c WHERE c.id = o.c AND c.name > 'a' AND o.id > 1)",
    "over a join": "SELECT o.id FROM o WHERE EXISTS"
    " (SELECT 1 FROM c JOIN p ON p.note = c.name WHERE c.id = o.c AND p.w > 1)",
    "two at once": "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM c WHERE c.id = o.c)"
    " AND NOT EXISTS (SELECT 1 FROM p WHERE p.c = o.c AND p.note = o.note)",
    "nested": "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM c WHERE c.id = o.c"
    " AND NOT EXISTS (SELECT 1 FROM p WHERE p.note = c.name))",
    "in": "SELECT id FROM o WHERE c IN (SELECT id FROM c)",
    "in, two columns": "SELECT id FROM o WHERE (c, note) IN (SELECT c, note FROM p)",
    "in groups": "SELECT id FROM o WHERE c IN (SELECT id FROM c GROUP BY id HAVING count(*) > 1)",
    "of the same table": "SELECT id FROM o WHERE EXISTS"
    " (SELECT 1 FROM o AS x WHERE x.c = o.c AND x.note = 'a')",
    "under an aggregate": "SELECT c, count(*) AS n FROM o WHERE EXISTS"
    " (SELECT 1 FROM c WHERE c.id = o.c) GROUP BY c",
}


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_matches_come_and_go(lab: Lab, query: str) -> None:
    lab.run(
        "CREATE TABLE o (id int, c int, note text)",
        "CREATE TABLE c (id int, name text)",
        "CREATE TABLE p (c int, note text, w int)",
        "INSERT INTO o VALUES (1, 1, 'a'), (1, 1, 'a'), (2, 2, NULL), (3, NULL, 'b'), (4, 9, 'c')",
        "INSERT INTO c VALUES (1, 'a'), (1, 'b'), (3, 'c'), (NULL, 'd')",
        "INSERT INTO p VALUES (1, 'a', 7), (2, NULL, 8), (NULL, 'b', 9), (9, 'c', 1)",
    )
    lab.create("s", query)
    every = "INSERT INTO o VALUES (0, 5, 'y')"

    lab.window(every, "INSERT INTO c VALUES (2, 'e'), (5, 'y')", "INSERT INTO p VALUES (5, 'y', 2)")
    lab.window(every, "DELETE FROM c WHERE name = 'a'", "UPDATE p SET note = 'b' WHERE w = 7")
    lab.window(every, "DELETE FROM c WHERE id = 1", "DELETE FROM p WHERE c = 9")
    lab.window(every, "UPDATE o SET c = 3 WHERE id = 4", "UPDATE c SET id = 9 WHERE id = 3")
    lab.window(every, "UPDATE o SET c = NULL WHERE id = 2", "UPDATE c SET id = 3 WHERE id IS NULL")
    lab.window("DELETE FROM o WHERE c = 5", "DELETE FROM c WHERE id = 5", "DELETE FROM p")
    lab.window("INSERT INTO o VALUES (7, 7, 'q'), (8, 2, 'q')", "INSERT INTO c VALUES (7, 'q')")
    lab.window("DELETE FROM o", "DELETE FROM c")


ORDERS = (
    "CREATE TABLE o (id int, c int)",
    "CREATE TABLE c (id int, name text)",
    "CREATE TABLE p (name text)",
    "INSERT INTO o VALUES (1, 1), (2, 2), (3, 3), (4, NULL)",
    "INSERT INTO c VALUES (1, 'a'), (2, 'a'), (2, 'b'), (NULL, 'c')",
    "INSERT INTO p VALUES ('b')",
)
WITH_PARTNER = "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM c WHERE c.id = o.c)"
WITHOUT_PARTNER = "SELECT id FROM o WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.id = o.c)"


@pytest.fixture
def partners(lab: Lab) -> Lab:
    lab.run(*ORDERS)
    lab.create("matched", WITH_PARTNER)
    lab.create("unmatched", WITHOUT_PARTNER)
    return lab


def test_p28_first_match_gained(partners: Lab) -> None:
    [matched, unmatched] = partners.window("INSERT INTO c VALUES (3, 'new')")

    assert (matched.rows_inserted, unmatched.rows_deleted) == (1, 1)


def test_p28_last_match_lost(partners: Lab) -> None:
    [matched, unmatched] = partners.window("DELETE FROM c WHERE id = 1")

    assert (matched.rows_deleted, unmatched.rows_inserted) == (1, 1)


def test_p28_one_of_two_matches_lost_changes_nothing(partners: Lab) -> None:
    reports = partners.window("DELETE FROM c WHERE name = 'b'")

    assert [one.rows_inserted + one.rows_deleted for one in reports] == [0, 0]


def test_p28_outer_and_inner_change_together(partners: Lab) -> None:
    partners.window("UPDATE o SET c = 3 WHERE id = 1", "UPDATE c SET id = 3 WHERE id = 1")
    partners.window("DELETE FROM o WHERE id = 2", "DELETE FROM c WHERE id = 2")
    partners.window("INSERT INTO o VALUES (5, 5), (5, 5)", "INSERT INTO c VALUES (5, 'x')")
    partners.window("UPDATE o SET c = NULL WHERE id = 5", "DELETE FROM c WHERE id = 5")


def test_p28_nested(lab: Lab) -> None:
    lab.run(*ORDERS)
    lab.create(
        "s",
        "SELECT id FROM o WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.id = o.c"
        " AND NOT EXISTS (SELECT 1 FROM p WHERE p.name = c.name))",
    )

    lab.window("INSERT INTO p VALUES ('a')")
    lab.window("DELETE FROM p WHERE name = 'b'", "INSERT INTO c VALUES (3, 'd')")
    lab.window("DELETE FROM p", "UPDATE c SET id = 4", "UPDATE o SET c = 4 WHERE id = 1")


def test_p28_inner_groups_that_having_lets_in_and_out(lab: Lab) -> None:
    lab.run(*ORDERS)
    lab.create(
        "s", "SELECT id FROM o WHERE c IN (SELECT id FROM c GROUP BY id HAVING count(*) > 1)"
    )

    lab.window("INSERT INTO c VALUES (1, 'z')")
    lab.window("DELETE FROM c WHERE name = 'b'", "INSERT INTO o VALUES (9, 1)")
    lab.window("DELETE FROM c WHERE name = 'z'", "UPDATE c SET id = 3 WHERE name IN ('a', 'c')")
