"""A plan names nothing that it does not also provide, whatever was pruned (scenarios.md: P50)."""

from __future__ import annotations

import itertools
import re

import pytest
import sqlglot
from sqlglot import exp

from pgtrickle.algebra.schema import column_names
from pgtrickle.delta.cut import AggregateStage, StagedQuery, cut
from pgtrickle.delta.partial import value_columns
from pgtrickle.delta.reads import WINDOW_MARK, Read, fill_marks
from pgtrickle.model.sql_type import NUMERIC
from pgtrickle.plan.stages import RefreshPlan, plan_differential, plan_full, sources_of
from pgtrickle.sql.translate import Dialect
from tests.sql.queries import OneType, lowered

_COUNTED = "( SELECT t.k, count(*) AS n FROM public.t t GROUP BY t.k)"
_QUERIES = {
    "a join of three": "SELECT t.c FROM ((public.t t JOIN public.u u ON ((t.k = u.id)))"
    " JOIN public.v v ON ((u.k = v.id)))",
    "a self join": "SELECT a.c FROM (public.t a JOIN public.t b ON ((a.k = b.id)))",
    "arms of a union": "SELECT t.c FROM public.t t UNION ALL SELECT u.c FROM public.u u"
    " UNION ALL SELECT v.c FROM (public.v v JOIN public.t t ON ((t.k = v.id)))",
    "groups below a join": f"SELECT u.c FROM ({_COUNTED} d JOIN public.u u ON ((d.n = u.id)))",
    "groups of groups": f"SELECT count(*) AS m FROM ({_COUNTED} d"
    " JOIN public.u u ON ((d.k = u.id))) GROUP BY d.n",
    "a dependent average of sums": "SELECT t.c FROM public.t t WHERE (t.k > ( SELECT avg(d.n)"
    " FROM ( SELECT u.k, sum(u.id) AS n FROM public.u u GROUP BY u.k) d WHERE (d.k = t.k)))",
    "a left join": "SELECT u.c FROM (public.t t LEFT JOIN public.u u ON ((t.k = u.id)))",
    "a full join": "SELECT u.c FROM (public.t t FULL JOIN public.u u ON ((t.k = u.id)))",
}
_KEYS_MARK = re.compile(r":keys\(([^,()]+),([^()]+)\)")


def _plans(staged: StagedQuery) -> list[RefreshPlan]:
    """Plan the refresh for every set of sources that may have changed, and the full one."""
    sources = list(sources_of(staged))
    changed = itertools.chain.from_iterable(
        itertools.combinations(sources, size) for size in range(len(sources) + 1)
    )
    state = "SELECT * FROM stored_{}".format
    return [
        *(plan_differential(staged, some, Dialect.DUCKDB, state) for some in changed),
        plan_full(staged, Dialect.DUCKDB, state),
    ]


def _relations(sql: str) -> set[str]:
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    own = {cte.alias for cte in tree.find_all(exp.CTE)}
    return {table.name for table in tree.find_all(exp.Table)} - own


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_p50_a_stage_reads_exactly_the_relations_that_its_sql_names(query: str) -> None:
    staged = cut(lowered(query), OneType())

    for plan in _plans(staged):
        for stage in plan.stages:
            read = {read.view for read in stage.reads}
            made = {one.view for one in stage.versions}
            used = {view for one in stage.versions for view in (one.rows, one.changes)}
            assert _relations(stage.sql) == stage.named
            assert stage.named - made | used == read


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_p50_an_aggregate_finds_every_column_that_it_stores_in_its_input(query: str) -> None:
    numerics = OneType(NUMERIC)

    for stage in cut(lowered(query, typer=numerics), numerics).stateful:
        assert isinstance(stage, AggregateStage)
        layout = stage.layout
        named = {column.name for column in (*layout.keys, *value_columns(layout))}
        named |= {one.argument for one in layout.accumulators if one.argument}
        named |= {one.condition for one in layout.accumulators if one.condition}
        named |= {one.condition for one in layout.values if one.condition}
        assert named <= column_names(stage.body)


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_p50_a_stage_takes_keys_only_from_stages_before_it(query: str) -> None:
    staged = cut(lowered(query), OneType())

    for plan in _plans(staged):
        earlier: set[str] = set()
        for stage in plan.stages:
            for read in stage.reads:
                assert {mark[0] for mark in _KEYS_MARK.findall(read.sql)} <= earlier
            earlier.add(stage.stage.name)


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_p50_no_mark_outlives_the_filling(query: str) -> None:
    staged = cut(lowered(query), OneType())

    for read in _reads(staged):
        keys = {mark.group(): "'{}'" for mark in _KEYS_MARK.finditer(read.sql)}
        sql = fill_marks(read.sql, "(__xid >= '1')", keys)
        assert WINDOW_MARK not in sql
        assert not re.search(r"(?<!:):[a-z]", sql)


def _reads(staged: StagedQuery) -> list[Read]:
    return [read for plan in _plans(staged) for stage in plan.stages for read in stage.reads]
