"""Rows of derived tables that become json or text: ``row_to_json(x)``, ``json_agg(x)``.

Such a row has no named type, so nothing can store it.  The text that it becomes can be stored, and
PostgreSQL writes the same one from the columns:

    row_to_json(x)    =    ('{"a":' || to_json(x.a) || ',"b":' || to_json(x.b) || '}')::json
    json_agg(x)       =    ('[' || string_agg(text of x, ', ' and a line end) || ']')::json
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import partial
from typing import TypeVar, cast

from sqlglot import exp

from pgtrickle.model.text.names import quote_literal
from pgtrickle.sql.scalars import parse_scalar
from pgtrickle.sql.scope import ROW, Scope
from pgtrickle.sql.text.own_level import replace_nodes

SelectT = TypeVar("SelectT", bound=exp.Expr)
# What becomes of a row here follows from its columns and their names.
_BY_COLUMNS = frozenset(
    {"to_jsonb", "jsonb_agg", "jsonb_agg_strict", "jsonb_object_agg", "jsonb_build_object",
     "jsonb_build_array", "count"}
)  # fmt: skip
_BY_JSON = frozenset(
    {"to_json", "row_to_json", "json_agg", "json_build_object", "json_build_array",
     "json_object_agg"}
)  # fmt: skip
_NEXT = r"E', \n '"  # what json_agg writes between two rows


class Form(Enum):
    """What a whole row may be replaced by, as its uses allow."""

    JSONB = "an object of its columns"
    JSON = "the text of its json"
    TEXT = "its text"


def form_of(select: exp.Expr, name: str) -> Form | None:
    """Return what may stand for the row of an item of FROM everywhere in a query.

    >>> import sqlglot
    >>> def show(sql):
    ...     return form_of(sqlglot.parse_one(sql, dialect="postgres"), "a")
    >>> show("SELECT to_jsonb(a.*)"), show("SELECT to_jsonb(a.*), json_agg(a.* ORDER BY a.*)")
    (<Form.JSONB: 'an object of its columns'>, <Form.JSON: 'the text of its json'>)
    >>> show("SELECT (a.*)::text"), show("SELECT (a.*)::text, row_to_json(a.*)")
    (<Form.TEXT: 'its text'>, None)
    """
    rows = [one for one in whole_rows(select) if one.table == name]
    if {_function(one) for one in rows} <= _BY_COLUMNS:
        return Form.JSONB
    functions = {_function(one) for one in rows if not _orders_json(one)}
    if functions <= _BY_COLUMNS | _BY_JSON:
        return Form.JSON
    if all(_is_cast_to_text(one) for one in rows):
        return Form.TEXT
    return None


def whole_rows(select: exp.Expr) -> Iterator[exp.Column]:
    """Yield the whole rows that a query uses as values."""
    return (one for one in select.find_all(exp.Column) if isinstance(one.this, exp.Star))


def text_of_row(form: Form, columns: Sequence[tuple[str, str]]) -> str:
    """Write the expression of a row's text over its columns: their names and expressions.

    >>> text_of_row(Form.TEXT, [("a", "x"), ("b", "y + 1")])
    '(ROW(x, y + 1))::text'
    >>> print(text_of_row(Form.JSON, [("a", "x")]))
    '{"a":' || COALESCE(to_json(x)::text, 'null') || '}'
    """
    if form is Form.TEXT:
        return f"(ROW({', '.join(sql for _, sql in columns)}))::text"
    if not columns:
        return "'{}'"
    parts = [
        f"{quote_literal(f'{sign}{json.dumps(name, ensure_ascii=False)}:')}"
        f" || COALESCE(to_json({sql})::text, 'null')"
        for sign, (name, sql) in zip("{" + "," * len(columns), columns, strict=False)
    ]
    return f"{' || '.join(parts)} || '}}'"


def calls_with_text(select: SelectT, scope: Scope) -> SelectT:
    """Write the calls that get a row as its json so that they get the text of that."""
    names = {
        name
        for name, columns in scope.items()
        if ROW in columns
        and columns[ROW].type.base == "text"
        and form_of(select, name) is Form.JSON
    }
    return (
        cast(SelectT, replace_nodes(select, partial(_rewritten, names, scope))) if names else select
    )


def _rewritten(names: set[str], scope: Scope, node: exp.Expr) -> exp.Expr | None:
    condition = node.expression if isinstance(node, exp.Filter) else None
    call = node.this if condition is not None else node
    if isinstance(call, exp.JSONArrayAgg):
        operand = call.this.this if isinstance(call.this, exp.Order) else call.this
        if _is_row(operand, names):
            return _list(call, operand, scope, condition)
    if isinstance(node, exp.Anonymous) and node.name.lower() in {"row_to_json", "to_json"}:
        [operand] = node.expressions[:1]
        if _is_row(operand, names) and len(node.expressions) == 1:
            return exp.cast(operand.copy(), "json", copy=False)
    if _is_row(node, names) and _function(node) in _BY_JSON | _BY_COLUMNS - {"count"}:
        return exp.cast(node.copy(), "json", copy=False)
    return None


def _list(call: exp.Expr, row: exp.Column, scope: Scope, condition: exp.Expr | None) -> exp.Expr:
    """Write json_agg as the list of texts that it is; between NULL and others is no line end."""
    text = row.sql(dialect="postgres", identify=True)
    order = ""
    if isinstance(call.this, exp.Order):
        items = [one for item in call.this.expressions for one in _columns_of(item, row, scope)]
        order = (
            f" ORDER BY {', '.join(one.sql(dialect='postgres', identify=True) for one in items)}"
        )
    listed = (
        f"string_agg(COALESCE({text}, 'null'),"
        f" CASE WHEN {text} IS NULL THEN ', ' ELSE {_NEXT} END{order})"
    )
    if condition is not None:
        listed += f" FILTER ({condition.sql(dialect='postgres', identify=True)})"
    return parse_scalar(f"(('[' || {listed} || ']')::json)").copy()


def _columns_of(item: exp.Expr, row: exp.Column, scope: Scope) -> list[exp.Expr]:
    """Write an order by a row, or by its text, over its columns.

    A row that is NULL itself is the greatest, and has no text.
    """
    value = item.this.unnest()
    by_text = isinstance(value, exp.Cast)
    if not _is_row(value.this.unnest() if by_text else value, {row.table}):
        return [item]
    columns: list[exp.Expr] = [
        exp.column(name, table=row.table, quoted=True) for name in scope[row.table] if name != ROW
    ]
    is_null = exp.paren(exp.Is(this=row.copy(), expression=exp.null()))
    if by_text:
        text = exp.cast(exp.Anonymous(this="ROW", expressions=columns), "text")
        values: list[exp.Expr] = [exp.Case().when(is_null, exp.null()).else_(text)]
    else:
        values = [*columns, is_null]
    ordered = [item.copy() for _ in values]
    for one, new in zip(ordered, values, strict=True):
        one.set("this", new)
    return ordered


def _is_row(node: exp.Expr, names: set[str]) -> bool:
    return isinstance(node, exp.Column) and isinstance(node.this, exp.Star) and node.table in names


def _above(row: exp.Expr) -> exp.Expr | None:
    above = row.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    return above


def _is_cast_to_text(row: exp.Expr) -> bool:
    above = _above(row)
    return isinstance(above, exp.Cast) and above.to.is_type("text")


def _orders_json(row: exp.Expr) -> bool:
    """Tell whether a row is what the rows of json_agg are ordered by."""
    above = _above(row)
    if _is_cast_to_text(row) and above is not None:
        above = _above(above)
    order = above.parent if isinstance(above, exp.Ordered) else None
    return isinstance(order, exp.Order) and isinstance(order.parent, exp.JSONArrayAgg)


def _function(argument: exp.Expr) -> str:
    """Return the function of which a value is an argument; empty if it is used otherwise."""
    above = argument.parent
    if isinstance(above, exp.Order) and argument.arg_key == "this":
        above = above.parent
    if not isinstance(above, exp.Func) or isinstance(above, exp.Cast):
        return ""
    return above.sql(dialect="postgres").partition("(")[0].lower()
