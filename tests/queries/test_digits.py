"""Numerics show the digits that PostgreSQL shows: contents are equal as text."""

from __future__ import annotations

import pytest

from tests.labs.digits import QUERIES, TABLES, follow_digits, text_differences
from tests.labs.lab import Lab


@pytest.mark.parametrize("name", QUERIES)
def test_numerics_show_the_digits_of_postgresql(lab: Lab, name: str) -> None:
    assert follow_digits(lab, name) == []


@pytest.mark.parametrize("name", ["keys", "sum_of_case", "lists", "windows"])
def test_numerics_show_their_digits_with_postgresql_as_the_engine(
    postgres_lab: Lab, name: str
) -> None:
    assert follow_digits(postgres_lab, name) == []


def test_a_row_that_changes_only_its_digits_is_written(lab: Lab) -> None:
    lab.run(*TABLES)
    lab.create("made", "SELECT k, w FROM i")

    [report] = lab.window("UPDATE i SET w = 100.00 WHERE k = 3")

    assert (report.rows_deleted, report.rows_inserted) == (1, 1)
    assert text_differences(lab, "made") == []


def test_a_group_shows_the_digits_of_a_row_that_it_has(lab: Lab) -> None:
    lab.run(*TABLES, "INSERT INTO i VALUES (9, 100.0000, 1)")
    lab.create("made", "SELECT w, count(*) AS c, sum(w) AS s FROM i GROUP BY w")

    lab.window("DELETE FROM i WHERE k = 9")
    assert text_differences(lab, "made") == []

    lab.window("INSERT INTO i VALUES (10, 100.0, 1)", "DELETE FROM i WHERE k = 3")
    assert text_differences(lab, "made") == []


def test_a_group_of_nan_has_no_digits(lab: Lab) -> None:
    lab.run(*TABLES, "INSERT INTO i VALUES (8, 'NaN', 1), (9, 'Infinity', 1)")
    lab.create("made", "SELECT w, count(*) AS c, max(w) AS m FROM i GROUP BY w")

    lab.window("DELETE FROM i WHERE k = 9", "INSERT INTO i VALUES (10, 'NaN', 1)")

    assert text_differences(lab, "made") == []


def test_digits_of_padding_have_a_type(postgres_lab: Lab) -> None:
    postgres_lab.run(
        "CREATE TABLE t (a int, n numeric(8, 2)); CREATE TABLE v (a int)",
        "CREATE TABLE w (a int, c text, m numeric)",
        "INSERT INTO t VALUES (2, 0.50); INSERT INTO w VALUES (2, 'xy', -1.500)",
    )
    postgres_lab.create(
        "made",
        "SELECT NULLIF(x.c, (SELECT 'x' FROM v WHERE v.a = x.m)) AS c"
        " FROM (w JOIN t ON w.a = t.a) FULL JOIN w AS x ON t.n = x.m",
    )

    postgres_lab.window("DELETE FROM t")

    assert text_differences(postgres_lab, "made") == []


def test_a_column_that_is_called_as_a_scale_would_be(lab: Lab) -> None:
    lab.run(*TABLES, "ALTER TABLE i ADD COLUMN w_scale int", "UPDATE i SET w_scale = 7")
    query = "SELECT i.w, i.w_scale, sum(n * w) AS s FROM o JOIN i USING (k) GROUP BY w, w_scale"
    lab.create("made", query)

    lab.window("UPDATE i SET w = 0.500 WHERE k = 1")

    assert text_differences(lab, "made") == []


def test_state_of_another_form_is_built_anew(lab: Lab) -> None:
    lab.run(*TABLES)
    lab.create("made", "SELECT k, sum(w) AS s, min(w) AS m FROM i GROUP BY k")
    [(table, column)] = lab.rows(
        "SELECT attrelid::regclass::text, attname FROM pg_attribute JOIN pg_class ON oid = attrelid"
        " WHERE relkind = 'r' AND relname ~ 'group_1_v' AND attname ~ 'scale'"
    )
    lab.run(f"ALTER TABLE {table} RENAME COLUMN {column} TO digits_of_another_version")
    lab.trickle._runtime.remembered.forget_compiled(lab.trickle.get_stream_table("made"))

    [report] = lab.window("UPDATE i SET w = 0.50 WHERE k = 1", action="REINITIALIZE")

    assert "another form" in (report.reason or "")
    assert text_differences(lab, "made") == []


@pytest.mark.parametrize("every", ["", " ALL"])
def test_except_shows_the_digits_of_its_left_side(lab: Lab, every: str) -> None:
    lab.run(
        "CREATE TABLE l (id int PRIMARY KEY, m numeric)",
        "CREATE TABLE r (id int PRIMARY KEY, m numeric)",
        "INSERT INTO l VALUES (1, 0.5), (2, 0.5), (3, 2)",
        "INSERT INTO r VALUES (1, 0.50), (2, 2.00)",
    )
    query = f"SELECT m FROM l EXCEPT{every} SELECT m FROM r"
    lab.create("made", query)
    shown = f"SELECT m::text FROM ({query}) AS q", "SELECT m::text FROM made"
    assert lab.rows(shown[0]) == lab.rows(shown[1])

    for change in ("DELETE FROM r WHERE id = 1", "INSERT INTO r VALUES (3, 0.500), (4, 7)"):
        lab.window(change)
        assert lab.rows(shown[0]) == lab.rows(shown[1])
