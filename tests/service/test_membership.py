"""EXISTS, NOT EXISTS and IN: matches gained and lost, both sides in one window."""

from __future__ import annotations

import pytest

from tests.service.lab import Lab

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
