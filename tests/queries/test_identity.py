"""Which rows are the same: equality decides, never a hash or a text (scenarios.md: P48)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab


def both_ways(lab: Lab, columns: str) -> None:
    """Keep the rows of ``t`` as they are, as groups, and as distinct rows."""
    lab.create("copy", f"SELECT {columns} FROM t")
    lab.create("counts", f"SELECT {columns}, count(*) AS rows FROM t GROUP BY {columns}")
    lab.create("kinds", f"SELECT DISTINCT {columns} FROM t")


def test_p48_different_rows_with_one_hash(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE t (id int, v int[])",
        "INSERT INTO t VALUES (1, '{1,2}'), (2, '{{1,2}}'), (3, '{{1},{2}}'), (4, '[0:1]={1,2}')",
    )
    # PostgreSQL hashes the elements of an array and not its shape.
    assert lab.value("SELECT count(DISTINCT hash_record_extended(ROW(v), 0)) FROM t") == 1
    assert lab.value("SELECT count(DISTINCT v) FROM t") == 4
    both_ways(lab, "v")

    lab.window("DELETE FROM t WHERE id = 2")
    lab.window("INSERT INTO t VALUES (5, '{{1},{2}}'), (6, '{{1,2}}')", "DELETE FROM t WHERE id=1")
    lab.window("UPDATE t SET v = '{1,2}' WHERE id = 3")

    assert lab.rows("SELECT v::text FROM copy") == [
        ("[0:1]={1,2}",), ("{1,2}",), ("{{1,2}}",), ("{{1},{2}}",)
    ]  # fmt: skip


def test_p48_texts_that_run_together_alike(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE t (a text, b text, c text)",
        "INSERT INTO t VALUES ('a', 'bc', ''), ('ab', 'c', ''), ('', 'abc', ''), ('a', 'b', 'c'),"
        " ('a,b', 'c', ''), ('a', 'b,c', ''), ('a|b', 'c', ''), ('a', 'b|c', '')",
    )
    both_ways(lab, "a, b, c")

    lab.window("DELETE FROM t WHERE a = 'ab'")
    lab.window("INSERT INTO t VALUES ('ab', 'c', ''), ('abc', '', '')", "DELETE FROM t WHERE a=''")
    lab.window("UPDATE t SET a = b, b = a")


def test_p48_null_and_the_texts_that_could_stand_for_it(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE t (a text, b text)",
        "INSERT INTO t SELECT a, b FROM unnest(ARRAY[NULL, '', 'NULL', '\\N', 'null']) AS a,"
        " unnest(ARRAY[NULL, '', 'NULL', '\\N']) AS b",
    )
    both_ways(lab, "a, b")

    lab.window("DELETE FROM t WHERE a IS NULL AND b = 'NULL'")
    lab.window("DELETE FROM t WHERE a = 'NULL' AND b IS NULL", "DELETE FROM t WHERE a = '\\N'")
    lab.window("UPDATE t SET a = NULL WHERE a = ''", "INSERT INTO t VALUES ('', NULL), ('\\N', '')")


def test_p48_numbers_that_are_equal_and_look_different(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE t (id int, n numeric)",
        "INSERT INTO t VALUES (1, 1.0), (2, 1.00), (3, 1), (4, 1.01)",
    )
    both_ways(lab, "n")
    lab.create("pairs", "SELECT a.id AS one, b.id AS two FROM t AS a JOIN t AS b ON a.n = b.n")

    lab.window("DELETE FROM t WHERE id = 2")
    lab.window("INSERT INTO t VALUES (5, 1.000), (6, 1.010)", "DELETE FROM t WHERE id IN (1, 4)")
    lab.window("UPDATE t SET n = n + 0.00")


@pytest.mark.parametrize("type_", ["float8", "real"])
def test_p48_negative_zero_is_zero(lab: Lab, type_: str) -> None:
    lab.run(
        f"CREATE TABLE t (id int, x {type_})",
        "INSERT INTO t VALUES (1, '0'), (2, '-0'), (3, 'NaN'), (4, 'NaN'), (5, 1)",
    )
    both_ways(lab, "x")
    lab.create("pairs", "SELECT a.id AS one, b.id AS two FROM t AS a JOIN t AS b ON a.x = b.x")

    lab.window("DELETE FROM t WHERE id IN (1, 3)")
    lab.window("INSERT INTO t VALUES (6, '0'), (7, '-0')", "DELETE FROM t WHERE id = 2")
    lab.window("UPDATE t SET x = -x")

    assert lab.rows("SELECT rows FROM counts WHERE x = 0") == [(2,)]


def test_p48_blanks_at_the_end_of_char_do_not_count(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE t (id int, c char(4), v varchar(4))",
        "INSERT INTO t VALUES (1, 'a', 'a'), (2, 'a ', 'a '), (3, 'b', 'b')",
    )
    both_ways(lab, "c")
    lab.create("exact", "SELECT v, count(*) AS n FROM t GROUP BY v")

    lab.window("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (4, 'b  ', 'b  ')")
    lab.window("UPDATE t SET c = 'a', v = 'a'")


def test_p48_texts_of_several_collations(lab: Lab) -> None:
    lab.run(
        'CREATE TABLE t (id int, v text COLLATE "ucs_basic", w text COLLATE "POSIX")',
        "INSERT INTO t VALUES (1, 'a', 'A'), (2, 'A', 'a'), (3, 'ä', 'a\u0308'), (4, 'é', 'É')",
    )
    both_ways(lab, "v, w")
    lab.create("extremes", "SELECT min(v) AS low, max(w) AS high FROM t")

    lab.window(
        "INSERT INTO t VALUES (5, 'a\u0308', 'ä'), (6, 'É', 'z')", "DELETE FROM t WHERE id=1"
    )
    lab.window("UPDATE t SET v = w, w = v", "DELETE FROM t WHERE id = 5")


def test_p48_join_of_two_collations_by_a_third(lab: Lab) -> None:
    lab.run(
        'CREATE TABLE t (id int, v text COLLATE "ucs_basic", w text COLLATE "POSIX")',
        "INSERT INTO t VALUES (1, 'a', 'A'), (2, 'A', 'a'), (3, 'ä', 'a\u0308')",
    )
    lab.create(
        "pairs", 'SELECT a.id AS one, b.id AS two FROM t AS a JOIN t AS b ON a.v = b.w COLLATE "C"'
    )

    lab.window("INSERT INTO t VALUES (5, 'a\u0308', 'ä')", "DELETE FROM t WHERE id = 1")
