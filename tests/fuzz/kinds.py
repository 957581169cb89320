"""Kinds of values: what decides which expressions a column can stand in.

int, big     integers of 4 and 8 bytes; ``sum`` of an int is big, as in PostgreSQL
num          exact decimals of two places
free         exact decimals, each of as many places as it shows
float        halves, which floating-point numbers add up without error in any order
text, bool, date
real         a quotient or a root: compared by its first digits, never computed with again
ints         an array of integers, only ever shown
doc          jsonb of integers, texts, booleans and dates, only ever shown
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal

from pgtrickle.model.sql_type import SqlType
from tests.delta.typer import BOOL, DATE, FLOAT8, INT4, INT8, NUMERIC, TEXT

NUMBERS = ("int", "big", "num", "free", "float")
# Kinds whose equality and order are exact: they can be keys, and an order over them is total.
SORTABLE = (*NUMBERS, "text", "bool", "date")
# Kinds that PostgreSQL compares with one another.
_EXACT = frozenset({"int", "big", "num", "free"})
COMPARABLE = dict.fromkeys(_EXACT, _EXACT)

TYPES = {
    "int": INT4,
    "big": INT8,
    "num": SqlType("numeric(10,2)", "numeric", "N", 10, 2),
    "free": NUMERIC,
    "float": FLOAT8,
    "text": TEXT,
    "bool": BOOL,
    "date": DATE,
}
DOMAINS: dict[str, tuple[object, ...]] = {
    "int": (0, 1, 2, 3, None),
    "big": (0, 1, 2, 3_000_000_000, None),
    "num": (Decimal("0.50"), Decimal("2.00"), Decimal("-1.50"), Decimal("1.00"), None),
    "free": (Decimal("0.5"), Decimal(2), Decimal("1.0"), Decimal("-1.500"), None),
    "float": (0.5, -1.5, 0.0, 2.0, None),
    "text": ("x", "y", "xy", "", None),
    "bool": (True, False, None),
    "date": (dt.date(2024, 2, 28), dt.date(2024, 2, 29), None),
}
CONSTANTS = {
    "int": ("1", "0", "2"),
    "big": ("'1'::bigint", "'3000000000'::bigint", "'0'::bigint"),
    "num": ("0.5", "2.00", "1.0"),
    "free": ("0.5", "2.0", "(2)::numeric"),
    "float": ("'0.5'::double precision", "'0'::double precision"),
    "real": ("'0.5'::double precision",),
    "text": ("'x'::text", "''::text", "'y'::text"),
    "bool": ("true", "false"),
    "date": ("'2024-02-29'::date", "'2024-03-01'::date"),
    "ints": ("ARRAY[1, 2]",),
    "doc": ("'[1]'::jsonb",),
}
# Kinds that one json text shows: two numerics that are equal may show other digits.
DOCUMENTED = ("int", "big", "text", "bool", "date")
NULLS = {
    "int": "NULL::integer",
    "big": "NULL::bigint",
    "num": "NULL::numeric(10,2)",
    "free": "NULL::numeric",
    "float": "NULL::double precision",
    "real": "NULL::double precision",
    "text": "NULL::text",
    "bool": "NULL::boolean",
    "date": "NULL::date",
    "ints": "NULL::integer[]",
    "doc": "NULL::jsonb",
}


@dataclass(frozen=True, slots=True)
class Value:
    """An expression and its kind."""

    sql: str
    kind: str

    @property
    def sortable(self) -> bool:
        """Whether values of this kind can be keys."""
        return self.kind in SORTABLE


@dataclass(frozen=True, slots=True)
class Shown:
    """A query's text with the names and kinds of its columns."""

    sql: str
    columns: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(name for name, _ in self.columns)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The columns' kinds."""
        return tuple(kind for _, kind in self.columns)

    def under(self, alias: str) -> tuple[Value, ...]:
        """Return the columns as a FROM item of this alias offers them."""
        return tuple(Value(f"{alias}.{name}", kind) for name, kind in self.columns)


def comparable(one: str, other: str) -> bool:
    """Tell whether PostgreSQL compares values of two kinds."""
    return one == other or other in COMPARABLE.get(one, ())
