"""Variances from sums have PostgreSQL's digits, and NaN, and read no value of their group."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgtrickle.sql.spread import spread_sql
from tests.labs.digits import text_differences
from tests.labs.lab import Lab
from tests.labs.variances import FUNCTIONS, QUERY, ROWS, TABLE, WINDOWS, follow_variances


def test_variances_follow_their_groups(lab: Lab) -> None:
    follow_variances(lab)


def test_variances_follow_their_groups_in_postgresql(postgres_lab: Lab) -> None:
    follow_variances(postgres_lab)


def test_writers_maintain_variances(postgres_lab: Lab) -> None:
    postgres_lab.run(TABLE, *ROWS)
    postgres_lab.trickle.create_stream_table("made", QUERY, refresh_mode="IMMEDIATE")
    postgres_lab.queries["made"] = QUERY

    for window in WINDOWS:
        for statement in window:
            postgres_lab.run(statement)
            assert text_differences(postgres_lab, "made") == []


def test_they_are_added_up_and_not_looked_up(lab: Lab) -> None:
    lab.run(TABLE, *ROWS)
    lab.create(
        "made",
        "SELECT k, stddev(n) AS a, var_pop(p) AS b, bool_and(n > 0) AS c, every(n > 0) AS d,"
        " bool_or(p > 1) AS e FROM v GROUP BY k",
    )
    lab.create("others", "SELECT k, stddev(b::float8) AS a, stddev(p * 2) AS b FROM v GROUP BY k")

    assert "looked up" not in lab.trickle.explain_stream_table("made")
    assert lab.value("SELECT count(*) FROM pg_class WHERE relname ~ '^st_.*_v[0-9]+$'") == 2
    assert lab.trickle.explain_stream_table("others").count("looked up") >= 2


def test_bigints_that_are_too_long_are_kept_apart(lab: Lab) -> None:
    lab.run(TABLE, *ROWS)
    lab.create("made", "SELECT k, stddev(b) AS a FROM v GROUP BY k")
    lab.create(
        "counts", "SELECT var_pop(n) AS a FROM (SELECT count(*) AS n FROM v GROUP BY k) AS g"
    )
    kept = "SELECT sum(c.reltuples) FROM pg_class AS c WHERE relname ~ '^st_.*_v[0-9]+$'"

    for b in ("id", "id * 10 ^ 14", "CASE WHEN id > 20 THEN 10 ^ 14 + id END", "-id"):
        lab.window(f"UPDATE v SET b = {b}")
        assert text_differences(lab, "made") == text_differences(lab, "counts") == []
    lab.run("VACUUM ANALYZE")
    assert lab.value(kept) == 0


@pytest.mark.parametrize("keys", ["k", "", "ROLLUP (k)"])
def test_of_joins_in_every_place(lab: Lab, keys: str) -> None:
    lab.run(
        TABLE,
        *ROWS,
        "CREATE TABLE u (k int, name text)",
        "INSERT INTO u VALUES (0, 'a'), (1, 'b'), (1, 'c'), (12, 'd')",
    )
    grouped = f" GROUP BY {keys}" if keys else ""
    lab.create(
        "made",
        "SELECT stddev(v.p) AS a, stddev_pop(v.b) AS e, var_pop(v.n) + count(*) AS b,"
        " bool_or(v.n > 3) AS c, every(v.p > 1) FILTER (WHERE v.n < 40) AS d"
        " FROM u LEFT JOIN v USING (k)"
        f"{grouped} HAVING bool_and(v.s > 0) IS DISTINCT FROM false",
    )
    # Spark has no NaN, and reads the columns of an outer join before it computes with them.
    without_nan = [one for one in WINDOWS if "NaN" not in "".join(one)]
    for window in (*without_nan, ("INSERT INTO u VALUES (1, 'e')",)):
        lab.window(*window)
        assert text_differences(lab, "made") == []


_numerics = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.decimals(-1000, 1000, allow_nan=False, places=9),
    st.integers(-(10**6), 10**6).map(Decimal),
    st.integers(-(2**63), 2**63 - 1).map(Decimal),
    st.decimals(-(10**40), 10**40, allow_nan=False, places=20),
    st.builds(lambda n, e: Decimal(n).scaleb(-e), st.integers(-999, 999), st.integers(0, 30)),
)
_ANSWERS = """
    WITH v AS (SELECT x::numeric AS x FROM unnest(%(values)s::text[]) AS x),
         a AS (SELECT count(x) FILTER (WHERE x - x = 0) AS n,
                      count(x) FILTER (WHERE x - x <> 0) AS o,
                      coalesce(sum(x) FILTER (WHERE x - x = 0), 0) AS t,
                      coalesce(sum(x * x) FILTER (WHERE x - x = 0), 0) AS s FROM v)
    SELECT (SELECT {function}(x) FROM v)::text, ({formula})::text FROM a
"""


@settings(max_examples=400, suppress_health_check=list(HealthCheck))
@given(
    values=st.lists(st.one_of(st.none(), _numerics), max_size=9),
    more=st.lists(st.sampled_from(["NaN", "Infinity", "-Infinity", None]), max_size=1),
    function=st.sampled_from(FUNCTIONS),
    same=st.booleans(),
)
def test_digits_are_those_of_postgresql(lab: Lab, values, more, function, same) -> None:
    listed = [None if one is None else f"{one:f}" for one in values]
    listed = (listed[:1] * len(listed) if same else listed) + more
    formula = spread_sql(function, "n", "o", "t", "s")
    query = _ANSWERS.format(function=function, formula=formula)

    [(theirs, ours)] = lab.connection.execute(query.encode(), {"values": listed}).fetchall()

    assert ours == theirs
