"""Subqueries as values: each becomes a column of the rows around it.

    O with EXISTS (Q)   =   O ⋈ γ[D; n = number of rows](Q(D) + D)     and the value is n > 0
    O with (Q)          =   O ⋈ γ[D; the only value](Q(D) + D)

D holds the outer values that Q depends on (see ``correlation``); adding its own rows, marked as
absent, gives the outer rows for which Q is empty a group too: zero rows, the value NULL.  A second
row is PostgreSQL's own error, raised when the group is looked up.
"""

from __future__ import annotations

from sqlglot import exp

from pgtrickle.algebra.nodes import (
    Aggregate,
    AggregateCall,
    InnerJoin,
    Node,
    Output,
    Project,
    Scalar,
    UnionAll,
)
from pgtrickle.algebra.schema import column_names
from pgtrickle.model.sql_type import BIGINT, BOOLEAN, Column, SqlType
from pgtrickle.sql.lower.groups.grouping import has_aggregate
from pgtrickle.sql.lower.half_built import Block, Compiler, Context, Frame, Rows
from pgtrickle.sql.lower.subqueries.arrays import in_one_call
from pgtrickle.sql.lower.subqueries.correlation import Correlation, correlate, references
from pgtrickle.sql.lower.subqueries.quantified import as_value, find_quantified
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.row_comparison import compare_rows, row_compared
from pgtrickle.sql.scalars import (
    column_scalar,
    conjunction,
    null_scalar,
    parse_scalar,
)
from pgtrickle.sql.scope import Typed, typed_column
from pgtrickle.sql.text.own_level import is_subquery, replace_nodes

SUBQUERIES = "__subqueries"  # the table to which the columns of subqueries belong


def attach_subqueries(
    compiler: Compiler, expression: exp.Expr, frame: Frame, context: Context
) -> exp.Expr:
    """Return an expression without subqueries; their values become columns of the frame."""

    def attach(node: exp.Expr) -> exp.Expr | None:
        if (row := row_compared(node)) is not None:
            found = _scalars(compiler, node.expression.this, frame, context)
            operands = [replace_nodes(one, attach) for one in row]
            return compare_rows(type(node), operands, found)
        if not is_subquery(node):
            return None
        text = node.sql(dialect="postgres", identify=True)
        if text not in frame.attached:
            frame.attached[text] = value_of(node)
        return frame.attached[text].copy()

    def value_of(node: exp.Expr) -> exp.Expr:
        quantified = find_quantified(node, compiler.bound.set_functions)
        if quantified is not None:
            return exp.paren(replace_nodes(as_value(quantified), attach), copy=False)
        if isinstance(node, exp.Exists):
            return _exists(compiler, node.this, frame, context)
        if isinstance(node, exp.Array):
            return _array(compiler, node.expressions[0], frame, context)
        return _scalar(compiler, node.this, frame, context)

    return replace_nodes(expression, attach)


def _exists(compiler: Compiler, query: exp.Expr, frame: Frame, context: Context) -> exp.Expr:
    rows, correlation = _dependent(compiler, _without_values(query), frame, context)
    grouped, present = _with_absent(compiler, rows, correlation, values=())
    count = _call(compiler, "count", "COUNT(*)", (), present, BIGINT)
    _join(compiler, frame, correlation, Aggregate(grouped, _keys(grouped, correlation), (count,)))
    return exp.paren(exp.GT(this=_column(frame, count), expression=exp.Literal.number(0)))


def _scalar(compiler: Compiler, query: exp.Expr, frame: Frame, context: Context) -> exp.Expr:
    found = _scalars(compiler, query, frame, context)
    if len(found) != 1:
        raise Refusal("a subquery of several columns as a value", "select")
    return found[0]


def _scalars(compiler: Compiler, query: exp.Expr, frame: Frame, context: Context) -> list[exp.Expr]:
    """Return the columns of the only row of a subquery, each NULL if there is no row."""
    one_row = _is_one_row(query)
    rows, correlation = _dependent(compiler, query, frame, context, whole=not one_row)
    values = [(compiler.columns.fresh(f"{name}_value"), typed) for name, typed in rows.columns]
    if one_row:
        _join_rows(frame, correlation, rows)
        frame.scope.setdefault(SUBQUERIES, {}).update(values)
        return [
            exp.column(exp.to_identifier(name, quoted=True), table=SUBQUERIES) for name, _ in values
        ]
    grouped, present = _with_absent(compiler, rows, correlation, tuple(values))
    calls = tuple(
        _call(
            compiler,
            "only_value",
            column_scalar(name).sql,
            (Column(name, typed.type),),
            present,
            typed.type,
        )
        for name, typed in values
    )
    _join(compiler, frame, correlation, Aggregate(grouped, _keys(grouped, correlation), calls))
    return [_column(frame, call) for call in calls]


def _array(compiler: Compiler, query: exp.Expr, frame: Frame, context: Context) -> exp.Expr:
    """ARRAY(Q): the values of Q in its order, as an aggregate of one value each."""
    select = in_one_call(query)
    found = _scalar(compiler, select, frame, context)
    return exp.paren(exp.Coalesce(this=found, expressions=[exp.Literal.string("{}")]))


def _dependent(
    compiler: Compiler, query: exp.Expr, frame: Frame, context: Context, *, whole: bool = False
) -> tuple[Rows, Correlation | None]:
    """Lower a subquery for all the outer values that it names.

    Values of rows that conditions exclude do no harm, unless the subquery may fail for them:
    then the ``whole`` outer query determines the values.
    """
    found = references(query, frame.scope)
    if not found:
        return compiler.query(query, Context(context.ctes)), None
    values = {frame.scope[alias][name] for alias, name in found}
    outer = frame.block.build() if whole else narrowest_input(frame.block, values)
    correlation = correlate(compiler.columns, outer, found, frame.scope)
    return compiler.query(query, Context(context.ctes, correlation)), correlation


def narrowest_input(block: Block, values: set[Typed]) -> Node:
    """Return the input of a block that holds all the given values, or the whole block.

    The whole block, too, if only its other inputs are bound to constants: what is kept for each
    value would otherwise be kept for most rows of the input (TPC-H's query 21).
    """
    names = {name for one in values for name in one.scalar.columns}
    for node in block.inputs:
        if names <= column_names(node):
            own = [one for one in block.conditions if column_names(node).issuperset(one.columns)]
            if any(map(_is_constant, own)) or not any(map(_is_constant, block.conditions)):
                return Block([node], [one for one in own if one.columns]).build()
            break
    return block.build()


def _is_constant(condition: Scalar) -> bool:
    """Tell whether a condition lets one column have a single value, or a few."""
    tree = parse_scalar(condition.sql)
    return len(condition.columns) == 1 and isinstance(tree, exp.EQ | exp.In | exp.Like)


def _with_absent(
    compiler: Compiler,
    rows: Rows,
    correlation: Correlation | None,
    values: tuple[tuple[str, Typed], ...],
) -> tuple[Node, str | None]:
    """Return a subquery's rows and, marked as absent, one row for each outer value."""
    kept = tuple(Output(name, typed.scalar, typed.type) for name, typed in values)
    if correlation is None:
        # Without outer values there is one group, which needs no row to exist.
        node: Node = Project(rows.block.build(), kept)
        compiler.columns.remember(node)
        return node, None
    keys = [compiler.columns.fresh(column.name) for column in correlation.columns]
    present = compiler.columns.fresh("present")
    node = UnionAll(
        (
            Project(
                rows.block.build(),
                _named(keys, rows.carried) + kept + (Output(present, Scalar("TRUE"), BOOLEAN),),
            ),
            _absent_rows(compiler, correlation, keys, kept, present),
        )
    )
    compiler.columns.remember(node)
    return node, present


def _absent_rows(
    compiler: Compiler,
    correlation: Correlation,
    keys: list[str],
    kept: tuple[Output, ...],
    present: str,
) -> Project:
    """Return one row for each outer value, with NULL for everything else."""
    instance, _, typed = correlation.instance(compiler.columns)
    nulls = tuple(Output(one.name, null_scalar(one.type), one.type) for one in kept)
    absent = (Output(present, Scalar("FALSE"), BOOLEAN),)
    return Project(instance, _named(keys, typed) + nulls + absent)


def _named(names: list[str], values: tuple[Typed, ...]) -> tuple[Output, ...]:
    return tuple(
        Output(name, typed.scalar, typed.type) for name, typed in zip(names, values, strict=True)
    )


def _keys(grouped: Node, correlation: Correlation | None) -> tuple[Column, ...]:
    if correlation is None:
        return ()
    first = grouped.children[0] if isinstance(grouped, UnionAll) else grouped
    outputs = first.outputs if isinstance(first, Project) else ()
    return tuple(one.column for one in outputs[: len(correlation.columns)])


def _call(
    compiler: Compiler,
    function: str,
    sql: str,
    arguments: tuple[Column, ...],
    condition: str | None,
    type_: SqlType,
) -> AggregateCall:
    return AggregateCall(
        compiler.columns.fresh(function),
        function,
        sql,
        arguments,
        condition,
        whole=bool(arguments),
        plain=True,
        distinct=False,
        type=type_,
    )


def _join(
    compiler: Compiler, frame: Frame, correlation: Correlation | None, node: Aggregate
) -> None:
    compiler.columns.remember(node)
    carried = tuple(typed_column(key) for key in node.keys)
    _join_rows(frame, correlation, Rows(Block([node]), (), carried))


def _join_rows(frame: Frame, correlation: Correlation | None, rows: Rows) -> None:
    """Join the rows of a subquery, one for each outer row, to the frame."""
    same = correlation.same(rows.carried) if correlation else []
    frame.block.become(InnerJoin(frame.block.build(), rows.block.build(), conjunction(same)))


def _column(frame: Frame, call: AggregateCall) -> exp.Expr:
    typed = typed_column(call)
    frame.scope.setdefault(SUBQUERIES, {})[call.name] = typed
    return exp.column(exp.to_identifier(call.name, quoted=True), table=SUBQUERIES)


def _is_one_row(query: exp.Expr) -> bool:
    """Tell whether a query always has exactly one row."""
    query = query.unnest()
    if not isinstance(query, exp.Select):
        return False
    clauses = ("group", "having", "limit", "offset", "distinct")
    return has_aggregate(query) and not any(query.args.get(clause) for clause in clauses)


def _without_values(query: exp.Expr) -> exp.Expr:
    """Drop the SELECT list of a query if only the number of its rows matters."""
    select = query.unnest()
    clauses = ("group", "having", "distinct", "offset")
    if (
        not isinstance(select, exp.Select)
        or has_aggregate(select)
        or any(select.args.get(clause) for clause in clauses)
    ):
        return query
    limit = select.args.get("limit")
    if limit is not None and not _is_positive(limit):
        return query
    copy = select.copy()
    copy.set("limit", None)
    copy.set("order", None)
    return copy


def _is_positive(limit: exp.Expr) -> bool:
    number = limit.expression if isinstance(limit, exp.Limit) else limit.args.get("count")
    number = number.unnest() if number is not None else None
    return isinstance(number, exp.Literal) and number.this.isdigit() and int(number.this) > 0
