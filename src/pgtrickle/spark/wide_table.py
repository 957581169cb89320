"""Several small tables as one wide one, because each DataFrame costs Spark ten milliseconds.

Columns of the same type share a slot of the wide table, a number tells whose row it is, and each
input becomes a subquery that picks its rows and columns.  Spark evaluates such a subquery over
local rows while it optimises, so the plan is the same as with a DataFrame for each input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

_OWNER = "__input"


@dataclass(frozen=True, slots=True)
class WideTable:
    """The wide table and, for each input, the subquery over ``{wide}`` that gives it back."""

    table: pa.Table
    subqueries: dict[str, str]


def widen(inputs: Mapping[str, pa.Table]) -> WideTable:
    """Lay the inputs side by side.

    >>> wide = widen({"l": pa.table({"a": [1, 2]}), "r": pa.table({"b": [3], "c": ["x"]})})
    >>> wide.table.column_names, wide.table.num_rows
    (['__input', 'c0', 'c1'], 3)
    >>> wide.subqueries["r"]
    '(SELECT /*+ COALESCE(1) */ `c0` AS `b`, `c1` AS `c` FROM {wide} WHERE `__input` = 1)'
    """
    slots: dict[tuple[pa.DataType, int], str] = {}
    parts: list[pa.Table] = []
    subqueries: dict[str, str] = {}
    for number, (name, table) in enumerate(inputs.items()):
        used: Counter[pa.DataType] = Counter()
        owner = pa.array([number], pa.int32()).take(pa.array([0] * table.num_rows, pa.int32()))
        columns = {_OWNER: owner}
        picked = []
        for field, values in zip(table.schema, table.columns, strict=True):
            key = (field.type, used[field.type])
            used[field.type] += 1
            slot = slots.setdefault(key, f"c{len(slots)}")
            columns[slot] = values
            picked.append(f"`{slot}` AS `{field.name.replace('`', '``')}`")
        parts.append(pa.table(columns))
        subqueries[name] = (
            f"(SELECT /*+ COALESCE(1) */ {', '.join(picked)} "
            f"FROM {{wide}} WHERE `{_OWNER}` = {number})"
        )
    return WideTable(pa.concat_tables(parts, promote_options="default"), subqueries)
