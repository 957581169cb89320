"""Joins by keys that may be NULL, in a form that PostgreSQL can hash.

PostgreSQL evaluates ``a IS NOT DISTINCT FROM b`` for every pair of rows: no join method but the
nested loop knows it.  Two arrays of one element are equal in exactly the same cases, NULLs
included, and a hash join compares them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pgtrickle.algebra.nodes import Scalar
from pgtrickle.model.sql_type import SqlType
from pgtrickle.model.text.comparable import comparable
from pgtrickle.sql.scalars import bare_column, conjuncts, null_safe_equality

# Arrays and composite values cannot be elements in the same way.
_NOT_ELEMENTS = frozenset("ACP")


def hashable_join(on: Scalar, types: Mapping[str, SqlType]) -> str:
    """Write the condition of a join over columns of the given types.

    >>> integer = SqlType("integer", "int4", "N")
    >>> types = {"a": integer, "b": integer, "c": integer}
    >>> hashable_join(Scalar('"a" IS NOT DISTINCT FROM "b" AND "c" > 1'), types)
    '(ARRAY["a"] = ARRAY["b"]) AND ("c" > 1)'
    """
    parts = conjuncts(on)
    if not any(_elements(one, types) for one in parts):
        return on.sql
    return " AND ".join(f"({_elements(one, types) or one.sql})" for one in parts)


def _elements(condition: Scalar, types: Mapping[str, SqlType]) -> str | None:
    """Return a null-safe equality of two columns of one type as one of arrays; else None."""
    sides = null_safe_equality(condition)
    if sides is None:
        return None
    names = [bare_column(side) for side in sides]
    found = [types.get(name) if name else None for name in names]
    left, right = found
    if left is None or right is None or left.base != right.base or left.category in _NOT_ELEMENTS:
        return None
    if comparable("", left):  # compared by their text
        return None
    if not (_is_domain(left) or _is_domain(right)):
        return " = ".join(f"ARRAY[{side.sql}]" for side in sides)
    if "." in left.base:
        return None
    # There is no equality between arrays of a domain and of its type, which a stage may have both.
    return " = ".join(f"ARRAY[{side.sql}::pg_catalog.{left.base}]" for side in sides)


def _is_domain(type_: SqlType) -> bool:
    """Tell whether a type is a domain: its own name has a schema.

    >>> _is_domain(SqlType("shop.positive", "int4", "N")), _is_domain(SqlType("integer", "int4"))
    (True, False)
    """
    return "." in type_.display and type_.display.replace('"', "") != type_.base.replace('"', "")
