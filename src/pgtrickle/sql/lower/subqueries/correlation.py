"""Subqueries that depend on the rows around them.

A dependent subquery is evaluated for all outer rows at once.  Let D be the outer values that it
names, each combination once; then

    for each row of O: Q(row)   =   O ⋈ Q(D)      on the values of D, NULL equal to NULL

where Q(D) is the query with D as one more table in FROM, grouped, partitioned and limited by D's
columns as well.  Those columns are *carried*: every part of the subquery hands them on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from pgtrickle.algebra.nodes import Aggregate, Node, Output, Project, Scalar
from pgtrickle.errors import UnsupportedExpressionError
from pgtrickle.model.sql_type import TEXT, Column
from pgtrickle.sql.plan_columns import PlanColumns
from pgtrickle.sql.scalars import column_scalar, make_scalar, parse_scalar
from pgtrickle.sql.scope import Scope, Typed, cast, typed_column
from pgtrickle.sql.translate import Dialect, translate

Reference = tuple[str, str]  # alias and column


@dataclass(frozen=True, slots=True)
class Correlation:
    """The outer values that a subquery depends on."""

    node: Node  # D
    columns: tuple[Column, ...]  # of D, some as text
    outer: tuple[Typed, ...]  # the meaning of the outer names in the outer rows
    compared: tuple[Scalar, ...]  # the same, as the columns hold it
    references: Mapping[Reference, int]  # which column an outer name means

    def instance(self, columns: PlanColumns) -> tuple[Node, Scope, tuple[Typed, ...]]:
        """Return D under fresh column names, the meaning of outer names in it, and its columns."""
        outputs = tuple(
            Output(columns.fresh(column.name), column_scalar(column.name), column.type)
            for column in self.columns
        )
        node = Project(self.node, outputs)
        columns.remember(node)
        typed = tuple(typed_column(one) for one in outputs)
        return node, self.meaning(typed), typed

    def meaning(self, carried: Sequence[Typed]) -> Scope:
        """Return the meaning of the outer names, given the columns that carry their values."""
        scope: Scope = {}
        for (alias, name), index in self.references.items():
            type_ = self.outer[index].type
            scope.setdefault(alias, {})[name] = Typed(cast(carried[index], type_), type_)
        return scope

    def same(self, carried: Sequence[Typed]) -> list[Scalar]:
        """Return the conditions that an outer row and a carried row belong together."""
        return [
            null_safe(mine, theirs.scalar)
            for mine, theirs in zip(self.compared, carried, strict=True)
        ]


def correlate(
    columns: PlanColumns, outer: Node, references: Sequence[Reference], scope: Scope
) -> Correlation:
    """Collect the values that the given names have in the rows of ``outer``."""
    scalars: dict[str, int] = {}
    typed: list[Typed] = []
    meant: dict[Reference, int] = {}
    for alias, name in references:
        one = scope[alias][name]
        if one.scalar.sql not in scalars:
            scalars[one.scalar.sql] = len(typed)
            typed.append(one)
        meant[alias, name] = scalars[one.scalar.sql]
    wanted = {index: f"{alias}_{name}" for (alias, name), index in meant.items()}
    compared = [_comparable(columns, one) for one in typed]
    outputs = tuple(
        Output(columns.fresh(wanted[index]), one.scalar, one.type)
        for index, one in enumerate(compared)
    )
    node = Aggregate(Project(outer, outputs), tuple(one.column for one in outputs), calls=())
    columns.remember(node)
    scalars_compared = tuple(one.scalar for one in compared)
    return Correlation(node, node.keys, tuple(typed), scalars_compared, meant)


def _comparable(columns: PlanColumns, typed: Typed) -> Typed:
    """Return a value in a form that the engine can compare: as text, if it does not know the type.

    Equal texts mean equal values; that one value may
    have two texts only splits one row into two.
    """
    test = Scalar('"a" IS NOT DISTINCT FROM "b"', ("a", "b"))
    try:
        translate(test, {"a": typed.type, "b": typed.type}, Dialect.SPARK)
    except UnsupportedExpressionError:
        return Typed(_as_text(columns, typed), TEXT)
    return typed


def _as_text(columns: PlanColumns, typed: Typed) -> Scalar:
    """Return a value as text; one that is read from its text already is that text."""
    tree = parse_scalar(typed.scalar.sql)
    if isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Column):
        inner = column_scalar(tree.this.name)
        if columns.type_of(tree.this.name) == TEXT:
            return inner
    return cast(typed, TEXT)


def references(query: exp.Expr, scope: Scope) -> list[Reference]:
    """Return the names of ``scope`` that a query uses, each once.

    PostgreSQL prints every column of a subquery with its table, and gives no table a name that
    is taken further out, so a name of the outer scope means the outer scope.
    """
    found: dict[Reference, None] = {}
    for column in _columns(query):
        if column.name in scope.get(column.table, {}):
            found[column.table, column.name] = None
    return list(found)


def _columns(query: exp.Expr) -> Iterator[exp.Column]:
    return (column for column in query.find_all(exp.Column) if column.table)


def null_safe(left: Scalar, right: Scalar) -> Scalar:
    """Return the condition that two values are equal, or both NULL."""
    return make_scalar(
        exp.NullSafeEQ(
            this=exp.paren(parse_scalar(left.sql).copy(), copy=False),
            expression=exp.paren(parse_scalar(right.sql).copy(), copy=False),
        )
    )
