"""Functions that return sets, in FROM and in SELECT, and constant tables.

PostgreSQL computes a function of other rows for each combination of its arguments:

    O, LATERAL f(o.a)   =   O ⋈ ρ[a](D, LATERAL f(a))        D: the arguments, each combination once

A query that reads no table, VALUES or ``generate_series(1, 10)``, is a source that never changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from pgtrickle.algebra.nodes import (
    INPUT,
    InnerJoin,
    Node,
    Output,
    Recompute,
    Scalar,
    Scan,
    Source,
    SourceKind,
)
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.sql.lower.half_built import Block, Compiler, Frame, Rows, leaf
from pgtrickle.sql.lower.subqueries.correlation import Correlation, correlate
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.scalars import column_scalar, conjunction, parse_scalar
from pgtrickle.sql.scope import Scope, Typed, typed_column
from pgtrickle.sql.text.own_level import calls_any, is_subquery, replace_nodes

ARGUMENTS = "__arguments"  # the table to which the values of subqueries in arguments belong


def is_function(item: exp.Expr) -> bool:
    """Tell whether an item of FROM is a function call."""
    if isinstance(item, exp.Lateral):
        return not isinstance(item.this, exp.Subquery)
    if isinstance(item, exp.Table):
        return bool(item.args.get("rows_from")) or not isinstance(item.this, exp.Identifier)
    return isinstance(item, exp.Unnest)


def subqueries_of_call(item: exp.Expr) -> dict[str, exp.Expr]:
    """Return the subqueries among the arguments of a function in FROM, each with a name."""
    found: dict[str, exp.Expr] = {}
    _replace_subqueries(item, found)
    return found


def with_values(item: exp.Expr) -> exp.Expr:
    """Return a function in FROM that takes columns of ``ARGUMENTS`` in place of subqueries."""
    return _replace_subqueries(item, {})


def _replace_subqueries(item: exp.Expr, found: dict[str, exp.Expr]) -> exp.Expr:
    def replace(node: exp.Expr) -> exp.Expr | None:
        if not is_subquery(node):
            return None
        name = f"argument_{len(found) + 1}"
        found[name] = node.copy()
        return exp.column(
            exp.to_identifier(name, quoted=True), table=exp.to_identifier(ARGUMENTS, quoted=True)
        )

    own = item.copy()
    joins = own.args.pop("joins", None)
    replaced = replace_nodes(own, replace)
    if joins:
        replaced.set("joins", joins)
    return replaced


def function_rows(compiler: Compiler, item: exp.Expr, correlation: Correlation | None) -> Rows:
    """Lower a function in FROM for all the outer values it takes as arguments."""
    call = item.copy()
    call.set("joins", None)
    if call.find(exp.Query) is not None:
        raise Refusal("a subquery as an argument of a function in FROM", item.alias_or_name)
    if correlation is None:
        text = _lateral_sql(call)
        query = f"SELECT * FROM {text}"
        names = [column.name for column in compiler.columns.query_columns(query)]
        return leaf(compiler.columns, constant_rows(compiler, query, names), names)

    def argument(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column) and (node.table, node.name) in correlation.references:
            return _outer_value(correlation, correlation.references[node.table, node.name])
        return None

    text = _lateral_sql(replace_nodes(call, argument))
    keys = correlation.columns
    nulls = ", ".join(
        f"NULL::{column.type.display} AS {quote_identifier(column.name)}" for column in keys
    )
    shown = compiler.columns.query_columns(
        f"SELECT f.* FROM (SELECT {nulls}) AS {INPUT} CROSS JOIN LATERAL {_aliased(text, item)}"
    )
    outputs = tuple(
        Column(compiler.columns.fresh(f"{item.alias_or_name}_{column.name}"), column.type)
        for column in shown
    )
    alias = quote_identifier(item.alias_or_name)
    listed = [
        *(f"{INPUT}.{quote_identifier(key.name)}" for key in keys),
        *(
            f"{alias}.{quote_identifier(column.name)} AS {quote_identifier(output.name)}"
            for column, output in zip(shown, outputs, strict=True)
        ),
    ]
    node = Recompute(
        correlation.node,
        keys,
        (*keys, *outputs),
        f"SELECT {', '.join(listed)} FROM {INPUT} CROSS JOIN LATERAL {text}",
        "function",
    )
    compiler.columns.remember(node)
    carried = tuple(typed_column(key) for key in keys)
    columns = tuple(
        (column.name, typed_column(output)) for column, output in zip(shown, outputs, strict=True)
    )
    return Rows(Block([node]), columns, carried)


def constant_rows(compiler: Compiler, query: str, names: Sequence[str]) -> Node:
    """Return a source for a query that reads no table."""
    types = [column.type for column in compiler.columns.query_columns(query)]
    inner = [f"column_{number}" for number, _ in enumerate(types, 1)]
    outputs = tuple(
        Output(compiler.columns.fresh(name), column_scalar(column), type_)
        for name, column, type_ in zip(names, inner, types, strict=True)
    )
    alias = compiler.columns.fresh("constant")
    listed = ", ".join(map(quote_identifier, inner))
    text = f"SELECT * FROM ({query}) AS constant ({listed})"
    node = Scan(Source(SourceKind.QUERY, alias, query=text), alias, outputs)
    compiler.columns.remember(node)
    return node


def expand_functions(compiler: Compiler, scalars: Sequence[Scalar], frame: Frame) -> list[Scalar]:
    """Return the expressions of a SELECT list without calls that return sets.

    PostgreSQL runs all of them in step, so they are computed together.
    """
    names = compiler.bound.set_functions
    chosen = [one for one in scalars if calls_any(parse_scalar(one.sql), names)]
    if not chosen:
        return list(scalars)
    arguments = sorted({name for one in chosen for name in one.columns})
    scope: Scope = {
        "": {name: Typed(column_scalar(name), compiler.columns.type_of(name)) for name in arguments}
    }
    if not arguments:
        raise Refusal("a set-returning function of constants in SELECT", *names)
    outer = frame.block.build()
    correlation = correlate(compiler.columns, outer, [("", name) for name in arguments], scope)
    renamed = {
        name: _outer_value(correlation, index)
        for (_, name), index in correlation.references.items()
    }
    types = [typed.type for typed in compiler.columns.typed(chosen)]
    outputs = tuple(Column(compiler.columns.fresh("element"), type_) for type_ in types)
    listed = [quote_identifier(key.name) for key in correlation.columns]
    listed += [
        f"{_renamed(one, renamed)} AS {quote_identifier(output.name)}"
        for one, output in zip(chosen, outputs, strict=True)
    ]
    node = Recompute(
        correlation.node,
        correlation.columns,
        (*correlation.columns, *outputs),
        f"SELECT {', '.join(listed)} FROM {INPUT}",
        "function",
    )
    compiler.columns.remember(node)
    carried = tuple(typed_column(key) for key in correlation.columns)
    frame.block.become(InnerJoin(outer, node, conjunction(correlation.same(carried))))
    found = {
        one.sql: column_scalar(output.name) for one, output in zip(chosen, outputs, strict=True)
    }
    return [found.get(one.sql, one) for one in scalars]


def _renamed(scalar: Scalar, values: dict[str, exp.Expr]) -> str:
    def rename(node: exp.Expr) -> exp.Expr | None:
        return values[node.name].copy() if isinstance(node, exp.Column) else None

    return replace_nodes(parse_scalar(scalar.sql), rename).sql(dialect="postgres")


def _outer_value(correlation: Correlation, index: int) -> exp.Expr:
    """Write an outer value as PostgreSQL reads it from the input, in the type it had."""
    column, type_ = correlation.columns[index], correlation.outer[index].type
    name = exp.column(exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(INPUT))
    if column.type == type_:
        return name
    return parse_scalar(f"CAST({name.sql(dialect='postgres')} AS {type_.display})").copy()


def _lateral_sql(call: exp.Expr) -> str:
    if any(one.args.get("alias") for one in call.args.get("rows_from") or ()):
        raise Refusal("a list of column definitions in ROWS FROM", "rows from")
    return call.sql(dialect="postgres").removeprefix("LATERAL ")


def _aliased(text: str, item: exp.Expr) -> str:
    """Give a function the alias ``f`` so that its columns can be listed."""
    return f"(SELECT {quote_identifier(item.alias_or_name)}.* FROM {text}) AS f"
