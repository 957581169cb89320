"""The meaning of names in a query: aliases, their columns, and the expressions behind them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from pgtrickle.algebra.nodes import AggregateCall, Output, Scalar
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.row_comparison import spell_out_rows
from pgtrickle.sql.scalars import column_scalar, in_place, make_scalar, parse_scalar


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression over the plan's columns, with its type."""

    scalar: Scalar
    type: SqlType


def typed_column(column: Column | Output | AggregateCall) -> Typed:
    """Return a column of the plan as an expression."""
    return Typed(column_scalar(column.name), column.type)


def cast(typed: Typed, type_: SqlType) -> Scalar:
    """Return an expression cast to another type; unchanged if it has that type."""
    if typed.type.display == type_.display:
        return typed.scalar
    return make_scalar(parse_scalar(f"({typed.scalar.sql})::{type_.display}"))


Scope = dict[str, dict[str, Typed]]  # alias -> column -> expression
ROW = "*"  # the name of a whole row among the columns of its table
MERGED = ""  # the table to which the columns that USING merges belong


def resolve(expression: exp.Expr, scope: Scope) -> Scalar:
    """Replace the query's column names by expressions over the plan's columns."""
    refuse_in_scalar(expression)
    expression = spell_out_rows(expression)

    def replace_column(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        if node.table:
            columns = scope.get(node.table, {})
            if node.name not in columns:
                raise _unknown(node)
            tree = parse_scalar(columns[node.name].scalar.sql)
        else:
            tree = find_column(scope, node.name)
        return in_place(tree)

    return make_scalar(expression.transform(replace_column, copy=False))


def _unknown(column: exp.Column) -> Refusal:
    if isinstance(column.this, exp.Star):
        return Refusal(f'the whole row of "{column.table}" as a value', column.table)
    return Refusal(f"the reference {column.sql(dialect='postgres')}", column.name)


def find_typed(scope: Scope, name: str) -> Typed:
    """Return the meaning of a column that is named without its table: a merged one first."""
    for columns in (scope.get(MERGED, {}), *scope.values()):
        if name in columns:
            return columns[name]
    raise Refusal(f'the reference "{name}"', name)


def find_column(scope: Scope, name: str) -> exp.Expr:
    """Return the expression behind a column that is named without its table."""
    return parse_scalar(find_typed(scope, name).scalar.sql)


def refuse_in_scalar(expression: exp.Expr) -> None:
    """Refuse constructs inside an expression that no rule covers: unattached subqueries."""
    for node in expression.walk():
        if isinstance(node, exp.Exists):
            raise Refusal("EXISTS", "exists")
        if isinstance(node, exp.Query):
            raise Refusal("a subquery in an expression", "in (select", "( select", "any", "select")
