"""Arithmetic of integers and numerics, and the operators that dates share with them.

Integers overflow in Spark where they do in PostgreSQL, except that Spark divides into a BIGINT.  A
decimal that would need more than 38 digits is an error.  Only a product could silently lose digits
after the point: where the scales are not known beforehand, the product checks them itself.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation, localcontext

from sqlglot import exp

from pgtrickle.sql.translate.dates import moments
from pgtrickle.sql.translate.numbers import floats
from pgtrickle.sql.translate.term import (
    FLOATS,
    INTEGERS,
    MAX_DIGITS,
    MOMENTS,
    NULL,
    NUMBERS,
    SPARK_TYPES,
    Rule,
    Term,
    Visit,
    fail,
    refuse,
    wider,
)

_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}
_INTEGER_DIGITS = {"int2": 5, "int4": 10, "int8": 19}
# PostgreSQL's quotient of numerics has at least this many significant digits.
_QUOTIENT_DIGITS = 16


def _add_subtract_multiply(node: exp.Expr, visit: Visit) -> Term:
    left, right = visit(node.this), visit(node.expression)
    if MOMENTS & {left.base, right.base} or "interval" in {left.base, right.base}:
        return moments.add_or_subtract(node, left, right)
    left, right, base = _numbers(node, left, right)
    symbol = _SYMBOLS[type(node)]
    if base in FLOATS:
        return floats.operate(symbol, left, right)
    sql = f"({left.sql} {symbol} {right.sql})"
    if base != "numeric":
        return Term(sql, base)
    if symbol != "*":
        return _numeric(sql, greatest_scale(left, right), left, right)
    scale = _sum_of_scales(left, right)
    if isinstance(scale, int) and scale > MAX_DIGITS:
        raise refuse(node)
    if isinstance(scale, str):
        message = f"a product needs more than {MAX_DIGITS} digits after the point"
        sql = f"(CASE WHEN {scale} > {MAX_DIGITS} THEN {fail(message)} ELSE {sql} END)"
    precision = left.precision + right.precision if left.precision and right.precision else None
    return _numeric(sql, scale, left, right, precision)


def _divide(node: exp.Expr, visit: Visit) -> Term:
    left, right, base = _numbers(node, visit(node.this), visit(node.expression))
    if base in FLOATS:
        return floats.operate("/", left, right)
    if base == "numeric":
        return _divide_numeric(node, left, right)
    sql = f"({left.sql} DIV {right.sql})"
    return Term(sql if base == "int8" else f"CAST({sql} AS {SPARK_TYPES[base]})", base)


def _divide_numeric(node: exp.Expr, left: Term, right: Term) -> Term:
    """Divide by a constant whose reciprocal ends, as 100 has: then a product is the quotient.

    PostgreSQL rounds a quotient to a number of digits that depends on the values of each row, but
    never to fewer than 16, so a quotient that needs no more is exact there too.  Zeros fill it up
    to that number; they make no difference to a comparison or after rounding, but an average
    would be rounded elsewhere, so the quotient itself is refused in the end.
    """
    inverse = _reciprocal(right.literal) if right.literal else None
    if inverse is None or left.precision is None or isinstance(left.scale, str):
        raise refuse(node)
    digits = len(inverse.as_tuple().digits)
    scale = max(0, -int(inverse.as_tuple().exponent))
    if left.precision + digits > _QUOTIENT_DIGITS:
        raise refuse(node)
    constant = f"CAST('{inverse:f}' AS DECIMAL({max(digits, scale)}, {scale}))"
    return Term(
        f"({left.sql} * {constant})",
        "numeric",
        scale=left.scale + scale,
        precision=left.precision + digits,
        is_quotient=True,
    )


def _reciprocal(literal: str) -> Decimal | None:
    """Return 1 / literal where it has few digits.

    >>> _reciprocal("100"), _reciprocal("-8"), _reciprocal("3"), _reciprocal("0")
    (Decimal('0.01'), Decimal('-0.125'), None, None)
    """
    try:
        divisor = Decimal(literal)
    except InvalidOperation:
        return None
    if not divisor:
        return None
    with localcontext() as context:
        context.prec = _QUOTIENT_DIGITS
        inverse = (1 / divisor).normalize()
    return inverse if inverse * divisor == 1 else None


def _modulo(node: exp.Expr, visit: Visit) -> Term:
    left, right, base = _numbers(node, visit(node.this), visit(node.expression))
    if base in FLOATS:
        raise refuse(node)
    sql = f"({left.sql} % {right.sql})"
    if base != "numeric":
        return Term(sql, base)
    return _numeric(sql, greatest_scale(left, right), left, right)


def _negate(node: exp.Expr, visit: Visit) -> Term:
    operand = visit(node.this)
    if operand.base not in NUMBERS:
        raise refuse(node)
    literal = operand.literal
    flipped = None if literal is None else literal.removeprefix("-")
    if flipped is not None and flipped == literal:
        flipped = f"-{literal}"
    return Term(
        f"(- {operand.sql})",
        operand.base,
        scale=operand.scale,
        precision=operand.precision,
        shows_scale=operand.shows_scale,
        is_quotient=operand.is_quotient,
        literal=flipped,
    )


def _bitwise(node: exp.Expr, visit: Visit) -> Term:
    left, right, base = _numbers(node, visit(node.this), visit(node.expression))
    if base not in INTEGERS:
        raise refuse(node)
    return Term(f"({left.sql} {_SYMBOLS[type(node)]} {right.sql})", base)


def _complement(node: exp.Expr, visit: Visit) -> Term:
    operand = visit(node.this)
    if operand.base not in INTEGERS:
        raise refuse(node)
    return Term(f"(~ {operand.sql})", operand.base)


RULES: dict[type[exp.Expr], Rule] = {
    exp.Add: _add_subtract_multiply,
    exp.Sub: _add_subtract_multiply,
    exp.Mul: _add_subtract_multiply,
    exp.Div: _divide,
    exp.Mod: _modulo,
    exp.Neg: _negate,
    exp.BitwiseAnd: _bitwise,
    exp.BitwiseOr: _bitwise,
    exp.BitwiseXor: _bitwise,
    exp.BitwiseNot: _complement,
}


def _numbers(node: exp.Expr, left: Term, right: Term) -> tuple[Term, Term, str]:
    bases = {left.base, right.base} - {NULL}
    if not bases or not bases <= set(NUMBERS):
        raise refuse(node)
    base = wider(*bases) if len(bases) == 2 else bases.pop()
    return left, right, base


def _numeric(
    sql: str, scale: int | str, left: Term, right: Term, precision: int | None = None
) -> Term:
    return Term(
        sql,
        "numeric",
        scale=scale,
        precision=precision,
        shows_scale=left.shows_scale and right.shows_scale,
        is_quotient=left.is_quotient or right.is_quotient,
    )


def greatest_scale(*terms: Term) -> int | str:
    """Return the scale that a sum of numerics has."""
    scales = list(dict.fromkeys(term.scale for term in terms))
    known = [scale for scale in scales if isinstance(scale, int)]
    if len(known) == len(scales):
        return max(known)
    return f"greatest({', '.join(map(str, scales))})" if len(scales) > 1 else scales[0]


def _sum_of_scales(left: Term, right: Term) -> int | str:
    if isinstance(left.scale, int) and isinstance(right.scale, int):
        return left.scale + right.scale
    return f"({left.scale} + {right.scale})"


def integer_as_numeric(term: Term) -> Term:
    """Make a numeric of an integer."""
    digits = _INTEGER_DIGITS[term.base]
    return Term(
        f"CAST({term.sql} AS DECIMAL({digits}, 0))",
        "numeric",
        precision=len(term.literal.removeprefix("-")) if term.literal else digits,
        shows_scale=True,
        literal=term.literal,
    )
