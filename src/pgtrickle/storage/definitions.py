"""Columns in the syntax of CREATE TABLE."""

from __future__ import annotations

from collections.abc import Iterable

from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import quote_identifier


def column_definitions(columns: Iterable[Column]) -> str:
    """List columns with their types.

    >>> from pgtrickle.model.sql_type import SqlType
    >>> column_definitions([Column("a", SqlType("integer", "int4", "N"))])
    '"a" integer'
    """
    return ", ".join(
        f"{quote_identifier(column.name)} {column.type.display}"
        + (f" COLLATE {column.type.collate}" if column.type.collate else "")
        for column in columns
    )
