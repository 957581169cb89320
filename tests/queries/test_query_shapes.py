"""Filters, views, CTEs, derived tables and expressions (scenarios.md: P23, P26)."""

from __future__ import annotations

from tests.labs.lab import Lab

ITEMS = (
    "CREATE TABLE items"
    " (id int PRIMARY KEY, internal_id int, name text, tags jsonb, at timestamptz)",
    """INSERT INTO items SELECT i, i, 'Item ' || i, jsonb_build_object('size', i % 3),
              '2026-01-01 12:00+00'::timestamptz + i * interval '1 day'
         FROM generate_series(1, 10) AS i""",
)


def test_p26_filter_on_a_column_that_is_not_shown(lab: Lab):
    lab.run(*ITEMS)
    lab.create("shown", "SELECT name FROM items WHERE internal_id > 5")

    lab.window("UPDATE items SET internal_id = 11 - internal_id")
    lab.window("UPDATE items SET internal_id = NULL WHERE id < 3")
    lab.window("UPDATE items SET internal_id = 5 WHERE id = 1", "DELETE FROM items WHERE id = 2")


def test_p26_change_of_a_column_that_is_not_read_is_no_data(lab: Lab):
    lab.run(*ITEMS)
    lab.create("shown", "SELECT name FROM items WHERE internal_id > 5")

    [report] = lab.window("UPDATE items SET at = now(), tags = NULL")

    assert (report.rows_inserted, report.rows_deleted) == (0, 0)


def test_expressions_over_one_table_are_postgresqls_own(lab: Lab):
    lab.run(*ITEMS)
    lab.create(
        "computed",
        "SELECT upper(name) AS name, tags ->> 'size' AS size, date_trunc('month', at) AS month,"
        " CASE WHEN name ~ '^Item [13579]' THEN 'odd' ELSE 'even' END AS parity,"
        " regexp_replace(name, '(\\w+) (\\d+)', '\\2-\\1') AS swapped, id % 3 = 0 AS third,"
        " name LIKE '%1%' AS one, ARRAY[id, internal_id] AS both_ids, 7 / 2 AS three"
        " FROM items WHERE tags @> '{\"size\": 1}' OR name ILIKE 'ITEM 2'",
    )

    lab.window("UPDATE items SET tags = '{\"size\": 1}' WHERE id > 7")
    lab.window("UPDATE items SET name = 'a''b\\c%' || chr(10) WHERE id = 1")


def test_views_derived_tables_and_ctes(lab: Lab):
    lab.run(*ITEMS)
    lab.run(
        "CREATE VIEW odd AS SELECT id, name AS label, internal_id AS n FROM items WHERE id % 2 = 1",
        "CREATE VIEW odd_counts (bucket, members) AS"
        " SELECT n / 4, count(*) FROM odd GROUP BY n / 4",
    )
    lab.create("of_view", "SELECT label, n + 1 AS next FROM odd WHERE n > 2")
    lab.create("of_view_of_view", "SELECT bucket, members FROM odd_counts WHERE members > 1")
    lab.create(
        "of_cte",
        "WITH big AS (SELECT id, name FROM items WHERE internal_id > 3), named (k, l) AS"
        " (SELECT id, upper(name) FROM big) SELECT b.id, n.l FROM big AS b JOIN named AS n"
        " ON n.k = b.id JOIN (SELECT DISTINCT n FROM odd) AS d ON d.n = b.id",
    )

    lab.window("UPDATE items SET internal_id = internal_id + 1 WHERE id < 6")
    lab.window("DELETE FROM items WHERE id IN (5, 7)", "INSERT INTO items VALUES (21, 21, 'x')")


def test_star_order_by_and_positional_grouping(lab: Lab):
    lab.run('CREATE TABLE t ("A b" int, c text)', "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    lab.create("everything", "SELECT * FROM t ORDER BY 1 DESC")
    lab.create("positional", 'SELECT "A b" % 2, count(*) FROM t GROUP BY 1')

    lab.window("UPDATE t SET c = 'z'", "INSERT INTO t VALUES (3, NULL)")

    assert lab.rows(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'everything'"
    ) == [("A b",), ("c",)]


def test_group_by_a_primary_key_shows_what_depends_on_it(lab: Lab):
    lab.run(
        *ITEMS, "CREATE TABLE sold (item_id int, qty int)", "INSERT INTO sold VALUES (1,1),(1,2)"
    )
    lab.create(
        "sums",
        "SELECT i.id, i.name, i.at, sum(s.qty) AS qty FROM items AS i JOIN sold AS s"
        " ON s.item_id = i.id GROUP BY i.id",
    )

    lab.window("UPDATE items SET name = 'renamed' WHERE id = 1")
    lab.window("INSERT INTO sold VALUES (2, 5)", "DELETE FROM sold WHERE qty = 1")


def test_columns_with_the_names_of_keywords_and_of_our_own(lab: Lab):
    lab.run(
        'CREATE TABLE "Select" ("from" int, "Group" text, "a""b" int, count int, key_1 int)',
        """INSERT INTO "Select" VALUES (1, 'x', 2, 3, 4)""",
    )
    lab.create(
        "odd",
        'SELECT s."from", s."Group", s."a""b" AS "x y", s.count, sum(s.key_1) AS "sum"'
        ' FROM "Select" AS s JOIN "Select" AS "order" ON "order"."from" = s."from"'
        " GROUP BY 1, 2, 3, 4",
    )

    lab.window("""INSERT INTO "Select" VALUES (1, 'X', 2, 3, 4), (1, 'x', 2, 3, 5)""")
    lab.window("""DELETE FROM "Select" WHERE key_1 = 4""")
