"""Counting: bounded reads follow the fan-out, unbounded ones the table, and more costs more."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgtrickle.algebra.nodes import (
    Aggregate,
    AggregateCall,
    InnerJoin,
    Node,
    Output,
    Scalar,
    Scan,
    Source,
    SourceKind,
)
from pgtrickle.delta.cut import AggregateStage, RowsStage, StagedQuery
from pgtrickle.delta.layout import layout_of
from pgtrickle.model.sql_type import BIGINT, INTEGER, Column
from pgtrickle.plan.cost.count_work import count_differential, count_full
from pgtrickle.plan.cost.outline import StageOutline, outline_differential, outline_full
from pgtrickle.plan.cost.statistics import Statistics, TableStatistics
from pgtrickle.plan.cost.work import Work, price
from pgtrickle.sql.scalars import column_scalar


def _scan(key: str, **columns: str) -> Scan:
    outputs = tuple(Output(name, column_scalar(own), INTEGER) for name, own in columns.items())
    return Scan(Source(SourceKind.TABLE, key, relid=1), key, outputs)


def _join(left: Node, right: Node, first: str, second: str) -> InnerJoin:
    return InnerJoin(left, right, Scalar(f'"{first}" = "{second}"', (first, second)))


CUSTOMERS = _scan("c", c_id="id", c_region="region")
ORDERS = _scan("o", o_id="id", o_cid="cid")
LINES = _scan("l", l_oid="oid", l_amount="amount")
THREE = _join(_join(CUSTOMERS, ORDERS, "c_id", "o_cid"), LINES, "o_id", "l_oid")


def _query(node: Node) -> StagedQuery:
    return StagedQuery((), RowsStage("result", node, ()))


def _grouped() -> StagedQuery:
    call = AggregateCall(
        "n", "count", "count(*)", (), None, whole=False, plain=True, distinct=False, type=BIGINT
    )
    layout = layout_of(Aggregate(THREE, (Column("c_region", INTEGER),), (call,)))
    stage = AggregateStage("group_1", THREE, layout)
    outputs = (Output("c_region", column_scalar("c_region"), INTEGER),)
    return StagedQuery(
        (stage,),
        RowsStage("result", Scan(Source(SourceKind.STATE, "group_1"), "group_1", outputs), outputs),
    )


TABLES = Statistics(
    {
        "c": TableStatistics(1000, {"id": 1000, "region": 5}, frozenset({"id"})),
        "o": TableStatistics(10_000, {"id": 10_000, "cid": 1000}, frozenset({"id", "cid"})),
        "l": TableStatistics(40_000, {"oid": 10_000, "amount": 300}, frozenset({"oid"})),
    },
    {"group_1": TableStatistics(5, {"c_region": 5})},
    TableStatistics(5),
)


def _differential(query: StagedQuery, changed: dict[str, float], tables: Statistics) -> Work:
    return count_differential(outline_differential(query, changed), tables, changed).work


def test_a_bound_travels_along_the_joins_with_its_fan_out():
    joined = replace(TABLES, contents=TableStatistics(40_000))
    work = _differential(_query(THREE), {"c": 2}, joined)

    # Two customers have 20 orders, those have 80 lines; the orders are found once more for the
    # keys of the lines.
    assert work.keyed_rows == pytest.approx(20 + 80 + 20)
    assert work.moved_values == pytest.approx(2 * 3 + 20 * 2 + 80 * 2)
    assert work.joined_rows == pytest.approx(20 + 80)
    assert (work.scanned_rows, work.stages, work.reads) == (0, 1, 3)
    assert work.applied_rows == pytest.approx(80)


def test_the_other_end_of_the_chain_reaches_one_row_each():
    work = _differential(_query(THREE), {"l": 6}, TABLES)

    assert work.keyed_rows == pytest.approx(6 + 6 + 6)
    assert work.applied_rows == pytest.approx(6)


def test_without_an_index_a_bounded_read_scans():
    orders = replace(TABLES.sources["o"], indexed=frozenset({"id"}))
    tables = replace(TABLES, sources={**TABLES.sources, "o": orders})

    assert _differential(_query(THREE), {"c": 2}, tables).scanned_rows == 2 * 10_000


def test_a_stage_is_large_where_one_of_its_reads_is():
    tables = replace(TABLES, large_values=160.0)

    assert _differential(_query(THREE), {"c": 1}, tables).large_stages == 0
    assert _differential(_query(THREE), {"c": 2}, tables).large_stages == 1  # 80 lines, two columns
    assert _differential(_query(THREE), {"c": 900}, TABLES).large_stages == 0
    assert count_full(outline_full(_query(THREE)), tables, None).large_stages == 1


def test_groups_are_merged_not_rows():
    work = _differential(_grouped(), {"l": 4000}, TABLES)

    assert work.merged_rows == pytest.approx(5)
    assert work.applied_rows == pytest.approx(10)


def test_no_more_is_written_than_is_stored_before_and_after():
    few = replace(TABLES, states={"group_1": TableStatistics(2, {"c_region": 2})})

    assert _differential(_query(THREE), {"c": 900}, TABLES).applied_rows == 2 * 5
    assert _differential(_grouped(), {"l": 4000}, few).merged_rows == 2 * 2


def test_full_reads_everything():
    query = _grouped()
    changed = {"l": 100.0}
    differential = count_differential(outline_differential(query, changed), TABLES, changed)
    work = count_full(outline_full(query), TABLES, differential)

    assert work.scanned_rows == 51_000
    assert (work.full_refreshes, work.keyed_rows, work.change_rows) == (1, 0, 0)
    assert work.joined_rows == pytest.approx(10_000 + 40_000)


def test_an_unknown_table_is_not_free():
    work = count_full(outline_full(_query(THREE)), Statistics(), None)

    assert work.scanned_rows > 0


@cache
def _outlines(changed: frozenset[str]) -> list[tuple[StageOutline, ...]]:
    return [outline_differential(query, changed) for query in (_query(THREE), _grouped())]


_CHANGED = st.fixed_dictionaries({}, optional={key: st.floats(1, 1e6) for key in "col"}).filter(
    bool
)


@settings(max_examples=100)
@given(_CHANGED, st.sampled_from("col"), st.floats(1.0, 100.0))
def test_more_changed_rows_never_look_cheaper(changed: dict[str, float], which: str, factor: float):
    more = {key: rows * factor if key == which else rows for key, rows in changed.items()}
    for outlines in _outlines(frozenset(changed)):
        less_ms, more_ms = (
            price(count_differential(outlines, TABLES, rows).work) for rows in (changed, more)
        )
        assert more_ms >= less_ms * 0.999


@given(_CHANGED, st.floats(1.0, 100.0))
def test_larger_tables_never_look_cheaper_in_full(changed: dict[str, float], factor: float):
    def grown(table: TableStatistics) -> TableStatistics:
        distinct = {name: values * factor for name, values in table.distinct.items()}
        return replace(table, rows=table.rows * factor, distinct=distinct)

    larger = replace(TABLES, sources={key: grown(one) for key, one in TABLES.sources.items()})
    full = outline_full(_query(THREE))

    assert price(count_full(full, larger, None)) >= price(count_full(full, TABLES, None))


def test_state_is_filled_by_a_first_load_and_compared_later():
    empty = replace(TABLES, states={}, contents=TableStatistics(0.0))
    first = count_full(outline_full(_grouped()), empty, None)
    later = count_full(outline_full(_grouped()), TABLES, None)

    assert (first.filled_rows, first.compared_rows) == (5, 0)
    assert (later.filled_rows, later.compared_rows > 0) == (0, True)
