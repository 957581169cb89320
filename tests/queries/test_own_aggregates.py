"""Aggregates that users define are maintained: PostgreSQL evaluates them for touched groups."""

from __future__ import annotations

import pytest

from pgtrickle.errors import TrickleError
from tests.labs.lab import Lab
from tests.labs.own_aggregates import CALLS, WINDOWS, fill


@pytest.fixture
def rows(lab: Lab) -> Lab:
    return fill(lab)


@pytest.fixture
def plain_rows(postgres_lab: Lab) -> Lab:
    return fill(postgres_lab)


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("keys", ["k", "", "ROLLUP (k)"])
def test_an_aggregate_follows_its_group(rows: Lab, calls: str, keys: str) -> None:
    grouped, listed = (f" GROUP BY {keys}", "k, ") if keys else ("", "")
    rows.create("s", f"SELECT {listed}{calls} FROM r{grouped}")

    for window in WINDOWS:
        rows.window(*window)


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS.keys())
def test_postgresql_alone_follows_too(plain_rows: Lab, calls: str) -> None:
    plain_rows.create("s", f"SELECT k, {calls} FROM r GROUP BY k")

    for window in WINDOWS:
        plain_rows.window(*window)


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS.keys())
def test_writers_maintain_it(plain_rows: Lab, calls: str) -> None:
    query = f"SELECT k, {calls} FROM r GROUP BY k"
    plain_rows.trickle.create_stream_table("s", query, refresh_mode="IMMEDIATE")
    made = plain_rows.trickle.get_stream_table("s")
    plain_rows.queries["s"] = made.defining_query

    for window in WINDOWS:
        plain_rows.run(*window)
        plain_rows.check("s")


_SHAPES = {
    "in HAVING": "SELECT k, count(*) AS n FROM r GROUP BY k HAVING own_total(p) > 40",
    "over a join": "SELECT u.name, chain(r.t || u.name) AS x, weighted(r.p, u.k) AS y FROM r"
    " JOIN u ON u.k = r.k GROUP BY u.name",
    "over groups": "SELECT chain(s.x) AS x FROM (SELECT k, chain(t) AS x FROM r GROUP BY k) AS s",
    "of one row of a subquery": "SELECT u.name, (SELECT chain(r.t) FROM r WHERE r.k = u.k) AS x"
    " FROM u",
    "in a view with its order": "SELECT name, x FROM ordered JOIN u USING (k)",
    "beside distinct rows": "SELECT DISTINCT own_total(n) AS x FROM r GROUP BY k",
    "over a partition": "SELECT id, chain(t) OVER (PARTITION BY k) AS x FROM r",
    "over a partition, with a condition": "SELECT id, chain(t) FILTER (WHERE b) OVER w AS x"
    " FROM r WINDOW w AS (PARTITION BY k)",
    "over rows in order": "SELECT id, chain(t) OVER (PARTITION BY k ORDER BY id) AS x,"
    " own_total(p) OVER (ORDER BY id ROWS 3 PRECEDING) AS y FROM r",
    "over groups and a partition": "SELECT k, own_total(sum(n)) OVER () AS x FROM r GROUP BY k",
    "inside one over groups": "SELECT k, own_total(own_disc(0.5) WITHIN GROUP (ORDER BY p)) OVER w"
    " AS x, own_total(own_total(p)) OVER w AS y FROM r GROUP BY k"
    " WINDOW w AS (PARTITION BY own_total(p) > 40)",
    "with LIMIT": "SELECT k, chain(t) AS x FROM r GROUP BY k ORDER BY own_total(p) LIMIT 2",
}


@pytest.mark.parametrize("query", _SHAPES.values(), ids=_SHAPES.keys())
@pytest.mark.parametrize("which", ["rows", "plain_rows"])
def test_an_aggregate_anywhere(which: str, query: str, request: pytest.FixtureRequest) -> None:
    lab: Lab = request.getfixturevalue(which)
    lab.run(
        "CREATE TABLE u (k int, name text)",
        "INSERT INTO u VALUES (0, 'zero'), (1, 'one'), (9, 'nine'), (1, 'uno')",
        "CREATE VIEW ordered AS SELECT k, chain(t ORDER BY id) AS x FROM r GROUP BY k",
    )
    lab.create("s", query)

    for window in WINDOWS:
        lab.window(*window, "UPDATE u SET name = name || '!' WHERE k = 1")


def test_the_added_order_is_told(rows: Lab) -> None:
    rows.create("s", "SELECT k, chain(t) AS x, own_total(p ORDER BY id) AS y FROM r GROUP BY k")

    assert rows.trickle.get_stream_table("s").pinned == (
        "public.chain(...) leaves an order open; ties are ordered by t",
    )


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT * FROM open_window", r"public\.chain OVER without an order of its rows"),
        ("SELECT * FROM open_view", r"public\.chain without ORDER BY inside it"),
        ("SELECT n, own.twice(n) AS x, own.twice(t) AS y FROM r GROUP BY n", '"twice" beside'),
        ("SELECT moody(n) FROM r", 'function "stable_step" of the aggregate "moody"'),
    ],
)
def test_what_has_no_rule_is_refused_by_name(rows: Lab, query: str, named: str) -> None:
    rows.run(
        "CREATE VIEW open_view AS SELECT k, chain(t) AS x FROM r GROUP BY k",
        "CREATE VIEW open_window AS SELECT k, chain(t) OVER (PARTITION BY k) AS x FROM r",
        "CREATE FUNCTION own.twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 2 * $1'",
        "CREATE AGGREGATE own.twice(text) (sfunc = textcat, stype = text)",
        "CREATE FUNCTION stable_step(int, int) RETURNS int STABLE LANGUAGE plpgsql"
        " AS 'BEGIN RETURN $2; END'",
        "CREATE AGGREGATE moody(int) (sfunc = stable_step, stype = int)",
    )
    with pytest.raises(TrickleError, match=named) as raised:
        rows.trickle.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")

    assert raised.value.hint
    assert rows.leftovers() == []


@pytest.mark.parametrize("part", ["sfunc", "finalfunc", "combinefunc", "msfunc", "minvfunc"])
def test_a_volatile_part_is_refused_by_name(rows: Lab, part: str) -> None:
    parts = {"sfunc": "int4pl", "combinefunc": "int4pl", "finalfunc": "int4abs"}
    parts |= {"msfunc": "int4pl", "minvfunc": "int4mi"}
    arity = "int" if part == "finalfunc" else "int, int"
    rows.run(
        f"CREATE FUNCTION loose({arity}) RETURNS int VOLATILE STRICT LANGUAGE sql AS 'SELECT $1'"
    )
    listed = ", ".join(f"{name} = {value}" for name, value in (parts | {part: "loose"}).items())
    rows.run(
        f"CREATE AGGREGATE dice(int) ({listed}, stype = int, initcond = '0', mstype = int,"
        " minitcond = '0')"
    )

    with pytest.raises(TrickleError, match=r'"public\.loose", a part of the aggregate "dice"'):
        rows.create("s", "SELECT k, dice(n) AS x FROM r GROUP BY k")
    assert rows.leftovers() == []
