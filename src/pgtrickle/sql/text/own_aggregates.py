"""The calls of aggregates that users or extensions defined, as nodes of their own.

To the parser ``shop.total(a) FILTER (WHERE b)`` is a column, and without FILTER a function like any
other.  PostgreSQL knows which functions are aggregates, and prints their names with the schema.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from sqlglot import Generator, exp
from sqlglot.dialects.postgres import Postgres

from pgtrickle.model.text.names import QualifiedName


class OwnAggregate(exp.Expression, exp.AggFunc):
    """A call: ``this`` is the qualified name as it is printed, ``expressions`` are arguments."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


def _write(generator: Generator, node: exp.Expr) -> str:
    listed = ", ".join(_write_argument(generator, one) for one in node.expressions)
    return f"{node.this}({listed})"


def _write_argument(generator: Generator, argument: exp.Expr) -> str:
    """Write an argument with DISTINCT before it and ORDER BY behind it."""
    if isinstance(argument, exp.Order):
        items = ", ".join(map(generator.sql, argument.expressions))
        return f"{_write_argument(generator, argument.this)} ORDER BY {items}"
    if isinstance(argument, exp.Distinct):
        return f"DISTINCT {', '.join(map(generator.sql, argument.expressions))}"
    return generator.sql(argument)


for _table in (Postgres.Generator.TRANSFORMS, Generator.TRANSFORMS):
    _table[OwnAggregate] = _write


def mark_aggregates(tree: exp.Expr, names: Collection[QualifiedName]) -> exp.Expr:
    """Make the calls of the named aggregates nodes of their own; changes ``tree``.

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("s.f(DISTINCT a, b) FILTER (WHERE c) + s.g(d)", dialect="postgres")
    >>> marked = mark_aggregates(tree, {QualifiedName("s", "f")})
    >>> marked.sql(dialect="postgres")
    's.f(DISTINCT a, b) FILTER(WHERE c) + s.g(d)'
    >>> marked.find(OwnAggregate).this
    's.f'

    Also those inside a call over a window:

    >>> tree = sqlglot.parse_one("s.f(s.f(a) FILTER (WHERE b)) OVER ()", dialect="postgres")
    >>> len(list(mark_aggregates(tree, {QualifiedName("s", "f")}).find_all(OwnAggregate)))
    2
    """
    if not names:
        return tree
    return tree.transform(lambda node: _marked(node, names), copy=False)


def _marked(node: exp.Expr, names: Collection[QualifiedName]) -> exp.Expr:
    inner: exp.Expr
    if isinstance(node, exp.Dot):
        schema, inner = node.this, node.expression
    elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Identifier):
        schema, inner = node.args.get("table"), node.this
    else:
        return node
    call = inner
    while isinstance(call, exp.Filter | exp.WithinGroup):
        call = call.this
    if not isinstance(call, exp.Anonymous) or not isinstance(schema, exp.Identifier):
        return node
    if QualifiedName(schema.name, call.name) not in names:
        return node
    written = f"{schema.sql(dialect='postgres')}.{_name_of(call)}"
    # What replaces a node is not walked through any more.
    arguments = [mark_aggregates(one, names) for one in call.expressions]
    own = OwnAggregate(this=written, expressions=arguments)
    if call is inner:
        return own
    call.replace(own)
    return inner


def _name_of(call: exp.Anonymous) -> str:
    name = call.this
    return name.sql(dialect="postgres") if isinstance(name, exp.Expr) else str(name)
