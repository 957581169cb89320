"""Expressions over several tables that only PostgreSQL evaluates: their stages are its own."""

from __future__ import annotations

import json

import pytest

from pgtrickle.errors import DataError
from tests.labs.lab import Lab

_SETUP = (
    "CREATE TABLE o (id int PRIMARY KEY, k int, price numeric, note text, at timestamp,"
    " span int4range, doc jsonb, tags text[], lasts interval)",
    "CREATE TABLE c (k int, share numeric, pattern text, since timestamptz, span int4range,"
    " doc jsonb, tags text[], lasts interval, word tsquery)",
    "CREATE FUNCTION twice(numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2'",
    "INSERT INTO o SELECT i, i % 4, i * 1.7, 'note ' || i % 5 || chr(64 + i % 3),"
    " timestamp '2024-01-30' + i * interval '1 day 5 hours', int4range(i, i + 3),"
    " jsonb_build_object('k', i % 3, 'n', i), ARRAY['a', chr(96 + i % 3)],"
    " i * interval '6 hours' FROM generate_series(1, 30) AS i",
    "INSERT INTO o (id, k) VALUES (98, 1), (99, NULL)",
    "INSERT INTO c SELECT i % 4, i * 0.3, '[' || i || chr(65 + i % 2) || ']$',"
    " timestamptz '2024-02-03 12:00+00' + i * interval '3 days', int4range(i * 2, i * 2 + 3),"
    " jsonb_build_object('k', i % 3), ARRAY['a', chr(96 + i % 3)], i * interval '12 hours',"
    " to_tsquery('simple', 'note & ' || i || 'b')"
    " FROM generate_series(1, 6) AS i",
    "INSERT INTO c (k) VALUES (1), (NULL)",
)
_CHANGES = (
    ("DELETE FROM o WHERE id % 7 = 0", "UPDATE c SET share = share + 1 WHERE k = 1"),
    (
        "INSERT INTO o SELECT id + 100, k, price, note, at, span, doc, tags, lasts FROM o"
        " WHERE id < 9",
        "UPDATE o SET span = span * int4range(0, 9), tags = tags || ARRAY['c'] WHERE id % 5 = 0",
    ),
    ("DELETE FROM c WHERE k = 2", "UPDATE c SET tags = NULL, doc = NULL WHERE k = 3"),
    ("INSERT INTO c SELECT k + 1, share, pattern, since, span, doc, tags, lasts, word FROM c",),
)
_QUERIES = {
    "a quotient in WHERE": "SELECT o.id, c.share FROM o JOIN c ON c.k = o.k"
    " WHERE c.share > 0 AND o.price / c.share > 3.3",
    "a sum of quotients": "SELECT o.k, sum(o.price / nullif(c.share, 0)) AS s, count(*) AS n,"
    " avg(o.price / nullif(c.share, 0)) AS a FROM o JOIN c ON c.k = o.k GROUP BY o.k",
    "a regular expression in ON": "SELECT o.id, c.pattern FROM o JOIN c ON o.note ~ c.pattern",
    "a regular expression beside a key": "SELECT o.id, c.pattern FROM o LEFT JOIN c"
    " ON o.k = c.k AND o.note ~* c.pattern",
    "date_trunc in GROUP BY": "SELECT date_trunc('month', o.at + c.lasts) AS m,"
    " count(*) AS n FROM o JOIN c ON c.k = o.k GROUP BY 1",
    "to_char in GROUP BY": "SELECT to_char(o.at - c.lasts, 'YYYY-MM') AS m, min(o.price) AS p"
    " FROM o JOIN c ON c.k = o.k GROUP BY 1",
    "jsonb containment": "SELECT o.id, c.k FROM o JOIN c ON o.doc @> c.doc",
    "a jsonb path": "SELECT o.id FROM o JOIN c ON c.k = o.k WHERE (o.doc || c.doc) ->> 'k' = '1'",
    "ranges that overlap": "SELECT o.id, c.span FROM o JOIN c ON o.span && c.span",
    "ranges as keys": "SELECT o.id, c.k FROM o JOIN c ON o.span = c.span",
    "ranges as keys of an outer join": "SELECT o.id, c.k FROM o FULL JOIN c ON o.span = c.span",
    "intervals as keys": "SELECT o.id, c.k FROM o JOIN c ON o.lasts = c.lasts",
    "intervals as keys of an outer join": "SELECT o.id, c.k FROM o LEFT JOIN c USING (lasts)",
    "jsonb as keys": "SELECT o.id, c.k FROM o LEFT JOIN c ON o.doc - 'n' = c.doc",
    "arrays as keys": "SELECT o.id, c.k FROM o JOIN c ON o.tags = c.tags",
    "arrays as keys of an outer join": "SELECT o.id, c.k FROM o FULL JOIN c ON o.tags = c.tags",
    "arrays as keys of a chain": "SELECT o.id, c.k, p.id AS other FROM o JOIN c ON o.tags = c.tags"
    " JOIN o AS p ON p.span = c.span",
    "arrays that overlap": "SELECT o.k, count(*) AS n FROM o JOIN c ON o.tags && c.tags"
    " GROUP BY o.k",
    "an element of an array": "SELECT o.id FROM o JOIN c ON c.k = o.k"
    " WHERE o.tags[2] = (c.tags || o.tags)[2]",
    "full text": "SELECT o.id, c.k FROM o JOIN c ON to_tsvector('simple', o.note) @@ c.word",
    "a collation": 'SELECT o.id FROM o JOIN c ON o.note < c.pattern COLLATE "POSIX"',
    "a function of the user's": "SELECT o.id, c.k FROM o JOIN c ON o.price > twice(c.share + o.k)",
    "HAVING over two tables": "SELECT c.k, max(o.price) AS m FROM o JOIN c USING (k) GROUP BY c.k"
    " HAVING max(o.price / nullif(c.share, 0)) > 0.1",
    "an aggregate of an aggregate": "SELECT m, count(*) AS n FROM (SELECT o.k,"
    " round(sum(o.price / nullif(c.share, 0)), 1) AS m FROM o JOIN c ON c.k = o.k"
    " GROUP BY o.k) AS s GROUP BY m",
    "a join with an aggregate": "SELECT o.id, s.total FROM o JOIN (SELECT k, sum(share) AS total"
    " FROM c GROUP BY k) AS s ON s.k = o.k AND o.price / nullif(s.total, 0) > 2",
    "a window over a quotient": "SELECT o.id, rank() OVER ("
    "PARTITION BY round(o.price / nullif(c.share, 0), -1) ORDER BY o.price) AS r"
    " FROM o JOIN c ON c.k = o.k",
    "the first rows by a quotient": "SELECT o.id, c.share FROM o JOIN c ON c.k = o.k"
    " ORDER BY o.price / nullif(c.share, 0) DESC NULLS LAST, o.id, c.share LIMIT 5",
    "EXISTS by a regular expression": "SELECT o.id FROM o WHERE EXISTS (SELECT 1 FROM c"
    " WHERE o.note ~ c.pattern)",
    "NOT EXISTS by ranges": "SELECT o.id FROM o WHERE NOT EXISTS (SELECT 1 FROM c"
    " WHERE o.span @> c.span)",
    "a scalar subquery": "SELECT o.id, (SELECT max(c.share) FROM c WHERE c.span && o.span) AS m"
    " FROM o",
    "a union of two engines": "SELECT o.id FROM o JOIN c ON c.k = o.k WHERE o.id > c.k + 4"
    " UNION SELECT o.id FROM o JOIN c ON o.note ~ c.pattern",
    "DISTINCT": "SELECT DISTINCT o.k, age(c.since, o.at AT TIME ZONE 'UTC') > '1 day' AS late"
    " FROM o JOIN c ON c.k = o.k",
}
# A stage for any engine, whose result is compared in a way that only PostgreSQL knows ...
_STEPS = _QUERIES["a join with an aggregate"]
# ... and one in between.
_TWICE = (
    "SELECT o.id, s.n, t.m FROM o"
    " JOIN (SELECT k, count(*) AS n FROM c GROUP BY k) AS s ON s.k = o.k"
    " JOIN (SELECT o.k, sum(o.price / nullif(c.share, 0)) AS m FROM o JOIN c ON c.k = o.k"
    " GROUP BY o.k) AS t ON t.k = s.k AND o.id > s.n"
)


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_query_is_differential(lab: Lab, query: str) -> None:
    lab.run(*_SETUP)
    lab.create("s", query)

    assert "postgres" in engines(lab, "s").values()
    for statements in _CHANGES:
        lab.run(*statements)
        report = lab.trickle.refresh_stream_table("s")
        assert report.action.value in {"DIFFERENTIAL", "NO_DATA"}, report.reason
        lab.check("s")
    verified = lab.trickle.verify_stream_table("s")
    assert verified.ok, verified


def engines(lab: Lab, name: str) -> dict[str, str]:
    """Return the engines of the stages that join tables, by the name of the stage."""
    explained = json.loads(lab.trickle.explain_stream_table(name, format="json"))
    assert all(
        (one["engine"] == "postgres") == bool(one["why_engine"]) for one in explained["stages"]
    )
    return {
        one["name"]: one["engine"]
        for one in explained["stages"]
        if "only follows" not in (one["why_engine"] or "")
    }


def test_engine_of_each_stage_is_explained_and_recorded(lab: Lab) -> None:
    lab.run(*_SETUP)
    lab.create("s", _STEPS)

    assert engines(lab, "s") == {"group_1": "duckdb", "result": "postgres"}
    text = lab.trickle.explain_stream_table("s")
    assert "engine postgres (no faithful translation for" in text
    [report] = lab.window("UPDATE o SET price = price * 2, k = 0 WHERE k = 1")
    assert "result computed by PostgreSQL: no faithful translation for" in report.reason
    assert "group_1 computed" not in report.reason


def test_state_is_read_by_both_engines_in_one_refresh(lab: Lab) -> None:
    lab.run(*_SETUP)
    lab.create("s", _TWICE)

    assert engines(lab, "s") == {"group_1": "duckdb", "group_2": "postgres", "result": "duckdb"}
    for statements in _CHANGES:
        lab.window(*statements)


@pytest.mark.parametrize("mode", ["AUTO", "FULL"])
def test_other_modes_compute_the_same(lab: Lab, mode: str) -> None:
    lab.run(*_SETUP)
    lab.create("s", _TWICE, mode=mode)

    for statements in _CHANGES:
        lab.run(*statements)
        lab.trickle.refresh_stream_table("s")
        lab.check("s")
    lab.trickle.refresh_stream_table("s", full=True)
    lab.check("s")


def test_members_of_a_group_may_need_postgresql(lab: Lab) -> None:
    lab.run(*_SETUP)
    lab.create("left_side", "SELECT o.id, o.k FROM o JOIN c ON o.note ~ c.pattern")
    lab.create("right_side", "SELECT o.k, count(*) AS n FROM o JOIN c ON c.k = o.k GROUP BY o.k")
    lab.create("joined", "SELECT l.id, r.n FROM left_side AS l JOIN right_side AS r"
               " ON l.k = r.k AND l.id::numeric / r.n > 0.5")  # fmt: skip

    for statements in _CHANGES:
        lab.run(*statements)
        lab.trickle.refresh_stream_table("joined")
        for name in lab.queries:
            lab.check(name)


def test_rows_that_fail_fail_by_name(lab: Lab) -> None:
    lab.run(*_SETUP, "UPDATE c SET share = 1")
    lab.create("s", "SELECT o.id FROM o JOIN c ON c.k = o.k WHERE o.price / c.share > 1")

    lab.run("UPDATE c SET share = 0 WHERE k = 1")
    with pytest.raises(DataError) as caught:
        lab.trickle.refresh_stream_table("s")
    assert "division by zero" in caught.value.detail
    lab.window("UPDATE c SET share = 2 WHERE k = 1")
