"""A PostgreSQL type as the catalog resolves it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type with its modifier: ``display`` is the output of ``format_type``, with the schema."""

    display: str  # e.g. 'numeric(12,2)', 'character(3)', '"app"."mood"'
    # pg_type.typname, domains resolved, e.g. 'numeric', 'bpchar'; with its schema, e.g. 'app.mood',
    # if the type is not built in: a user-defined type may be called "date".
    base: str
    category: str = ""  # pg_type.typcategory of the base, e.g. 'N', 'S', 'E', 'A'
    precision: int | None = None  # numeric only
    scale: int | None = None  # numeric only
    # "" if the type has none, "C" for byte order, "nondeterministic" if equal texts may have
    # different bytes, else the collation's name.
    collation: str = ""
    collate: str = ""  # the text after COLLATE in a definition; "" for the database's own

    def __str__(self) -> str:
        return self.display


# Types whose output text is one to one with the value, as the reader's settings fix it.
CANONICAL_TEXT = frozenset(
    [
        "uuid",
        "bytea",
        "time",
        "timetz",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "bit",
        "varbit",
        "money",
        "pg_lsn",
        "xid8",
        "char",
    ]
)


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
