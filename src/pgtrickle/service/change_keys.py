"""Changes that were read, as key values for the reads that they bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pgtrickle.delta.reads import KeyArray
from pgtrickle.model.names import quote_literal

# Types whose values Arrow prints as PostgreSQL reads them.
_NUMBERS = frozenset({"int2", "int4", "int8"})
_STRINGS = frozenset({"text", "varchar", "bpchar"})
# Above this PostgreSQL finds the values quicker than it reads their text.
MAX_KEYS = 200_000
_WEIGHT = "__weight"


def consolidate(changes: pa.Table) -> pa.Table:
    """Add the weights of equal rows up and drop what comes to nothing.

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
    """Return how to write key values as an array literal, where the changes are at hand."""

    def literal(array: KeyArray) -> str | None:
        table = changes.get(array.view)
        base = array.type.base
        if table is None or table.num_rows > MAX_KEYS or base not in _NUMBERS | _STRINGS:
            return None
        values = pc.unique(table[array.column]).drop_null().to_pylist()
        listed = ",".join(map(str if base in _NUMBERS else _element, values))
        return f"{quote_literal(f'{{{listed}}}')}::pg_catalog.{base}[]"

    return literal


def _element(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
