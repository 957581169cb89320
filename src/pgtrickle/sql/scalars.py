"""Expressions as values: made from parsed SQL, renamed, split and compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import sqlglot
from sqlglot import exp

from pgtrickle.algebra.nodes import Output, Scalar
from pgtrickle.model.compile_steps import check_time
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.sql.text.postgres_dialect import PrintedPostgres

# Operations that have a result for every input.
_TOTAL = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.Upper,
    exp.Lower,
    exp.Length,
    exp.Trim,
    exp.DPipe,
    exp.Case,
    exp.If,
)


@lru_cache(maxsize=4096)
def parse_scalar(sql: str) -> exp.Expr:
    """Parse the text of a scalar; callers must not change the tree."""
    return sqlglot.parse_one(sql, dialect=PrintedPostgres)


def make_scalar(expression: exp.Expr) -> Scalar:
    """Make a scalar of an expression whose columns are bare names; drop idle parentheses.

    >>> make_scalar(sqlglot.parse_one("a + b * a"))
    Scalar(sql='"a" + "b" * "a"', columns=('a', 'b'))
    """
    check_time()
    expression = expression.copy()
    while isinstance(expression, exp.Paren):
        expression = expression.this
        expression.pop()
    for paren in list(expression.find_all(exp.Paren)):
        if isinstance(paren.this, exp.Column | exp.Paren) and not _is_needed(paren):
            paren.replace(paren.this)
    for identifier in expression.find_all(exp.Identifier):
        if isinstance(identifier.parent, exp.Column):
            identifier.set("quoted", value=True)
    names = {column.name for column in expression.find_all(exp.Column)}
    text = expression.sql(dialect="postgres", comments=False, copy=False)
    return Scalar(text, tuple(sorted(names)))


def _is_needed(paren: exp.Paren) -> bool:
    """Tell whether parentheses around a column belong to the syntax around them."""
    return isinstance(paren.parent, exp.Any | exp.All | exp.Dot)


@lru_cache(maxsize=4096)
def column_scalar(name: str) -> Scalar:
    """Make the scalar that is one column.

    >>> column_scalar("o_id")
    Scalar(sql='"o_id"', columns=('o_id',))
    """
    return make_scalar(exp.column(exp.to_identifier(name, quoted=True)))


def null_scalar(type_: SqlType) -> Scalar:
    """Make a NULL of a type.

    >>> null_scalar(SqlType("bigint", "int8", "N"))
    Scalar(sql='CAST(NULL AS BIGINT)', columns=())
    """
    return make_scalar(parse_scalar(f"NULL::{type_.display}"))


def pass_on(column: Column) -> Output:
    """Make the output that passes a column on under its own name."""
    return Output(column.name, column_scalar(column.name), column.type)


def column_behind(outputs: Iterable[Output], name: str) -> str | None:
    """Return the column that an output passes on; None if it is computed or missing."""
    for output in outputs:
        if output.name == name:
            return bare_column(output.scalar)
    return None


def bare_column(scalar: Scalar) -> str | None:
    """Return the column's name if a scalar is a single column."""
    return _bare_column(scalar.sql)


@lru_cache(maxsize=16384)
def _bare_column(sql: str) -> str | None:
    expression = parse_scalar(sql)
    return expression.name if isinstance(expression, exp.Column) else None


def never_fails(expression: exp.Expr) -> bool:
    """Tell whether an expression has a value for every row, and may be evaluated early.

    >>> never_fails(parse_scalar("a = 1 OR b IS NULL")), never_fails(parse_scalar("1 / a"))
    (True, False)
    """
    return all(isinstance(node, _TOTAL) for node in expression.walk())


def substitute(scalar: Scalar, replacements: Mapping[str, Scalar]) -> Scalar:
    """Replace columns by expressions.

    >>> substitute(Scalar('"a" + 1', ("a",)), {"a": Scalar('"x" * 2', ("x",))}).sql
    '("x" * 2) + 1'
    """
    if not any(name in replacements for name in scalar.columns):
        return scalar
    if (name := bare_column(scalar)) is not None:
        return replacements[name]

    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in replacements:
            return in_place(parse_scalar(replacements[node.name].sql))
        return node

    return make_scalar(parse_scalar(scalar.sql).transform(replace))


def in_place(tree: exp.Expr) -> exp.Expr:
    """Return a copy of an expression that can replace a column.

    >>> in_place(sqlglot.parse_one("a OR b")).sql(), in_place(sqlglot.parse_one("f(a)")).sql()
    ('(a OR b)', 'F(a)')
    """
    # The parser counts some operators, OR among them, as functions.
    simple = isinstance(tree, exp.Column | exp.Literal | exp.Cast | exp.Func | exp.Paren)
    if simple and not isinstance(tree, exp.Binary):
        return tree.copy()
    return exp.paren(tree.copy(), copy=False)


def conjuncts(scalar: Scalar) -> list[Scalar]:
    """Split a condition at its outermost ANDs.

    >>> [part.sql for part in conjuncts(Scalar('(a = 1 AND (b OR c)) AND d', ()))]
    ['"a" = 1', '"b" OR "c"', '"d"']

    A condition of all arms of an OR holds by itself, and may be an equality to join by.

    >>> [part.sql for part in conjuncts(Scalar('(a = b AND c) OR (d AND a = b)', ()))]
    ['"a" = "b"', '"c" OR "d"']
    """
    return list(_split(scalar.sql))


@lru_cache(maxsize=4096)
def _split(condition: str) -> tuple[Scalar, ...]:
    return tuple(
        make_scalar(one) for part in and_parts(parse_scalar(condition)) for one in _factored(part)
    )


def _factored(condition: exp.Expr) -> list[exp.Expr]:
    """Factor the common conditions of all arms out of an OR."""
    arms = [list(and_parts(arm)) for arm in _or_parts(condition)]
    texts = [[one.unnest().sql(dialect="postgres") for one in arm] for arm in arms]
    common = set(texts[0]).intersection(*texts[1:])
    if len(arms) == 1 or not common:
        return [condition]
    shared = {text: one for text, one in zip(texts[0], arms[0], strict=True) if text in common}
    rest = [
        [one for text, one in zip(text_of_arm, arm, strict=True) if text not in common]
        for text_of_arm, arm in zip(texts, arms, strict=True)
    ]
    if not all(rest):
        return list(shared.values())  # an arm has no other condition
    return [*shared.values(), exp.or_(*(exp.and_(*arm) for arm in rest))]


def _or_parts(condition: exp.Expr) -> Iterator[exp.Expr]:
    inner = condition.unnest()
    if isinstance(inner, exp.Or):
        yield from _or_parts(inner.this)
        yield from _or_parts(inner.expression)
    else:
        yield inner


def and_parts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Split a parsed condition at its outermost ANDs.

    >>> [part.sql() for part in and_parts(sqlglot.parse_one("(a AND (b OR c)) AND d"))]
    ['a', '(b OR c)', 'd']
    """
    inner = condition.unnest()
    if isinstance(inner, exp.And):
        yield from and_parts(inner.this)
        yield from and_parts(inner.expression)
    else:
        yield condition


def conjunction(parts: list[Scalar]) -> Scalar | None:
    """Join conditions with AND; None if there is none.

    >>> conjunction([Scalar("a OR b", ("a", "b")), Scalar("c", ("c",))]).sql
    '("a" OR "b") AND "c"'
    """
    if not parts:
        return None
    trees = [parse_scalar(part.sql).copy() for part in parts]
    return make_scalar(exp.and_(*trees, copy=False))


@lru_cache(maxsize=4096)
def null_safe_equality(scalar: Scalar) -> tuple[Scalar, Scalar] | None:
    """Return the two sides of an equality that also holds between NULLs; else None.

    >>> [side.sql for side in null_safe_equality(Scalar('"a" IS NOT DISTINCT FROM "b"'))]
    ['"a"', '"b"']
    """
    expression = parse_scalar(scalar.sql)
    if not isinstance(expression, exp.NullSafeEQ):
        return None
    return make_scalar(expression.this), make_scalar(expression.expression)


@lru_cache(maxsize=4096)
def equality(scalar: Scalar) -> tuple[Scalar, Scalar] | None:
    """Return the two sides of an equality; None for any other condition.

    >>> [side.sql for side in equality(Scalar('"a" = "b"', ("a", "b")))]
    ['"a"', '"b"']
    """
    expression = parse_scalar(scalar.sql)
    if not isinstance(expression, exp.EQ):
        return None
    return make_scalar(expression.this), make_scalar(expression.expression)


@lru_cache(maxsize=4096)
def ordering(scalar: Scalar) -> tuple[Scalar, Scalar] | None:
    """Return the two sides of an order comparison; None for any other condition.

    >>> [side.sql for side in ordering(Scalar('"a" >= "b"', ("a", "b")))]
    ['"a"', '"b"']
    """
    expression = parse_scalar(scalar.sql)
    if not isinstance(expression, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return None
    return make_scalar(expression.this), make_scalar(expression.expression)
