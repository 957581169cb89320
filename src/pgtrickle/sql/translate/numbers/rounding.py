"""Rounding, absolute value, sign, square root and scale.

PostgreSQL rounds a numeric half away from zero and a floating-point number half to even.  Spark's
FLOOR and CEIL make a BIGINT of a floating-point number, so they are built from RINT here.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from pgtrickle.sql.translate.numbers.floats import INFINITY
from pgtrickle.sql.translate.term import (
    MAX_DIGITS,
    NUMBERS,
    Rule,
    Term,
    Visit,
    fail,
    let,
    refuse,
)


def _absolute(node: exp.Expr, visit: Visit) -> Term:
    operand = visit(node.this)
    if operand.base not in NUMBERS:
        raise refuse(node)
    return Term(
        f"abs({operand.sql})",
        operand.base,
        scale=operand.scale,
        precision=operand.precision,
        shows_scale=operand.shows_scale,
        is_quotient=operand.is_quotient,
    )


def _round(node: exp.Expr, visit: Visit) -> Term:
    operand, digits = visit(node.this), _digits(node, visit)
    if operand.base == "float8" and not node.args.get("decimals"):
        return Term(f"rint({operand.sql})", "float8")
    _require_numeric(node, operand)
    return _rounded(node, operand, f"round({operand.sql}, {digits})", digits)


def _truncate(node: exp.Expr, visit: Visit) -> Term:
    operand, digits = visit(node.this), _digits(node, visit)
    if operand.base == "float8" and not node.args.get("decimals"):

        def whole(value: str) -> str:
            return f"(CASE WHEN {value} < 0 THEN {_up(value)} ELSE {_down(value)} END)"

        return Term(let(operand, whole), "float8")
    _require_numeric(node, operand)

    def body(value: str) -> str:
        up, down = f"ceil({value}, {digits})", f"floor({value}, {digits})"
        return f"(CASE WHEN {value} < 0 THEN {up} ELSE {down} END)"

    return _rounded(node, operand, let(operand, body), digits)


def _toward(function: str, of_float: Callable[[str], str]) -> Rule:
    def rule(node: exp.Expr, visit: Visit) -> Term:
        operand = visit(node.this)
        if node.args.get("decimals"):
            raise refuse(node)
        if operand.base == "float8":
            return Term(let(operand, of_float), "float8")
        _require_numeric(node, operand)
        return _rounded(node, operand, f"{function}({operand.sql})", 0)

    return rule


def _down(value: str) -> str:
    return f"(CASE WHEN rint({value}) > {value} THEN rint({value}) - 1 ELSE rint({value}) END)"


def _up(value: str) -> str:
    return f"(CASE WHEN rint({value}) < {value} THEN rint({value}) + 1 ELSE rint({value}) END)"


def _sign(node: exp.Expr, visit: Visit) -> Term:
    operand = visit(node.this)
    if operand.base not in {"numeric", "float8"}:
        raise refuse(node)
    one, zero = ("1D", "0D") if operand.base == "float8" else ("1BD", "0BD")
    # NaN is greater than everything, but its sign is zero.
    limit = f" AND {{0}} <= {INFINITY}" if operand.base == "float8" else ""

    def body(value: str) -> str:
        positive = f"{value} > 0{limit.format(value)}"
        return (
            f"(CASE WHEN {positive} THEN {one} WHEN {value} < 0 THEN -{one}"
            f" WHEN {value} IS NOT NULL THEN {zero} END)"
        )

    return Term(let(operand, body), operand.base, precision=1, shows_scale=True)


def _square_root(node: exp.Expr, visit: Visit) -> Term:
    operand = visit(node.this)
    if operand.base != "float8":
        raise refuse(node)

    def body(value: str) -> str:
        refused = fail("cannot take square root of a negative number")
        return f"(CASE WHEN {value} < 0 THEN {refused} ELSE sqrt({value}) END)"

    return Term(let(operand, body), "float8")


RULES: dict[type[exp.Expr], Rule] = {
    exp.Abs: _absolute,
    exp.Round: _round,
    exp.Trunc: _truncate,
    exp.Floor: _toward("floor", _down),
    exp.Ceil: _toward("ceil", _up),
    exp.Sign: _sign,
    exp.Sqrt: _square_root,
}


def _scale(node: exp.Expr, visit: Visit) -> Term:
    """Return the digits after the point, if they are the same for every value but NULL."""
    [argument] = node.expressions
    argument = argument.unnest()
    if isinstance(argument, exp.Case):
        return visit(_scale_of_branches(argument))
    operand = visit(argument)
    if operand.base != "numeric" or not operand.shows_scale or isinstance(operand.scale, str):
        raise refuse(node)
    return Term(f"(CASE WHEN {operand.sql} IS NOT NULL THEN {operand.scale} END)", "int4")


def _scale_of_branches(case: exp.Case) -> exp.Case:
    inside = case.copy()
    for branch in inside.args["ifs"]:
        branch.set("true", exp.func("scale", branch.args["true"]))
    if (default := inside.args.get("default")) is not None:
        inside.set("default", exp.func("scale", default))
    return inside


# Functions that the parser has no class for, by their name.
FUNCTIONS: dict[str, Rule] = {"scale": _scale}


def _digits(node: exp.Expr, visit: Visit) -> int:
    """Return the number of digits to keep, which Spark must know beforehand."""
    decimals = node.args.get("decimals")
    if decimals is None:
        return 0
    literal = visit(decimals).literal
    if literal is None or not literal.lstrip("-").isdigit() or abs(int(literal)) >= MAX_DIGITS:
        raise refuse(node)
    return int(literal)


def _rounded(node: exp.Expr, operand: Term, sql: str, digits: int) -> Term:
    """Give a rounded numeric the requested digits, including zeros."""
    wanted, scale = max(digits, 0), operand.scale
    if isinstance(scale, str):
        return Term(sql, "numeric", scale=wanted)
    # Rounding may carry into one more digit before the point.
    precision = operand.precision - scale + wanted + 1 if operand.precision else MAX_DIGITS
    if wanted > scale:
        if precision > MAX_DIGITS:
            raise refuse(node)
        sql = f"CAST({sql} AS DECIMAL({precision}, {wanted}))"
    return Term(sql, "numeric", scale=wanted, precision=precision, shows_scale=True)


def _require_numeric(node: exp.Expr, operand: Term) -> None:
    if operand.base != "numeric":
        raise refuse(node)
