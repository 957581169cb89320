"""The PostgreSQL types that hold the values of a lake table exactly."""

from __future__ import annotations

import re

from pgtrickle.errors import LakeSourceError
from pgtrickle.lake.reader.columns import ReadColumn

_TYPES = {
    "boolean": "boolean",
    "int8": "smallint",
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "integer",
    "uint32": "bigint",
    "uint64": "numeric(20,0)",
    "float32": "real",
    "float64": "double precision",
    "varchar": "text",
    "json": "json",
    "uuid": "uuid",
    "blob": "bytea",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_us": "timestamp",
    "timestamp_ms": "timestamp",
    "timestamp_s": "timestamp",
    "timestamptz": "timestamptz",
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def postgres_type(column: ReadColumn) -> str:
    """Return the type that holds every value of a column, or raise ST705.

    >>> postgres_type(ReadColumn(1, "price", "decimal(12,2)", None))
    'numeric(12,2)'
    """
    if match := _DECIMAL.fullmatch(column.kind):
        return f"numeric({match[1]},{match[2]})"
    if column.kind not in _TYPES:
        raise LakeSourceError(
            f'the column "{column.name}" is of the type {column.kind}, which cannot be followed',
            hint="Name the columns to follow, without it.",
        )
    return _TYPES[column.kind]
