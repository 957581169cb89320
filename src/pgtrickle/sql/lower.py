"""From the text of a bound query to algebra.

The input is PostgreSQL's own rendering of the query, so names are resolved, stars expanded and
casts written out; what is left is structure.  Derived tables, CTEs and views are inlined: a
column of theirs becomes the expression behind it, over columns of base tables.  Inner joins and
WHERE are first collected into a *block* (inputs and conditions, unordered) and only then built
into a join tree, so the order in which the user wrote them does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import sqlglot
from sqlglot import exp

from pgtrickle.algebra.nodes import (
    Aggregate,
    Node,
    Output,
    Project,
    Query,
    Scalar,
    Scan,
    Source,
    SourceKind,
    UnionAll,
)
from pgtrickle.algebra.schema import columns_of
from pgtrickle.errors import InternalError
from pgtrickle.model.names import QualifiedName
from pgtrickle.sql.bound import BoundQuery, Relation, Typer
from pgtrickle.sql.count_sides import count_sides
from pgtrickle.sql.expand_grouping_sets import expand_grouping_sets, has_grouping_sets
from pgtrickle.sql.grouping import Grouping, has_aggregate
from pgtrickle.sql.membership import Membership, find_membership
from pgtrickle.sql.order_joins import build_join_tree
from pgtrickle.sql.outer_join import Side, left_join, rows_with_partner, rows_without_partner
from pgtrickle.sql.plan_columns import PlanColumns
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.scalars import (
    and_parts,
    column_scalar,
    conjuncts,
    make_scalar,
    null_scalar,
    parse_scalar,
)
from pgtrickle.sql.scope import Scope, Typed, cast, find_column, resolve

# Clauses of a SELECT that change its meaning and that no rule covers yet: argument, construct,
# and the words that locate it in the user's text.
_REFUSED_CLAUSES = (
    ("limit", "LIMIT", ("limit",)),
    ("fetch", "FETCH", ("fetch",)),
    ("offset", "OFFSET", ("offset",)),
    ("windows", "WINDOW", ("window",)),
    ("sample", "TABLESAMPLE", ("tablesample",)),
    ("locks", "a locking clause", ("for",)),
    ("laterals", "LATERAL", ("lateral",)),
    ("qualify", "QUALIFY", ("qualify",)),
)


@dataclass(slots=True)
class _Block:
    """Inputs and conditions of a join that has not been built yet."""

    inputs: list[Node] = field(default_factory=list)
    conditions: list[Scalar] = field(default_factory=list)

    def build(self) -> Node:
        return build_join_tree(self.inputs, self.conditions)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A lowered query: a block and the columns it shows, in order."""

    block: _Block
    columns: tuple[tuple[str, Typed], ...]


_Ctes = Mapping[str, tuple[exp.Expr, tuple[str, ...], "_Ctes"]]


def lower(query: BoundQuery, typer: Typer) -> Query:
    """Translate a bound query to algebra; raise ``Refusal`` for what no rule covers."""
    lowering = _Lowering(query, typer)
    rows = lowering.lower_query(sqlglot.parse_one(query.sql, dialect="postgres"), {})
    outputs = tuple(
        Output(column.name, typed.scalar, column.type)
        for column, (_, typed) in zip(query.columns, rows.columns, strict=True)
    )
    return Query(rows.block.build(), outputs)


class _Lowering:
    def __init__(self, query: BoundQuery, typer: Typer) -> None:
        self._relations = query.relations
        self._plan_columns = PlanColumns(typer)

    # Queries

    def lower_query(self, query: exp.Expr, ctes: _Ctes) -> _Rows:
        while isinstance(query, exp.Subquery) and not query.args.get("joins"):
            query = query.this
        ctes = self._with_ctes(query, ctes)
        if isinstance(query, exp.SetOperation):
            self._refuse_clauses(query)
            sides = [self.lower_query(side, ctes) for side in (query.left, query.right)]
            return self._lower_set_operation(query, sides)
        if isinstance(query, exp.Select):
            return self._lower_select(query, ctes)
        raise Refusal(query.key.upper(), query.key)

    def _with_ctes(self, query: exp.Expr, ctes: _Ctes) -> _Ctes:
        with_clause = query.args.get("with_")
        if with_clause is None:
            return ctes
        if with_clause.args.get("recursive"):
            raise Refusal("WITH RECURSIVE", "recursive")
        known = dict(ctes)
        for cte in with_clause.expressions:
            alias = cte.args["alias"]
            names = tuple(column.name for column in alias.args.get("columns") or ())
            known[cte.alias] = (cte.this, names, dict(known))
        return known

    def _refuse_clauses(self, query: exp.Expr) -> None:
        for argument, construct, keywords in _REFUSED_CLAUSES:
            if query.args.get(argument):
                raise Refusal(construct, *keywords)

    def _lower_set_operation(self, query: exp.SetOperation, sides: Sequence[_Rows]) -> _Rows:
        every = not query.args.get("distinct")
        if isinstance(query, exp.Union):
            rows = self._union_all(sides)
            return rows if every else self._distinct(rows)
        word = "INTERSECT" if isinstance(query, exp.Intersect) else "EXCEPT"
        if every:
            raise Refusal(f"{word} ALL", f"{word} all")
        return self._count_sides(sides, "> 0" if word == "INTERSECT" else "= 0")

    def _union_all(self, branches: Sequence[_Rows]) -> _Rows:
        children = self._branches(branches)
        names = [name for name, _ in branches[0].columns]
        return self._leaf(UnionAll(_flatten_unions(children)), names)

    def _branches(self, branches: Sequence[_Rows]) -> list[Project]:
        """Give the branches of a set operation the same columns."""
        types = self._plan_columns.union_types(
            [[typed for _, typed in branch.columns] for branch in branches]
        )
        names = [self._plan_columns.fresh(name) for name, _ in branches[0].columns]
        children = []
        for branch in branches:
            outputs = tuple(
                Output(name, cast(typed, type_), type_)
                for name, (_, typed), type_ in zip(names, branch.columns, types, strict=True)
            )
            children.append(Project(branch.block.build(), outputs))
        return children

    def _count_sides(self, sides: Sequence[_Rows], on_the_right: str) -> _Rows:
        """Keep the rows that occur on the left, and on the right as ``on_the_right`` says."""
        left, right = self._branches(sides)
        counted = count_sides(self._plan_columns, left, right)
        columns = tuple(
            (name, Typed(column_scalar(key.name), key.type))
            for (name, _), key in zip(sides[0].columns, counted.node.keys, strict=True)
        )
        return _Rows(_Block([counted.node], counted.rows(on_the_right)), columns)

    def _lower_select(self, select: exp.Select, ctes: _Ctes) -> _Rows:
        self._refuse_clauses(select)
        if select.args.get("from_") is None:
            raise Refusal("a SELECT without FROM", "select")
        block, scope = self._lower_inputs(select, ctes)
        if where := select.args.get("where"):
            block = self._lower_where(where.this, block, scope, ctes)

        if has_grouping_sets(select):
            rows = self._lower_grouping_sets(select, scope, ctes)
        elif select.args.get("group") or select.args.get("having") or has_aggregate(select):
            rows = self._lower_aggregate(select, block, scope)
        else:
            rows = _Rows(block, self._select_list(select, scope))
        return self._lower_distinct(select, rows)

    def _lower_distinct(self, select: exp.Select, rows: _Rows) -> _Rows:
        distinct = select.args.get("distinct")
        if distinct is None:
            return rows
        if distinct.args.get("on"):
            raise Refusal("DISTINCT ON", "distinct on")
        return self._distinct(rows)

    def _distinct(self, rows: _Rows) -> _Rows:
        keys = tuple(
            Output(self._plan_columns.fresh(name), typed.scalar, typed.type)
            for name, typed in rows.columns
        )
        node = Aggregate(
            Project(rows.block.build(), keys), tuple(key.column for key in keys), calls=()
        )
        return self._leaf(node, [name for name, _ in rows.columns])

    # WHERE

    def _lower_where(self, condition: exp.Expr, block: _Block, scope: Scope, ctes: _Ctes) -> _Block:
        parts = list(and_parts(condition))
        for part in parts:
            if find_membership(part) is None:
                block.conditions += conjuncts(resolve(part, scope))
        for part in parts:
            membership = find_membership(part)
            if membership is not None:
                block = self._lower_membership(membership, block, scope, ctes)
        return block

    def _lower_membership(
        self, membership: Membership, block: _Block, scope: Scope, ctes: _Ctes
    ) -> _Block:
        """Keep the rows for which a subquery has a row, or has none."""
        outer = Side(block.build(), scope)
        if membership.operands:
            inner, conditions = self._lower_in(membership, scope, ctes)
        else:
            inner, conditions = self._lower_exists(membership.query, scope, ctes)
        build = rows_without_partner if membership.negated else rows_with_partner
        return _Block([build(self._plan_columns, outer, inner, conditions, membership.word)])

    def _lower_in(
        self, membership: Membership, scope: Scope, ctes: _Ctes
    ) -> tuple[Side, list[Scalar]]:
        rows = self.lower_query(membership.query, ctes)
        conditions = [
            make_scalar(
                exp.EQ(
                    this=exp.paren(parse_scalar(resolve(operand, scope).sql).copy()),
                    expression=exp.paren(parse_scalar(typed.scalar.sql).copy()),
                )
            )
            for operand, (_, typed) in zip(membership.operands, rows.columns, strict=True)
        ]
        return Side(rows.block.build(), {}), conditions

    def _lower_exists(
        self, query: exp.Expr, scope: Scope, ctes: _Ctes
    ) -> tuple[Side, list[Scalar]]:
        """Lower a subquery; return it and those of its conditions that reach outside."""
        select = query.unnest()
        if (
            not isinstance(select, exp.Select)
            or select.args.get("from_") is None
            or select.args.get("group")
            or select.args.get("having")
            or has_aggregate(select)
        ):
            raise Refusal("EXISTS over anything but tables and conditions", "exists")
        self._refuse_clauses(select)
        ctes = self._with_ctes(select, ctes)
        block, own = self._lower_inputs(select, ctes)
        reaching: list[Scalar] = []
        where = select.args.get("where")
        inside = []
        for part in and_parts(where.this) if where is not None else ():
            if find_membership(part) is not None:
                inside.append(part)
                continue
            names = {c.name for node in block.inputs for c in columns_of(node)}
            # A name without a table means the nearest one.
            for one in conjuncts(resolve(part, {**own, **scope})):
                (block.conditions if names.issuperset(one.columns) else reaching).append(one)
        if inside:
            block = self._lower_where(exp.and_(*inside), block, own, ctes)
        return Side(block.build(), own), reaching

    def _select_list(self, select: exp.Select, scope: Scope) -> tuple[tuple[str, Typed], ...]:
        names = [expression.alias_or_name for expression in select.expressions]
        scalars = [resolve(expression.unalias(), scope) for expression in select.expressions]
        return tuple(zip(names, self._plan_columns.typed(scalars), strict=True))

    # FROM

    def _lower_inputs(self, select: exp.Select, ctes: _Ctes) -> tuple[_Block, Scope]:
        block, scope = _Block(), Scope()
        self._lower_from(select.args["from_"].this, block, scope, ctes)
        for join in select.args.get("joins") or ():
            self._lower_join(join, block, scope, ctes)
        return block, scope

    def _lower_from(self, item: exp.Expr, block: _Block, scope: Scope, ctes: _Ctes) -> None:
        # A JOIN sees only what it joins, not its neighbours in FROM.
        inputs, own = _Block(), Scope()
        joins = item.args.get("joins") or ()
        if isinstance(item, exp.Subquery) and not item.alias and _is_join_group(item.this):
            self._lower_from(item.this, inputs, own, ctes)
        else:
            rows = self._lower_item(item, ctes)
            alias = item.args.get("alias")
            renamed = (
                tuple(column.name for column in (alias.args.get("columns") or ())) if alias else ()
            )
            own[item.alias_or_name] = dict(_rename(rows.columns, renamed))
            inputs = rows.block
        for join in joins:
            if join.side:
                inputs, own = self._lower_outer_join(join, inputs, own, ctes)
            else:
                self._lower_join(join, inputs, own, ctes)
        block.inputs += inputs.inputs
        block.conditions += inputs.conditions
        scope |= own

    def _lower_item(self, item: exp.Expr, ctes: _Ctes) -> _Rows:
        if isinstance(item, exp.Table):
            self._refuse_clauses(item)
            if not item.db and item.name in ctes:
                query, names, outer = ctes[item.name]
                rows = self.lower_query(query, outer)
                return replace(rows, columns=_rename(rows.columns, names))
            return self._lower_relation(item)
        if isinstance(item, exp.Subquery):
            return self.lower_query(item.this, ctes)
        if isinstance(item, exp.Lateral):
            raise Refusal("LATERAL", "lateral")
        if isinstance(item, exp.Values):
            raise Refusal("VALUES as a table", "values")
        raise Refusal("a function as a table", item.alias_or_name, item.key)

    def _lower_relation(self, table: exp.Table) -> _Rows:
        if not isinstance(table.this, exp.Identifier):
            raise Refusal("a function as a table", table.this.name, table.alias_or_name)
        relation = self._relations.get(QualifiedName(table.db, table.name))
        if relation is None:
            raise InternalError(f"PostgreSQL resolved no relation for {table.sql()}")
        if relation.definition is not None:
            definition = sqlglot.parse_one(relation.definition, dialect="postgres")
            rows = self.lower_query(definition, {})
            return replace(
                rows, columns=_rename(rows.columns, [column.name for column in relation.columns])
            )
        return self._lower_table(relation, table.alias_or_name)

    def _lower_table(self, relation: Relation, alias: str) -> _Rows:
        alias = self._plan_columns.fresh(alias)
        outputs = tuple(
            Output(
                self._plan_columns.fresh(f"{alias}_{column.name}"),
                column_scalar(column.name),
                column.type,
            )
            for column in relation.columns
        )
        source = Source(
            SourceKind.TABLE, str(relation.relid), relation=relation.name, relid=relation.relid
        )
        return self._leaf(
            Scan(source, alias, outputs), [column.name for column in relation.columns]
        )

    def _lower_join(self, join: exp.Join, block: _Block, scope: Scope, ctes: _Ctes) -> None:
        if join.side:
            raise Refusal(f"{join.side} JOIN outside parentheses", join.side)
        if (join.kind or "").upper() not in {"", "INNER", "CROSS"}:
            raise Refusal(f"{join.kind.upper()} JOIN", join.kind)
        if (join.args.get("method") or "").upper():
            raise Refusal(f"{join.args['method'].upper()} JOIN", join.args["method"])
        left, right = dict(scope), Scope()
        self._lower_from(join.this, block, right, ctes)
        scope |= right
        block.conditions += _join_conditions(join, left, right)

    def _lower_outer_join(
        self, join: exp.Join, block: _Block, scope: Scope, ctes: _Ctes
    ) -> tuple[_Block, Scope]:
        word = join.side.upper()
        if join.args.get("method") or (join.args.get("using") and word != "LEFT"):
            raise Refusal(f"{word} JOIN with USING or NATURAL", word)
        left = Side(block.build(), scope)
        right = self._lower_side(join.this, ctes)
        conditions = _join_conditions(join, left.scope, right.scope)
        if word == "LEFT":
            joined = left_join(self._plan_columns, left, right, conditions, "LEFT JOIN")
        elif word == "RIGHT":
            joined = left_join(self._plan_columns, right, left, conditions, "RIGHT JOIN")
        else:
            joined = left_join(self._plan_columns, left, right, conditions, "FULL JOIN")
            again = self._lower_side(join.this, ctes)
            conditions = _join_conditions(join, left.scope, again.scope)
            alone = rows_without_partner(self._plan_columns, again, left, conditions, "FULL JOIN")
            joined = self._with_rows_alone(joined, Side(alone, again.scope))
        return _Block([joined.node]), joined.scope

    def _lower_side(self, item: exp.Expr, ctes: _Ctes) -> Side:
        block, scope = _Block(), Scope()
        self._lower_from(item, block, scope, ctes)
        return Side(block.build(), scope)

    def _with_rows_alone(self, joined: Side, alone: Side) -> Side:
        """Add the rows of a FULL JOIN's right side that found no partner."""
        outputs, padded = [], []
        scope: Scope = {alias: {} for alias in joined.scope}
        for alias, columns in joined.scope.items():
            for name, typed in columns.items():
                new = self._plan_columns.fresh(f"{alias}_{name}")
                known = alone.scope.get(alias, {}).get(name)
                outputs.append(Output(new, typed.scalar, typed.type))
                padded.append(
                    Output(new, known.scalar if known else null_scalar(typed.type), typed.type)
                )
                scope[alias][name] = Typed(column_scalar(new), typed.type)
        node = UnionAll((Project(joined.node, tuple(outputs)), Project(alone.node, tuple(padded))))
        self._plan_columns.remember(node)
        return Side(node, scope)

    # GROUP BY

    def _lower_grouping_sets(self, select: exp.Select, scope: Scope, ctes: _Ctes) -> _Rows:
        def null_of(key: exp.Expr) -> exp.Expr:
            (typed,) = self._plan_columns.typed([resolve(key, scope)])
            return parse_scalar(null_scalar(typed.type).sql).copy()

        branches = expand_grouping_sets(select, null_of)
        return self._union_all([self._lower_select(branch, ctes) for branch in branches])

    def _lower_aggregate(self, select: exp.Select, block: _Block, scope: Scope) -> _Rows:
        group = select.args.get("group")
        if group is not None and group.args.get("totals"):
            raise Refusal("GROUP BY TOTALS", "totals")
        key_scalars = [
            resolve(_positional(expression, select), scope)
            for expression in (group.expressions if group is not None else ())
            if expression != exp.Tuple()  # GROUP BY (): all rows are one group
        ]
        grouping = Grouping(self._plan_columns, scope, key_scalars)
        columns = [
            (expression.alias_or_name, grouping.rewrite(expression.unalias()))
            for expression in select.expressions
        ]
        having = select.args.get("having")
        condition = grouping.rewrite(having.this) if having is not None else None

        node = grouping.node(block.build())
        self._plan_columns.remember(node)
        typed = self._plan_columns.typed([scalar for _, scalar in columns])
        result = _Block([node], conjuncts(condition) if condition else [])
        return _Rows(
            result, tuple((name, one) for (name, _), one in zip(columns, typed, strict=True))
        )

    def _leaf(self, node: Node, names: Sequence[str]) -> _Rows:
        """Show the columns of a node under the given names."""
        self._plan_columns.remember(node)
        columns = tuple(
            (name, Typed(column_scalar(column.name), column.type))
            for name, column in zip(names, columns_of(node), strict=True)
        )
        return _Rows(_Block([node]), columns)


def _join_conditions(join: exp.Join, left: Scope, right: Scope) -> list[Scalar]:
    """Return the conditions of ON or USING, over the plan's columns."""
    conditions = [
        make_scalar(
            exp.EQ(
                this=find_column(left, column.name).copy(),
                expression=find_column(right, column.name).copy(),
            )
        )
        for column in join.args.get("using") or ()
    ]
    if on := join.args.get("on"):
        conditions += conjuncts(resolve(on, {**left, **right}))
    return conditions


def _is_join_group(item: exp.Expr) -> bool:
    return isinstance(item, exp.Table | exp.Subquery)


def _rename(
    columns: tuple[tuple[str, Typed], ...], names: Sequence[str]
) -> tuple[tuple[str, Typed], ...]:
    """Give the first columns other names, as ``AS t (a, b)`` does."""
    renamed = tuple((name, typed) for name, (_, typed) in zip(names, columns, strict=False))
    return renamed + columns[len(renamed) :]


def _positional(expression: exp.Expr, select: exp.Select) -> exp.Expr:
    if isinstance(expression, exp.Literal) and not expression.is_string:
        chosen: exp.Expr = select.expressions[int(expression.this) - 1]
        return chosen.unalias()
    return expression


def _flatten_unions(children: Sequence[Project]) -> tuple[Node, ...]:
    """Dissolve a union directly inside a union; the outer projection only renames."""
    flat: list[Node] = []
    for child in children:
        if isinstance(child.child, UnionAll):
            flat += [replace(child, child=inner) for inner in child.child.children]
        else:
            flat.append(child)
    return tuple(flat)
