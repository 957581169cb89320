"""Expressions for DuckDB, which computes stages in tests.

DuckDB's ``/`` of integers has a fraction, and its plain ``numeric`` has three digits after the
point.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from sqlglot import exp

from pgtrickle.sql.translate import casts
from pgtrickle.sql.translate.term import INTEGERS, SPARK_TYPES

_DIGITS = {"int2": 5, "int4": 10, "int8": 19}
TypeOf = Callable[[exp.Expr], str | None]


def to_duckdb(tree: exp.Expr, type_of: TypeOf) -> str:
    """Write an expression; ``type_of`` returns the name of a part's type, None if not known."""
    tree = exp.paren(tree.copy(), copy=False)
    # All types are found before anything is changed, and the inner parts change first.
    found = [
        (node, type_of(node.this if isinstance(node, exp.Cast) else node))
        for node in tree.walk()
        if isinstance(node, exp.Cast | exp.Div)
    ]
    for node, base in reversed(found):
        node.replace(_cast(node, base) if isinstance(node, exp.Cast) else _divide(node, base))
    return str(tree.this.sql(dialect="duckdb"))


def _divide(node: exp.Expr, base: str | None) -> exp.Expr:
    if base not in INTEGERS:
        return node
    return exp.IntDiv(this=node.this, expression=node.expression)


def _cast(node: exp.Cast, base: str | None) -> exp.Expr:
    operand, target = node.this.unnest(), casts.base_of(node.to)
    if casts.is_null(operand):
        # NULL of a type that travels as text is a NULL text: DuckDB lacks the type itself.
        plain = "DECIMAL(1, 0)" if target == "numeric" else "TEXT"
        known = target in SPARK_TYPES or (target == "numeric" and node.to.expressions)
        return node if known else exp.cast(exp.null(), plain)
    if target != "numeric" or node.to.expressions:
        return node
    if isinstance(operand, exp.Literal) and operand.is_string:
        scale = max(-int(Decimal(operand.name).as_tuple().exponent), 0)
        return exp.cast(operand.copy(), f"DECIMAL(38, {scale})")
    if base in _DIGITS:
        return exp.cast(node.this, f"DECIMAL({_DIGITS[base]}, 0)")
    return exp.paren(node.this) if base == "numeric" else node
