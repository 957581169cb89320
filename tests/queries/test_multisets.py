"""Duplicates, DISTINCT, UNION ALL and net effects (scenarios.md: P8, P9, P35, P41)."""

from __future__ import annotations

from tests.labs.lab import Lab

BAG = (
    "CREATE TABLE bag (k text, n int)",
    "INSERT INTO bag VALUES ('a', 1), ('a', 1), ('b', 2), (NULL, NULL)",
)


def test_p08_one_of_equal_rows_deleted_and_updated(lab: Lab):
    lab.run(*BAG)
    lab.create("copy", "SELECT k, n FROM bag")
    lab.create("counted", "SELECT k, count(*) AS rows, sum(n) AS total FROM bag GROUP BY k")

    lab.window("DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE k = 'a')")
    lab.window("INSERT INTO bag VALUES ('a', 1), ('b', 2), (NULL, NULL), (NULL, NULL)")
    lab.window("UPDATE bag SET n = 9 WHERE ctid = (SELECT min(ctid) FROM bag WHERE k = 'b')")
    lab.window("UPDATE bag SET k = 'a' WHERE ctid = (SELECT min(ctid) FROM bag WHERE k IS NULL)")


def test_p08_everything_deleted_and_inserted_again(lab: Lab):
    lab.run(*BAG)
    lab.create("copy", "SELECT k, n FROM bag")
    lab.create("counted", "SELECT k, count(*) AS rows FROM bag GROUP BY k")

    lab.window("DELETE FROM bag")
    lab.window("INSERT INTO bag VALUES ('a', 1), ('a', 1), ('a', 1)")
    [copy, _] = lab.window("DELETE FROM bag", "INSERT INTO bag VALUES ('a', 1), ('a', 1)")

    assert (copy.rows_inserted, copy.rows_deleted) == (0, 1)


def test_p09_three_equal_inserts_stay_three(lab: Lab):
    lab.run("CREATE TABLE bag (k text, n int)")
    lab.create("copy", "SELECT k, n FROM bag")

    lab.window(*["INSERT INTO bag VALUES ('same', 7)"] * 3)

    assert lab.value("SELECT count(*) FROM copy") == 3


def test_p08_duplicates_on_both_sides_of_a_join(lab: Lab):
    lab.run("CREATE TABLE l (k int, v text)", "CREATE TABLE r (k int, w text)")
    lab.run("INSERT INTO l VALUES (1, 'x'), (1, 'x')", "INSERT INTO r VALUES (1, 'y'), (1, 'y')")
    lab.create("pairs", "SELECT v, w FROM l JOIN r ON l.k = r.k")

    lab.window(
        "DELETE FROM l WHERE ctid = (SELECT min(ctid) FROM l)", "INSERT INTO r VALUES (1, 'y')"
    )
    lab.window("DELETE FROM r WHERE ctid = (SELECT min(ctid) FROM r)", "INSERT INTO l TABLE l")

    assert lab.rows("TABLE pairs") == [("x", "y")] * 4


def test_p35_distinct_keeps_a_row_until_its_last_copy_goes(lab: Lab):
    lab.run(*BAG)
    lab.create("kinds", "SELECT DISTINCT k, n FROM bag")

    [kept] = lab.window("DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag)")
    [gone] = lab.window("DELETE FROM bag WHERE k = 'a'")
    lab.window("INSERT INTO bag VALUES ('a', 1), (NULL, NULL)")
    lab.window("DELETE FROM bag WHERE k IS NULL")

    assert (kept.rows_deleted, gone.rows_deleted) == (0, 1)


def test_p35_distinct_over_a_join(lab: Lab):
    lab.run("CREATE TABLE l (k int, v text)", "CREATE TABLE r (k int)")
    lab.run("INSERT INTO l VALUES (1, 'x'), (2, 'x'), (3, NULL)", "INSERT INTO r VALUES (1), (2)")
    lab.create("seen", "SELECT DISTINCT upper(v) AS v FROM l JOIN r USING (k)")

    lab.window("DELETE FROM r WHERE k = 1", "INSERT INTO r VALUES (3)")
    lab.window("DELETE FROM l WHERE k = 2", "UPDATE l SET v = 'z' WHERE k = 3")


def test_p35_union_keeps_a_row_until_its_last_copy_on_either_side_goes(lab: Lab):
    lab.run(*BAG, "CREATE TABLE other (k text, n int)", "INSERT INTO other VALUES ('a', 1)")
    lab.create("kinds", "SELECT k, n FROM bag UNION SELECT k, n FROM other")

    [two_left] = lab.window("DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag)")
    [one_left] = lab.window("DELETE FROM other")
    [none_left] = lab.window("DELETE FROM bag WHERE k = 'a'")
    [back] = lab.window("INSERT INTO other VALUES ('a', 1), (NULL, NULL)")

    assert [(one.rows_inserted, one.rows_deleted) for one in (two_left, one_left)] == [(0, 0)] * 2
    assert (none_left.rows_deleted, back.rows_inserted) == (1, 1)


def test_p35_union_all_of_two_tables_and_of_one_with_itself(lab: Lab):
    lab.run("CREATE TABLE one (a int, b text)", "CREATE TABLE two (a bigint, b varchar(5))")
    lab.run("INSERT INTO one VALUES (1, 'x'), (2, NULL)", "INSERT INTO two VALUES (1, 'x')")
    lab.create("stacked", "SELECT a, b FROM one UNION ALL SELECT a, b FROM two")
    lab.create(
        "twice", "SELECT a FROM one UNION ALL SELECT a + 1 FROM one UNION ALL SELECT 0 FROM two"
    )

    lab.window("DELETE FROM one WHERE a = 1", "INSERT INTO two VALUES (2, NULL), (2, NULL)")
    lab.window("UPDATE one SET a = 7", "UPDATE two SET b = 'y' WHERE a = 2")


def test_p41_insert_and_delete_in_one_window_is_nothing(lab: Lab):
    lab.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    lab.create("copy", "SELECT id, v FROM t")

    [report] = lab.window(
        "INSERT INTO t VALUES (2, 2)", "UPDATE t SET v = 3 WHERE id = 2", "DELETE FROM t WHERE id=2"
    )

    assert (report.rows_inserted, report.rows_deleted) == (0, 0)


def test_p41_many_updates_of_one_row_are_one_change(lab: Lab):
    lab.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    lab.create("copy", "SELECT id, v FROM t")

    [report] = lab.window(*["UPDATE t SET v = v + 1"] * 10)

    assert (report.rows_inserted, report.rows_deleted) == (1, 1)


def test_p41_primary_keys_swap_and_come_back(lab: Lab):
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, v text)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    )
    lab.create("copy", "SELECT id, v FROM t")

    [swapped] = lab.window("UPDATE t SET id = 3 - id")
    [back] = lab.window("UPDATE t SET id = 3 - id", "UPDATE t SET id = 3 - id")

    assert (swapped.rows_inserted, swapped.rows_deleted) == (2, 2)
    assert (back.rows_inserted, back.rows_deleted) == (0, 0)


def test_p41_update_that_changes_nothing(lab: Lab):
    lab.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, NULL)")
    lab.create("copy", "SELECT id, v FROM t")

    [report] = lab.window("UPDATE t SET v = v")

    assert (report.rows_inserted, report.rows_deleted) == (0, 0)


def test_p41_rolled_back_changes_are_no_changes(lab: Lab):
    lab.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    lab.create("copy", "SELECT id FROM t")

    with lab.connection.transaction(force_rollback=True):
        lab.run("INSERT INTO t VALUES (2)", "DELETE FROM t WHERE id = 1")
    with lab.connection.transaction():
        lab.run("INSERT INTO t VALUES (3)")
        with lab.connection.transaction(force_rollback=True):
            lab.run("INSERT INTO t VALUES (4)")
    lab.window()

    assert lab.rows("TABLE copy") == [(1,), (3,)]
