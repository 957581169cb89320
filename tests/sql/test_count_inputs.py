"""How many tables the steps of a query read, without making them."""

from __future__ import annotations

import pytest

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.sql.bound import BoundQuery, Relation
from pgtrickle.sql.text.count_inputs import Inputs, count_inputs
from tests.sql.queries import RELATIONS

VIEW = QualifiedName("public", "w")
VIEW_OF_VIEW = QualifiedName("public", "ww")
RELATIONS_AND_VIEWS = RELATIONS | {
    VIEW: Relation(9, VIEW, (), "SELECT t.id FROM public.t JOIN public.u ON t.id = u.id"),
    VIEW_OF_VIEW: Relation(10, VIEW_OF_VIEW, (), "SELECT a.id FROM public.w a, public.w b"),
}
DOUBLING = ", ".join(f"c{n} AS (SELECT * FROM c{n - 1}, c{n - 1} AS other)" for n in range(1, 31))


# Steps of their own that each use the one before twice: two inputs for each.
STEPS = ", ".join(
    f"c{n} AS (SELECT DISTINCT a.id FROM c{n - 1} a, c{n - 1} b)" for n in range(1, 31)
)
GROUPED = "g AS (SELECT id, count(*) AS n FROM public.w GROUP BY id)"


@pytest.mark.parametrize(
    ("sql", "inputs"),
    [
        ("SELECT 1", 0),
        ("SELECT id FROM public.t", 1),
        ("SELECT id FROM public.t UNION SELECT id FROM public.t", 2),
        ("SELECT id FROM public.t UNION ALL SELECT id FROM public.t", 2),
        ("SELECT id FROM public.w", 2),
        ("SELECT id FROM public.ww, public.t", 5),
        ("WITH c AS (SELECT id FROM public.w) SELECT 1 FROM c, c AS d", 4),
        ("WITH unused AS (SELECT id FROM public.w) SELECT 1 FROM public.t", 1),
        ("SELECT 1 FROM (WITH c AS (SELECT 1 FROM public.t) SELECT 1 FROM c) AS x, public.u", 2),
        (f"WITH c0 AS (SELECT id FROM public.t), {DOUBLING} SELECT 1 FROM c30", 2**30),
        ("SELECT count(*) FROM public.w GROUP BY CUBE (a, b), ROLLUP (c), d", 16),
        ("SELECT 1 FROM public.t GROUP BY GROUPING SETS ((a, b), ROLLUP (a, b), ())", 5),
        ("SELECT 1 FROM (public.t FULL JOIN (public.u FULL JOIN public.v ON true) ON true)", 7),
    ],
)
def test_tables_count_for_each_use(sql: str, inputs: int) -> None:
    assert _count(sql).all == inputs


@pytest.mark.parametrize(
    ("sql", "inputs", "most"),
    [
        ("SELECT id FROM public.t WHERE id IN (SELECT id FROM public.u)", 1 + 2, 2),
        (f"WITH {GROUPED} SELECT 1 FROM g", 2 + 1, 2),
        (f"WITH {GROUPED} SELECT 1 FROM g a, g b, g c, public.w", 2 + 5, 5),
        (f"WITH c0 AS (SELECT id FROM public.t), {STEPS} SELECT 1 FROM c30", 2 * 30 + 1, 2),
        ("SELECT 1 FROM (SELECT 1 FROM public.t GROUP BY CUBE (a, b)) AS x GROUP BY CUBE (c)",
         4 + 2 * 4, 4),
        ("WITH RECURSIVE r AS (SELECT 1 FROM public.t UNION SELECT 1 FROM r) SELECT 1 FROM r",
         2 + 1, 2),
        ("WITH a AS (SELECT id FROM public.t INTERSECT SELECT id FROM public.u INTERSECT"
         " SELECT id FROM public.v) SELECT 1 FROM a UNION ALL SELECT 2 FROM a", 2 + 2 + 2, 2),
    ],
)  # fmt: skip
def test_a_step_counts_once_and_is_one_input_of_each_user(sql: str, inputs: int, most: int) -> None:
    count = _count(sql)

    assert (count.all, count.most) == (inputs, most)


def _count(sql: str) -> Inputs:
    return count_inputs(BoundQuery(sql, (), RELATIONS_AND_VIEWS, {}, "public"))
