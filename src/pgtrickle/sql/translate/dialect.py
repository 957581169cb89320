"""The SQL dialects of plans, and how each quotes a name."""

from __future__ import annotations

from enum import Enum


class Dialect(Enum):
    """A SQL dialect of plans."""

    SPARK = "spark"
    POSTGRES = "postgres"
    DUCKDB = "duckdb"


def quote_name(name: str, dialect: Dialect) -> str:
    """Quote an identifier in a dialect.

    >>> quote_name("o_id", Dialect.SPARK)
    '`o_id`'
    """
    if dialect is Dialect.SPARK:
        return "`" + name.replace("`", "``") + "`"
    return '"' + name.replace('"', '""') + '"'
