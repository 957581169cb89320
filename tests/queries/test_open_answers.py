"""Queries whose answer SQL leaves open have one: PostgreSQL's own answer to the refined query."""

from __future__ import annotations

import pytest

from pgtrickle.errors import UnsupportedQueryError
from tests.labs.lab import Lab

QUERIES = {
    "array_agg": "SELECT k, array_agg(v) AS x FROM t GROUP BY k",
    "array_agg beside IS NOT TRUE": "SELECT k, array_agg(v) AS x FROM t"
    " WHERE (name = 'a') IS NOT TRUE AND (v < 9) IS NOT FALSE AND NOT ((v = 9) IS TRUE) GROUP BY k",
    "array_agg beside variance": "SELECT k, array_agg(v) AS x, variance(v) AS y FROM t GROUP BY k",
    "array_agg of all": "SELECT array_agg(name) AS x FROM t",
    "array_agg with ties": "SELECT k, array_agg(name ORDER BY v) AS x FROM t GROUP BY k",
    "array_agg with a filter": "SELECT k, array_agg(v) FILTER (WHERE v > 1) AS x FROM t GROUP BY k",
    "array_agg of points": "SELECT k, array_agg(p) AS x FROM t GROUP BY k",
    "string_agg": "SELECT k, string_agg(name, '; ') AS x FROM t GROUP BY k",
    "string_agg by a column": "SELECT k, string_agg(name, v::text) AS x FROM t GROUP BY k",
    "json_agg": "SELECT k, json_agg(v)::text AS x FROM t GROUP BY k",
    "json_agg of json": "SELECT k, json_agg(j)::text AS x FROM t GROUP BY k",
    "jsonb_agg": "SELECT k, jsonb_agg(v) AS x FROM t GROUP BY k",
    "jsonb_agg of objects": "SELECT k, jsonb_agg(jsonb_build_object('n', name)) AS x FROM t"
    " GROUP BY k",
    "json_object_agg": "SELECT k, json_object_agg(id % 3, v)::text AS x FROM t GROUP BY k",
    "jsonb_object_agg": "SELECT k, jsonb_object_agg(id % 3, v) AS x FROM t GROUP BY k",
    "over a join": "SELECT t.k, array_agg(u.w) AS x FROM t JOIN u ON u.k = t.k GROUP BY t.k",
    "over groups": "SELECT array_agg(n) AS x FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS g",
    "ARRAY": "SELECT u.k, ARRAY(SELECT t.v FROM t WHERE t.k = u.k) AS x FROM u",
    "LIMIT": "SELECT name, v FROM t LIMIT 3",
    "LIMIT with ties": "SELECT name, v FROM t ORDER BY k LIMIT 3",
    "LIMIT over a type without an order": "SELECT p::text AS p, j::text AS j FROM t LIMIT 2",
    "LIMIT over json": "SELECT j FROM t LIMIT 2",
    "OFFSET": "SELECT name FROM t OFFSET 2",
    "FETCH": "SELECT name FROM t FETCH FIRST 2 ROWS ONLY",
    "LIMIT over groups": "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY count(*) LIMIT 1",
    "LIMIT over a union": "SELECT k FROM t UNION SELECT k FROM u LIMIT 2",
    "LIMIT over DISTINCT": "SELECT DISTINCT k, v FROM t LIMIT 2",
    "LIMIT below": "SELECT s.name FROM (SELECT name, k FROM t LIMIT 4) AS s JOIN u ON u.k = s.k",
    "DISTINCT ON": "SELECT DISTINCT ON (k) k, name FROM t",
    "DISTINCT ON with ties": "SELECT DISTINCT ON (k) k, name, v FROM t ORDER BY k, v DESC",
    "row_number": "SELECT name, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM t",
    "row_number without order": "SELECT name, row_number() OVER () AS n FROM t",
    "row_number of a named window": "SELECT name, row_number() OVER w AS n, rank() OVER w AS r"
    " FROM t WINDOW w AS (PARTITION BY k ORDER BY v)",
    "the first of a group": "SELECT s.name FROM (SELECT name, row_number()"
    " OVER (PARTITION BY k ORDER BY v DESC) AS n FROM t) AS s WHERE s.n = 1",
    "lag": "SELECT name, lag(name) OVER (ORDER BY v) AS x FROM t",
    "a running total by rows": "SELECT name, sum(v) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING) AS x"
    " FROM t",
}
CHANGES = (
    "INSERT INTO t VALUES (8, 1, 2, 'h', '(0,0)', '{}'), (9, 2, 2, 'a', '(5,5)', '[]')",
    "DELETE FROM t WHERE id IN (1, 4)",
    "UPDATE t SET v = 2, name = upper(name) WHERE id > 4",
    "UPDATE u SET w = w + 1",
)


def _fill(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int, v int, name text, p point, j json)",
        "CREATE TABLE u (id int PRIMARY KEY, k int, w int)",
        "INSERT INTO t VALUES (7, 1, 2, 'g', '(1,2)', '[1]'), (1, 1, 2, 'a', '(1,1)', '{}'),"
        " (5, 2, 3, 'b', '(0,2)', '1'), (2, 1, 1, 'c', NULL, '2'), (4, 2, 3, 'd', '(1,2)', NULL),"
        " (6, 1, NULL, NULL, '(3,2)', '[2]')",
        "INSERT INTO u VALUES (1, 1, 5), (2, 1, 5), (3, 2, 6), (4, 3, 1)",
    )
    return lab


@pytest.fixture
def open_lab(lab: Lab) -> Lab:
    return _fill(lab)


def _follow(lab: Lab, query: str, mode: str) -> None:
    lab.trickle.create_stream_table("s", query, refresh_mode=mode)
    table = lab.trickle.get_stream_table("s")
    assert table.pinned
    assert table.pinned[0] in lab.trickle.explain_stream_table("s")
    # What PostgreSQL makes of the refined query, and not only what we do.
    lab.queries["s"] = table.defining_query
    shown = "SELECT md5(string_agg(s::text, '|' ORDER BY s::text)) FROM ({}) AS s"
    for change in (None, *CHANGES):
        if change is not None:
            lab.run(change)
            report = lab.trickle.refresh_stream_table("s")
            assert report.action.value in {mode, "NO_DATA"}, report.reason
        expected = lab.value(shown.format(table.defining_query))
        assert lab.value(shown.format("TABLE s")) == expected, lab.rows("TABLE s")
    assert lab.trickle.verify_stream_table("s").ok


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_open_answer_is_pinned_and_followed(open_lab: Lab, query: str) -> None:
    _follow(open_lab, query, "DIFFERENTIAL")


@pytest.mark.parametrize("name", ["string_agg", "LIMIT", "DISTINCT ON", "row_number", "ARRAY"])
def test_full_gives_the_pinned_answer_too(open_lab: Lab, name: str) -> None:
    _follow(open_lab, QUERIES[name], "FULL")


@pytest.mark.parametrize("name", ["string_agg", "LIMIT", "DISTINCT ON", "row_number", "ARRAY"])
def test_postgresql_as_the_engine_gives_it_too(postgres_lab: Lab, name: str) -> None:
    _follow(_fill(postgres_lab), QUERIES[name], "DIFFERENTIAL")


CLOSED = {
    "a unique key": "SELECT name FROM t ORDER BY id LIMIT 3",
    "a unique key in a call": "SELECT k, array_agg(name ORDER BY id) AS x FROM t GROUP BY k",
    "a unique key of a window": "SELECT name, row_number() OVER (ORDER BY id) AS n FROM t",
    "all keys of groups": "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY k LIMIT 1",
    "one row": "SELECT count(*) AS n FROM t LIMIT 10",
    "all columns": "SELECT k, v FROM t ORDER BY v, k LIMIT 2",
    "distinct values": "SELECT k, array_agg(DISTINCT v) AS x FROM t GROUP BY k",
    "ties kept": "SELECT k FROM t ORDER BY k FETCH FIRST 1 ROW WITH TIES",
    "equal ranks": "SELECT name, rank() OVER (ORDER BY v) AS n FROM t",
    "groups of one row": "SELECT DISTINCT ON (id) id, name FROM t",
    "a fence": "SELECT s.name FROM (SELECT name FROM t OFFSET 0) AS s",
    "no rows": "SELECT name FROM t LIMIT 0",
    "existence": "SELECT k FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.k = u.k LIMIT 1)",
}


@pytest.mark.parametrize("query", CLOSED.values(), ids=CLOSED.keys())
def test_nothing_is_added_to_a_query_with_one_answer(open_lab: Lab, query: str) -> None:
    open_lab.create("s", query)

    assert open_lab.trickle.get_stream_table("s").pinned == ()
    open_lab.window(CHANGES[0])


def test_same_query_again_changes_nothing(open_lab: Lab) -> None:
    open_lab.trickle.create_stream_table("s", QUERIES["string_agg"])

    outcome = open_lab.trickle.create_or_replace_stream_table("s", QUERIES["string_agg"])

    assert outcome.status == "unchanged"


def test_note_outlives_a_rename(open_lab: Lab) -> None:
    open_lab.trickle.create_stream_table("s", QUERIES["string_agg"])
    before = open_lab.trickle.get_stream_table("s")
    open_lab.run("ALTER TABLE t RENAME TO renamed", "INSERT INTO renamed VALUES (20, 1, 1, 'z')")

    open_lab.trickle.refresh_stream_table("s")

    after = open_lab.trickle.get_stream_table("s")
    assert after.pinned == before.pinned
    assert "ORDER BY" not in after.original_query
    assert open_lab.trickle.verify_stream_table("s").ok


def test_open_answer_inside_a_view_is_refused(open_lab: Lab) -> None:
    open_lab.run("CREATE VIEW chosen AS SELECT name FROM t LIMIT 2")

    with pytest.raises(UnsupportedQueryError, match="LIMIT without ORDER BY"):
        open_lab.trickle.create_stream_table(
            "s", "SELECT name FROM chosen", refresh_mode="DIFFERENTIAL"
        )
