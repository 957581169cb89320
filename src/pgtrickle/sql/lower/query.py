"""From the text of a bound query to algebra.

The input is PostgreSQL's own rendering of the query, so names are resolved, stars expanded and
casts written out; only structure remains.  Derived tables, CTEs and views are inlined: a
column of theirs becomes the expression behind it, over columns of base tables.  SELECT is lowered
in ``select``, FROM in ``from_clause``.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from pgtrickle.algebra.nodes import Output, Query
from pgtrickle.model.compile_steps import step
from pgtrickle.sql.bound import BoundQuery, Typer
from pgtrickle.sql.lower.from_clause import FromClause
from pgtrickle.sql.lower.half_built import Block, Context, Cte, Rows, leaf
from pgtrickle.sql.lower.query_end import end, read_ending
from pgtrickle.sql.lower.recursion import lower_searched
from pgtrickle.sql.lower.reuse import Reuse
from pgtrickle.sql.lower.select import SelectLowering
from pgtrickle.sql.lower.set_operations import lower_set_operation, union_all
from pgtrickle.sql.lower.set_returning import constant_rows
from pgtrickle.sql.plan_columns import PlanColumns
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.text.own_level import named
from pgtrickle.sql.text.parse_bound import parse_bound
from pgtrickle.sql.text.printed_syntax import SEARCHED
from pgtrickle.sql.text.values import select_values


def lower(query: BoundQuery, typer: Typer) -> Query:
    """Translate a bound query to algebra; raise ``Refusal`` for a construct without a rule."""
    lowering = _Lowering(query, typer)
    rows = lowering.query(parse_bound(query.sql, query.aggregates), Context())
    outputs = tuple(
        Output(column.name, typed.scalar, column.type)
        for column, (_, typed) in zip(query.columns, rows.columns, strict=True)
    )
    return Query(rows.block.build(), outputs)


class _Lowering:
    """The recursion over queries."""

    def __init__(self, query: BoundQuery, typer: Typer) -> None:
        self.bound = query
        self.columns = PlanColumns(typer)
        self._reuse = Reuse(self.columns)

    def query(self, query: exp.Expr, context: Context) -> Rows:
        """Lower any query; a dependent one carries the outer values that it depends on."""
        step()
        while isinstance(query, exp.Subquery) and not query.args.get("joins"):
            query = query.this
        if context.correlation is not None:
            return self._new(query, context)
        return self._reuse.query(query, context.ctes, lambda: self._new(query, context))

    def _new(self, query: exp.Expr, context: Context) -> Rows:
        """Lower a query that has not occurred yet."""
        if _is_searched(query):
            return lower_searched(self, query, context)
        context = _with_ctes(query, context)
        if isinstance(query, exp.SetOperation):
            sides = [self.query(side, context) for side in (query.left, query.right)]
            ending, extra = read_ending(query, dependent=context.correlation is not None)
            if ending.places:
                raise Refusal("LIMIT of a dependent set operation by a value", "limit", "offset")
            if extra:
                raise Refusal("ORDER BY an expression over a set operation", "order by")
            return end(self, lower_set_operation(self, query, sides), ending, context)
        if isinstance(query, exp.Select):
            return SelectLowering(self, context).lower(query)
        if isinstance(query, exp.Values):
            ordered = any(query.args.get(clause) for clause in exp.QUERY_MODIFIERS)
            return (
                self.query(select_values(query), context)
                if ordered
                else self._values(query, context)
            )
        raise Refusal(query.key.upper(), query.key)

    def relation(self, table: exp.Table, context: Context) -> Rows:
        """Lower a single table, view or CTE."""
        return FromClause(self, context).relation(table)

    def _values(self, query: exp.Values, context: Context) -> Rows:
        if query.find(exp.Column, exp.Query) is not None:
            lowered = [self.query(_row(one), context) for one in query.expressions]
            return union_all(self, lowered) if len(lowered) > 1 else lowered[0]
        bare = query.copy()
        bare.set("alias", None)
        sql = bare.sql(dialect="postgres")
        names = [column.name for column in self.columns.query_columns(sql)]
        rows = leaf(self.columns, constant_rows(self, sql, names), names)
        if context.correlation is None:
            return rows
        node, _, carried = context.correlation.instance(self.columns)
        return replace(rows, block=Block([node, *rows.block.inputs]), carried=carried)


def _row(values: exp.Expr) -> exp.Select:
    """Write a row of VALUES as a query."""
    listed = values.expressions if isinstance(values, exp.Tuple) else [values]
    return exp.Select(
        expressions=[named(one.copy(), f"column{number}") for number, one in enumerate(listed, 1)]
    )


def _is_searched(query: exp.Expr) -> bool:
    """Tell whether a recursive query of WITH has SEARCH or CYCLE."""
    clause = query.args.get("with_")
    return clause is not None and any(one.args.get(SEARCHED) for one in clause.expressions)


def _with_ctes(query: exp.Expr, context: Context) -> Context:
    clause = query.args.get("with_")
    if clause is None:
        return context
    known = dict(context.ctes)
    for cte in clause.expressions:
        names = tuple(column.name for column in cte.args["alias"].args.get("columns") or ())
        recursive = bool(clause.args.get("recursive")) and _names_itself(cte)
        known[cte.alias] = Cte(cte.this, names, dict(known), recursive=recursive)
    return replace(context, ctes=known)


def _names_itself(cte: exp.CTE) -> bool:
    return any(not table.db and table.name == cte.alias for table in cte.this.find_all(exp.Table))
