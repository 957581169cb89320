"""Values that PostgreSQL can compare: types without an equality or a hash go by their text."""

from __future__ import annotations

from pgtrickle.model.sql_type import SqlType
from pgtrickle.model.text.output_text import output_text

# Types without an equality operator or without a hash function (pg_type.typname).
AS_TEXT = frozenset(
    {"json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle", "money",
     "tsvector", "tsquery", "bit", "varbit", "jsonpath", "pg_snapshot", "txid_snapshot"}
)  # fmt: skip
# Types of which equal values may look different: 1.0 and 1.00 inside them, or 24:00 and 1 day.
LOOKS_DIFFERENT = frozenset(
    {"_numeric", "interval", "_interval", "jsonb", "_jsonb", "numrange", "nummultirange"}
)
# Types whose ``=`` compares areas or lengths.
_WITHOUT_DISTINCT = frozenset({"box", "circle", "line", "lseg", "path", "polygon", "point"})


def comparable(expression: str, type_: SqlType) -> str:
    """Return an expression that PostgreSQL can compare, hash and group by.

    >>> comparable('"a"', SqlType("json", "json", "U"))
    '("a")::text'
    """
    element = type_.base.removeprefix("_")
    composite = type_.category == "C"
    return output_text(expression, type_) if element in AS_TEXT or composite else expression


def identity(expression: str, type_: SqlType) -> tuple[str, ...]:
    """Return expressions that agree only if two values are equal and look the same.

    Equal numerics may show different digits: 0.5 and 0.50.  A group has them together, but a row
    that shows one of them is another row.

    >>> identity('"a"', SqlType("numeric", "numeric", "N"))
    ('"a"', 'pg_catalog.scale("a")')
    >>> identity('"a"', SqlType("numeric(7,2)", "numeric", "N", 7, 2))
    ('"a"',)
    """
    if type_.base == "numeric" and type_.precision is None:
        return expression, f"pg_catalog.scale({expression})"
    if type_.base in LOOKS_DIFFERENT:
        return expression, output_text(expression, type_)
    return (comparable(expression, type_),)


def can_be_listed(type_: SqlType) -> bool:
    """Tell whether values can be listed, each once, and the list be asked for one of them.

    The elements of an array of arrays are not the arrays.

    >>> can_be_listed(SqlType("integer[]", "_int4", "A"))
    False
    """
    return type_.category != "A" and type_.base not in _WITHOUT_DISTINCT


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
    # The owner of a type makes its casts; any row of the group has the value.
    cast_by_others = type_.category == "C"
    return f"(pg_catalog.array_agg({name}))[1]" if cast_by_others else f"{grouped}::{type_.display}"
