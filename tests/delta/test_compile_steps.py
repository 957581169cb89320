"""The work of the compiler grows as a small power of the joins, whatever shape they have."""

from __future__ import annotations

import itertools

import pytest

from pgtrickle.algebra.schema import scans_of
from pgtrickle.delta.cut import StagedQuery, cut
from pgtrickle.delta.reads import Read
from pgtrickle.model.compile_steps import counted_steps
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.plan.stages import looked_up_columns, plan_differential, plan_full, sources_of
from pgtrickle.service.insight.explanation.indexes import bounded_tables
from pgtrickle.sql.bound import Relation
from pgtrickle.sql.text.limits import allow_depth
from pgtrickle.sql.translate import Dialect
from tests.sql.queries import INT4, RELATIONS, OneType, lowered

_FEW = next(iter(RELATIONS.values())).columns
_MANY = (*_FEW, *(Column(f"k{number}", INT4) for number in range(64)))  # of the centre of a star
_NEIGHBOURS = {
    "chain": lambda number: [number - 1],
    "star": lambda _: [0],
    "snowflake": lambda number: [(number - 1) // 3],
    "clique": lambda number: list(range(number)),
}
_GROWTH = {"chain": 4.2, "star": 4.2, "snowflake": 5}


def _joined(shape: str, tables: int, word: str = "JOIN") -> str:
    text = "public.r0 r0"
    for number in range(1, tables):
        # A star joins each table by a key of its own.
        key = f"k{number}" if shape == "star" else "k"
        on = " AND ".join(
            f"(r{other}.{key} = r{number}.id)" for other in _NEIGHBOURS[shape](number)
        )
        text = f"({text} {word} public.r{number} r{number} ON ({on}))"
    return text


def _cut(query: str, tables: int, typer: OneType, columns: int = 1) -> StagedQuery:
    relations = [
        Relation(100 + number, QualifiedName("public", f"r{number}"), _FEW if number else _MANY)
        for number in range(tables)
    ]
    allow_depth()
    return cut(lowered(query, columns, relations, typer), typer)


def _steps(query: str, tables: int, columns: int = 1) -> int:
    """Compile a query as far as ``create`` does, with every source changed; count the steps."""
    with counted_steps() as steps:
        staged = _cut(query, tables, OneType(), columns)
        state = "SELECT * FROM {}".format
        plan_differential(staged, list(sources_of(staged)), Dialect.SPARK, state)
        plan_full(staged, Dialect.SPARK, state)
        looked_up_columns(staged)
    return steps.taken


def _reads(query: str, tables: int, columns: int = 1) -> list[Read]:
    """Return the reads of a refresh with every source changed."""
    staged = _cut(query, tables, OneType(), columns)
    plan = plan_differential(
        staged, list(sources_of(staged)), Dialect.SPARK, "SELECT * FROM {}".format
    )
    return [read for stage in plan.stages for read in stage.reads]


def _length(reads: list[Read]) -> int:
    return sum(len(read.sql) for read in reads)


# A snowflake is as deep as the logarithm of its tables, and each level is one more step.
@pytest.mark.parametrize(("shape", "most"), _GROWTH.items())
@pytest.mark.parametrize("word", ["JOIN", "LEFT JOIN"])
def test_twice_the_joins_are_about_four_times_the_work(shape: str, most: float, word: str) -> None:
    counted = [
        _steps(f"SELECT r0.c FROM {_joined(shape, tables, word)}", tables)
        for tables in (8, 16, 32, 64)
    ]

    for fewer, more in itertools.pairwise(counted):
        assert more <= most * fewer, counted


# Each table is bounded by the changes of all others, over the tables between.
@pytest.mark.parametrize("shape", _NEIGHBOURS)
def test_the_reads_of_a_join_grow_as_the_square_of_its_tables(shape: str) -> None:
    few, many = (_reads(f"SELECT r0.c FROM {_joined(shape, tables)}", tables) for tables in (8, 16))

    assert _length(many) <= 5 * _length(few)
    assert sum(len(read.bounded_by) for read in many) <= 5 * sum(len(one.bounded_by) for one in few)


# Bounds share those on the way to them: along each path, a table would be asked about again.
@pytest.mark.parametrize("shape", _NEIGHBOURS)
def test_advice_on_indexes_looks_at_each_bound_once(shape: str) -> None:
    looked = [
        _looked_at(f"SELECT r0.c FROM {_joined(shape, tables)}", tables) for tables in (8, 16)
    ]

    assert looked[1] <= 5 * looked[0]


def _looked_at(query: str, tables: int) -> int:
    staged = _cut(query, tables, OneType())
    plan = plan_differential(
        staged, list(sources_of(staged)), Dialect.SPARK, "SELECT * FROM {}".format
    )
    return sum(
        len(list(bounded_tables(scan, stage.bounds[scan.alias])))
        for stage in plan.stages
        for scan in {scan.alias: scan for scan in scans_of(stage.plan)}.values()
        if scan.alias in stage.bounds
    )


def _laterals(tables: int) -> str:
    """Write derived tables that each compute with the row of the one before."""
    text = "( SELECT count(*) AS n FROM public.r0 r0) x0"
    for number in range(1, tables):
        one = f"( SELECT x{number - 1}.n, count(*) AS m FROM public.r{number} r{number}) x{number}"
        text = f"({text} CROSS JOIN LATERAL {one})"
    return f"SELECT sum(1) AS c0 FROM {text}"


def test_twice_the_derived_tables_over_each_other_are_about_four_times_the_work() -> None:
    counted = [_steps(_laterals(tables), tables) for tables in (8, 16, 32)]

    for fewer, more in itertools.pairwise(counted):
        assert more <= 4.2 * fewer, counted


def test_the_reads_of_derived_tables_over_each_other_grow_as_their_square() -> None:
    written = [_length(_reads(_laterals(tables), tables)) for tables in (8, 16, 32)]

    for fewer, more in itertools.pairwise(written):
        assert more <= 5 * fewer, written


def test_outer_joins_by_keys_of_all_tables_before_have_these_in_each_of_their_stages() -> None:
    fewer, more = (
        _steps(f"SELECT r0.c FROM {_joined('clique', tables, 'LEFT JOIN')}", tables)
        for tables in (8, 16)
    )

    assert more <= 8 * fewer


@pytest.mark.parametrize("shape", _GROWTH)
def test_each_stage_of_a_chain_of_outer_joins_has_few_inputs(shape: str) -> None:
    query = f"SELECT r0.c FROM {_joined(shape, 16, 'LEFT JOIN')}"

    staged = _cut(query, 16, OneType())

    assert len(staged.stateful) == 15
    assert all(len(list(scans_of(stage.body))) <= 3 for stage in staged.stateful)


def test_a_clique_has_as_many_conditions_as_pairs() -> None:
    counted = [
        _steps(f"SELECT r0.c FROM {_joined('clique', tables)}", tables) for tables in (8, 16, 32)
    ]

    for fewer, more in itertools.pairwise(counted):
        assert more <= 8 * fewer, counted  # of which there are n per table


def test_a_join_of_eighteen_tables_in_a_cte_that_is_used_twice() -> None:
    tables = _joined("snowflake", 18)
    query = (
        f"WITH x AS ( SELECT r0.k, r17.id, r5.c FROM {tables})"
        " SELECT x.c FROM (x x JOIN x y ON ((x.k = y.id)))"
    )

    assert _steps(query, 18) < 100_000


def _scalars(number: int) -> str:
    values = (
        f"( SELECT max(u.k) AS max FROM public.u u WHERE (u.id = {one})) AS c{one}"
        for one in range(number)
    )
    return f"SELECT {', '.join(values)} FROM public.t t WHERE (t.id = 1)"


def _written(query: str, columns: int) -> tuple[int, int]:
    """Return the number of stages of a refresh, and the length of their queries."""
    typer = OneType()
    staged = cut(lowered(query, columns, typer=typer), typer)
    state = "SELECT * FROM {}".format
    plan = plan_differential(staged, list(sources_of(staged)), Dialect.SPARK, state)
    return len(plan.stages), sum(len(stage.sql) for stage in plan.stages)


def test_twice_the_scalar_subqueries_are_about_twice_the_work() -> None:
    counted = [_steps(_scalars(number), 0, number) for number in (8, 16, 32, 64)]

    for fewer, more in itertools.pairwise(counted):
        assert more <= 2.1 * fewer, counted


def test_the_sql_of_scalar_subqueries_grows_as_their_square_at_most() -> None:
    counted = [_written(_scalars(number), number) for number in (8, 16, 32, 64)]

    assert {stages for stages, _ in counted} == {2}  # all the values, then the rows with them
    for (_, fewer), (_, more) in itertools.pairwise(counted):
        assert more <= 4 * fewer, counted
