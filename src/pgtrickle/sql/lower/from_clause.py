"""FROM: tables, views, CTEs, derived tables, functions, and joins of every kind.

Inner joins and WHERE are collected into a *block* (inputs and conditions, unordered), so the order
in which the user wrote them does not matter.  An item that names columns of the items before it is
lateral, whether the user wrote LATERAL or the item is part of a dependent subquery.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from pgtrickle.algebra.nodes import Node, Output, Scalar, Scan, Source, SourceKind
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.sql.bound import Relation
from pgtrickle.sql.lower.half_built import Block, Compiler, Context, Frame, Rows, leaf
from pgtrickle.sql.lower.merged_columns import join_columns, merge_columns
from pgtrickle.sql.lower.outer_join import Side, full_join, left_join
from pgtrickle.sql.lower.recursion import lower_recursive
from pgtrickle.sql.lower.set_returning import (
    ARGUMENTS,
    constant_rows,
    function_rows,
    is_function,
    subqueries_of_call,
    with_values,
)
from pgtrickle.sql.lower.subqueries.as_values import attach_subqueries, narrowest_input
from pgtrickle.sql.lower.subqueries.correlation import correlate, null_safe, references
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.scalars import and_parts, column_scalar, conjuncts, make_scalar
from pgtrickle.sql.scope import ROW, Scope, Typed, find_column, resolve
from pgtrickle.sql.text.own_level import has_subquery, named
from pgtrickle.sql.text.parse_bound import parse_bound
from pgtrickle.sql.whole_rows import names_with_row, with_row

# The outer values of a dependent query, which get other names in an outer join.  PostgreSQL allows
# no such name for a table.
_CARRIED = "\0carried"


class FromClause:
    """Lowers the FROM of one query."""

    def __init__(self, compiler: Compiler, context: Context) -> None:
        self._compiler = compiler
        self._columns = compiler.columns
        self._context = context
        self._inside = Context(context.ctes)
        self._select: exp.Expr = exp.Select()  # the query whose FROM it is
        self._by_position = 0  # in so many joins whose columns have names by their position
        self._with_row: frozenset[str] = frozenset()  # the items whose whole rows it uses

    def lower(self, select: exp.Select) -> Frame:
        """Lower a FROM, together with the outer values that the query depends on."""
        self._select, self._with_row = select, names_with_row(select)
        frame = Frame(Block(), Scope())
        if self._context.correlation is not None:
            node, scope, carried = self._context.correlation.instance(self._columns)
            frame = Frame(Block([node]), scope, carried, correlation=self._context.correlation)
        clause = select.args.get("from_")
        items = [clause.this] if clause is not None else []
        for item in items:
            self._add(item, frame)
        for join in select.args.get("joins") or ():
            self._join(join, frame)
        if not frame.block.inputs:
            # SELECT without FROM has one row.
            frame.block.inputs.append(constant_rows(self._compiler, "SELECT 1 AS one", ("one",)))
        return frame

    def relation(self, table: exp.Table) -> Rows:
        """Lower a single table, view or CTE."""
        return self._rows(table, self._inside)

    # Items

    def _add(self, item: exp.Expr, frame: Frame) -> None:
        """Add an item of FROM, with its joins, to a frame."""
        if is_function(item) and (arguments := subqueries_of_call(item)):
            self._add_with_arguments(item, arguments, frame)
            return
        if references(item, frame.scope):
            own, conditions = self._lateral(item, frame)
        else:
            # A JOIN sees only the items it joins, not its neighbours in FROM.
            own, conditions = self._joined(item, self._inside), []
        frame.block.inputs += own.block.inputs
        frame.block.conditions += [*own.block.conditions, *conditions]
        frame.scope |= own.scope

    def _add_with_arguments(
        self, item: exp.Expr, arguments: dict[str, exp.Expr], frame: Frame
    ) -> None:
        """Add a function whose arguments have subqueries: their values stand in FROM before it."""
        values = exp.Select(expressions=[named(one, name) for name, one in arguments.items()])
        alias = exp.TableAlias(this=exp.to_identifier(ARGUMENTS, quoted=True))
        self._add(exp.Subquery(this=values, alias=alias), frame)
        self._add(with_values(item), frame)
        del frame.scope[ARGUMENTS]

    def _lateral(self, item: exp.Expr, frame: Frame) -> tuple[Frame, list[Scalar]]:
        """Lower a dependent item; return it and its join with the rows it depends on."""
        found = references(item, frame.scope)
        outer = narrowest_input(frame.block, {frame.scope[alias][name] for alias, name in found})
        correlation = correlate(self._columns, outer, found, frame.scope)
        own = self._joined(item, Context(self._context.ctes, correlation))
        return own, correlation.same(own.carried)

    def _joined(self, item: exp.Expr, context: Context) -> Frame:
        """Lower an item with its joins."""
        joins = item.args.get("joins") or ()
        if not joins or context.correlation is None:
            frame = self._item(item, context)
            for join in joins:
                self._join(join, frame)
            return frame
        node, scope, carried = context.correlation.instance(self._columns)
        frame = Frame(Block([node]), dict(scope), carried, correlation=context.correlation)
        self._add(_without_joins(item), frame)
        for join in joins:
            self._join(join, frame)
        frame.scope = {alias: one for alias, one in frame.scope.items() if alias not in scope}
        return frame

    def _item(self, item: exp.Expr, context: Context) -> Frame:
        """Lower one item without its joins."""
        if isinstance(item, exp.Lateral) and isinstance(item.this, exp.Subquery):
            inner = item.this.copy()
            inner.set("alias", item.args.get("alias"))
            return self._item(inner, context)
        if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table | exp.Subquery):
            # Joined tables in parentheses, which may have a common alias.
            self._by_position += bool(item.alias)
            frame = self._joined(item.this, context)
            self._by_position -= bool(item.alias)
            if item.alias:
                columns = tuple(join_columns(frame.scope))
                frame.scope = {item.alias: dict(_rename(columns, _alias_columns(item)))}
            return frame
        if is_function(item) and context.correlation is None and subqueries_of_call(item):
            frame = Frame(Block(), Scope())
            self._add(_without_joins(item), frame)
            return frame
        rows = self._rows(item, context)
        name, columns = item.alias_or_name, _rename(rows.columns, _alias_columns(item))
        own = dict(columns)
        if name in self._with_row:
            rows = replace(rows, columns=columns)
            rows, own[ROW] = with_row(
                self._compiler, rows, name, self._row_type(item), self._select
            )
        return Frame(rows.block, {name: own}, rows.carried)

    def _row_type(self, item: exp.Expr) -> QualifiedName | None:
        """Return the table or view whose row an item has; None if its row has no type."""
        if not isinstance(item, exp.Table) or is_function(item):
            return None
        if not item.db and item.name in self._context.ctes:
            return None
        return QualifiedName(item.db, item.name)

    def _rows(self, item: exp.Expr, context: Context) -> Rows:
        if is_function(item):
            return function_rows(self._compiler, item, context.correlation)
        if isinstance(item, exp.Table):
            self._refuse_sample(item)
            if not item.db and item.name in self._context.ctes:
                return self._cte(item.name, context)
            return self._relation(item)
        if isinstance(item, exp.Subquery):
            return self._compiler.query(item.this, context)
        if isinstance(item, exp.Values):
            return self._compiler.query(item, context)
        raise Refusal(f"{item.key.upper()} as a table", item.alias_or_name, item.key)

    def _cte(self, name: str, context: Context) -> Rows:
        cte = self._context.ctes[name]
        if cte.recursive:
            return lower_recursive(self._compiler, name, cte, context)
        rows = self._compiler.query(cte.query, replace(context, ctes=cte.known))
        return replace(rows, columns=_rename(rows.columns, cte.names))

    def _refuse_sample(self, item: exp.Table) -> None:
        if item.args.get("sample"):
            raise Refusal("TABLESAMPLE", "tablesample")
        relation = self._compiler.bound.relations.get(QualifiedName(item.db, item.name))
        if item.args.get("only") and (relation is None or relation.has_children):
            raise Refusal("ONLY before a table with partitions or child tables", "only")

    def _relation(self, table: exp.Table) -> Rows:
        relation = self._compiler.bound.relations.get(QualifiedName(table.db, table.name))
        if relation is None:
            raise Refusal(f'the system relation "{table.name}"', table.name)
        if relation.definition is not None:
            aggregates = self._compiler.bound.aggregates
            definition = parse_bound(relation.definition, aggregates)
            rows = self._compiler.query(definition, Context())
            return replace(
                rows, columns=_rename(rows.columns, [column.name for column in relation.columns])
            )
        return self._table(relation, table.alias_or_name)

    def _table(self, relation: Relation, alias: str) -> Rows:
        whole = alias in self._with_row or self._by_position
        alias = self._columns.fresh(alias)
        read = None if whole else self._compiler.bound.reads.get(relation.relid)
        shown = [one for one in relation.columns if read is None or one.name in read]
        outputs = tuple(
            Output(
                self._columns.fresh(f"{alias}_{column.name}"),
                column_scalar(column.name),
                column.type,
            )
            for column in shown
        )
        source = Source(
            SourceKind.TABLE, str(relation.relid), relation=relation.name, relid=relation.relid
        )
        return leaf(self._columns, Scan(source, alias, outputs), [column.name for column in shown])

    # Joins

    def _join(self, join: exp.Join, frame: Frame) -> None:
        word = (join.side or "").upper()
        if (join.kind or "").upper() not in {"", "INNER", "CROSS", "OUTER"}:
            raise Refusal(f"{join.kind.upper()} JOIN", join.kind)
        if (join.args.get("method") or "").upper() not in {"", "NATURAL"}:
            raise Refusal(f"{join.args['method'].upper()} JOIN", join.args["method"])
        if word:
            self._outer_join(join, word, frame)
            return
        left = dict(frame.scope)
        self._add(join.this, frame)
        right = {alias: one for alias, one in frame.scope.items() if alias not in left}
        frame.block.conditions += self._conditions(join, left, right, frame)
        own = frame.own(left)
        merge_columns(frame.scope, _using(join, own, right), own, right, "")

    def _outer_join(self, join: exp.Join, word: str, frame: Frame) -> None:
        left_scope = dict(frame.scope)
        right = Frame(Block(), Scope())
        together: list[Scalar] = []
        if references(join.this, frame.scope):
            if word != "LEFT":
                raise Refusal(f"{word} JOIN LATERAL", "lateral")
            right, together = self._lateral(join.this, frame)
        else:
            self._add(join.this, right)
        conditions, crossing = self._outer_conditions(join, left_scope, right, frame)
        carried = _numbered(frame.carried)
        outer: Scope = {}
        if word != "LEFT" and frame.correlation is not None:
            # The rows of the right side without a partner are rows for every outer value.
            node, meaning, values = frame.correlation.instance(self._columns)
            right.block.inputs.append(node)
            together = [
                null_safe(a.scalar, b.scalar) for a, b in zip(frame.carried, values, strict=True)
            ]
            outer = {**meaning, _CARRIED: _numbered(values)}
        left_side = Side(frame.block.build(), {**left_scope, _CARRIED: carried})
        right_side = Side(right.block.build(), right.scope)
        own = frame.own(left_scope)
        using = _using(join, own, right.scope)
        if word == "FULL" and using and frame.correlation is not None:
            raise Refusal("FULL JOIN ... USING inside a dependent query", "full")
        conditions = [*together, *conditions]
        pairs = None
        if crossing:
            both = Block([left_side.node, right_side.node], conditions)
            scope = {**left_scope, **right.scope}
            pairs = self._pairs(crossing, Frame(both, scope, frame.carried, {}, frame.correlation))
        if word == "LEFT":
            joined = left_join(self._columns, left_side, right_side, conditions, pairs)
        elif word == "RIGHT":
            left_side = Side(left_side.node, _without(left_side.scope, outer))
            right_side = Side(right_side.node, {_CARRIED: {}, **right.scope, **outer})
            joined = left_join(self._columns, right_side, left_side, conditions, pairs)
        else:
            joined = full_join(self._columns, left_side, right_side, conditions, outer, pairs)
        frame.block.become(joined.node)
        frame.carried = tuple(joined.scope[_CARRIED].values())
        frame.scope = {alias: joined.scope[alias] for alias in (*left_scope, *right.scope)}
        sides = [{alias: frame.scope[alias] for alias in scope} for scope in (own, right.scope)]
        merge_columns(frame.scope, using, sides[0], sides[1], word)

    def _outer_conditions(
        self, join: exp.Join, left: Scope, right: Frame, frame: Frame
    ) -> tuple[list[Scalar], list[exp.Expr]]:
        """Return the conditions of an outer join, and those with subqueries over both sides.

        A subquery that reads one side alone becomes a column of that side.
        """
        on = join.args.get("on")
        if on is None or not has_subquery(on):
            return self._conditions(join, left, right.scope, frame), []
        conditions: list[Scalar] = []
        crossing = []
        for part in and_parts(on):
            reads_left, reads_right = references(part, left), references(part, right.scope)
            if not has_subquery(part):
                conditions += conjuncts(resolve(part, {**left, **right.scope}))
            elif reads_left and reads_right:
                crossing.append(part)
            else:
                side = frame if reads_left else right
                conditions += self._with_columns(part, side)
        return conditions, crossing

    def _with_columns(self, condition: exp.Expr, frame: Frame) -> list[Scalar]:
        """Return a condition whose subqueries are columns now, which have no name there."""
        scope = {alias: dict(names) for alias, names in frame.scope.items()}
        same = Frame(frame.block, scope, frame.carried, {}, frame.correlation)
        attached = attach_subqueries(self._compiler, condition, same, self._context)
        return conjuncts(resolve(attached, same.scope))

    def _pairs(self, conditions: Sequence[exp.Expr], both: Frame) -> Node:
        """Return the pairs of rows that meet conditions with subqueries over both sides."""
        found = [one for part in conditions for one in self._with_columns(part, both)]
        both.block.conditions += found
        return both.block.build()

    def _conditions(self, join: exp.Join, left: Scope, right: Scope, frame: Frame) -> list[Scalar]:
        """Return the conditions of ON or USING, over the plan's columns."""
        own = frame.own(left)
        conditions = [
            make_scalar(
                exp.EQ(
                    this=find_column(own, name).copy(), expression=find_column(right, name).copy()
                )
            )
            for name in _using(join, own, right)
        ]
        if on := join.args.get("on"):
            both = {**left, **right}
            if join.side:
                conditions += conjuncts(resolve(on, both))
            else:
                frame.scope = both
                attached = attach_subqueries(self._compiler, on, frame, self._context)
                conditions += conjuncts(resolve(attached, frame.scope))
        return conditions


def _numbered(values: Sequence[Typed]) -> dict[str, Typed]:
    return {str(number): one for number, one in enumerate(values)}


def _without(scope: Scope, other: Scope) -> Scope:
    return {alias: names for alias, names in scope.items() if alias not in {_CARRIED, *other}}


def _using(join: exp.Join, left: Scope, right: Scope) -> list[str]:
    if (join.args.get("method") or "").upper() == "NATURAL":
        names = {name for columns in right.values() for name in columns}
        found = {name: None for columns in left.values() for name in columns if name in names}
        return list(found)
    return [column.name for column in join.args.get("using") or ()]


def _without_joins(item: exp.Expr) -> exp.Expr:
    copy = item.copy()
    copy.set("joins", None)
    return copy


def _alias_columns(item: exp.Expr) -> tuple[str, ...]:
    alias = item.args.get("alias")
    columns = (alias.args.get("columns") or ()) if isinstance(alias, exp.TableAlias) else ()
    return tuple(column.name for column in columns)


def _rename(
    columns: tuple[tuple[str, Typed], ...], names: Sequence[str]
) -> tuple[tuple[str, Typed], ...]:
    """Give the first columns other names, as ``AS t (a, b)`` does."""
    renamed = tuple((name, one) for name, (_, one) in zip(names, columns, strict=False))
    return renamed + columns[len(renamed) :]
