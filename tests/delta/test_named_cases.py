"""The law on queries with a name: each was a bug once, or stands where one is likely.

A case marked as open is a bug that is known and not fixed; the mark is strict, so the fix has to
remove it.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.delta.law import DefiningQuery, History, check_law
from tests.delta.world import World

_GROUPED_U = "( SELECT u.a AS c1, count(*) AS c2 FROM public.u u GROUP BY u.a ) d"

# Both sides change, rows meet that never met before, the last row of a group goes, a value comes
# back, one window touches only the right-hand table and one only the left.
_HISTORY = History(
    {
        "t": [(0, 1, "x"), (1, 1, None), (2, 2, "1")],
        "u": [(1, 3_000_000_000, Decimal("0.50")), (2, 1, None)],
        "v": [(1, "x", 0.5)],
    },
    (
        {
            "t": [((2, 1, "x"), 1)],
            "u": [((1, 3_000_000_000, Decimal("0.50")), -1), ((2, 1, None), 1)],
        },
        {"v": [((1, "x", 0.5), -1)]},
        {"t": [((2, 1, "x"), -1), ((1, 1, None), -1)], "v": [((1, "x", 0.5), 1)]},
        {"u": [((2, 1, None), -1), ((2, 1, None), -1)], "t": [((2, 2, "1"), -1)]},
        {"u": [((2, 1, None), 1)], "t": [((2, 2, "1"), 1), ((0, 1, "x"), -1)]},
    ),
)

_CASES = {
    # An unchanged stage has no changes to read, only rows.
    "the aggregate below a join does not change": (
        "SELECT v.f AS c1, d.c2 FROM public.v v, ( SELECT t.c AS c1, count(*) AS c2"
        " FROM public.t t GROUP BY t.c ) d WHERE (d.c1 = v.c)"
    ),
    "an unchanged aggregate between two tables": (
        "SELECT v.c AS c1, d.c2 FROM ((public.v v JOIN ( SELECT t.b AS c1, max(t.a) AS c2"
        " FROM public.t t GROUP BY t.b ) d ON ((v.b = d.c1))) JOIN public.u u ON ((u.a = d.c2)))"
    ),
    # USING belongs to the join, not to everything that stands before it in FROM.
    "USING beside another table with the column": (
        "SELECT v.b AS c1, u.d AS c2 FROM public.t t, (public.u u JOIN public.t t_1 USING (a)),"
        " public.v v"
    ),
    # The changes of a stage hold its columns and nothing computed from them.
    "a join on an expression over an aggregate": (
        f"SELECT d.c2 AS c1, t.b AS c2 FROM ({_GROUPED_U} JOIN public.t t ON (((d.c2 + 1) = t.a)))"
    ),
    # HAVING alone makes one group of everything.
    "HAVING without an aggregate": "SELECT 1 AS c1 FROM public.t t HAVING true",
    "GROUP BY of nothing": "SELECT count(*) AS c1, max(a) AS c2 FROM public.t t GROUP BY ()",
    "GROUP BY of nothing, without a call": "SELECT 1 AS c1 FROM public.t t GROUP BY ()",
    # Columns and conditions that read no table.
    "no column at all": "SELECT 1 AS c1 FROM public.t t, public.u u",
    "count of a cross product": "SELECT count(*) AS c1 FROM public.t t, public.u u",
    "a condition without columns": (
        "SELECT t.a AS c1 FROM public.t t, public.u u WHERE (false OR (1 = 1))"
    ),
    "an aggregate over nothing": (
        "SELECT count(*) AS c1, max(a) AS c2, sum(b) AS c3 FROM public.t t WHERE false"
    ),
    "an aggregate that empties": (
        "SELECT count(*) AS c1, max(u.a) AS c2, count(DISTINCT v.b) AS c3"
        " FROM (public.u u CROSS JOIN public.v v) WHERE (v.f > '0'::double precision)"
    ),
    "a constant key": "SELECT 'k'::text AS c1, count(*) AS c2 FROM public.t t GROUP BY 'k'::text",
    # Names.
    "the same column twice": "SELECT DISTINCT a AS c1, a AS c2 FROM public.t t",
    "the same call twice": (
        "SELECT a AS c1, count(*) AS c2, count(*) AS c3, count(a) AS c4"
        " FROM public.t t GROUP BY a, b"
    ),
    "an alias that looks like a stage": (
        f"SELECT group_1.a AS c1, d.c1 AS c2 FROM (public.t group_1 JOIN {_GROUPED_U}"
        " ON ((group_1.a = d.c1)))"
    ),
    "a column that looks like a computed one": (
        "SELECT DISTINCT d.t_x1 AS c1, (t.a + 1) AS c2 FROM (public.t t JOIN"
        " ( SELECT u.a AS t_x1 FROM public.u u UNION ALL SELECT v.b AS t_x1 FROM public.v v ) d"
        " ON ((t.b = d.t_x1)))"
    ),
    # Guards: what CASE or COALESCE keeps from being evaluated must not be evaluated.
    "CASE guards a cast": (
        "SELECT DISTINCT CASE WHEN (t.c = '1'::text) THEN (t.c)::integer ELSE u.a END AS c1"
        " FROM (public.t t JOIN public.u u ON ((t.a = u.a)))"
    ),
    "a join guards a cast": (
        "SELECT sum((t.c)::integer) AS c1 FROM (public.t t JOIN public.u u ON ((t.a = u.a)))"
        " WHERE ((u.a = 2) AND (t.c = '1'::text))"
    ),
    # Nesting.
    "two aggregates joined": (
        f"SELECT d.c1, e.c2 FROM ({_GROUPED_U} JOIN ( SELECT t.a AS c1, sum(t.b) AS c2"
        " FROM public.t t GROUP BY t.a ) e ON ((d.c1 = e.c1)))"
    ),
    "an aggregate over an aggregate": (
        f"SELECT d.c2 AS c1, count(*) AS c2, max(d.c1) AS c3 FROM {_GROUPED_U} GROUP BY d.c2"
    ),
    "DISTINCT over groups": "SELECT DISTINCT count(*) AS c1 FROM public.t t GROUP BY a",
    "a CTE joined with itself": (
        "WITH x AS ( SELECT b AS c1, count(*) AS c2 FROM public.t t GROUP BY b )"
        " SELECT x.c1, y.c2 FROM (x JOIN x y ON ((x.c2 = y.c1)))"
    ),
    "a union joined by key": (
        "SELECT d.c1, u.n AS c2 FROM (( SELECT t.a AS c1 FROM public.t t"
        " UNION ALL SELECT v.b AS c1 FROM public.v v ) d JOIN public.u u ON ((u.a = d.c1)))"
    ),
    # Outer joins.
    "LEFT JOIN": (
        "SELECT t.a AS c1, t.b AS c2, u.d AS c3"
        " FROM (public.t t LEFT JOIN public.u u ON ((t.a = u.a)))"
    ),
    "LEFT JOIN with conditions on each side": (
        "SELECT t.a AS c1, u.d AS c2 FROM (public.t t LEFT JOIN public.u u"
        " ON (((t.a = u.a) AND (u.d > 1) AND (t.b > 0))))"
    ),
    "LEFT JOIN by two columns, then WHERE the partner lacks": (
        "SELECT t.a AS c1, t.b AS c2 FROM (public.t t LEFT JOIN public.u u"
        " ON (((t.a = u.a) AND (t.b = u.d)))) WHERE (u.a IS NULL)"
    ),
    "a chain of LEFT JOINs under an aggregate": (
        "SELECT t.b AS c1, count(u.d) AS c2, count(*) AS c3 FROM ((public.t t"
        " LEFT JOIN public.u u ON ((t.a = u.a))) LEFT JOIN public.v v ON ((u.d = v.b)))"
        " GROUP BY t.b"
    ),
    "RIGHT JOIN": (
        "SELECT t.a AS c1, u.a AS c2 FROM (public.t t RIGHT JOIN public.u u ON ((t.a = u.a)))"
    ),
    "FULL JOIN": (
        "SELECT t.a AS c1, u.a AS c2, u.d AS c3"
        " FROM (public.t t FULL JOIN public.u u ON ((t.a = u.a)))"
    ),
    "FULL JOIN with conditions on each side": (
        "SELECT t.a AS c1, u.a AS c2 FROM (public.t t FULL JOIN public.u u"
        " ON (((t.a = u.a) AND (t.b > 0) AND (u.d > 1))))"
    ),
    "LEFT JOIN of groups and constants": (
        "SELECT t.a AS c1, x.n AS c2, x.one AS c3 FROM (public.t t LEFT JOIN ( SELECT u.a,"
        " count(*) AS n, 1 AS one FROM public.u u GROUP BY u.a ) x ON ((t.a = x.a)))"
    ),
    "EXISTS": (
        "SELECT t.a AS c1 FROM public.t t WHERE (EXISTS ( SELECT 1 FROM public.u u"
        " WHERE ((u.a = t.a) AND (u.d > 0))))"
    ),
    "an expression of the engine's above EXISTS": (
        "SELECT t.a AS c1, sum(COALESCE(t.b, '1'::integer)) AS c2 FROM public.t t WHERE (EXISTS"
        " ( SELECT 1 FROM public.u u WHERE (u.a = t.a))) GROUP BY t.a"
    ),
    "NOT EXISTS under an aggregate": (
        "SELECT t.b AS c1, count(*) AS c2 FROM public.t t WHERE (NOT (EXISTS ( SELECT 1"
        " FROM public.u u WHERE (u.a = t.a)))) GROUP BY t.b"
    ),
    "IN over groups": (
        "SELECT t.a AS c1 FROM public.t t WHERE (t.a IN ( SELECT u.a FROM public.u u"
        " GROUP BY u.a HAVING (count(*) > 1)))"
    ),
    # An average of a numeric needs its decimals, also where the aggregate has a row for nothing.
    "a CTE beside its own dependent average": (
        "WITH x AS ( SELECT u.a AS k, u.d AS s, sum(u.n) AS total FROM public.u u"
        " GROUP BY u.a, u.d ) SELECT x1.k AS c1, x1.s AS c2 FROM x x1 WHERE (x1.total >"
        " ( SELECT (avg(x2.total) * 1.2) FROM x x2 WHERE (x1.s = x2.s)))"
    ),
    # Four relations of one row are one aggregate: over several tables, over the same rows, with
    # conditions of their own, looked up, without a row, beside an outer value, compared in WHERE.
    "many scalar subqueries": (
        "SELECT t.a AS c1, ( SELECT count(*) AS count FROM public.u u WHERE (u.d > 1)) AS c2,"
        " ( SELECT sum(u.d) AS sum FROM public.u u WHERE (u.d > 1)) AS c3,"
        " ( SELECT max(v.f) FILTER (WHERE (v.b = 1)) AS max FROM public.v v) AS c4,"
        " ( SELECT count(DISTINCT t_1.c) AS count FROM public.t t_1) AS c5 FROM public.t t"
    ),
    "many averages of a numeric": (
        "SELECT ( SELECT avg(u.n) AS avg FROM public.u u) AS c1,"
        " ( SELECT avg(u.n) AS avg FROM public.u u WHERE (u.a = 1)) AS c2,"
        " ( SELECT avg((u.n + 1)) AS avg FROM public.u u WHERE (u.a = 2)) AS c3,"
        " ( SELECT count(v.f) AS count FROM public.v v) AS c4"
    ),
    "many values of which some are absent": (
        "SELECT ( SELECT v.c FROM public.v v WHERE (v.b = 1)) AS c1,"
        " ( SELECT v.f FROM public.v v WHERE (v.b = 1)) AS c2,"
        " ( SELECT t.a FROM public.t t ORDER BY t.a, t.b, t.c LIMIT 1) AS c3,"
        " (EXISTS ( SELECT 1 FROM public.u u)) AS c4, u.a AS c5 FROM public.u u"
    ),
    "many scalar subqueries in WHERE, between others": (
        "SELECT t.a AS c1, ( SELECT max(v.b) AS max FROM public.v v) AS c2"
        " FROM public.t t WHERE ((t.a >= ( SELECT min(u.a) AS min FROM public.u u))"
        " AND (t.b <= ( SELECT max(u.d) AS max FROM public.u u))"
        " AND (EXISTS ( SELECT 1 FROM public.u u WHERE (u.a = t.a)))"
        " AND (t.a <> ( SELECT count(*) AS count FROM public.v v)))"
    ),
    "many derived tables of totals": (
        "SELECT x.n AS c1, y.n AS c2, z.n AS c3, w.n AS c4, t.a AS c5 FROM"
        " ( SELECT count(*) AS n FROM public.u u) x, ( SELECT sum(t_1.a) AS n FROM public.t t_1) y,"
        " ( SELECT max(v.f) AS n FROM public.v v) z, ( SELECT min(u.d) AS n FROM public.u u) w,"
        " public.t t WHERE ((t.a <= x.n) AND (t.b < w.n))"
    ),
    # Set operations and grouping sets.
    "UNION": "SELECT t.a AS c1 FROM public.t t UNION SELECT u.d AS c1 FROM public.u u",
    "INTERSECT": (
        "SELECT t.a AS c1, t.b AS c2 FROM public.t t INTERSECT SELECT u.a, u.d FROM public.u u"
    ),
    "EXCEPT": "SELECT t.a AS c1 FROM public.t t EXCEPT SELECT u.a AS c1 FROM public.u u",
    "EXCEPT under an aggregate": (
        "SELECT count(*) AS c1 FROM ( SELECT t.a FROM public.t t EXCEPT SELECT u.a FROM public.u u"
        " ) x"
    ),
    "ROLLUP": (
        "SELECT t.a AS c1, t.b AS c2, count(*) AS c3 FROM public.t t GROUP BY ROLLUP(t.a, t.b)"
    ),
    "CUBE with HAVING": (
        "SELECT t.a AS c1, sum(t.b) AS c2 FROM public.t t GROUP BY CUBE(t.a, t.b)"
        " HAVING (count(*) > 1)"
    ),
    "GROUPING SETS over a join": (
        "SELECT t.a AS c1, u.d AS c2, GROUPING(t.a, u.d) AS c3, max(t.b) AS c4"
        " FROM (public.t t JOIN public.u u ON ((t.a = u.a)))"
        " GROUP BY GROUPING SETS ((t.a, u.d), (t.a), ())"
    ),
    "a chain of four": (
        "SELECT t.a AS c1, t_1.c AS c2 FROM (((public.v v JOIN public.t t ON ((v.b = t.b)))"
        " JOIN public.u u ON ((u.a = t.a))) JOIN public.t t_1 ON ((t_1.a = u.d)))"
    ),
}


@pytest.mark.parametrize("sql", _CASES.values(), ids=_CASES.keys())
def test_the_law_holds_for(world: World, sql: str) -> None:
    check_law(world, DefiningQuery(sql, world.column_names(sql)), _HISTORY)
