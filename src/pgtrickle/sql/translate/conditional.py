"""Boolean logic of three values, CASE and its relatives, and the choice among several values."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from pgtrickle.sql.translate.comparison import compare, is_ordered
from pgtrickle.sql.translate.numbers.arithmetic import greatest_scale
from pgtrickle.sql.translate.term import (
    EXPLICIT_C,
    NULL,
    NUMBERS,
    TEXTS,
    Rule,
    Term,
    Visit,
    bool_term,
    collations_of,
    refuse,
    require,
)


def _parenthesis(node: exp.Expr, visit: Visit) -> Term:
    return visit(node.this)


def _and_or(node: exp.Expr, visit: Visit) -> Term:
    word = "AND" if isinstance(node, exp.And) else "OR"
    left = require(node, visit(node.this), "bool")
    right = require(node, visit(node.expression), "bool")
    return bool_term(f"({left.sql} {word} {right.sql})")


def _not(node: exp.Expr, visit: Visit) -> Term:
    return bool_term(f"(NOT {require(node, visit(node.this), 'bool').sql})")


def _is(node: exp.Expr, visit: Visit) -> Term:
    negated = "NOT " if node.args.get("negate") else ""
    operand, state = visit(node.this), node.expression
    if isinstance(state, exp.Null):
        return bool_term(f"({operand.sql} IS {negated}NULL)")
    if isinstance(state, exp.Boolean):
        word = "TRUE" if state.this else "FALSE"
        return bool_term(f"({require(node, operand, 'bool').sql} IS {negated}{word})")
    raise refuse(node)


def _case(node: exp.Expr, visit: Visit) -> Term:
    subject = visit(node.this) if node.this is not None else None
    conditions, values = [], []
    for branch in node.args["ifs"]:
        if subject is None:
            conditions.append(require(node, visit(branch.this), "bool"))
        else:
            conditions.append(compare(node, "=", subject, visit(branch.this)))
        values.append(visit(branch.args["true"]))
    default = node.args.get("default")
    last = [visit(default)] if default is not None else []
    whens = " ".join(
        f"WHEN {condition.sql} THEN {value.sql}"
        for condition, value in zip(conditions, values, strict=True)
    )
    otherwise = f" ELSE {last[0].sql}" if last else ""
    return _one_of(node, f"(CASE {whens}{otherwise} END)", [*values, *last])


def _coalesce(node: exp.Expr, visit: Visit) -> Term:
    terms = [visit(one) for one in (node.this, *node.expressions)]
    return _one_of(node, f"coalesce({', '.join(term.sql for term in terms)})", terms)


def _greatest_or_least(node: exp.Expr, visit: Visit) -> Term:
    terms = [visit(one) for one in (node.this, *node.expressions)]
    if not is_ordered(*terms):
        raise refuse(node)
    if len(terms) == 1:
        return terms[0]
    return _one_of(node, f"{node.key}({', '.join(term.sql for term in terms)})", terms)


def _nullif(node: exp.Expr, visit: Visit) -> Term:
    left = visit(node.this)
    same = compare(node, "=", left, visit(node.expression))
    return _one_of(node, f"(CASE WHEN {same.sql} THEN NULL ELSE {left.sql} END)", [left])


def _collate(node: exp.Expr, visit: Visit) -> Term:
    operand = require(node, visit(node.this), *TEXTS)
    name = node.expression.name
    # Whether another collation has its own order, or is deterministic, only a query of the
    # database could tell.
    if name not in {"C", "POSIX"}:
        raise refuse(node)
    return Term(
        operand.sql,
        operand.base,
        collations=frozenset({EXPLICIT_C}),
        literal=operand.literal,
        is_column=operand.is_column,
    )


RULES: dict[type[exp.Expr], Rule] = {
    exp.Paren: _parenthesis,
    exp.And: _and_or,
    exp.Or: _and_or,
    exp.Not: _not,
    exp.Is: _is,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.Greatest: _greatest_or_least,
    exp.Least: _greatest_or_least,
    exp.Nullif: _nullif,
    exp.Collate: _collate,
}


def _one_of(node: exp.Expr, sql: str, terms: Sequence[Term]) -> Term:
    """Make the term that chooses one of several values; numbers widen to the widest."""
    known = [term for term in terms if term.base != NULL]
    bases = {term.base for term in known}
    if not known:
        return Term(sql, NULL)
    if len(bases) > 1 and not (bases <= set(NUMBERS) or bases <= TEXTS):
        raise refuse(node)
    base = known[0].base if len(bases) == 1 else "text"
    if bases <= set(NUMBERS):
        base = max(bases, key=NUMBERS.index)
    return Term(
        sql,
        base,
        scale=greatest_scale(*known),
        collations=collations_of(*known),
        shows_scale=len({term.scale for term in known if term.literal != ""}) <= 1
        and all(term.shows_scale for term in known),
        is_quotient=any(term.is_quotient for term in known),
        is_enum=all(term.is_enum for term in known),
    )
