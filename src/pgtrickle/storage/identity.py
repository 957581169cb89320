"""Find a row by all its columns: by an indexed hash, then by a full comparison.

The hash only speeds up the lookup: every match compares the columns themselves, with
NULL equal to NULL.  Types that PostgreSQL cannot compare are compared as their text, and take no
part in the hash, because turning them into text is not always immutable.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.comparable import comparable, identity
from pgtrickle.model.text.names import quote_identifier


def row_hash(columns: Sequence[Column], alias: str = "") -> str:
    """Return the hash of a row as an expression over its columns.

    >>> from pgtrickle.model.sql_type import SqlType
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


def identical_row(
    columns: Sequence[Column], left: str, right: str, *, keys: Sequence[Column] = ()
) -> str:
    """Return the condition that two rows agree in all columns and, but for ``keys``, look alike."""
    parts = [same_row(columns, left, right)]
    for column in columns:
        if column in keys:
            continue
        name = quote_identifier(column.name)
        _, *looks = identity(f"{left}.{name}", column.type)
        _, *others = identity(f"{right}.{name}", column.type)
        parts += [
            f"{one} IS NOT DISTINCT FROM {other}" for one, other in zip(looks, others, strict=True)
        ]
    return " AND ".join(parts)
