"""Queries and names that cannot work: each a coded error with a hint, and nothing left behind."""

from __future__ import annotations

import pytest

from pgtrickle.errors import (
    NameNotUsableError,
    NameTakenError,
    QueryRejectedError,
    QuerySyntaxError,
    ReservedColumnError,
    SettingError,
    StreamTableNotFoundError,
    TrickleError,
    UndefinedObjectError,
    UnsupportedQueryError,
    UnsupportedSourceError,
    VolatileFunctionError,
)
from tests.labs.lab import Lab


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int, v text, at timestamptz DEFAULT now())",
        "CREATE TABLE u (k int, w text, x float8)",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, NULL, 'b')",
        "INSERT INTO u VALUES (1, 'x')",
    )
    return lab


def refused(lab: Lab, kind: type[TrickleError], query: str, mode: str = "DIFFERENTIAL") -> str:
    """Return code, text and marked place of the refusal; nothing may be left behind."""
    with pytest.raises(TrickleError) as caught:
        lab.trickle.create_stream_table("made", query, refresh_mode=mode)
    assert isinstance(caught.value, kind), repr(caught.value)
    assert caught.value.hint
    assert lab.leftovers() == []
    assert lab.value("SELECT to_regclass('public.made')") is None
    return f"{caught.value}\n{caught.value.detail}"


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT id,\n  missing FROM t", "missing"),
        ("SELECT nofunc(id) FROM t", "nofunc"),
        ("SELECT id::notype FROM t", "notype"),
        ("SELECT * FROM noschema.t", "noschema"),
    ],
)
def test_unknown_names_are_st105_with_the_place_marked(shop: Lab, query: str, word: str):
    text = refused(shop, UndefinedObjectError, query, "AUTO")

    marked, carets = text.splitlines()[-2:]
    assert marked[carets.index("^") :].startswith(word)


@pytest.mark.parametrize(
    "query",
    [
        "SELEC id FROM t",
        "SELECT id FROM t WHERE",
        "SELECT id FROM t; DROP TABLE t",
        "SELECT id FROM t; COMMIT; DROP TABLE t CASCADE",
        "SELECT id FROM t) AS x; --",
        "",
        "-- nothing",
        "DELETE FROM t",
        "SELECT 'open FROM t",
    ],
)
def test_syntax_errors_are_st101(shop: Lab, query: str):
    refused(shop, QuerySyntaxError, query, "AUTO")


def test_syntax_error_marks_its_place(shop: Lab):
    text = refused(shop, QuerySyntaxError, "SELECT id\nFROM t\nWHERE id = ) 3")

    marked, carets = text.splitlines()[-2:]
    assert marked == "line 3: WHERE id = ) 3"
    assert carets.index("^") == marked.index(")")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, id FROM t",
        "SELECT id FROM t GROUP BY k",
        "SELECT 1 / sum(id) FROM t WHERE sum(id) > 1",
    ],
)
def test_meaningless_queries_are_st107(shop: Lab, query: str):
    refused(shop, QueryRejectedError, query, "AUTO")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, random() AS r FROM t",
        "SELECT gen_random_uuid() AS u FROM t",
        "SELECT id FROM t WHERE clock_timestamp() > at",
    ],
)
def test_volatile_functions_are_st103_unless_the_mode_is_full(shop: Lab, query: str):
    for mode in ("DIFFERENTIAL", "AUTO"):
        refused(shop, VolatileFunctionError, query, mode)
    shop.trickle.create_stream_table("made", query, refresh_mode="FULL")
    with pytest.raises(VolatileFunctionError):
        shop.trickle.alter_stream_table("made", refresh_mode="AUTO")
    with pytest.raises(VolatileFunctionError, match="verified"):
        shop.trickle.verify_stream_table("made")


@pytest.mark.parametrize("mode", ["DIFFERENTIAL", "AUTO", "FULL"])
def test_functions_that_write_are_st103_in_every_mode(shop: Lab, mode: str):
    shop.run("CREATE SEQUENCE s")

    refused(shop, VolatileFunctionError, "SELECT nextval('s') AS n FROM t", mode)


SOURCES = (
    "CREATE TABLE parts (id int) PARTITION BY RANGE (id)",
    "CREATE UNLOGGED TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE parent (id int)",
    "CREATE UNLOGGED TABLE child () INHERITS (parent)",
    "CREATE UNLOGGED TABLE unlogged (id int)",
    "CREATE SEQUENCE numbers",
)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT relname FROM pg_class",
        "SELECT table_name FROM information_schema.tables",
        "SELECT id FROM parts",
        "SELECT id FROM parts_1",
        "SELECT id FROM parent",
        "SELECT id FROM unlogged",
        "SELECT last_value FROM numbers",
    ],
)
@pytest.mark.parametrize("mode", ["DIFFERENTIAL", "AUTO"])
def test_sources_that_cannot_be_captured_are_st104(shop: Lab, query: str, mode: str):
    shop.run(*SOURCES)

    refused(shop, UnsupportedSourceError, query, mode)


def test_temporary_tables_are_not_visible_or_refused(shop: Lab):
    shop.run("CREATE TEMPORARY TABLE passing (id int)")
    schema = shop.value("SELECT pg_my_temp_schema()::regnamespace")

    refused(shop, UndefinedObjectError, "SELECT id FROM passing")
    refused(shop, TrickleError, f"SELECT id FROM {schema}.passing")


REFUSED = [
    ("SELECT u.w FROM t, LATERAL (SELECT w FROM u UNION SELECT 'x' LIMIT t.k) AS u", "LIMIT"),
    ("SELECT u.w FROM t, LATERAL (SELECT w FROM u UNION SELECT 'x' OFFSET t.k) AS u", "OFFSET"),
    # Two rows with 0.0 and -0.0 are equal and look different.
    ("SELECT DISTINCT u AS whole FROM u", "DISTINCT"),
    ("SELECT u AS whole, count(*) AS n FROM u GROUP BY u", "GROUP BY"),
]


@pytest.mark.parametrize(("query", "word"), REFUSED)
def test_what_no_rule_covers_is_st102_with_the_place_marked(shop: Lab, query: str, word: str):
    text = refused(shop, UnsupportedQueryError, query)

    marked, carets = text.splitlines()[-2:]
    assert marked[carets.index("^") :].startswith(word)


@pytest.mark.parametrize("query", [query for query, _ in REFUSED])
def test_what_no_rule_covers_runs_in_full_under_auto(shop: Lab, query: str):
    created = shop.create("made", query, mode="AUTO")
    assert created.action.value == "FULL"
    assert (shop.trickle.get_stream_table("made").downgrade_reason or "").startswith(
        "no delta rule"
    )

    [report] = shop.window(
        "INSERT INTO u VALUES (1, 'y'), (3, 'z')", "INSERT INTO t VALUES (3, 3, 'c')", action="FULL"
    )
    assert report.reason.startswith("no delta rule")
    shop.window("DELETE FROM u WHERE k = 1", "DELETE FROM t WHERE id = 1", action="FULL")
    shop.window(action="NO_DATA")


def test_subqueries_in_expressions_and_constants_are_maintained_under_auto(shop: Lab):
    shop.create("scalar", "SELECT id, (SELECT max(w) FROM u) AS w FROM t", mode="AUTO")
    shop.create("inside", "SELECT id FROM t WHERE k NOT IN (SELECT k FROM u)", mode="AUTO")
    shop.create(
        "nested",
        "WITH RECURSIVE r (n) AS (SELECT min(id) FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 4)"
        " SELECT n FROM r",
        mode="AUTO",
    )
    shop.create("series", "SELECT t.id, g.n FROM t, generate_series(1, 2) AS g (n)", mode="AUTO")

    shop.run("INSERT INTO u VALUES (NULL, 'zz')", "UPDATE t SET k = 1, id = id + 1 WHERE id = 2")
    shop.window()


def test_query_without_a_table(shop: Lab):
    shop.create("constant", "SELECT 1 AS one, 'x'::text AS x", mode="AUTO")

    shop.window(action="NO_DATA")


def test_expression_over_two_tables_without_translation_is_left_to_postgresql(shop: Lab):
    shop.create("made", "SELECT t.id FROM t JOIN u ON t.v ~ u.w")

    [report] = shop.window("UPDATE u SET w = 'a'")
    assert report.reason.endswith(
        'result computed by PostgreSQL: no faithful translation for "t_v" ~ "u_w"'
    )


def test_current_time_is_refused_under_differential_and_full_under_auto(shop: Lab):
    query = "SELECT k, max(at) <= now() AS past FROM t GROUP BY k"

    text = refused(shop, UnsupportedQueryError, query)
    assert "the current time" in text
    shop.create("recent", query, mode="AUTO")
    [report] = shop.window(action="FULL")
    assert report.reason == "the query depends on the current time"
    shop.run(
        "INSERT INTO t VALUES (9, 9, 'future', now() + interval '0.3 s')", "SELECT pg_sleep(0.4)"
    )
    shop.window(action="FULL")


@pytest.mark.parametrize("word", ["CURRENT_DATE", "localtimestamp", "age(at)"])
def test_other_spellings_of_the_current_time(shop: Lab, word: str):
    refused(shop, UnsupportedQueryError, f"SELECT id, {word}::text AS shown FROM t")


def test_names_that_are_taken(shop: Lab):
    shop.run("CREATE VIEW view AS SELECT 1 AS one", "CREATE INDEX an_index ON t (k)")
    shop.create("made", "SELECT id FROM t")

    for name in ("t", "view", "made", "an_index"):
        with pytest.raises(NameTakenError, match="already exists"):
            shop.trickle.create_stream_table(name, "SELECT id FROM t")
    shop.window("INSERT INTO t VALUES (7)")


@pytest.mark.parametrize(
    "name",
    [
        '"Mixed Case"',
        '"with ""quotes"""',
        '"semi;colon -- \'"',
        '"%s {x} \\ $1"',
        '"sélection_日本"',
        "übung",
        '"' + "x" * 63 + '"',
        '"' + "é" * 31 + '"',
        'public."select"',
    ],
)
def test_unusual_names_work_for_the_whole_life(shop: Lab, name: str):
    shop.create(name, "SELECT k, count(*) AS n, max(v) AS v FROM t GROUP BY k")
    shop.create("child", f"SELECT n FROM {name}")

    shop.window("INSERT INTO t VALUES (3, 1, 'z')")
    assert shop.trickle.explain_stream_table(name)
    assert shop.trickle.alter_stream_table(name, schedule="1m").schedule == "1m"
    shop.trickle.drop_stream_table(name, cascade=True)
    assert shop.leftovers() == []


@pytest.mark.parametrize(
    "name",
    [
        "x" * 64,
        '"' + "é" * 32 + '"',
        "",
        " ",
        "a.b.c",
        '"open',
        "a b",
        "1a",
        '""',
        "a-b",
        "x\0",
        '"x\0"',
        '"\ud800"',
    ],
)
def test_unusable_names_are_st208(shop: Lab, name: str):
    with pytest.raises(NameNotUsableError) as caught:
        shop.trickle.create_stream_table(name, "SELECT id FROM t")

    assert caught.value.hint
    assert shop.leftovers() == []


@pytest.mark.parametrize("schema", ["noschema", "pgtrickle", "pgtrickle_state", "pg_catalog"])
def test_schemas_that_cannot_hold_a_stream_table(shop: Lab, schema: str):
    with pytest.raises(TrickleError) as caught:
        shop.trickle.create_stream_table(f"{schema}.made", "SELECT id FROM t")

    assert caught.value.code in {"ST208", "ST303"}
    assert shop.leftovers() == []


def test_reserved_column_names(shop: Lab):
    refused(shop, ReservedColumnError, "SELECT id AS __weight FROM t")
    shop.run('ALTER TABLE u ADD COLUMN "__xid" int')
    refused(shop, ReservedColumnError, "SELECT k FROM u")


def test_table_without_a_column(shop: Lab):
    shop.run("CREATE TABLE nothing ()")

    refused(shop, NameNotUsableError, "SELECT FROM t")
    shop.create("counted", "SELECT count(*) AS n FROM nothing")
    shop.window("INSERT INTO nothing DEFAULT VALUES")


def test_settings_that_do_not_exist(shop: Lab):
    for schedule, mode in (("1m", "SOMETIMES"), ("whenever", "AUTO")):
        with pytest.raises(SettingError):
            shop.trickle.create_stream_table("made", "SELECT id FROM t", schedule, mode)
    assert shop.leftovers() == []


def test_stream_tables_that_do_not_exist(shop: Lab):
    trickle = shop.trickle
    for call in (
        trickle.refresh_stream_table,
        trickle.verify_stream_table,
        trickle.explain_stream_table,
        trickle.drop_stream_table,
        trickle.alter_stream_table,
        trickle.refresh_history,
    ):
        with pytest.raises(StreamTableNotFoundError):
            call("t")


def test_failed_first_load_leaves_nothing(shop: Lab):
    refused(shop, TrickleError, "SELECT 1 / (id - 1) AS x FROM t")
    shop.create("made", "SELECT 1 / id AS x FROM t")


def test_error_in_the_data_is_st407_and_the_table_recovers(shop: Lab):
    shop.create("made", "SELECT id, 10 / k AS x FROM t")
    shop.run("INSERT INTO t VALUES (5, 0)")
    with pytest.raises(TrickleError) as caught:
        shop.trickle.refresh_stream_table("made")

    assert caught.value.code == "ST407"
    shop.run("UPDATE t SET k = 5 WHERE id = 5")
    shop.trickle.refresh_stream_table("made", full=True)
    shop.check("made")
    shop.window("UPDATE t SET k = 2 WHERE id = 5")
