"""A PostgreSQL type as the catalog resolves it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type with its modifier: ``display`` is what ``format_type`` prints, schema included."""

    display: str  # e.g. 'numeric(12,2)', 'character(3)', '"app"."mood"'
    base: str  # pg_type.typname of the type, domains resolved, e.g. 'numeric', 'bpchar', 'mood'
    category: str = ""  # pg_type.typcategory of the base, e.g. 'N', 'S', 'E', 'A'
    precision: int | None = None  # numeric only
    scale: int | None = None  # numeric only
    # "" when the type has none, "C" for byte order, "nondeterministic" where equal texts may have
    # different bytes, else the collation's name.
    collation: str = ""
    collate: str = ""  # what follows COLLATE in a definition; "" for the database's own

    def __str__(self) -> str:
        return self.display


@dataclass(frozen=True, slots=True)
class Column:
    """A named, typed column of a relation."""

    name: str
    type: SqlType


BOOLEAN = SqlType("boolean", "bool", "B")
INTEGER = SqlType("integer", "int4", "N")
BIGINT = SqlType("bigint", "int8", "N")
NUMERIC = SqlType("numeric", "numeric", "N")
TEXT = SqlType("text", "text", "S", collation="C")  # compared by bytes
