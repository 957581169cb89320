"""Tables that get other names, definitions that travel, and what goes with a stream table."""

from __future__ import annotations

from tests.first_week.newcomer import ORDERS, Newcomer

REGIONS = "SELECT region FROM revenue"


def test_source_that_is_renamed_is_followed(shop: Newcomer):
    shop.psql("ALTER TABLE orders RENAME TO sales;", "INSERT INTO sales VALUES (4, 'west', 1);")

    refreshed = shop.type("refresh", "revenue")

    assert refreshed.status == 0, refreshed.err
    assert ("west",) in shop.rows(REGIONS)
    assert shop.type("verify", "revenue").status == 0
    assert "sales" in shop.value("SELECT original_query FROM pgtrickle.stream_tables_info")


def test_stream_table_that_is_renamed_and_moved_lives_on(shop: Newcomer):
    shop.psql(
        "CREATE SCHEMA app;",
        "ALTER TABLE revenue RENAME TO takings;",
        "ALTER TABLE takings SET SCHEMA app;",
        "INSERT INTO orders VALUES (4, 'west', 1);",
    )

    refreshed = shop.type("refresh", "app.takings")

    assert refreshed.status == 0, refreshed.err
    assert ("west",) in shop.rows("SELECT region FROM app.takings")
    assert shop.type("drop", "app.takings").status == 0
    assert shop.value("SELECT to_regclass('app.takings')") is None


def test_stream_table_is_renamed_on_every_surface(shop: Newcomer):
    assert shop.type("rename", "revenue", "income").status == 0
    shop.trickle.rename_stream_table("income", "turnover")
    with shop.serving():
        said = shop.psql("CALL pgtrickle.rename_stream_table('turnover', 'takings');")

    assert said.code is None, said.err
    assert shop.rows("SELECT name FROM pgtrickle.pgt_status()") == [("public.takings",)]
    assert shop.type("refresh", "takings").status == 0


def test_definition_makes_a_copy_in_a_fresh_database_and_spares_readers(
    shop: Newcomer, elsewhere: Newcomer
):
    shop.sql("CREATE VIEW best AS SELECT max(total) AS total FROM revenue")
    definition = shop.value("SELECT pgtrickle.export_definition('revenue')")
    elsewhere.sql(*ORDERS)

    with elsewhere.serving():
        there = elsewhere.psql(definition)
    with shop.serving():
        here = shop.psql(definition)

    assert (there.code, here.code) == (None, None), (there.err, here.err)
    assert elsewhere.rows("TABLE revenue") == shop.rows("TABLE revenue")
    assert shop.value("SELECT total FROM best") == 20


def test_definition_has_the_names_that_sources_got_a_moment_ago(
    shop: Newcomer, elsewhere: Newcomer
):
    shop.sql("ALTER TABLE orders RENAME TO sales")
    elsewhere.sql(*ORDERS, "ALTER TABLE orders RENAME TO sales")
    exported = shop.type("export", "revenue")

    with elsewhere.serving():
        there = elsewhere.psql(exported.out)

    assert there.code is None, there.err
    assert elsewhere.rows("TABLE revenue") == shop.rows("TABLE revenue")


def test_drop_with_cascade_names_the_views_that_go(shop: Newcomer):
    shop.sql("CREATE VIEW best AS SELECT max(total) AS total FROM revenue")

    dropped = shop.type("drop", "revenue", "--cascade")

    assert dropped.status == 0, dropped.err
    assert "public.best" in dropped.out + dropped.err
    assert shop.value("SELECT to_regclass('best')") is None


def test_refresh_groups_are_made_alike_everywhere(shop: Newcomer):
    shop.type("create", "largest", "--query", "SELECT max(amount) AS most FROM orders")
    members = ("revenue", "largest")
    isolation = "SELECT isolation FROM pgtrickle.refresh_groups()"

    assert shop.type("group", "create", "pair", *members).status == 0
    typed = shop.value(isolation)
    assert shop.type("group", "drop", "pair").status == 0
    shop.trickle.scheduler.create_refresh_group("pair", members)
    python = shop.value(isolation)
    shop.trickle.scheduler.drop_refresh_group("pair")
    with shop.serving():
        said = shop.psql("CALL pgtrickle.create_refresh_group('pair', '{revenue, largest}');")

    assert said.code is None, said.err
    assert {typed, python} == {shop.value(isolation)}
