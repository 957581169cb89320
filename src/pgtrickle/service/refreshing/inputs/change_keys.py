"""Turn changes that were read into key values and ranges that bound other reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pgtrickle.delta.reads import KeyArray, ValueRange
from pgtrickle.model.text.names import quote_literal

# Types whose values Arrow prints in a form that PostgreSQL reads.
_NUMBERS = frozenset({"int2", "int4", "int8"})
_FLOATS = frozenset({"float4", "float8"})
_TIMES = frozenset({"date", "timestamp", "timestamptz"})
_STRINGS = frozenset({"text", "varchar", "bpchar"})
# Above this number PostgreSQL finds the values faster than it parses their text.
MAX_KEYS = 200_000
_WEIGHT = "__weight"


def consolidate(changes: pa.Table) -> pa.Table:
    """Add up the weights of equal rows and drop rows with weight zero.

    >>> rows = pa.table({"k": [1, 1, 2], "__weight": pa.array([-1, 1, 1], pa.int32())})
    >>> consolidate(rows).to_pylist()
    [{'k': 2, '__weight': 1}]
    """
    names = [name for name in changes.column_names if name != _WEIGHT]
    grouped = changes.group_by(names, use_threads=False).aggregate([(_WEIGHT, "sum")])
    weight = grouped[f"{_WEIGHT}_sum"].cast(pa.int32())
    table = grouped.select(names).append_column(_WEIGHT, weight)
    return table.filter(pc.not_equal(weight, 0)).select(changes.column_names)


def known_keys(changes: Mapping[str, pa.Table]) -> Callable[[KeyArray], str | None]:
    """Return a function that writes key values of these changes as an array literal."""

    def literal(array: KeyArray) -> str | None:
        table = changes.get(array.view)
        base = array.type.base
        if table is None or table.num_rows > MAX_KEYS or base not in _NUMBERS | _STRINGS:
            return None
        values = pc.unique(table[array.column]).drop_null().to_pylist()
        listed = ",".join(map(str if base in _NUMBERS else _element, values))
        return f"{quote_literal(f'{{{listed}}}')}::pg_catalog.{base}[]"

    return literal


def range_condition(asked: ValueRange, changes: pa.Table) -> str:
    """Write the condition of a range; ``true`` if the changes do not allow one.

    >>> from pgtrickle.model.sql_type import INTEGER
    >>> moved = pa.table({"v": [3, 5], "__weight": pa.array([-1, 1], pa.int32())})
    >>> range_condition(ValueRange('"x"', "s__changes", "v", INTEGER), moved)
    '"x" BETWEEN 3 AND 5'
    """
    values = changes[asked.column]
    # Each added row must replace a deleted one, or rows beyond the range change too.
    if values.null_count or pc.sum(changes[_WEIGHT]).as_py() != 0:
        return "true"
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return "true"
    try:
        ends = pc.min_max(values)
        least, greatest = (_value(ends[end].as_py(), asked.type.base) for end in ("min", "max"))
    except (pa.ArrowNotImplementedError, ValueError, OverflowError):
        return "true"
    return f"{asked.expression} BETWEEN {least} AND {greatest}" if least and greatest else "true"


def _value(value: Any, base: str) -> str | None:
    """Write a value for PostgreSQL; None for types that engines may order differently."""
    if base in _NUMBERS:
        return str(value)
    if base == "numeric":
        return format(value, "f")
    if base in _FLOATS:
        return f"'{value!r}'::pg_catalog.float8"
    if base in _TIMES:
        return f"'{value.isoformat()}'::pg_catalog.{base}"
    return None


def _element(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
