"""Whole rows of a table as values: ``SELECT t FROM t``, ``to_jsonb(t)``, ``count(t)``.

PostgreSQL prints such a value as ``t.*``.  It becomes one more column of the item of FROM, computed
below every join of the query, so that an outer join makes it NULL like the others.  The row of a
table or view has a type, that of its name.  The row of a derived table has none, and nothing can
store it; where it only becomes jsonb or is counted, an object with its columns is as good.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, cast

from sqlglot import exp

from pgtrickle.algebra.nodes import Project
from pgtrickle.algebra.schema import columns_of
from pgtrickle.model.text.names import QualifiedName, quote_literal
from pgtrickle.sql.lower.half_built import Block, Compiler, Rows
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.scalars import make_scalar, parse_scalar, pass_on
from pgtrickle.sql.scope import ROW, Typed, typed_column

_MOST_PAIRS = 50  # columns of a jsonb object: a function takes at most 100 arguments
SelectT = TypeVar("SelectT", bound=exp.Expr)
# What becomes of a row here follows from its columns and their names.
_BY_COLUMNS = frozenset(
    {"to_jsonb", "jsonb_agg", "jsonb_agg_strict", "jsonb_object_agg", "jsonb_build_object",
     "jsonb_build_array", "count"}
)  # fmt: skip


def names_with_row(select: exp.Expr) -> frozenset[str]:
    """Return the names of the items of FROM whose whole rows a query uses as values.

    >>> import sqlglot
    >>> sorted(names_with_row(sqlglot.parse_one("SELECT to_jsonb(a.*), count(*), b.c FROM a, b")))
    ['a']
    """
    return frozenset(one.table for one in _whole_rows(select))


def fields_of_rows(select: SelectT) -> SelectT:
    """Write a field of a whole row as the column that it is.

    >>> import sqlglot
    >>> fields_of_rows(sqlglot.parse_one("SELECT (a.*).id FROM a", dialect="postgres")).sql()
    'SELECT a.id FROM a'
    """
    if not any(isinstance(one.parent, exp.Paren) for one in _whole_rows(select)):
        return select

    def replace(node: exp.Expr) -> exp.Expr:
        inner = node.this.unnest() if isinstance(node, exp.Dot) else None
        if not (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
            return node
        return exp.Column(this=node.expression.copy(), table=inner.args["table"].copy())

    return cast(SelectT, select.transform(replace))


def with_row(
    compiler: Compiler, rows: Rows, name: str, type_: QualifiedName | None, select: exp.Expr
) -> tuple[Rows, Typed]:
    """Add the whole row to the rows of an item of FROM, and return it; ``type_`` is the table."""
    if any(column == ROW for column, _ in rows.columns):
        raise Refusal(f'the whole row of "{name}", which has a column called "{ROW}"', name)
    values = ", ".join(f"({typed.scalar.sql})" for _, typed in rows.columns)
    if type_ is not None:
        text = f"ROW({values})::{type_.sql}"
    elif _only_by_columns(select, name) and len(rows.columns) <= _MOST_PAIRS:
        pairs = (f"{quote_literal(column)}, ({typed.scalar.sql})" for column, typed in rows.columns)
        text = f"jsonb_build_object({', '.join(pairs)})"
    else:
        raise Refusal(f'the whole row of "{name}" as a value', name)
    node = rows.block.build()
    row = compiler.columns.output(f"{name}_row", make_scalar(parse_scalar(text)))
    project = Project(node, (*map(pass_on, columns_of(node)), row))
    compiler.columns.remember(project)
    return Rows(Block([project]), rows.columns, rows.carried), typed_column(row)


def _whole_rows(select: exp.Expr) -> Iterator[exp.Column]:
    return (one for one in select.find_all(exp.Column) if isinstance(one.this, exp.Star))


def _only_by_columns(select: exp.Expr, name: str) -> bool:
    """Tell whether every use of a row depends on nothing but its columns and their names."""
    return all(_function(one) in _BY_COLUMNS for one in _whole_rows(select) if one.table == name)


def _function(argument: exp.Expr) -> str:
    """Return the function of which a value is an argument; empty if it is used otherwise."""
    above = argument.parent
    if isinstance(above, exp.Order) and argument.arg_key == "this":
        above = above.parent
    if not isinstance(above, exp.Func) or isinstance(above, exp.Cast):
        return ""
    return above.sql(dialect="postgres").partition("(")[0].lower()
