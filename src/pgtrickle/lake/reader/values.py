"""Values that the catalog keeps as text: defaults of columns, and rows that are in no file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from pgtrickle.errors import LakeReadError
from pgtrickle.lake.reader.columns import ReadColumn
from pgtrickle.lake.reader.nested_text import parse_bytes, parse_nested

_PARSERS: dict[str, Callable[[str], Any]] = {
    "boolean": lambda text: text.lower() in {"t", "true", "1"},
    "float32": float,
    "float64": float,
    "uint64": Decimal,
    "varchar": str,
    "json": str,
    "uuid": str,
    "date": date.fromisoformat,
}


def parse_values(column: ReadColumn, texts: Sequence[str | bytes | None]) -> pa.Array:
    """Parse values from their texts; raises ST704 for values that Spark cannot hold.

    >>> parse_values(ReadColumn(1, "a", "decimal(5,2)", None), ["1.25", None]).to_pylist()
    [Decimal('1.25'), None]
    """
    try:
        return pa.array(
            [None if one is None else _parse(column, one) for one in texts], column.arrow
        )
    except (ValueError, OverflowError, InvalidOperation, pa.ArrowException) as error:
        raise LakeReadError(
            f'a value of the column "{column.name}" cannot be read into {column.spark}: {error}',
            hint="Name the columns to read, without it, with the option columns.",
        ) from error


def _parse(column: ReadColumn, text: str | bytes) -> Any:
    if isinstance(text, bytes):
        return text if column.kind == "blob" else text.decode()
    if column.parts:
        return parse_nested(column, text, _parse_part)
    if column.kind.startswith("timestamp"):
        return _moment(text)
    if column.kind.startswith("decimal"):
        return Decimal(text)
    return _PARSERS.get(column.kind, int)(text)


def _parse_part(column: ReadColumn, text: str) -> Any:
    return parse_bytes(text) if column.kind == "blob" else _parse(column, text)


def _moment(text: str) -> datetime:
    """Read a moment; Python would silently cut off digits beyond microseconds.

    >>> _moment("2026-01-02 03:04:05.25+00").isoformat()
    '2026-01-02T03:04:05.250000+00:00'
    """
    fraction = text.partition(".")[2].partition("+")[0]
    if len(fraction.rstrip("0")) > 6:
        raise ValueError(f"{text} is finer than a microsecond")
    return datetime.fromisoformat(text)
