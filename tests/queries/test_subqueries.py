"""Scalar subqueries, correlated or not, wherever an expression may stand (scenarios.md: P27)."""

from __future__ import annotations

import pytest

from pgtrickle.errors import TrickleError, UnsupportedQueryError
from tests.labs.lab import Lab


@pytest.fixture
def staff(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE staff (id int PRIMARY KEY, dept int, pay int)",
        "CREATE TABLE cap (name text, amount int)",
        "CREATE TABLE dept (id int, name text)",
        "INSERT INTO staff VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30), (4, NULL, 40), (5, 3, NULL)",
        "INSERT INTO cap VALUES ('a', 25), ('b', 35)",
        "INSERT INTO dept VALUES (1, 'one'), (2, 'two'), (4, 'four')",
    )
    return lab


def test_p27_inner_maximum_changes_and_nothing_else(staff: Lab) -> None:
    staff.create("below", "SELECT id FROM staff WHERE pay < (SELECT max(amount) FROM cap)")
    staff.create("shown", "SELECT id, pay - (SELECT max(amount) FROM cap) AS gap FROM staff")

    staff.window("INSERT INTO cap VALUES ('c', 45)")
    staff.window("DELETE FROM cap WHERE amount > 30")
    staff.window("UPDATE cap SET amount = 15")


def test_p27_inner_change_that_leaves_the_value_alone(staff: Lab) -> None:
    staff.create("below", "SELECT id FROM staff WHERE pay < (SELECT max(amount) FROM cap)")

    [report] = staff.window("INSERT INTO cap VALUES ('c', 5)", "UPDATE cap SET name = name || '!'")

    assert (report.rows_inserted, report.rows_deleted) == (0, 0)


def test_p27_value_becomes_null_and_comes_back(staff: Lab) -> None:
    staff.create("below", "SELECT id FROM staff WHERE pay < (SELECT max(amount) FROM cap)")
    staff.create("shown", "SELECT id, (SELECT max(amount) FROM cap) AS top FROM staff")
    staff.create(
        "kept", "SELECT id FROM staff WHERE pay < coalesce((SELECT max(amount) FROM cap), 100)"
    )

    staff.window("UPDATE cap SET amount = NULL")
    staff.window("UPDATE cap SET amount = 35 WHERE name = 'a'")


def test_p27_subquery_without_a_row_is_null(staff: Lab) -> None:
    one = "(SELECT amount FROM cap WHERE name = 'b')"
    staff.create("shown", f"SELECT id, {one} AS amount FROM staff")
    staff.create("missing", f"SELECT id FROM staff WHERE {one} IS NULL OR pay = {one}")

    staff.window("DELETE FROM cap WHERE name = 'b'")
    staff.window("INSERT INTO cap VALUES ('b', 20)")
    staff.window("DELETE FROM cap", "INSERT INTO staff VALUES (6, 6, 6)")


def test_p27_both_sides_change(staff: Lab) -> None:
    staff.create("below", "SELECT id, pay FROM staff WHERE pay < (SELECT max(amount) FROM cap)")

    staff.window("UPDATE staff SET pay = pay + 10", "UPDATE cap SET amount = amount + 10")
    staff.window("DELETE FROM staff WHERE id = 1", "DELETE FROM cap WHERE name = 'b'")
    staff.window("INSERT INTO staff VALUES (6, 1, 99)", "INSERT INTO cap VALUES ('z', 100)")


def test_p27_same_table_inside_and_outside(staff: Lab) -> None:
    staff.create("above", "SELECT id FROM staff WHERE pay > (SELECT avg(pay) FROM staff)")
    staff.create(
        "best",
        "SELECT id FROM staff AS s WHERE pay ="
        " (SELECT max(t.pay) FROM staff AS t WHERE t.dept = s.dept)",
    )

    staff.window("UPDATE staff SET pay = 100 WHERE id = 1")
    staff.window("UPDATE staff SET dept = 2 WHERE id = 1")
    staff.window("DELETE FROM staff WHERE pay > 30", "INSERT INTO staff VALUES (7, 2, 30)")


def test_p27_correlated_value_for_each_row(staff: Lab) -> None:
    staff.create(
        "named", "SELECT s.id, (SELECT d.name FROM dept AS d WHERE d.id = s.dept) AS n FROM staff s"
    )

    staff.window("INSERT INTO dept VALUES (3, 'three')")
    staff.window("UPDATE dept SET name = 'first' WHERE id = 1", "DELETE FROM dept WHERE id = 2")
    staff.window("UPDATE dept SET id = 2 WHERE id = 4", "UPDATE staff SET dept = 1 WHERE id = 4")


def test_p27_correlated_count_of_nothing_is_zero(staff: Lab) -> None:
    staff.create(
        "sizes",
        "SELECT d.name, (SELECT count(*) FROM staff AS s WHERE s.dept = d.id) AS n,"
        " (SELECT sum(s.pay) FROM staff AS s WHERE s.dept = d.id) AS pay FROM dept AS d",
    )
    staff.create(
        "empty", "SELECT id FROM dept AS d WHERE 0 = (SELECT count(*) FROM staff WHERE dept = d.id)"
    )

    staff.window("UPDATE staff SET dept = 4 WHERE dept = 2")
    staff.window("DELETE FROM staff WHERE dept = 1", "INSERT INTO dept VALUES (5, 'five')")


def test_p27_correlated_by_an_inequality(staff: Lab) -> None:
    staff.create(
        "ranks",
        "SELECT s.id, (SELECT count(*) FROM staff AS t WHERE t.pay > s.pay) AS above FROM staff s",
    )

    staff.window("UPDATE staff SET pay = 25 WHERE id = 4")
    staff.window("DELETE FROM staff WHERE id = 3", "INSERT INTO staff VALUES (6, 1, 20)")


def test_p27_limit_in_the_subquery(staff: Lab) -> None:
    staff.create(
        "shown",
        "SELECT id, (SELECT name FROM cap ORDER BY amount DESC, name LIMIT 1) AS top FROM staff",
    )
    staff.create(
        "correlated",
        "SELECT d.id, (SELECT s.id FROM staff AS s WHERE s.dept = d.id"
        " ORDER BY s.pay DESC NULLS LAST, s.id LIMIT 1) AS best FROM dept AS d",
    )
    every = "UPDATE staff SET pay = pay + 1 WHERE id = 3"

    staff.window("INSERT INTO cap VALUES ('c', 35), ('d', 50)", every)
    staff.window("DELETE FROM cap WHERE name IN ('b', 'd')", "UPDATE staff SET pay=99 WHERE id=1")
    staff.window("DELETE FROM cap", "DELETE FROM staff WHERE id = 1", "UPDATE staff SET dept = 4")


def test_p27_in_having_case_and_arguments(staff: Lab) -> None:
    staff.create(
        "rich",
        "SELECT dept, sum(pay) AS pay FROM staff GROUP BY dept"
        " HAVING sum(pay) > (SELECT min(amount) FROM cap)",
    )
    staff.create(
        "graded",
        "SELECT id, CASE WHEN pay > (SELECT max(amount) FROM cap) THEN 'high'"
        " WHEN pay > (SELECT min(amount) FROM cap) THEN 'middle' ELSE 'low' END AS grade,"
        " greatest(pay, (SELECT min(amount) FROM cap)) AS at_least FROM staff",
    )

    staff.window("UPDATE cap SET amount = amount - 10")
    staff.window("DELETE FROM cap WHERE name = 'a'", "UPDATE staff SET pay = 5 WHERE dept = 1")
    staff.window("INSERT INTO cap VALUES ('c', 1)", "INSERT INTO staff VALUES (9, 2, 2)")


def test_p27_subquery_in_a_subquery(staff: Lab) -> None:
    staff.create(
        "s",
        "SELECT id FROM staff WHERE pay > (SELECT max(amount) FROM cap WHERE amount <"
        " (SELECT max(amount) FROM cap))",
    )

    staff.window("INSERT INTO cap VALUES ('c', 10)")
    staff.window("DELETE FROM cap WHERE name = 'b'", "INSERT INTO staff VALUES (6, 6, 11)")
    staff.window("DELETE FROM cap WHERE name = 'a'")


def test_p27_more_than_one_row_is_an_error_that_goes_away(staff: Lab) -> None:
    query = "SELECT id, (SELECT amount FROM cap WHERE name = 'a') AS amount FROM staff"
    staff.create("shown", query)
    before = staff.rows("TABLE shown")

    staff.run("INSERT INTO cap VALUES ('a', 26)")
    with pytest.raises(TrickleError, match="more than one row"):
        staff.trickle.refresh_stream_table("shown")

    assert staff.rows("TABLE shown") == before
    staff.window("DELETE FROM cap WHERE amount = 25")


_FIFTEEN = ", ".join(
    f"CASE WHEN (SELECT count(*) FROM staff WHERE dept = {dept}) > {most}"
    f" THEN (SELECT avg(pay) FROM staff WHERE dept = {dept})"
    f" ELSE (SELECT stddev(pay) FROM staff WHERE dept = {dept}) END AS b{dept}"
    for dept, most in enumerate((2, 1, 0, 3, 1), 1)
)


def test_p27_fifteen_values_of_one_table(staff: Lab) -> None:
    staff.create("buckets", f"SELECT c.name, {_FIFTEEN} FROM cap AS c WHERE amount > 20")

    staff.window("INSERT INTO staff SELECT n, n % 6, n * 3 FROM generate_series(10, 40) AS n")
    staff.window("UPDATE cap SET amount = 50 - amount", "DELETE FROM staff WHERE dept = 2")
    staff.window("DELETE FROM staff")
    staff.window("INSERT INTO staff VALUES (1, 1, 7)", "INSERT INTO cap VALUES ('c', 30)")


def test_p27_many_values_of_which_one_is_empty_or_has_two_rows(staff: Lab) -> None:
    staff.create(
        "shown",
        "SELECT id, (SELECT amount FROM cap WHERE name = 'a') AS a,"
        " (SELECT amount FROM cap WHERE name = 'b') AS b, (SELECT max(id) FROM dept) AS d,"
        " EXISTS (SELECT 1 FROM dept WHERE id = 4) AS four,"
        " (SELECT string_agg(name, ',' ORDER BY id) FROM dept) AS names FROM staff",
    )

    staff.window("DELETE FROM cap WHERE name = 'a'", "DELETE FROM dept WHERE id = 4")
    before = staff.rows("TABLE shown")
    staff.run("INSERT INTO cap VALUES ('b', 26)")
    with pytest.raises(TrickleError, match="more than one row"):
        staff.trickle.refresh_stream_table("shown")

    assert staff.rows("TABLE shown") == before
    staff.window("DELETE FROM cap WHERE amount = 35", "UPDATE dept SET name = upper(name)")
    staff.window("INSERT INTO cap VALUES ('a', NULL)", "DELETE FROM dept")


def test_p28_exists_over_groups_that_having_lets_in_and_out(staff: Lab) -> None:
    staff.create(
        "large",
        "SELECT d.name FROM dept AS d WHERE EXISTS (SELECT 1 FROM staff AS s WHERE s.dept = d.id"
        " GROUP BY s.dept HAVING count(*) > 1)",
    )

    staff.window("INSERT INTO staff VALUES (6, 2, 1)")
    staff.window("UPDATE staff SET dept = 4 WHERE dept = 1")
    staff.window("DELETE FROM staff WHERE id IN (1, 6)", "INSERT INTO dept VALUES (4, 'again')")


def test_p27_rows_that_a_join_leaves_out_ask_nothing_of_a_subquery(staff: Lab) -> None:
    staff.create(
        "shown",
        "SELECT s.id, (SELECT o.id FROM staff AS o WHERE o.dept = s.dept) AS other"
        " FROM staff AS s JOIN dept AS d ON d.id = s.dept AND d.name = 'none'",
    )

    staff.window("UPDATE dept SET name = 'none' WHERE id = 2", "INSERT INTO staff VALUES (7, 1, 1)")


def test_p27_grand_total_of_a_dependent_subquery_that_reads_no_row(staff: Lab) -> None:
    staff.create(
        "counted",
        "SELECT d.id FROM dept AS d WHERE (d.id, true) IN (SELECT GROUPING(s.dept, s.pay), true"
        "  FROM staff AS s WHERE s.dept = d.id"
        " GROUP BY GROUPING SETS ((s.dept, s.pay), s.dept, ()))",
    )

    staff.window("INSERT INTO dept VALUES (3, 'three'), (0, 'none')")
    staff.window("DELETE FROM staff WHERE dept = 1", "INSERT INTO staff VALUES (9, 0, 1)")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT dept, sum((SELECT max(amount) FROM cap WHERE cap.amount > s.pay)) AS n"
        " FROM staff AS s GROUP BY dept",
        "SELECT (SELECT name FROM dept AS d WHERE d.id = s.dept) AS name, count(*) AS n,"
        " max(s.pay) AS pay FROM staff AS s GROUP BY 1",
        "SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM dept AS d WHERE d.id = s.dept)) AS n"
        " FROM staff AS s",
        "SELECT s.id, c.name FROM staff AS s JOIN cap AS c"
        " ON c.amount > s.pay AND EXISTS (SELECT 1 FROM dept AS d WHERE d.id = s.dept)",
        "SELECT id FROM staff AS s"
        " ORDER BY (SELECT name FROM dept AS d WHERE d.id = s.dept), id DESC LIMIT 3",
        "SELECT dept, count(*) AS n FROM staff AS s GROUP BY dept"
        " ORDER BY (SELECT name FROM dept AS d WHERE d.id = s.dept), dept LIMIT 2",
        "SELECT id, rank() OVER (ORDER BY (SELECT name FROM dept AS d WHERE d.id = s.dept)) AS n"
        " FROM staff AS s",
        "SELECT v.x, count(*) AS n FROM staff AS s, LATERAL (VALUES (s.dept), (s.pay)) AS v (x)"
        " GROUP BY v.x",
        "SELECT x FROM (VALUES (1), ((SELECT max(pay) FROM staff))) AS v (x)",
        "SELECT id FROM staff WHERE pay IN (SELECT unnest(ARRAY[c.amount, 10]) FROM cap AS c)",
        "SELECT id FROM staff AS s"
        " WHERE EXISTS (SELECT generate_series(1, d.id - 1) FROM dept AS d WHERE d.id = s.dept)",
        "SELECT id, ARRAY(SELECT o.id FROM staff AS o WHERE o.dept = s.dept ORDER BY o.id) AS team"
        " FROM staff AS s",
    ],
)
def test_subqueries_in_every_place(staff: Lab, query: str) -> None:
    staff.create("shown", query)

    staff.window("INSERT INTO dept VALUES (3, 'a')", "UPDATE staff SET pay = 26 WHERE id = 1")
    staff.window(
        "DELETE FROM dept WHERE id = 1",
        "INSERT INTO cap VALUES ('c', 99)",
        "INSERT INTO staff VALUES (8, 2, 99)",
    )
    staff.window("UPDATE staff SET dept = 2 WHERE dept = 1", "DELETE FROM cap WHERE name = 'b'")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, sum(id) OVER (ORDER BY id ROWS (SELECT count(*) FROM dept) PRECEDING) AS n"
        " FROM staff",
    ],
)
def test_a_subquery_that_nothing_follows_is_refused(staff: Lab, query: str) -> None:
    with pytest.raises(UnsupportedQueryError):
        staff.create("shown", query)

    staff.create("shown", query, mode="AUTO")
    staff.window("UPDATE staff SET pay = pay + 1", "INSERT INTO cap VALUES ('c', 1)", action="FULL")


def test_aggregates_of_a_subquery_do_not_group_the_query_around_it(staff: Lab) -> None:
    staff.create(
        "shown",
        "SELECT s.id, EXISTS (SELECT count(*) FROM cap WHERE amount > s.pay"
        " HAVING count(*) > 1) AS e,"
        " s.pay > ALL (SELECT max(amount) FROM cap) AS above FROM staff AS s",
    )

    staff.window("INSERT INTO cap VALUES ('c', 15)", "UPDATE staff SET pay = 50 WHERE id = 3")


def test_p27_groups_beside_a_dependent_average_of_the_same_groups(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE returned (customer int, store int, amount numeric(7, 2))",
        "INSERT INTO returned VALUES (1, 1, 10.50), (2, 1, 3), (3, 1, NULL), (1, 2, 7.10)",
    )
    lab.create(
        "above",
        "WITH t AS (SELECT customer, store, sum(amount) AS total FROM returned GROUP BY 1, 2)"
        " SELECT customer, store FROM t a"
        " WHERE total > (SELECT avg(total) * 1.2 FROM t b WHERE a.store = b.store)",
    )

    lab.window("INSERT INTO returned VALUES (2, 1, 20.25), (4, 2, 0.30)")
    lab.window("UPDATE returned SET store = 2 WHERE customer = 2")
    lab.window("DELETE FROM returned WHERE store = 2")
