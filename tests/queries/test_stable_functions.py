"""STABLE functions: those of users are followed by what they read, those of the session are not."""

from __future__ import annotations

import pytest

from pgtrickle.errors import UnsupportedQueryError
from tests.labs.lab import Lab

_SETUP = (
    "CREATE TABLE t (id int PRIMARY KEY, cur text, amount numeric(10, 2), at timestamptz)",
    "CREATE TABLE u (cur text, name text)",
    "CREATE TABLE rates (cur text, rate numeric, note text, since int)",
    "CREATE VIEW good_rates AS SELECT cur, rate FROM rates WHERE rate > 0",
    "INSERT INTO rates VALUES ('EUR', 1, 'a', 1), ('USD', 0.9, 'b', 1), ('USD', 0.8, 'b', 2),"
    " ('JPY', 0.01, 'c', 1)",
    "INSERT INTO t SELECT i, (ARRAY['EUR', 'USD', 'JPY', 'XXX'])[1 + i % 4], i * 1.5,"
    " timestamptz '2024-01-30 12:00+00' + i * interval '7 hours' FROM generate_series(1, 20) AS i",
    "INSERT INTO u VALUES ('EUR', 'euro'), ('USD', 'dollar'), ('CHF', 'franc')",
    # As a text with qualified names, bound at its creation, by a path of its own, and so on.
    "CREATE FUNCTION rate_of(text) RETURNS numeric LANGUAGE sql STABLE AS"
    " 'SELECT r.rate FROM public.rates AS r WHERE r.cur = $1 ORDER BY r.since DESC LIMIT 1;'",
    "CREATE FUNCTION rate_bound(wanted text) RETURNS numeric LANGUAGE sql STABLE"
    " BEGIN ATOMIC SELECT max(rate) FROM rates WHERE cur = wanted; END",
    "CREATE FUNCTION rate_by_path(wanted text) RETURNS numeric LANGUAGE sql STABLE"
    " SET search_path = public AS 'SELECT max(rate) FROM good_rates WHERE cur = wanted -- good'",
    "CREATE FUNCTION in_euros(numeric, text) RETURNS numeric LANGUAGE sql STABLE AS"
    " 'SELECT $1 * public.rate_bound($2)'",
    "CREATE FUNCTION rates_of(text, OUT rate numeric, OUT since int) RETURNS SETOF record"
    " LANGUAGE sql STABLE ROWS 3 AS 'SELECT rate, since FROM public.rates WHERE cur = $1'",
    "CREATE FUNCTION a_rate(text) RETURNS text LANGUAGE sql STABLE AS"
    " 'SELECT string_agg(r::text, '','' ORDER BY since) FROM public.rates AS r WHERE cur = $1'",
    "CREATE FUNCTION shown(timestamptz) RETURNS text LANGUAGE sql STABLE AS"
    " 'SELECT to_char($1, ''YYYY-MM'')'",
    "CREATE FUNCTION add_euros(numeric, numeric, text) RETURNS numeric LANGUAGE sql STABLE AS"
    " 'SELECT $1 + coalesce(public.in_euros($2, $3), 0)'",
    "CREATE AGGREGATE total_euros(numeric, text) (sfunc = add_euros, stype = numeric,"
    " initcond = '0')",
)
_QUERIES = {
    "a column": "SELECT id, rate_of(cur) AS r FROM t",
    "a column across tables": "SELECT t.id, in_euros(t.amount, u.cur) AS e FROM t JOIN u"
    " USING (cur)",
    "WHERE": "SELECT id FROM t WHERE rate_bound(cur) > 0.5",
    "a path of its own": "SELECT id FROM t WHERE rate_by_path(cur) > 0.5",
    "ON": "SELECT t.id, u.name FROM t LEFT JOIN u ON t.cur = u.cur AND rate_of(u.cur) > 0.85",
    "WHERE across tables": "SELECT t.id FROM t JOIN u USING (cur)"
    " WHERE in_euros(t.amount, u.cur) > 5",
    "GROUP BY": "SELECT rate_of(cur) AS r, count(*) AS n, sum(in_euros(amount, cur)) AS s FROM t"
    " GROUP BY 1",
    "HAVING": "SELECT cur, count(*) AS n FROM t GROUP BY cur HAVING rate_of(cur) > 0.5",
    "a window": "SELECT id, sum(in_euros(amount, cur)) OVER (PARTITION BY cur ORDER BY id) AS s"
    " FROM t",
    "rows in FROM": "SELECT t.id, x.rate FROM t, rates_of(t.cur) AS x",
    "a whole row": "SELECT id, a_rate(cur) AS r FROM t",
    "an aggregate": "SELECT t.cur, total_euros(t.amount, t.cur ORDER BY t.id) AS s FROM t"
    " GROUP BY t.cur",
    "beside its table": "SELECT t.id, r.note, rate_of(t.cur) AS now FROM t JOIN rates AS r"
    " ON r.cur = t.cur AND r.since = 1",
    "EXISTS": "SELECT name FROM u WHERE EXISTS (SELECT FROM t WHERE t.cur = u.cur"
    " AND t.amount * rate_of(u.cur) > 20)",
}
_ROWS = (
    "UPDATE t SET amount = amount + 1 WHERE id % 3 = 0",
    "DELETE FROM t WHERE id % 7 = 0",
    "INSERT INTO t SELECT id + (SELECT max(id) FROM t), cur, amount, at FROM t WHERE id < 5",
    "UPDATE t SET cur = 'USD' WHERE id IN (4, 5)",
    "UPDATE u SET name = name || '!'",
)
_RATES = (
    "UPDATE rates SET rate = rate * 2 WHERE cur = 'USD'",
    "DELETE FROM rates WHERE cur = 'JPY'",
    "INSERT INTO rates VALUES ('XXX', 3, 'd', 1)",
)


@pytest.fixture
def rows(lab: Lab) -> Lab:
    lab.run(*_SETUP)
    return lab


@pytest.fixture
def plain_rows(postgres_lab: Lab) -> Lab:
    postgres_lab.run(*_SETUP)
    return postgres_lab


def _follow(lab: Lab, query: str) -> None:
    lab.create("s", query)

    lab.window(*_ROWS)
    for statement in _RATES:
        [report] = lab.window(statement, action="FULL")
        assert "public.rates changed, which the function " in report.reason
        lab.window("UPDATE t SET amount = amount - 1, cur = cur || '' WHERE id % 2 = 0",
                   "DELETE FROM t WHERE id = (SELECT max(id) FROM t)")  # fmt: skip
    lab.window("UPDATE rates SET rate = 7 WHERE cur = 'EUR'", *_ROWS, action="FULL")
    [report] = lab.window("TRUNCATE rates", action="FULL")
    assert "was truncated" in report.reason
    verified = lab.trickle.verify_stream_table("s")
    assert verified.ok, verified


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_a_function_is_followed_by_what_it_reads(rows: Lab, query: str) -> None:
    _follow(rows, query)


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_postgresql_alone_follows_too(plain_rows: Lab, query: str) -> None:
    _follow(plain_rows, query)


def test_a_table_that_changes_during_a_refresh_belongs_to_the_next_one(rows: Lab) -> None:
    rows.create("s", _QUERIES["a column across tables"])
    rows.run("UPDATE t SET amount = amount + 1")
    answer = rows.rows(_QUERIES["a column across tables"])

    rows.before_next_stage(lambda: rows.run("UPDATE rates SET rate = rate + 5"))
    rows.trickle.refresh_stream_table("s")
    assert rows.rows("SELECT * FROM s") == answer
    rows.window(action="FULL")


def test_a_function_that_is_replaced_and_reads_another_table(rows: Lab) -> None:
    rows.create("s", "SELECT id, in_euros(amount, cur) AS e FROM t")
    rows.window(
        "CREATE TABLE fixed (cur text, rate numeric)",
        "INSERT INTO fixed VALUES ('USD', 3)",
        "CREATE OR REPLACE FUNCTION rate_bound(wanted text) RETURNS numeric LANGUAGE sql STABLE"
        " AS 'SELECT sum(rate) FROM public.fixed WHERE cur = $1'",
        action="REINITIALIZE",
    )

    rows.window("INSERT INTO fixed VALUES ('EUR', 2)", action="FULL")
    rows.window("UPDATE rates SET rate = 0", action="NO_DATA")
    rows.window("UPDATE t SET amount = 0 WHERE id = 3")


def test_a_column_that_no_function_reads_changes_nothing(rows: Lab) -> None:
    rows.create("s", "SELECT id, rate_bound(cur) AS r FROM t")

    rows.window("UPDATE rates SET note = note || '!'", action="NO_DATA")
    assert rows.rows(
        "SELECT source_relid::regclass::text, columns_used FROM pgtrickle.pgt_dependencies"
    ) == [("rates", ["cur", "rate"]), ("t", ["cur", "id"])]


_BODIES = {
    "plpgsql": ("LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'", "is written in plpgsql"),
    "the time": ("LANGUAGE sql AS 'SELECT extract(day FROM now())::int'", "the current time"),
    "the session": ("LANGUAGE sql AS 'SELECT length(current_user)'", "time or the session"),
    "a setting": (
        "LANGUAGE sql AS 'SELECT length(current_setting(''shop.rate'', true))'",
        '"current_setting", and that tells',
    ),
    "chance": ("LANGUAGE sql AS 'SELECT (random() * 9)::int'", 'volatile function "random"'),
    "another function": ("LANGUAGE sql AS 'SELECT public.moody($1)'", 'calls "moody", which may'),
    "names without a path": ("LANGUAGE sql AS 'SELECT count(*)::int FROM rates'", "cannot be read"),
    "any row": ("LANGUAGE sql AS 'SELECT since FROM public.rates LIMIT 1'", "without ORDER BY"),
    "a place": (
        "LANGUAGE sql AS 'SELECT count(*)::int FROM public.rates WHERE ctid = ''(0,1)'''",
        "system column",
    ),
    "a materialized view": (
        "LANGUAGE sql AS 'SELECT count(*)::int FROM public.kept'",
        'reads "public.kept"',
    ),
    "the catalogs": (
        "LANGUAGE sql AS 'SELECT count(*)::int FROM pg_catalog.pg_class'",
        "system catalog",
    ),
    "a view of the system": (
        "LANGUAGE sql AS 'SELECT count(*)::int FROM pg_catalog.pg_settings'",
        "a view of the system",
    ),
    "a table without a log": (
        "LANGUAGE sql AS 'SELECT count(*)::int FROM public.hasty'",
        "unlogged",
    ),
    "any type": ("LANGUAGE sql AS 'SELECT $1'", "cannot be read"),
}


@pytest.mark.parametrize(("body", "named"), _BODIES.values(), ids=_BODIES.keys())
def test_what_nobody_can_tell_is_refused_by_name_and_runs_full(
    rows: Lab, body: str, named: str
) -> None:
    type_ = "anyelement" if body.endswith("'SELECT $1'") else "int"
    rows.run(
        "CREATE FUNCTION moody(int) RETURNS int STABLE LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'",
        "CREATE MATERIALIZED VIEW kept AS SELECT 1 AS one",
        "CREATE UNLOGGED TABLE hasty (id int)",
        # The tests' own role may look for names there, a refresh does not.
        "ALTER ROLE CURRENT_USER SET search_path = public",
        f"CREATE FUNCTION tried({type_}) RETURNS {type_} STABLE {body}",
    )
    query = "SELECT id FROM t WHERE tried(id) IS NOT NULL"

    with pytest.raises(UnsupportedQueryError, match='the function "tried", ') as refused:
        rows.trickle.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")
    assert named in str(refused.value)
    assert "^" in refused.value.detail
    assert "'AUTO'" in refused.value.hint
    assert rows.leftovers() == []
    if "path" not in named and "cannot be read" not in named:
        rows.create("s", query, "AUTO")
        rows.window("DELETE FROM t WHERE id = 3", action="FULL")
        rows.window(action="FULL")


def test_immediate_is_refused_by_name(rows: Lab) -> None:
    with pytest.raises(UnsupportedQueryError, match='"rate_of" under refresh_mode') as refused:
        rows.trickle.create_stream_table(
            "s", "SELECT id FROM t WHERE rate_of(cur) > 1", refresh_mode="IMMEDIATE"
        )
    assert "DIFFERENTIAL" in refused.value.hint
    assert rows.leftovers() == []
    # One that reads nothing is like any other function.
    query = "SELECT shown(at) AS m, count(*) AS n FROM t GROUP BY 1"
    rows.create("s", query, "IMMEDIATE")
    rows.run("DELETE FROM t WHERE id < 5")
    rows.check("s")


_SESSION = {
    "pg_backend_pid": "SELECT id, pg_backend_pid() AS x FROM t",
    "current_setting": "SELECT id FROM t WHERE cur <> current_setting('application_name')",
    "current_schema": "SELECT id, current_schema() AS x FROM t",
    "current_database": "SELECT count(*) AS n FROM t WHERE cur <> current_database()",
    "version": "SELECT id, version() AS x FROM t",
    "txid_current_snapshot": "SELECT id, txid_current_snapshot()::text AS x FROM t",
    "has_table_privilege": "SELECT id FROM t WHERE has_table_privilege('u', 'SELECT')",
    "table_to_xml": "SELECT id, table_to_xml('u', true, true, '')::text AS x FROM t",
    "pg_column_size": "SELECT id, pg_column_size(cur) AS x FROM t",
    "timezone": "SELECT id, at::timetz AT TIME ZONE 'Europe/Berlin' AS x FROM t",
    "regclass": "SELECT id, cur::regclass AS x FROM t",
    "regclass and its like": "SELECT id, 'u'::regclass::text AS x FROM t",
    "'now'": "SELECT id FROM t WHERE at < 'now'::text::timestamptz",
}


@pytest.mark.parametrize(("named", "query"), _SESSION.items(), ids=_SESSION.keys())
def test_what_tells_of_the_session_is_not_followed(rows: Lab, named: str, query: str) -> None:
    with pytest.raises(UnsupportedQueryError, match=named) as refused:
        rows.trickle.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")
    assert "^" in refused.value.detail
    assert "'AUTO'" in refused.value.hint
    assert rows.leftovers() == []


def test_what_tells_of_the_catalogs_is_computed_at_every_refresh(rows: Lab) -> None:
    rows.create("s", "SELECT id, obj_description('u'::regclass, 'pg_class') AS x FROM t", "AUTO")

    rows.window("COMMENT ON TABLE u IS 'names'", action="FULL")
    assert rows.value("SELECT DISTINCT x FROM s") == "names"


def test_what_follows_from_arguments_and_settings_is_followed(rows: Lab) -> None:
    rows.create(
        "s",
        "SELECT id, to_char(at, 'YYYY-MM-DD') AS d, date_trunc('day', at) AS day,"
        " concat(cur, id) AS c, to_jsonb(amount) AS j, at AT TIME ZONE 'UTC' AS u,"
        " at + interval '1 day' AS later, to_tsvector(cur) AS v, pg_typeof(cur)::text AS t"
        " FROM t WHERE at > date '2024-02-01' AND at > '2024-02-01'::text::timestamptz",
    )

    rows.window("UPDATE t SET amount = amount + 1, at = at + interval '1 hour' WHERE id % 2 = 0")


@pytest.mark.parametrize("mode", ["FULL", "DIFFERENTIAL"])
def test_a_table_that_an_earlier_version_did_not_capture_is_captured(rows: Lab, mode: str) -> None:
    rows.create("s", "SELECT id, rate_bound(cur) AS r FROM t", mode)
    rows.run("DELETE FROM pgtrickle.pgt_dependencies WHERE source_relid = 'rates'::regclass")
    rows.trickle.insight.clear_caches()

    [report] = rows.window(action="REINITIALIZE")
    assert "rate_bound reads a table that was not captured" in report.reason
    rows.window("UPDATE rates SET rate = rate + 1", action="FULL")


def test_members_of_a_group_may_read_one_another_in_functions(rows: Lab) -> None:
    rows.create("best", "SELECT cur, max(rate) AS rate FROM rates GROUP BY cur")
    rows.run(
        "CREATE FUNCTION best_rate(wanted text) RETURNS numeric LANGUAGE sql STABLE"
        " BEGIN ATOMIC SELECT rate FROM best WHERE cur = wanted; END"
    )
    rows.create("low", "SELECT id, best_rate(cur) AS r FROM t WHERE id < 9")
    rows.create("paired", "SELECT low.id, best.rate, best_rate('EUR') AS euro FROM low"
                " JOIN best ON best.rate >= low.r")  # fmt: skip

    for statement in ("UPDATE rates SET rate = rate + 1", "DELETE FROM t WHERE id < 4"):
        rows.run(statement)
        verified = rows.trickle.verify_stream_table("paired")
        assert verified.ok, verified
        for name in rows.queries:
            rows.trickle.refresh_stream_table(name)
            rows.check(name)
