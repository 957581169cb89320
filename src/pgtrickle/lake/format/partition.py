"""Partitions of a lake table: rows of one file share the values of the partition keys.

``ducklake_partition_by`` lists columns, or years, months, days and hours of columns.  The
catalog keeps DuckDB's text of each value; readers skip files by the minimum and
maximum, which are close together in a file with one key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pgtrickle.errors import LakeSinkError
from pgtrickle.lake.format.columns import LakeColumn
from pgtrickle.model.text.names import quote_identifier

IDENTITY = "identity"
_PARTS = ("year", "month", "day", "hour")
_KEY = re.compile(
    rf"\s*(?:({'|'.join(_PARTS)})\s*\(\s*)?(\"(?:[^\"]|\"\")+\"|[A-Za-z_][A-Za-z0-9_$]*)\s*(\))?\s*",
    re.IGNORECASE,
)
_WHOLE = frozenset({"boolean", "int16", "int32", "int64", "varchar", "date"})
_CUT = frozenset({"date", "timestamp"})
# As DuckDB counts: the year before 1 is 0, and infinite values have no year.
_PART = (
    "CASE WHEN isfinite({v}) THEN (extract({part} FROM {v})::bigint"
    " + CASE WHEN {part_is_year} AND extract(year FROM {v}) < 0 THEN 1 ELSE 0 END)::text END"
)

# The catalog's record of a partitioned table: for each key, its column's id and its transform.
Spec = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A column of the result, whole or a part of its moments."""

    column: str
    transform: str = IDENTITY


def parse_partition_by(text: str) -> tuple[PartitionKey, ...]:
    """Read a list of partition keys, or raise ST703.

    >>> [(key.column, key.transform) for key in parse_partition_by('region, year("Placed At")')]
    [('region', 'identity'), ('Placed At', 'year')]
    """
    keys, rest = [], text
    while True:
        match = _KEY.match(rest)
        if match is None or bool(match[1]) != bool(match[3]):
            raise LakeSinkError(
                f'"{text}" names no partition keys',
                hint="List columns, or year, month, day or hour of them: region, year(placed_at).",
            )
        name = match[2]
        plain = name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()
        keys.append(PartitionKey(plain, (match[1] or IDENTITY).lower()))
        rest = rest[match.end() :]
        if not rest:
            return tuple(keys)
        if not rest.startswith(","):
            rest = "("  # this text belongs to no key
        rest = rest[1:]


def partition_spec(keys: Sequence[PartitionKey], columns: Sequence[LakeColumn]) -> Spec:
    """Return the catalog's record of the keys; raises ST703 for an unusable key."""
    return tuple((_find(key, columns).id, key.transform) for key in keys)


def partition_texts(spec: Spec, columns: Sequence[LakeColumn], alias: str) -> list[str]:
    """Return the expressions of the partition values of a row, as text.

    >>> from pgtrickle.lake.format.columns import number_columns
    >>> from pgtrickle.lake.format.types import VARCHAR
    >>> partition_texts(((1, "identity"),), number_columns([("region", VARCHAR)]), "t")
    ['(t."region")::text']
    """
    by_id = {column.id: column for column in columns}
    return [_text(by_id[id_], transform, alias) for id_, transform in spec]


def _find(key: PartitionKey, columns: Sequence[LakeColumn]) -> LakeColumn:
    column = next((one for one in columns if one.name == key.column), None)
    if column is None:
        raise LakeSinkError(
            f'there is no column "{key.column}" to partition by',
            hint=f"The columns are: {', '.join(one.name for one in columns)}.",
        )
    possible = _WHOLE if key.transform == IDENTITY else _CUT
    if key.transform == "hour":
        possible -= {"date"}
    if column.type.repeated or column.type.name not in possible:
        raise LakeSinkError(
            f'the lake cannot be partitioned by {key.transform} of "{key.column}",'
            f" which it keeps as {column.type.name}",
            hint="Use a column of another type, or a part of a date or a timestamp without zone.",
        )
    return column


def _text(column: LakeColumn, transform: str, alias: str) -> str:
    value = f"{alias}.{quote_identifier(column.name)}"
    if transform != IDENTITY:
        year = "true" if transform == "year" else "false"
        return _PART.format(v=value, part=transform, part_is_year=year)
    text = f"({value})::text"
    return f"replace({text}, ' BC', ' (BC)')" if column.type.name == "date" else text
