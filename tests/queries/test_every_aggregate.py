"""Aggregates that are looked up in the stored arguments of a group, on windows that change it."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

_CALLS = {
    "bool": "bool_and(b) AS x, bool_or(b) AS y, every(b) AS z",
    "bits": "bit_and(n) AS x, bit_or(n) AS y, bit_xor(n) AS z",
    "variance of integers": "variance(n) AS x, stddev_pop(n) AS y, var_pop(n) AS z",
    "variance of numerics": "stddev(p) AS x, var_samp(p) AS y",
    "variance of floats": "round(stddev(f)::numeric, 6) AS x,"
    " round(sum(f)::numeric, 6) AS y, round(avg(f)::numeric, 6) AS z",
    "pairs": "round(corr(f, n)::numeric, 6) AS x, regr_count(f, n) AS y,"
    " round(regr_slope(f, n)::numeric, 6) AS z",
    "texts in order": "string_agg(t, ',' ORDER BY id) AS x, string_agg(DISTINCT t, '+') AS y",
    "arrays in order": "array_agg(t ORDER BY id) AS x, array_agg(n ORDER BY id DESC) AS y",
    "documents": "json_agg(t ORDER BY id)::text AS x, jsonb_agg(n ORDER BY id) AS y",
    "objects": "jsonb_object_agg(id, t ORDER BY id) AS x",
    "middle": "percentile_cont(0.5) WITHIN GROUP (ORDER BY n) AS x,"
    " percentile_disc(0.25) WITHIN GROUP (ORDER BY p) AS y",
    "most frequent": "mode() WITHIN GROUP (ORDER BY n) AS x",
    "distinct": "count(DISTINCT n) AS x, sum(DISTINCT p) AS y, avg(DISTINCT n) AS z",
    "distinct rows": "count(DISTINCT (n, t)) AS x",
    "with a condition": "string_agg(t, ',' ORDER BY id) FILTER (WHERE n > 1) AS x,"
    " max(p) FILTER (WHERE b) AS y, count(*) FILTER (WHERE b) AS z",
    "inside expressions": "coalesce(string_agg(t, ',' ORDER BY id), '-') || count(*) AS x,"
    " max(n) - min(n) AS y",
    "order of a sum": "sum(n ORDER BY id) AS x",
}


@pytest.fixture
def rows(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE r (id int PRIMARY KEY, k int, n int, p numeric, f float8, b bool, t text)",
        "INSERT INTO r SELECT i, i % 3, i % 4, i * 1.25, i / 7.0, i % 2 = 0, chr(96 + i % 5)"
        " FROM generate_series(1, 20) AS i",
        "INSERT INTO r VALUES (21, 0, NULL, NULL, NULL, NULL, NULL), (22, 7, NULL, 1, 2, true, '')",
    )
    return lab


@pytest.mark.parametrize("calls", _CALLS.values(), ids=_CALLS.keys())
@pytest.mark.parametrize("keys", ["k", ""])
def test_an_aggregate_follows_its_group(rows: Lab, calls: str, keys: str) -> None:
    grouped, listed = (f" GROUP BY {keys}", f"{keys}, ") if keys else ("", "")
    rows.create("s", f"SELECT {listed}{calls} FROM r{grouped}")

    rows.window("INSERT INTO r SELECT id + 100, k, n, p, f, b, t FROM r WHERE id < 8")
    rows.window("UPDATE r SET n = n + 1, p = p / 3, t = t || 'x', k = 1 WHERE id % 5 = 0")
    rows.window("DELETE FROM r WHERE k = 2", "UPDATE r SET b = NOT b WHERE id < 4")
    rows.window("DELETE FROM r WHERE id > 3", "INSERT INTO r VALUES (50, 2, 1, 1, 1, NULL, 'z')")
    rows.window("DELETE FROM r")


def test_over_a_join_and_over_groups(rows: Lab) -> None:
    rows.run("CREATE TABLE names (k int, name text)", "INSERT INTO names VALUES (0, 'a'), (1, 'b')")
    rows.create(
        "s",
        "SELECT string_agg(name || n, ' ' ORDER BY name) AS x FROM"
        " (SELECT name, string_agg(t, '' ORDER BY id) AS n FROM r JOIN names USING (k)"
        " GROUP BY name) AS g",
    )

    rows.window("UPDATE names SET name = 'c' WHERE k = 0", "DELETE FROM r WHERE id = 3")
    rows.window("INSERT INTO names VALUES (2, 'd')", "UPDATE r SET t = 'y' WHERE id = 4")


def test_without_an_order_the_answer_is_pinned(rows: Lab) -> None:
    rows.create("s", "SELECT k, array_agg(t) AS x FROM r GROUP BY k")

    assert rows.trickle.get_stream_table("s").pinned
    rows.window("UPDATE r SET t = 'y' WHERE id = 4", "DELETE FROM r WHERE id = 3")
