"""The tables that an operator keeps between refreshes, and their contents."""

from __future__ import annotations

from typing import assert_never

from pgtrickle.delta.cut import AggregateStage, RecomputeStage, RowsStage, StatefulStage
from pgtrickle.delta.layout import Accumulator, Layout, ValueTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.insight.explanation.model import StateTable
from pgtrickle.storage.state_tables import groups_table, input_table, result_table, values_table

_NO_ID = 0  # of a stream table that does not exist


def state_of(stage: StatefulStage | RowsStage, stream_table_id: int | None) -> list[StateTable]:
    """Describe the state tables of a stage; without an id, of one not created yet."""
    match stage:
        case RowsStage():
            return []
        case AggregateStage():
            return _aggregate_state(stage, stream_table_id)
        case RecomputeStage():
            return _recompute_state(stage, stream_table_id)
    assert_never(stage)


def _aggregate_state(stage: AggregateStage, stream_table_id: int | None) -> list[StateTable]:
    number = _NO_ID if stream_table_id is None else stream_table_id
    tables = [(groups_table(number, stage.name), _groups(stage.layout))]
    tables += [
        (values_table(number, stage.name, values.name), _values(values, stage.layout))
        for values in stage.layout.values
    ]
    return [StateTable(_named(name, stream_table_id), holds) for name, holds in tables]


def _recompute_state(stage: RecomputeStage, stream_table_id: int | None) -> list[StateTable]:
    number = _NO_ID if stream_table_id is None else stream_table_id
    keys = ", ".join(key.name for key in stage.operator.keys)
    found = f"found by {keys}" if keys else "one partition, computed whole at each change"
    kept = (
        (input_table(number, stage.name), f"each distinct input row with its number, {found}"),
        (result_table(number, stage.name), "each distinct row of the result with its number"),
    )
    return [StateTable(_named(name, stream_table_id), holds) for name, holds in kept]


def _named(name: QualifiedName, stream_table_id: int | None) -> str:
    text = str(name)
    return text if stream_table_id is not None else text.replace(f"st_{_NO_ID}_", "st_<id>_")


def _groups(layout: Layout) -> str:
    keys = ", ".join(key.name for key in layout.keys)
    held = ["the number of its rows", *map(_accumulator, layout.accumulators)]
    held += [f"{result.name}, looked up" for result in layout.looked_up]
    return f"one row {f'for each {keys}' if keys else 'in all'}: {'; '.join(held)}"


def _accumulator(one: Accumulator) -> str:
    of = f" of {one.argument}" if one.argument else ""
    where = f" where {one.condition}" if one.condition else ""
    return f"{one.name} = {one.accumulation.value}{of}{where}"


def _values(values: ValueTable, layout: Layout) -> str:
    columns = ", ".join(column.name for column in values.columns)
    keys = ", ".join(key.name for key in layout.keys)
    calls = ", ".join(
        result.lookup.sql
        for result in layout.looked_up
        if result.lookup is not None and result.lookup.values == values
    )
    within = f" of each {keys}" if keys else ""
    return f"each distinct {columns}{within} with its number, for {calls}"
