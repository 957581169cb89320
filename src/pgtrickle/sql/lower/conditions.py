"""The conditions of WHERE, some of which are semi or anti joins.

A condition that is an EXISTS or IN, joined to the others by AND, keeps or drops
rows by a key: if equalities say which rows belong together, only the keys are stored.
Any other subquery becomes a column first (see ``subqueries``).
"""

from __future__ import annotations

from sqlglot import exp

from pgtrickle.algebra.nodes import Node, Scalar
from pgtrickle.sql.lower.half_built import Compiler, Context, Frame
from pgtrickle.sql.lower.outer_join import is_keyed, rows_with_partner, rows_without_partner
from pgtrickle.sql.lower.subqueries.as_values import attach_subqueries
from pgtrickle.sql.lower.subqueries.correlation import references
from pgtrickle.sql.lower.subqueries.quantified import as_condition, find_quantified, is_plain
from pgtrickle.sql.scalars import and_parts, conjuncts, make_scalar, parse_scalar
from pgtrickle.sql.scope import resolve
from pgtrickle.sql.text.own_level import has_subquery


def lower_conditions(
    compiler: Compiler, condition: exp.Expr, frame: Frame, context: Context
) -> None:
    """Keep the rows of a frame for which a condition is true."""
    parts = list(and_parts(condition))
    for part in parts:
        if not has_subquery(part):
            frame.block.conditions += conjuncts(resolve(part, frame.scope))
    for part in parts:
        if has_subquery(part):
            _Condition(compiler, frame, context).lower(part)


class _Condition:
    """Lowers one condition that contains subqueries."""

    def __init__(self, compiler: Compiler, frame: Frame, context: Context) -> None:
        self._compiler = compiler
        self._frame = frame
        self._context = context

    def lower(self, part: exp.Expr) -> None:
        inner, negated = part.unnest(), False
        while isinstance(inner, exp.Not):
            inner, negated = inner.this.unnest(), not negated
        if isinstance(inner, exp.And):
            if not negated:
                lower_conditions(self._compiler, inner, self._frame, self._context)
                return
        elif isinstance(inner, exp.Exists):
            if self._join_by_key(inner.this, negated=negated):
                return
        elif (quantified := find_quantified(inner, self._compiler.bound.set_functions)) is not None:
            if isinstance(inner, exp.In) and not negated and self._join_in(inner):
                return
            for one in as_condition(quantified, negated=negated):
                self.lower(one)
            return
        attached = attach_subqueries(self._compiler, part, self._frame, self._context)
        self._frame.block.conditions += conjuncts(resolve(attached, self._frame.scope))

    def _join_in(self, node: exp.In) -> bool:
        """Join by the columns of an independent subquery."""
        query = node.args["query"]
        if references(query, self._frame.scope) or has_subquery(node.this):
            return False
        operand = node.this.unnest()
        operands = operand.expressions if isinstance(operand, exp.Tuple) else [operand]
        rows = self._compiler.query(query, Context(self._context.ctes))
        conditions = [
            make_scalar(
                exp.EQ(
                    this=exp.paren(parse_scalar(resolve(one, self._frame.scope).sql).copy()),
                    expression=exp.paren(parse_scalar(typed.scalar.sql).copy()),
                )
            )
            for one, (_, typed) in zip(operands, rows.columns, strict=True)
        ]
        return self._join(rows.block.build(), conditions, negated=False)

    def _join_by_key(self, query: exp.Expr, *, negated: bool) -> bool:
        """Join by the equalities of a subquery's WHERE, if it is of that kind."""
        select = query.unnest()
        if not isinstance(select, exp.Select) or not is_plain(
            select, self._compiler.bound.set_functions
        ):
            return False
        scope = self._frame.scope
        rest = select.copy()
        reaching: list[exp.Expr] = []
        staying: list[exp.Expr] = []
        where = select.args.get("where")
        for part in and_parts(where.this) if where is not None else ():
            (reaching if references(part, scope) else staying).append(part)
        rest.set("where", exp.Where(this=exp.and_(*staying)) if staying else None)
        rest.set("expressions", [])
        rest.set("order", None)
        if references(rest, scope) or any(map(has_subquery, reaching)) or not reaching:
            return False
        # The inner side yields the columns that the conditions between the sides read.
        used = {
            (column.table, column.name): column
            for part in reaching
            for column in part.find_all(exp.Column)
            if column.name not in scope.get(column.table, {})
        }
        if any(not table for table, _ in used):
            return False
        rest.set(
            "expressions",
            [exp.alias_(column.copy(), f"used_{n}") for n, column in enumerate(used.values())]
            or [exp.alias_(exp.Literal.number(1), "one")],
        )
        rows = self._compiler.query(rest, Context(self._context.ctes))
        both = {alias: dict(columns) for alias, columns in scope.items()}
        for (table, name), (_, typed) in zip(used, rows.columns, strict=False):
            both.setdefault(table, {})[name] = typed
        conditions = [one for part in reaching for one in conjuncts(resolve(part, both))]
        return self._join(rows.block.build(), conditions, negated=negated)

    def _join(self, inner: Node, conditions: list[Scalar], *, negated: bool) -> bool:
        outer = self._frame.block.build()
        columns = self._compiler.columns
        if not is_keyed(columns, outer, inner, conditions):
            return False
        join = rows_without_partner if negated else rows_with_partner
        self._frame.block.become(join(columns, outer, inner, conditions))
        return True
