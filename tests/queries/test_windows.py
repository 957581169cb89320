"""Window functions: the touched partitions are computed anew (scenarios.md: P36).

Every ORDER BY is total where the answer depends on it, so that there is one answer.
"""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab


@pytest.fixture
def sales(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE sales (id int PRIMARY KEY, shop text, day int, qty int)",
        "INSERT INTO sales SELECT i, CASE i % 4 WHEN 3 THEN NULL ELSE 's' || i % 4 END, i % 5,"
        " CASE WHEN i % 6 > 0 THEN i % 7 END FROM generate_series(1, 24) AS i",
    )
    return lab


def change(lab: Lab) -> None:
    """Move rows between partitions, change values and order, empty a partition and fill one."""
    lab.window("INSERT INTO sales VALUES (30, 's1', 2, 3), (31, 'new', 1, 1)")
    lab.window("UPDATE sales SET shop = 's2' WHERE id IN (1, 3)")
    lab.window("UPDATE sales SET qty = NULL WHERE id = 2", "UPDATE sales SET day = 9 WHERE id = 4")
    lab.window("DELETE FROM sales WHERE shop = 's0'", "UPDATE sales SET qty = 5 WHERE shop IS NULL")
    lab.window("UPDATE sales SET shop = NULL WHERE shop = 'new'", "DELETE FROM sales WHERE id = 30")
    lab.window("DELETE FROM sales WHERE id > 3")


def test_p36_partition_key_change_recomputes_both_partitions(sales: Lab) -> None:
    sales.create(
        "s",
        "SELECT id, shop, sum(qty) OVER (PARTITION BY shop) AS total,"
        " row_number() OVER (PARTITION BY shop ORDER BY id) AS position FROM sales",
    )

    sales.window("UPDATE sales SET shop = 's2' WHERE id = 1")
    sales.window("UPDATE sales SET shop = 's1' WHERE shop IS NULL")
    change(sales)


def test_p36_change_touches_no_other_partition(sales: Lab) -> None:
    sales.create("s", "SELECT id, shop, sum(qty) OVER (PARTITION BY shop) AS total FROM sales")

    [report] = sales.window("INSERT INTO sales VALUES (40, 's1', 1, 100)")

    assert report.rows_inserted == sales.value("SELECT count(*) FROM sales WHERE shop = 's1'")
    assert report.rows_deleted == report.rows_inserted - 1


def test_p36_ties(sales: Lab) -> None:
    sales.create(
        "s",
        "SELECT id, rank() OVER w AS r, dense_rank() OVER w AS d, percent_rank() OVER w AS p,"
        " cume_dist() OVER w AS c, count(*) OVER w AS peers, sum(day) OVER w AS running"
        " FROM sales WINDOW w AS (PARTITION BY shop ORDER BY qty)",
    )

    change(sales)


def test_p36_equal_rows_each_have_a_number(lab: Lab) -> None:
    lab.run("CREATE TABLE bag (k int, v int)", "INSERT INTO bag VALUES (1, 1), (1, 1), (2, 5)")
    lab.create(
        "s",
        "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS n,"
        " count(*) OVER (PARTITION BY k) AS all_of_it FROM bag",
    )

    lab.window("INSERT INTO bag VALUES (1, 1), (2, 5), (2, 5)")
    lab.window("DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE k = 1)")
    lab.window("UPDATE bag SET k = 1")


def test_p36_neighbours_at_the_edges(sales: Lab) -> None:
    sales.create(
        "s",
        "SELECT id, lag(qty) OVER w AS before, lead(qty) OVER w AS after,"
        " lag(qty, 2, -1) OVER w AS two_before, lead(id, 3, 0) OVER w AS three_after"
        " FROM sales WINDOW w AS (PARTITION BY shop ORDER BY day, id)",
    )

    change(sales)


def test_p36_first_last_and_nth_value(sales: Lab) -> None:
    sales.create(
        "s",
        "SELECT id, first_value(qty) OVER w AS first, last_value(id) OVER w AS last,"
        " nth_value(id, 2) OVER w AS second, ntile(3) OVER (PARTITION BY shop ORDER BY day, id)"
        " AS third FROM sales WINDOW w AS (PARTITION BY shop ORDER BY day, id"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    )

    change(sales)


@pytest.mark.parametrize(
    "order", ["qty", "qty DESC", "qty NULLS FIRST", "qty DESC NULLS LAST", "shop DESC, qty"]
)
def test_p36_order_of_null(sales: Lab, order: str) -> None:
    sales.create(
        "s",
        f"SELECT id, row_number() OVER (PARTITION BY day ORDER BY {order}, id) AS n,"
        f" lag(id) OVER (PARTITION BY day ORDER BY {order}, id) AS before FROM sales",
    )

    change(sales)


_FRAMES = [
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
]


@pytest.mark.parametrize("frame", _FRAMES)
def test_p36_frames(sales: Lab, frame: str) -> None:
    sales.create(
        "s",
        "SELECT id, sum(qty) OVER w AS s, count(*) OVER w AS n, max(qty) OVER w AS m,"
        " avg(qty) OVER w AS a FROM sales"
        f" WINDOW w AS (PARTITION BY shop ORDER BY day, id {frame})",
    )

    change(sales)


def test_p36_frame_by_distance(sales: Lab) -> None:
    sales.create(
        "s",
        "SELECT id, sum(qty) OVER (PARTITION BY shop ORDER BY day"
        " RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near FROM sales",
    )

    change(sales)


def test_p36_without_a_partition(sales: Lab) -> None:
    sales.create(
        "s",
        "SELECT id, row_number() OVER (ORDER BY day, id) AS n, sum(qty) OVER () AS total,"
        " sum(qty) OVER (ORDER BY id) AS running FROM sales",
    )

    change(sales)
    sales.window("DELETE FROM sales")
    sales.window("INSERT INTO sales VALUES (1, 's', 1, 1)")


def test_p36_two_different_partitionings(sales: Lab) -> None:
    sales.create(
        "s",
        "SELECT id, sum(qty) OVER (PARTITION BY shop) AS of_shop,"
        " sum(qty) OVER (PARTITION BY day) AS of_day, rank() OVER (PARTITION BY shop, day"
        " ORDER BY id DESC) AS in_both, count(*) OVER () AS n FROM sales",
    )

    change(sales)


def test_p36_over_an_aggregate(sales: Lab) -> None:
    sales.create(
        "s",
        "SELECT shop, day, sum(qty) AS qty, rank() OVER (PARTITION BY shop ORDER BY sum(qty) DESC"
        " NULLS LAST, day) AS place, sum(sum(qty)) OVER (PARTITION BY day) AS of_day"
        " FROM sales GROUP BY shop, day",
    )

    change(sales)


def test_p36_inside_expressions(sales: Lab) -> None:
    sales.create(
        "s",
        "SELECT id, qty - lag(qty, 1, 0) OVER w AS step, coalesce(sum(qty) OVER w, 0) + day AS s,"
        " CASE WHEN row_number() OVER w = 1 THEN 'first' ELSE 'later' END AS place"
        " FROM sales WINDOW w AS (PARTITION BY shop ORDER BY id)",
    )

    change(sales)


def test_p36_best_of_each_partition_through_a_filter(sales: Lab) -> None:
    sales.create(
        "s",
        "SELECT shop, id FROM (SELECT shop, id, row_number() OVER (PARTITION BY shop"
        " ORDER BY qty DESC NULLS LAST, id) AS n FROM sales) AS r WHERE n <= 2",
    )

    change(sales)


def test_p36_over_a_join_and_under_an_aggregate(sales: Lab) -> None:
    sales.run(
        "CREATE TABLE shops (shop text, town text)",
        "INSERT INTO shops VALUES ('s0', 'x'), ('s1', 'x'), ('s2', 'y')",
    )
    sales.create(
        "s",
        "SELECT town, max(running) AS top, count(*) AS n FROM (SELECT o.town, sum(s.qty)"
        " OVER (PARTITION BY o.town ORDER BY s.id) AS running FROM sales AS s"
        " JOIN shops AS o ON o.shop = s.shop) AS r GROUP BY town",
    )

    sales.window("UPDATE shops SET town = 'y' WHERE shop = 's1'")
    sales.window("INSERT INTO shops VALUES ('s0', 'z')", "DELETE FROM sales WHERE id = 1")
    change(sales)


def test_p36_filter_and_distinct_partition_of_an_expression(sales: Lab) -> None:
    sales.create(
        "s",
        "SELECT id, count(*) FILTER (WHERE qty > 2) OVER (PARTITION BY day % 2) AS big,"
        " string_agg(shop, ',') OVER (PARTITION BY day % 2 ORDER BY id) AS shops FROM sales",
    )

    change(sales)
