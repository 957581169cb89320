"""EXISTS and IN among the conditions of WHERE.

Only a condition that stands by itself, joined to the others by AND, is a semi or anti join; under
OR it is part of an expression.  NOT IN is another matter, because one NULL in the subquery leaves
no row at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Membership:
    """A condition that a subquery has a row, or has none."""

    query: exp.Expr
    operands: tuple[exp.Expr, ...]  # of IN; none: EXISTS
    negated: bool
    word: str


def find_membership(condition: exp.Expr) -> Membership | None:
    """Return the semi or anti join that a condition stands for, if it does.

    >>> import sqlglot
    >>> find_membership(sqlglot.parse_one("NOT EXISTS (SELECT 1)")).negated
    True
    >>> find_membership(sqlglot.parse_one("a IN (1, 2)")) is None
    True
    """
    inner = condition.unnest()
    negated = isinstance(inner, exp.Not)
    if negated:
        inner = inner.this.unnest()
    if isinstance(inner, exp.Exists):
        return Membership(inner.this, (), negated, "NOT EXISTS" if negated else "EXISTS")
    if isinstance(inner, exp.In) and inner.args.get("query") is not None and not negated:
        operand = inner.this.unnest()
        operands = tuple(operand.expressions) if isinstance(operand, exp.Tuple) else (operand,)
        return Membership(inner.args["query"], operands, negated, "IN")
    return None
