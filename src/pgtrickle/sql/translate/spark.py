"""The constructs that Spark evaluates as PostgreSQL does, and the walk over an expression."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from sqlglot import exp

from pgtrickle.algebra.nodes import Scalar
from pgtrickle.errors import UnsupportedExpressionError
from pgtrickle.model.sql_type import SqlType
from pgtrickle.sql.scalars import parse_scalar
from pgtrickle.sql.translate import casts, comparison, conditional, literals, patterns, text
from pgtrickle.sql.translate.dates import extract
from pgtrickle.sql.translate.dialect import Dialect, quote_name
from pgtrickle.sql.translate.duckdb import to_duckdb
from pgtrickle.sql.translate.numbers import arithmetic, rounding
from pgtrickle.sql.translate.term import MAX_DIGITS, Rule, Term, refuse

RULES: dict[type[exp.Expr], Rule] = {
    **literals.RULES,
    **conditional.RULES,
    **comparison.RULES,
    **arithmetic.RULES,
    **rounding.RULES,
    **text.RULES,
    **patterns.RULES,
    **extract.RULES,
    **casts.RULES,
}
FUNCTIONS: dict[str, Rule] = {**text.FUNCTIONS, **rounding.FUNCTIONS}


def translate(scalar: Scalar, types: Mapping[str, SqlType], dialect: Dialect) -> str:
    """Write a scalar over columns of the given types in ``dialect``.

    >>> bigint = SqlType("bigint", "int8", "N")
    >>> translate(Scalar('"a" / 2', ("a",)), {"a": bigint}, Dialect.SPARK)
    '(`a` DIV 2)'
    """
    if dialect is Dialect.POSTGRES:
        return scalar.sql
    if dialect is Dialect.DUCKDB:
        bases = {name: types[name] for name in scalar.columns if name in types}
        return _to_duckdb(scalar.sql, tuple(bases.items()))
    tree = parse_scalar(scalar.sql)
    term = _Walk(types).visit(tree)
    if term.base == "numeric" and term.is_quotient:
        raise refuse(tree)
    return term.sql


@lru_cache(maxsize=4096)
def _to_duckdb(sql: str, types: tuple[tuple[str, SqlType], ...]) -> str:
    known = dict(types)

    def type_of(node: exp.Expr) -> str | None:
        term = term_of(node, known)
        return term.base if term is not None else None

    return to_duckdb(parse_scalar(sql), type_of)


def term_of(node: exp.Expr, types: Mapping[str, SqlType]) -> Term | None:
    """Return what Spark makes of an expression; None if it cannot be translated.

    ``types`` may lack columns: nothing is known of what reads them.
    """
    if any(column.name not in types for column in node.find_all(exp.Column)):
        return None
    try:
        return _Walk(types).visit(node)
    except UnsupportedExpressionError:
        return None


class _Walk:
    def __init__(self, types: Mapping[str, SqlType]) -> None:
        self._types = types

    def visit(self, node: exp.Expr) -> Term:
        if isinstance(node, exp.Column):
            return _column(node.name, self._types[node.name])
        rule = RULES.get(type(node))
        if isinstance(node, exp.Anonymous):
            rule = FUNCTIONS.get(str(node.this).lower())
        if rule is None:
            raise refuse(node)
        return rule(node, self.visit)


def _column(name: str, type_: SqlType) -> Term:
    sql = quote_name(name, Dialect.SPARK)
    scale, precision = _size(sql, type_) if type_.base == "numeric" else (0, None)
    return Term(
        sql,
        type_.base,
        scale=scale,
        precision=precision,
        shows_scale=precision is not None and scale == type_.scale,
        collations=frozenset({type_.collation}) if type_.category == "S" else frozenset(),
        is_column=True,
        is_enum=type_.category == "E",
    )


def _size(sql: str, type_: SqlType) -> tuple[int | str, int | None]:
    """Return the scale and precision of a numeric column as it is carried."""
    if type_.precision is not None:
        scale = max(type_.scale or 0, 0)
        precision = max(type_.precision - min(type_.scale or 0, 0), scale)
        if precision <= MAX_DIGITS:
            return scale, precision
    return f"CAST(regexp_extract(typeof({sql}), ',([0-9]+)', 1) AS INT)", None
