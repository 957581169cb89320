"""Finding a row by all its columns: a hash that an index answers, then a full comparison.

A hash speeds up the lookup and never decides: every match compares the columns themselves, with
NULL equal to NULL.  Types that PostgreSQL cannot compare are compared as their text, and take no
part in the hash, because turning them into text is not always immutable.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgtrickle.model.names import quote_identifier
from pgtrickle.model.output_text import output_text
from pgtrickle.model.sql_type import Column, SqlType

# Types without an equality operator or without a hash function (pg_type.typname).
_AS_TEXT = frozenset(
    {"json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle", "money",
     "tsvector", "tsquery", "bit", "varbit", "jsonpath", "pg_snapshot", "txid_snapshot"}
)  # fmt: skip


def comparable(expression: str, type_: SqlType) -> str:
    """Return an expression that PostgreSQL can compare, hash and group by.

    >>> comparable('"a"', SqlType("json", "json", "U"))
    '("a")::text'
    """
    element = type_.base.removeprefix("_")
    composite = type_.category == "C"
    return output_text(expression, type_) if element in _AS_TEXT or composite else expression


def representative(name: str, type_: SqlType) -> str:
    """Return the value of a column in a group of rows that ``comparable`` finds equal.

    >>> representative('"a"', SqlType("json", "json", "U"))
    '("a")::text::json'
    >>> representative('"a"', SqlType("shop.pair", "pair", "C"))
    '(pg_catalog.array_agg("a"))[1]'
    """
    grouped = comparable(name, type_)
    if grouped == name:
        return name
    # Casts to a type are made by its owner; any row of the group has the value.
    cast_by_others = type_.category == "C"
    return f"(pg_catalog.array_agg({name}))[1]" if cast_by_others else f"{grouped}::{type_.display}"


def row_hash(columns: Sequence[Column], alias: str = "") -> str:
    """Return the hash of a row as an expression over its columns.

    >>> number, document = SqlType("integer", "int4", "N"), SqlType("json", "json", "U")
    >>> row_hash([Column("a", number), Column("b", document)], "t")
    'pg_catalog.hash_record_extended(ROW(t."a"), 0)'
    """
    prefix = f"{alias}." if alias else ""
    names = [f"{prefix}{quote_identifier(column.name)}" for column in columns]
    parts = [
        name
        for name, column in zip(names, columns, strict=True)
        if comparable(name, column.type) == name
    ]
    return f"pg_catalog.hash_record_extended(ROW({', '.join(parts) or '0'}), 0)"


def same_row(columns: Sequence[Column], left: str, right: str) -> str:
    """Return the condition that two rows agree in all columns, for an index on ``row_hash``.

    >>> same_row([], "a", "b")
    'true'
    """
    if not columns:
        return "true"
    parts = [f"{row_hash(columns, left)} = {row_hash(columns, right)}"]
    for column in columns:
        name = quote_identifier(column.name)
        one = comparable(f"{left}.{name}", column.type)
        other = comparable(f"{right}.{name}", column.type)
        parts.append(f"{one} IS NOT DISTINCT FROM {other}")
    return " AND ".join(parts)
