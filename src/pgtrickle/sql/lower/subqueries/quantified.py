"""IN, ANY and ALL over subqueries, in terms of EXISTS.

    x op ANY (Q)  =  CASE WHEN EXISTS (Q with x op q) THEN true
                          WHEN EXISTS (Q with (x op q) IS NULL) THEN NULL ELSE false END
    x op ALL (Q)  =  the same with NOT (x op q), and true and false exchanged

``Q with p`` is the subquery with one more condition on its column ``q``.  IN is ``= ANY``.  If
only truth counts, as among the conditions of WHERE, one EXISTS or NOT EXISTS is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from sqlglot import exp

from pgtrickle.sql.lower.groups.grouping import has_aggregate
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.row_comparison import compare_rows
from pgtrickle.sql.text.own_level import calls_any

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Quantified:
    """A comparison of a value, or of a row, with each row of a subquery."""

    query: exp.Query
    operands: tuple[exp.Expr, ...]
    compare: type[exp.Binary]
    every: bool  # ALL
    functions: frozenset[str]  # that return sets, among those the query calls

    def with_condition(self, test: Callable[[exp.Expr], exp.Expr]) -> exp.Exists:
        """Return EXISTS over the rows of the subquery whose comparison passes a test."""
        return self.with_row(lambda row: test(self._compared(row)))

    def with_row(self, test: Callable[[list[exp.Expr]], exp.Expr]) -> exp.Exists:
        """Return EXISTS over the rows of the subquery that pass a test."""
        return exp.Exists(this=_with_condition(self.query, test, self.functions))

    def _compared(self, row: list[exp.Expr]) -> exp.Expr:
        if len(row) != len(self.operands):
            raise Refusal("a subquery with another number of columns", "in", "any", "all")
        if len(row) == 1:
            [operand] = self.operands
            compared = self.compare(this=_wrapped(operand), expression=_wrapped(row[0]))
            return exp.paren(compared)
        operands = [_wrapped(one) for one in self.operands]
        return compare_rows(self.compare, operands, [_wrapped(one) for one in row])


def find_quantified(node: exp.Expr, functions: frozenset[str]) -> Quantified | None:
    """Return a node as a quantified comparison; None if it is not one."""
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        query = _bare(node.args["query"])
        if isinstance(query, exp.Query):
            return Quantified(query, _operands(node.this), exp.EQ, every=False, functions=functions)
    if isinstance(node, exp.Binary) and isinstance(node.expression, exp.Any | exp.All):
        query = _bare(node.expression.this)
        if isinstance(query, exp.Query):
            every = isinstance(node.expression, exp.All)
            return Quantified(query, _operands(node.this), type(node), every, functions)
    return None


def as_value(one: Quantified) -> exp.Expr:
    """Write a quantified comparison as a value that is true, false or NULL."""
    decides, unknown = (
        one.with_condition(exp.not_ if one.every else _same),
        one.with_condition(_is_null),
    )
    case = exp.Case().when(decides, exp.false() if one.every else exp.true())
    return case.when(unknown, exp.null()).else_(exp.true() if one.every else exp.false())


def as_condition(one: Quantified, *, negated: bool) -> list[exp.Expr]:
    """Write a quantified comparison, or its negation, as conditions that must all be true."""
    if one.every == negated:
        # Some row decides: it compares as true, or, for NOT ALL, as false.
        return [one.with_condition(exp.not_ if negated else _same)]
    if negated and one.compare is exp.EQ and len(one.operands) == 1:
        # NOT IN: no row may be equal, none may be NULL, and a NULL operand bears no row at all.
        [operand] = one.operands
        any_row = one.with_row(lambda _: exp.true())
        null_row = one.with_row(lambda row: _is_null(row[0]))
        return [
            exp.not_(one.with_condition(_same)),
            exp.not_(null_row),
            exp.paren(exp.or_(_is_not_null(operand), exp.not_(any_row))),
        ]
    test = _is_not_false if negated else _is_not_true
    return [exp.not_(one.with_condition(test))]


def _with_condition(
    query: exp.Query,
    condition: Callable[[list[exp.Expr]], exp.Expr],
    functions: frozenset[str],
) -> exp.Expr:
    query = query.copy()
    if isinstance(query, exp.Select) and is_plain(query, functions):
        row = [one.unalias().copy() for one in query.expressions]
        query.set("expressions", [exp.Literal.number(1)])
        return query.where(condition(row), copy=False)
    alias = f"quantified_{next(_numbers)}"
    names = [f"column_{number}" for number, _ in enumerate(query.selects, 1)]
    table = exp.Subquery(
        this=query,
        alias=exp.TableAlias(
            this=exp.to_identifier(alias), columns=[exp.to_identifier(name) for name in names]
        ),
    )
    row = [exp.column(name, table=alias) for name in names]
    return exp.select("1").from_(table, copy=False).where(condition(row), copy=False)


def is_plain(select: exp.Select, functions: frozenset[str]) -> bool:
    """Tell whether a query only joins, filters and computes, with one result row per input row."""
    clauses = ("group", "having", "distinct", "limit", "offset", "windows", "with_")
    if any(select.args.get(clause) for clause in clauses) or not select.args.get("from_"):
        return False
    return not has_aggregate(select) and not any(
        one.find(exp.Window) or calls_any(one, functions) for one in select.expressions
    )


def _bare(query: exp.Expr) -> exp.Expr:
    while isinstance(query, exp.Subquery | exp.Paren):
        query = query.this
    return query


def _operands(operand: exp.Expr) -> tuple[exp.Expr, ...]:
    inner = operand.unnest()
    return tuple(inner.expressions) if isinstance(inner, exp.Tuple) else (operand,)


def _wrapped(expression: exp.Expr) -> exp.Expr:
    return exp.paren(expression) if isinstance(expression, exp.Binary) else expression.copy()


def _same(condition: exp.Expr) -> exp.Expr:
    return condition


def _is_null(condition: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.paren(condition), expression=exp.null())


def _is_not_null(condition: exp.Expr) -> exp.Expr:
    return exp.not_(_is_null(condition))


def _is_not_true(condition: exp.Expr) -> exp.Expr:
    return exp.not_(exp.Is(this=exp.paren(condition), expression=exp.true()))


def _is_not_false(condition: exp.Expr) -> exp.Expr:
    return exp.not_(exp.Is(this=exp.paren(condition), expression=exp.false()))
