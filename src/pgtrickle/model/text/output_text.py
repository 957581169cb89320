"""The text of a value by its type's output function, and by nothing else.

``x::text`` calls a function if a role has created a cast with one, and the owner of a type may do
so at any time.  ``concat`` uses no casts.  Built-in types keep their casts, which no role can
replace and which for some, as for ``inet``, differ from the output.
"""

from __future__ import annotations

from pgtrickle.model.sql_type import SqlType

# Arrays, composite types, enums and ranges: the kinds of types that any role can create.
MADE_BY_USERS = frozenset("ACER")


def has_users_casts(type_: SqlType) -> bool:
    """Tell whether an ordinary role may own a type, and so create casts for it.

    >>> has_users_casts(SqlType("shop.mood", "mood", "E"))
    True
    >>> has_users_casts(SqlType("integer[]", "_int4", "A"))
    False
    """
    return type_.category in MADE_BY_USERS and "." in type_.display


def output_text(expression: str, type_: SqlType) -> str:
    """Return the text of a value; NULL stays NULL.

    >>> output_text('"a"', SqlType("integer", "int4", "N"))
    '("a")::text'
    >>> output_text('"a"', SqlType("shop.mood", "mood", "E"))
    'CASE WHEN ("a") IS DISTINCT FROM NULL THEN pg_catalog.concat(("a")) END'
    """
    return output_cast(type_).replace("{}", f"({expression})")


def output_cast(type_: SqlType) -> str:
    """Return the same as a pattern with ``{}`` in place of the value, in parentheses."""
    if has_users_casts(type_):
        return "CASE WHEN {} IS DISTINCT FROM NULL THEN pg_catalog.concat({}) END"
    return "{}::text"
