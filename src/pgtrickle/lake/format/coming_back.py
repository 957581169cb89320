"""Which values of a lake column come back to PostgreSQL as they were: equal, and looking the same.

Nearly all do, by their type.  The others are checked one by one when a snapshot of a stream table
is to be kept by the lake alone: decimals of one scale, if the column has no scale of its own, and
values that the lake stores as PostgreSQL's text.
"""

from __future__ import annotations

from pgtrickle.lake.format.columns import LakeColumn
from pgtrickle.lake.format.types import VARCHAR, is_unbounded
from pgtrickle.model.sql_type import SqlType
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.output_text import has_users_casts, output_text

_TEXTS = frozenset({"text", "varchar"})


def comes_back(column: LakeColumn, type_: SqlType) -> str | None:
    """Return the condition for a value to come back; None if each value of the type does.

    >>> from pgtrickle.lake.format.types import lake_type
    >>> numeric = SqlType("numeric", "numeric", "N")
    >>> comes_back(LakeColumn(1, "a", lake_type(numeric, 4)), numeric)
    'pg_catalog.scale("a") = 4'
    >>> text = SqlType("text", "text", "S")
    >>> comes_back(LakeColumn(1, "a", lake_type(text)), text)
    """
    name = quote_identifier(column.name)
    if column.type.name != VARCHAR.name:
        if not is_unbounded(type_):
            return None
        return f"pg_catalog.scale({name}) = {column.type.name.rpartition(',')[2].rstrip(')')}"
    # The text of a type that a role has made is read by COPY; a cast could be that role's code.
    if type_.base.removeprefix("_") in _TEXTS or has_users_casts(type_):
        return None
    if not column.type.repeated:
        return _survives(name, type_)
    element = SqlType(type_.display.removesuffix("[]"), type_.base.removeprefix("_"), "")
    every = f"pg_catalog.bool_and({_survives('u.e', element)})"
    return f"(SELECT {every} FROM pg_catalog.unnest({name}) AS u (e))"


def _survives(value: str, type_: SqlType) -> str:
    """Return the condition that the text of a value gives back the same bytes."""
    back = f"({output_text(value, type_)})::{type_.display}"
    return f"ROW({value})::record OPERATOR(pg_catalog.*=) ROW({back})::record"
