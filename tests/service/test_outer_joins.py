"""Outer joins: first match gained, last match lost, keys that are NULL or move."""

from __future__ import annotations

import pytest

from tests.service.lab import Lab

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
