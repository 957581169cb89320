"""A value that changed bounds what is compared with it, and only where that is sound."""

from __future__ import annotations

import pytest

from pgtrickle.delta.reads import ReadKind
from tests.delta.law import DefiningQuery, History, Observed, check_law
from tests.delta.world import World

_MEAN = "(SELECT avg(p.a) FROM public.t p)"
_ROWS = [(number, number * 10, "x") for number in range(12)]


def _maintain(world: World, query: str, *, names: int = 1) -> Observed:
    history = History(
        {"t": _ROWS, "u": [], "v": []},
        (
            {"t": [((0, 0, "x"), -1), ((7, 3, "y"), 1)]},
            {"t": [((11, 110, "x"), -1), ((3, 30, "x"), 1)]},
            {"t": [((4, 40, "x"), -1), ((4, 40, None), 1)]},  # the mean stays as it is
            {"t": [(row, -1) for row in _ROWS[1:4]]},
        ),
    )
    defining = DefiningQuery(query, tuple(f"c{number}" for number in range(1, names + 1)))
    return check_law(world, defining, history)


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_a_comparison_with_a_mean_reads_between_the_old_and_the_new(
    world: World, operator: str
) -> None:
    observed = _maintain(world, f"SELECT t.b AS c1 FROM public.t t WHERE t.a {operator} {_MEAN}")

    assert observed.ranges > 0


def test_the_range_reaches_through_a_join_and_a_group(world: World) -> None:
    observed = _maintain(
        world,
        "SELECT t.c AS c1, count(*) AS c2 FROM (public.t t JOIN public.t s ON ((s.b = t.b)))"
        f" WHERE t.a > {_MEAN} GROUP BY t.c",
        names=2,
    )

    assert observed.ranges > 0


def test_a_range_bounds_what_is_joined_with_its_rows(world: World) -> None:
    grouped = "(SELECT u.a AS k, count(*) AS n FROM public.u u GROUP BY u.a) d"

    observed = _maintain(
        world,
        f"SELECT t.b AS c1, d.n AS c2 FROM (SELECT s.a, s.b FROM public.t s WHERE s.a > {_MEAN}) t"
        f" JOIN {grouped} ON ((d.k = t.a))",
        names=2,
    )

    assert observed.ranges > 0
    assert ReadKind.KEYED in observed.kinds


@pytest.mark.parametrize(
    "query",
    [
        # Rows that stay above the mean change as well, because they show it.
        "SELECT t.b AS c1, d.m AS c2 FROM public.t t,"
        " (SELECT avg(p.a) AS m FROM public.t p) d WHERE t.a > d.m",
        # Two conditions on the value: a row outside the range may meet the other one anew.
        "SELECT t.b AS c1, t.a AS c2 FROM public.t t,"
        " (SELECT avg(p.a) AS m, count(*) AS n FROM public.t p) d WHERE t.a > d.m AND t.b > d.n",
        "SELECT t.b AS c1, t.a AS c2 FROM public.t t,"
        " (SELECT avg(p.a) AS m FROM public.t p) d WHERE t.a <> d.m",
    ],
    ids=["the value is shown", "two conditions", "unequal"],
)
def test_no_range_where_rows_beyond_it_change_too(world: World, query: str) -> None:
    assert _maintain(world, query, names=2).ranges == 0


def test_no_range_while_the_value_is_null(world: World) -> None:
    history = History(
        {"t": [], "u": [], "v": []},
        ({"t": [((1, 10, "x"), 1), ((3, 10, "x"), 1)]}, {"t": [((3, 10, "x"), -1)]}),
    )
    query = DefiningQuery(f"SELECT t.b AS c1 FROM public.t t WHERE t.a > {_MEAN}", ("c1",))

    assert check_law(world, query, history).ranges == 1  # of the second window
