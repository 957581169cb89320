"""The same text at two places of a query is two operators (scenarios.md: P49)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab


@pytest.fixture
def twins(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (k int, v int)",
        "CREATE TABLE u (k int, v int)",
        "INSERT INTO t VALUES (1, 10), (1, 20), (2, 30), (NULL, 1)",
        "INSERT INTO u VALUES (1, 1), (2, 2), (2, 3), (3, 4)",
    )
    return lab


def change(lab: Lab) -> None:
    """Change one table, then the other, then both."""
    lab.window("INSERT INTO t VALUES (2, 5), (3, 6)")
    lab.window("UPDATE u SET k = 1 WHERE v = 2", "INSERT INTO u VALUES (4, 9)")
    lab.window("DELETE FROM t WHERE k = 1", "UPDATE u SET v = v + 1, k = k + 1", "DELETE FROM u"
               " WHERE k = 5")  # fmt: skip


def test_p49_one_group_by_over_two_tables_of_one_alias(twins: Lab) -> None:
    twins.create(
        "s",
        "SELECT a.k, a.n AS ours, b.n AS theirs"
        " FROM (SELECT x.k, sum(x.v) AS n FROM t AS x GROUP BY x.k) AS a"
        " JOIN (SELECT x.k, sum(x.v) AS n FROM u AS x GROUP BY x.k) AS b ON b.k = a.k",
    )

    change(twins)


def test_p49_one_group_by_twice_over_one_table(twins: Lab) -> None:
    counted = "(SELECT k, count(*) AS n, max(v) AS m FROM t GROUP BY k)"
    twins.create("s", f"SELECT a.k, b.m FROM {counted} AS a JOIN {counted} AS b ON b.n > a.n")

    twins.window("INSERT INTO t VALUES (2, 5), (3, 6)")
    twins.window("DELETE FROM t WHERE k = 1", "UPDATE t SET v = v * 2 WHERE k = 2")
    twins.window("UPDATE t SET k = 7")


def test_p49_one_aggregate_with_another_filter_and_other_columns(twins: Lab) -> None:
    twins.create(
        "s",
        "SELECT a.k, a.n AS small, b.n AS large, c.k AS other"
        " FROM (SELECT k, count(*) AS n FROM t WHERE v < 15 GROUP BY k) AS a"
        " LEFT JOIN (SELECT k, count(*) AS n FROM t WHERE v >= 15 GROUP BY k) AS b ON b.k = a.k"
        " LEFT JOIN (SELECT v AS k, count(*) AS n FROM t GROUP BY v) AS c ON c.k = a.k",
    )

    twins.window("INSERT INTO t VALUES (2, 5), (2, 50), (3, 1)")
    twins.window("UPDATE t SET v = 30 - v")
    twins.window("DELETE FROM t WHERE v > 14", "INSERT INTO t VALUES (10, 10)")


def test_p49_one_condition_under_two_aliases(twins: Lab) -> None:
    found = "EXISTS (SELECT 1 FROM u AS x WHERE x.k = {}.v AND x.v > 1)"
    twins.create(
        "s",
        "SELECT p.k AS one, q.k AS two FROM t AS p JOIN u AS q ON q.k = p.k"
        f" WHERE NOT {found.format('p')} AND {found.format('q')}",
    )

    change(twins)


def test_p49_one_cte_at_three_places(twins: Lab) -> None:
    twins.create(
        "s",
        "WITH x AS (SELECT k, sum(v) AS s FROM t GROUP BY k)"
        " SELECT a.k, a.s AS own, b.s AS next FROM x AS a LEFT JOIN x AS b ON b.k = a.k + 1"
        " UNION ALL SELECT -k, s, 0 FROM x WHERE s > 20",
    )

    twins.window("INSERT INTO t VALUES (2, 5), (3, 6)")
    twins.window("UPDATE t SET k = k + 1 WHERE v < 25", "DELETE FROM t WHERE v = 6")
    twins.window("DELETE FROM t WHERE k = 2")
