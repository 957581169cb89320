"""How many digits after the point PostgreSQL shows of a numeric expression.

An engine's decimals have one scale per column, PostgreSQL's numerics have one per value: 0.5 and
0.50 are equal and look different.  Their rules are simple: a sum has the longer fraction of its
sides, a product as many digits as both together, and CASE the digits of its branch.  So the digits
of an expression follow from those of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from sqlglot import exp

from pgtrickle.model.sql_type import SqlType
from pgtrickle.sql.translate import term_of
from pgtrickle.sql.translate.casts import base_of, is_null
from pgtrickle.sql.translate.term import INTEGERS

NOTHING = -1
# The digits of a column whose type does not tell: an integer expression, None if not known.
Known = Callable[[str], exp.Expr | None]


def declared_scale(type_: SqlType) -> int | None:
    """Return the digits that every value of a type shows; None if each has its own.

    >>> declared_scale(SqlType("numeric(7,2)", "numeric", "N", 7, 2))
    2
    """
    if type_.base in INTEGERS:
        return 0
    if type_.base == "numeric" and type_.precision is not None:
        return max(type_.scale or 0, 0)
    return None


def scale_of(node: exp.Expr, types: Mapping[str, SqlType], known: Known) -> exp.Expr | None:
    """Return an integer expression for the digits of ``node``; None if no rule covers it.

    Where ``node`` is NULL, the number means nothing.

    >>> from sqlglot import parse_one
    >>> price = SqlType("numeric(7,2)", "numeric", "N", 7, 2)
    >>> scale_of(parse_one("a * a + 1"), {"a": price}, lambda _: None).sql()
    '4'
    """
    return _Rules(types, known).of(node)


def fixed(scale: exp.Expr | None) -> int | None:
    """Return the number that a scale is, if it is the same for every row.

    ``NOTHING`` stands for the digits of a column that is always NULL.
    """
    if isinstance(scale, exp.Null):
        return NOTHING
    return int(scale.name) if isinstance(scale, exp.Literal) else None


class _Rules:
    def __init__(self, types: Mapping[str, SqlType], known: Known) -> None:
        self._types = types
        self._known = known

    def of(self, node: exp.Expr) -> exp.Expr | None:
        found = self._by_rule(node)
        if found is None and not isinstance(node, exp.Column):
            term = term_of(node, self._types)
            if term is not None and term.base in INTEGERS:
                return _number(0)
            if term is not None and term.shows_scale and isinstance(term.scale, int):
                return _number(term.scale)
        return found

    def _by_rule(self, node: exp.Expr) -> exp.Expr | None:
        match node:
            case exp.Column():
                declared = declared_scale(self._types[node.name])
                return self._known(node.name) if declared is None else _number(declared)
            case exp.Paren() | exp.Neg() | exp.Abs() | exp.Nullif():
                return self.of(node.this)
            case exp.Literal() if not node.is_string:
                return _number(len(node.name.partition(".")[2]))
            case exp.Cast():
                return self._cast(node)
            case exp.Add() | exp.Sub() | exp.Mod():
                return _longer(self.of(node.this), self.of(node.expression))
            case exp.Mul():
                return _added(self.of(node.this), self.of(node.expression))
            case exp.Sign():
                return _number(0)
            case exp.Round() | exp.Trunc() | exp.Ceil() | exp.Floor():
                return _rounded(node.args.get("decimals"))
            case exp.Case():
                return self._case(node)
            case exp.Coalesce():
                return self._first(node.this, *node.expressions)
            case exp.Greatest() | exp.Least():
                return self._extreme(node)
            case _:
                return None

    def _cast(self, node: exp.Cast) -> exp.Expr | None:
        operand = node.this.unnest()
        if base_of(node.to) != "numeric":
            return None
        if is_null(operand):
            return exp.null()
        size = [parameter.this for parameter in node.to.expressions]
        if size:
            return _number(max(int(size[1].name), 0) if len(size) > 1 else 0)
        if isinstance(operand, exp.Literal) and operand.is_string:
            whole, _, fraction = operand.name.removeprefix("-").partition(".")
            return _number(len(fraction)) if (whole + fraction).isdigit() else None
        return self.of(operand)

    def _case(self, node: exp.Case) -> exp.Expr | None:
        default = node.args.get("default")
        values = [branch.args["true"] for branch in node.args["ifs"]]
        scales = self._each([*values, *([default] if default is not None else [])])
        if scales is None or (same := _same(scales)) is not None:
            return None if scales is None else same
        chosen = node.copy()
        for branch, scale in zip(chosen.args["ifs"], scales, strict=False):
            branch.set("true", scale)
        if default is not None:
            chosen.set("default", scales[-1])
        return chosen

    def _first(self, *values: exp.Expr) -> exp.Expr | None:
        scales = self._each(values)
        if scales is None or (same := _same(scales)) is not None:
            return None if scales is None else same
        chosen = exp.Case()
        for value, scale in zip(values[:-1], scales, strict=False):
            chosen = chosen.when(exp.paren(value.copy()).is_(exp.null()).not_(), scale)
        return chosen.else_(scales[-1])

    def _extreme(self, node: exp.Greatest | exp.Least) -> exp.Expr | None:
        """Of equal values the first one is kept."""
        values = [node.this, *node.expressions]
        scales = self._each(values)
        if scales is None or (same := _same(scales)) is not None:
            return None if scales is None else same
        beats = exp.GT if isinstance(node, exp.Greatest) else exp.LT
        chosen = scales[0]
        for number, (_, value) in enumerate(pairwise(values), 1):
            sofar = type(node)(
                this=values[0].copy(), expressions=[one.copy() for one in values[1:number]]
            )
            best = exp.paren(values[0].copy()) if number == 1 else sofar
            wins = beats(this=exp.paren(value.copy()), expression=best.copy())
            chosen = (
                exp.Case().when(exp.or_(best.is_(exp.null()), wins), scales[number]).else_(chosen)
            )
        return chosen

    def _each(self, values: Sequence[exp.Expr]) -> list[exp.Expr] | None:
        found = [exp.null() if is_null(one.unnest()) else self.of(one) for one in values]
        known = [one for one in found if one is not None]
        return known if len(known) == len(found) else None


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def _same(scales: Sequence[exp.Expr]) -> exp.Expr | None:
    """Return the scale of all values that are not NULL, if they have the same."""
    found = {scale.sql(): scale for scale in scales if not isinstance(scale, exp.Null)}
    if not found:
        return exp.null()
    return next(iter(found.values())) if len(found) == 1 else None


def _rounded(decimals: exp.Expr | None) -> exp.Expr | None:
    if decimals is None:
        return _number(0)
    text = decimals.unnest().sql()
    return _number(max(int(text), 0)) if text.removeprefix("-").isdigit() else None


def _longer(left: exp.Expr | None, right: exp.Expr | None) -> exp.Expr | None:
    if left is None or right is None:
        return None
    if (same := _same([left, right])) is not None:
        return same
    if isinstance(left, exp.Literal) and isinstance(right, exp.Literal):
        return _number(max(int(left.name), int(right.name)))
    return exp.Greatest(this=left, expressions=[right])


def _added(left: exp.Expr | None, right: exp.Expr | None) -> exp.Expr | None:
    if left is None or right is None:
        return None
    if isinstance(left, exp.Null) or isinstance(right, exp.Null):
        return exp.null()
    if isinstance(left, exp.Literal) and isinstance(right, exp.Literal):
        return _number(int(left.name) + int(right.name))
    for one, other in ((left, right), (right, left)):
        if isinstance(one, exp.Literal) and one.name == "0":
            return other
    return exp.paren(exp.Add(this=left, expression=right))
