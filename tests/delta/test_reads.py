"""The reads of a derived plan: what bounds each, and what cannot be bounded."""

from __future__ import annotations

import pytest

from pgtrickle.delta.cut import StagedQuery, cut
from pgtrickle.delta.key_sets import Spread
from pgtrickle.delta.reads import Read, ReadKind
from pgtrickle.plan.stages import Known, plan_differential, plan_full, sources_of
from pgtrickle.sql.translate import Dialect
from tests.sql.queries import OneType, lowered

_COUNTED = "( SELECT k, count(*) AS n FROM public.t t GROUP BY k)"


def _staged(sql: str) -> StagedQuery:
    return cut(lowered(sql), OneType())


def _reads(sql: str, *changed: int) -> dict[str, Read]:
    plan = plan_differential(
        _staged(sql), [str(relid) for relid in changed], Dialect.SPARK, lambda s: f"TABLE {s}"
    )
    return {read.view: read for read in plan.stages[-1].reads}


def test_the_other_side_of_a_join_is_bounded_by_the_changes() -> None:
    reads = _reads("SELECT t.c FROM (public.t t JOIN public.u u ON ((t.k = u.id)))", 1)

    assert reads.keys() == {"t__changes", "u__rows"}
    assert reads["u__rows"].kind is ReadKind.KEYED
    assert reads["u__rows"].bounded_by == '"id" in the changes of public.t ("k")'
    assert reads["u__rows"].sql == (
        'SELECT "id" AS "u_id" FROM "public"."u" WHERE (("id" = ANY (ARRAY(SELECT "k" FROM'
        ' "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)))))'
    )


def test_a_table_that_changed_is_needed_as_it_was_before() -> None:
    reads = _reads("SELECT t.c FROM (public.t t JOIN public.u u ON ((t.k = u.id)))", 1, 2)

    assert reads.keys() == {"t__changes", "t__rows", "u__changes", "u__rows"}


def test_a_bound_travels_over_a_table_between() -> None:
    reads = _reads(
        "SELECT v.c FROM ((public.t t JOIN public.u u ON ((t.k = u.id)))"
        " JOIN public.v v ON ((u.k = v.id)))",
        1,
    )

    assert reads["v__rows"].bounded_by == (
        '"id" in "k" of public.u where "id" in the changes of public.t ("k")'
    )


def test_a_bound_over_a_table_that_changed_covers_the_rows_that_are_gone() -> None:
    reads = _reads(
        "SELECT v.c FROM ((public.t t JOIN public.u u ON ((t.k = u.id)))"
        " JOIN public.v v ON ((u.k = v.id)))",
        2,
        3,
    )

    assert reads["t__rows"].bounded_by == (
        '"k" in the changes of public.u ("id"); or "k" in "id" of public.u'
        ' where "k" in the changes of public.v ("id") or the changes of public.u ("id")'
    )


def test_bounds_over_the_same_tables_are_one() -> None:
    reads = _reads(
        "SELECT w.c FROM ((((public.t t JOIN public.u u ON ((t.k = u.id)))"
        " JOIN public.v v ON ((u.k = v.id))) JOIN public.u w ON ((v.k = w.id)))"
        " JOIN public.v x ON ((w.k = x.id)))",
        2,
        3,
    )

    # By the changes of u; of v over u; and of w over v, and of x over w and v: both over u.
    condition = reads["t__rows"].marked_sql.partition("WHERE")[2]
    assert condition.count('FROM "public"."u"') == 3  # two of u, and w


@pytest.mark.parametrize(
    "condition",
    ["(t.k < u.id)", "true", "((t.k = u.id) OR (t.id = u.k))", "(NOT (t.k IS DISTINCT FROM u.id))"],
)
def test_without_an_equality_everything_is_read(condition: str) -> None:
    reads = _reads(f"SELECT t.c FROM (public.t t JOIN public.u u ON ({condition}))", 1)

    assert reads["u__rows"].kind is ReadKind.FULL
    assert reads["u__rows"].bounded_by == "nothing: every row is read"


def test_an_expression_over_one_table_still_bounds_the_other() -> None:
    reads = _reads("SELECT t.c FROM (public.t t JOIN public.u u ON (((t.k + 1) = abs(u.id))))", 1)

    assert reads["u__rows"].bounded_by == '(ABS("id")) in the changes of public.t (("k" + 1))'


def test_filters_go_down_with_every_read() -> None:
    reads = _reads(
        "SELECT t.c FROM public.t t, public.u u"
        " WHERE ((t.k = u.id) AND (t.id > 7) AND (u.c = 'x'))",
        1,
    )

    assert reads["t__changes"].sql.endswith('WHERE (:window AND __weight <> 0) AND ("id" > 7)')
    assert reads["u__rows"].sql.endswith("""AND ("c" = 'x')""")


def test_the_changes_of_a_stage_bound_a_table_through_a_mark() -> None:
    reads = _reads(f"SELECT u.c FROM ({_COUNTED} d JOIN public.u u ON ((d.n = u.id)))", 1)

    assert reads["group_1__changes"].kind is ReadKind.STAGE
    assert reads["u__rows"].sql.endswith('WHERE (("id" = ANY (:keys(group_1,count))))')


def test_a_stage_that_did_not_change_is_only_read_as_it_is() -> None:
    reads = _reads(f"SELECT u.c FROM ({_COUNTED} d JOIN public.u u ON ((d.n = u.id)))", 2)

    assert reads.keys() == {"u__changes", "group_1__rows"}
    assert ":keys" not in reads["group_1__rows"].sql


def test_an_expression_over_a_stage_bounds_nothing() -> None:
    reads = _reads(f"SELECT u.c FROM ({_COUNTED} d JOIN public.u u ON (((d.n + 1) = u.id)))", 1)

    assert reads["u__rows"].kind is ReadKind.FULL


def test_only_the_columns_in_use_are_captured() -> None:
    staged = _staged("SELECT t.c FROM (public.t t JOIN public.u u ON ((t.k = u.id)))")

    assert staged.captured_columns() == {1: ("c", "k"), 2: ("id",)}
    assert sources_of(staged) == {"1": 1, "2": 2}


def test_a_source_without_changes_is_planned_away() -> None:
    staged = _staged("SELECT t.c FROM public.t t UNION ALL SELECT u.c FROM public.u u")

    plan = plan_differential(staged, ["2"], Dialect.SPARK, str)

    assert [read.view for read in plan.stages[0].reads] == ["u__changes"]
    assert plan_differential(staged, [], Dialect.SPARK, str).stages == ()


def test_a_full_plan_bounds_nothing() -> None:
    plan = plan_full(_staged("SELECT t.c FROM (public.t t JOIN public.u u USING (id))"),
                     Dialect.SPARK, str)  # fmt: skip

    assert {read.kind for stage in plan.stages for read in stage.reads} == {ReadKind.FULL}


def _between(spread: Spread) -> dict[str, str]:
    """Return what bounds the reads of two joined tables that both meet the third, which changed."""
    staged = _staged(
        "SELECT t.c FROM ((public.t t JOIN public.u u ON ((t.k = u.id)))"
        " JOIN public.v v ON (((u.k = v.id) AND (t.c = v.c))))"
    )
    [stage] = plan_differential(staged, ["3"], Dialect.SPARK, str, Known(spread)).stages
    return {read.view: read.bounded_by for read in stage.reads}


def test_of_two_bounded_sides_the_tighter_bounds_the_other() -> None:
    few_values_in_t = _between(lambda scan, _: 25.0 if scan.alias == "t" else 10_000.0)
    few_values_in_u = _between(lambda scan, _: 25.0 if scan.alias == "u" else 10_000.0)

    by_v = '"k" in the changes of public.v ("id")'
    assert few_values_in_t["u__rows"] == by_v
    assert few_values_in_t["t__rows"] == (
        '"c" in the changes of public.v ("c") and "k" in "id" of public.u where ' + by_v
    )
    by_v = '"c" in the changes of public.v ("c")'
    assert few_values_in_u["t__rows"] == by_v
    assert few_values_in_u["u__rows"] == (
        '"k" in the changes of public.v ("id") and "id" in "k" of public.t where ' + by_v
    )
