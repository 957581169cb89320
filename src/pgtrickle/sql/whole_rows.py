"""Whole rows of a table as values: ``SELECT t FROM t``, ``to_jsonb(t)``, ``count(t)``.

PostgreSQL prints such a value as ``t.*``.  It becomes one more column of the item of FROM, computed
below every join of the query, so that an outer join makes it NULL like the others.  The row of a
table or view has a type, that of its name.  The row of a derived table has none, and nothing can
store it; where it only becomes jsonb or is counted, an object with its columns is as good, and
where it becomes json or text, its text is (see ``rows_as_text``).
"""

from __future__ import annotations

from typing import TypeVar, cast

from sqlglot import exp

from pgtrickle.algebra.nodes import Project
from pgtrickle.algebra.schema import columns_of
from pgtrickle.model.text.names import QualifiedName, quote_literal
from pgtrickle.sql.lower.half_built import Block, Compiler, Rows
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.rows_as_text import Form, form_of, text_of_row, whole_rows
from pgtrickle.sql.scalars import make_scalar, parse_scalar, pass_on
from pgtrickle.sql.scope import ROW, Typed, typed_column

_MOST_PAIRS = 50  # columns of a jsonb object: a function takes at most 100 arguments
SelectT = TypeVar("SelectT", bound=exp.Expr)


def names_with_row(select: exp.Expr) -> frozenset[str]:
    """Return the names of the items of FROM whose whole rows a query uses as values.

    >>> import sqlglot
    >>> sorted(names_with_row(sqlglot.parse_one("SELECT to_jsonb(a.*), count(*), b.c FROM a, b")))
    ['a']
    """
    return frozenset(one.table for one in whole_rows(select))


def fields_of_rows(select: SelectT) -> SelectT:
    """Write a field of a whole row as the column that it is.

    >>> import sqlglot
    >>> fields_of_rows(sqlglot.parse_one("SELECT (a.*).id FROM a", dialect="postgres")).sql()
    'SELECT a.id FROM a'
    """
    if not any(isinstance(one.parent, exp.Paren) for one in whole_rows(select)):
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
    elif (form := form_of(select, name)) is Form.JSONB and len(rows.columns) <= _MOST_PAIRS:
        pairs = (f"{quote_literal(column)}, ({typed.scalar.sql})" for column, typed in rows.columns)
        text = f"jsonb_build_object({', '.join(pairs)})"
    elif form in {Form.JSON, Form.TEXT}:
        columns = [(column, f"({typed.scalar.sql})") for column, typed in rows.columns]
        text = text_of_row(form, columns)
    else:
        raise Refusal(f'the whole row of "{name}" as a value', name)
    node = rows.block.build()
    row = compiler.columns.output(f"{name}_row", make_scalar(parse_scalar(text)))
    project = Project(node, (*map(pass_on, columns_of(node)), row))
    compiler.columns.remember(project)
    return Rows(Block([project]), rows.columns, rows.carried), typed_column(row)
