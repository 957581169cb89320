"""WITH RECURSIVE over trees and graphs (scenarios.md: P37)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

PATHS = """
    WITH RECURSIVE paths (id, depth, path) AS (
        SELECT id, 1, name FROM tree WHERE parent IS NULL
        UNION ALL
        SELECT t.id, p.depth + 1, p.path || '/' || t.name
          FROM paths AS p JOIN tree AS t ON t.parent = p.id
    )
    SELECT id, depth, path FROM paths
"""


@pytest.fixture
def tree(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE tree (id int PRIMARY KEY, parent int, name text)",
        "INSERT INTO tree VALUES (1, NULL, 'root'), (2, 1, 'a'), (3, 1, 'b'), (4, 2, 'aa'),"
        " (5, 2, 'ab'), (6, 4, 'aaa'), (7, 3, 'ba')",
    )
    lab.create("s", PATHS)
    return lab


def test_p37_subtree_is_inserted(tree: Lab) -> None:
    tree.window("INSERT INTO tree VALUES (10, 3, 'bb'), (11, 10, 'bba'), (12, 11, 'bbaa')")
    tree.window("INSERT INTO tree VALUES (20, NULL, 'other'), (21, 20, 'o')")
    tree.window("INSERT INTO tree VALUES (31, 30, 'early')")
    tree.window("INSERT INTO tree VALUES (30, 21, 'late')")


def test_p37_subtree_moves_to_another_parent(tree: Lab) -> None:
    tree.window("UPDATE tree SET parent = 3 WHERE id = 4")
    tree.window("UPDATE tree SET parent = NULL WHERE id = 2")
    tree.window(
        "UPDATE tree SET parent = 7 WHERE id = 2", "UPDATE tree SET parent = 1 WHERE id = 4"
    )


def test_p37_internal_node_is_deleted(tree: Lab) -> None:
    [report] = tree.window("DELETE FROM tree WHERE id = 2")

    assert (report.rows_inserted, report.rows_deleted) == (0, 4)
    tree.window("INSERT INTO tree VALUES (2, 3, 'a again')")
    tree.window("DELETE FROM tree WHERE id IN (1, 4)")
    tree.window("INSERT INTO tree VALUES (1, NULL, 'new root')")


def test_p37_ancestor_is_renamed_and_every_path_below_is_rebuilt(tree: Lab) -> None:
    [report] = tree.window("UPDATE tree SET name = 'A' WHERE id = 2")

    assert (report.rows_inserted, report.rows_deleted) == (4, 4)
    tree.window("UPDATE tree SET name = upper(name)")
    tree.window("UPDATE tree SET name = 'x' WHERE id = 1", "DELETE FROM tree WHERE id = 4")


REACHABLE = """
    WITH RECURSIVE reach (source, target) AS (
        SELECT a, b FROM edge
        UNION
        SELECT r.source, e.b FROM reach AS r JOIN edge AS e ON e.a = r.target
    )
    SELECT source, target FROM reach
"""


@pytest.fixture
def graph(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE edge (a int, b int)",
        "INSERT INTO edge VALUES (1, 2), (2, 4), (1, 3), (3, 4), (4, 5)",
    )
    lab.create("s", REACHABLE)
    return lab


def test_p37_another_way_to_a_node_keeps_it(graph: Lab) -> None:
    [by_the_other_way] = graph.window("DELETE FROM edge WHERE a = 2")
    graph.window("DELETE FROM edge WHERE a = 3")
    graph.window("INSERT INTO edge VALUES (2, 5), (5, 4)")

    assert (by_the_other_way.rows_inserted, by_the_other_way.rows_deleted) == (0, 2)


def test_p37_equal_edges_are_one_way(graph: Lab) -> None:
    [more] = graph.window("INSERT INTO edge VALUES (1, 2), (4, 5)")
    [less] = graph.window("DELETE FROM edge WHERE ctid = (SELECT min(ctid) FROM edge WHERE a = 4)")

    assert (more.rows_inserted, less.rows_deleted) == (0, 0)
    graph.window("DELETE FROM edge WHERE a = 4")


def test_p37_cycle_in_the_data(graph: Lab) -> None:
    graph.window("INSERT INTO edge VALUES (5, 1)")
    graph.window("INSERT INTO edge VALUES (7, 7), (5, 7)")
    graph.window("DELETE FROM edge WHERE a = 4")
    graph.window("INSERT INTO edge VALUES (4, 5)", "DELETE FROM edge WHERE a = 5 AND b = 1")
    graph.window("DELETE FROM edge")
    graph.window("INSERT INTO edge VALUES (1, 2), (2, 1)")


def test_p37_steps_are_bounded(lab: Lab) -> None:
    lab.run("CREATE TABLE edge (a int, b int)", "INSERT INTO edge VALUES (1, 2), (2, 1), (2, 3)")
    lab.create(
        "s",
        "WITH RECURSIVE walk (node, steps) AS (SELECT a, 0 FROM edge WHERE a = 1 UNION ALL"
        " SELECT e.b, w.steps + 1 FROM walk AS w JOIN edge AS e ON e.a = w.node WHERE w.steps < 4)"
        " SELECT node, steps, count(*) AS ways FROM walk GROUP BY node, steps",
    )

    lab.window("INSERT INTO edge VALUES (3, 1), (1, 2)")
    lab.window("DELETE FROM edge WHERE b = 1")
    lab.window("UPDATE edge SET a = 1 WHERE a = 2")


def test_p37_joined_and_counted(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE tree (id int PRIMARY KEY, parent int)",
        "CREATE TABLE cost (id int, amount int)",
        "INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 1), (4, 2)",
        "INSERT INTO cost VALUES (1, 1), (2, 10), (3, 100), (4, 1000), (4, 1000)",
    )
    lab.create(
        "s",
        "WITH RECURSIVE below (top, id) AS (SELECT id, id FROM tree UNION ALL"
        " SELECT b.top, t.id FROM below AS b JOIN tree AS t ON t.parent = b.id)"
        " SELECT b.top, sum(c.amount) AS amount, count(*) AS n"
        " FROM below AS b JOIN cost AS c ON c.id = b.id GROUP BY b.top",
    )

    lab.window("INSERT INTO cost VALUES (4, 5)")
    lab.window("UPDATE tree SET parent = 3 WHERE id = 4", "DELETE FROM cost WHERE id = 1")
    lab.window("DELETE FROM tree WHERE id = 3", "INSERT INTO tree VALUES (5, 2)")


def test_p37_start_comes_from_another_table(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE edge (a int, b int)",
        "CREATE TABLE start (node int)",
        "INSERT INTO edge VALUES (1, 2), (2, 3), (4, 3), (3, 5)",
        "INSERT INTO start VALUES (1)",
    )
    lab.create(
        "s",
        "WITH RECURSIVE seen (node) AS (SELECT node FROM start UNION"
        " SELECT e.b FROM seen AS s JOIN edge AS e ON e.a = s.node) SELECT node FROM seen",
    )

    lab.window("INSERT INTO start VALUES (4), (4)")
    lab.window("DELETE FROM start WHERE node = 1")
    lab.window("DELETE FROM edge WHERE a = 4", "INSERT INTO start VALUES (2)")
    lab.window("DELETE FROM start")
