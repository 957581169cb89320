"""Skip files that contain no row meeting a condition, according to the catalog.

In doubt a file is kept.  Floats never skip one: DuckDB prints the bounds of
single precision shorter than their values, and bounds do not cover NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.reader.columns import ReadColumn
from pgtrickle.model.text.trusted import trusted

_PARSERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), int),
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64"), int),
    "varchar": str,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamptz": datetime.fromisoformat,
}
_LONGEST = 60  # characters; DuckDB cuts text after 256 bytes, and a cut text is not a bound


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a column with values; ``in`` has several, ``null`` and ``not null`` none."""

    column: str
    operator: str  # = < <= > >= in null "not null"
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """The catalog's statistics of a column in one file."""

    least: str | None
    greatest: str | None
    values: int | None
    nulls: int | None


_FIND_STATS = """
    SELECT data_file_id, column_id, min_value, max_value, value_count, null_count
      FROM {stats} WHERE table_id = %s AND column_id = ANY(%s)
"""


def find_pruned(
    connection: Connection,
    catalog: LakeCatalog,
    table_id: int,
    columns: Sequence[ReadColumn],
    conditions: Sequence[Condition],
) -> frozenset[int]:
    """Return the ids of files without a row that meets all conditions."""
    known = {column.name: column for column in columns if not column.parts}
    wanted = [one for one in conditions if one.column in known]
    if not wanted:
        return frozenset()
    rows = connection.execute(
        trusted(_FIND_STATS.format(stats=catalog.table("file_column_stats"))),
        [table_id, [known[one.column].id for one in wanted]],
    ).fetchall()
    pruned = set()
    for file_id, column_id, *stats in rows:
        for condition in wanted:
            column = known[condition.column]
            if column.id == column_id and not may_meet(column.kind, Bounds(*stats), condition):
                pruned.add(file_id)
    return frozenset(pruned)


def may_meet(kind: str, bounds: Bounds, condition: Condition) -> bool:
    """Tell whether a file may hold a value that meets a condition.

    >>> bounds = Bounds("1", "9", 5, 0)
    >>> [may_meet("int32", bounds, Condition("a", "=", (value,))) for value in (5, 10)]
    [True, False]
    >>> may_meet("int32", bounds, Condition("a", "null"))
    False
    """
    if condition.operator == "null":
        return bounds.nulls != 0
    if bounds.values == 0 and bounds.nulls:
        return False  # there is nothing but NULL
    parse = Decimal if kind.startswith("decimal") else _PARSERS.get(kind)
    if parse is None or bounds.least is None or bounds.greatest is None:
        return True
    if max(len(bounds.least), len(bounds.greatest)) > _LONGEST:
        return True
    try:
        return _overlaps(parse(bounds.least), parse(bounds.greatest), condition)
    except (ValueError, TypeError, InvalidOperation):
        return True  # infinity, or values of another kind than the column's


def _overlaps(least: Any, greatest: Any, condition: Condition) -> bool:
    values = [value for value in condition.values if value is not None]
    match condition.operator:
        case "=" | "in":
            return any(least <= value <= greatest for value in values)
        case "<":
            return all(least < value for value in values)
        case "<=":
            return all(least <= value for value in values)
        case ">":
            return all(greatest > value for value in values)
        case ">=":
            return all(greatest >= value for value in values)
        case _:
            return True
