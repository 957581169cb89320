"""From the text of a bound query to algebra.

The input is PostgreSQL's own rendering of the query, so names are resolved, stars expanded and
casts written out; what is left is structure.  Derived tables, CTEs and views are inlined: a
column of theirs becomes the expression behind it, over columns of base tables.  Inner joins and
WHERE are first collected into a *block* (inputs and conditions, unordered) and only then built
into a join tree, so the order in which the user wrote them does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import sqlglot
from sqlglot import exp

from pgtrickle.algebra.nodes import (
    Aggregate,
    AggregateCall,
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
from pgtrickle.model.sql_type import SqlType
from pgtrickle.sql.bound import BoundQuery, Relation, Typer
from pgtrickle.sql.order_joins import build_join_tree
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.scalars import (
    bare_column,
    column_scalar,
    conjuncts,
    make_scalar,
    parse_scalar,
)

_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
_MAX_INTERNAL_NAME = 48  # leaves room for suffixes below PostgreSQL's limit of 63 bytes

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


@dataclass(frozen=True, slots=True)
class _Typed:
    scalar: Scalar
    type: SqlType


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
    columns: tuple[tuple[str, _Typed], ...]


_Scope = dict[str, dict[str, _Typed]]  # alias -> column -> expression
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
        self._typer = typer
        self._taken: set[str] = set()
        self._types: dict[str, SqlType] = {}

    # Queries

    def lower_query(self, query: exp.Expr, ctes: _Ctes) -> _Rows:
        while isinstance(query, exp.Subquery) and not query.args.get("joins"):
            query = query.this
        ctes = self._with_ctes(query, ctes)
        if isinstance(query, exp.Union):
            if query.args.get("distinct"):
                raise Refusal("UNION without ALL", "union")
            self._refuse_clauses(query)
            return self._lower_union_all(query, ctes)
        if isinstance(query, exp.Intersect):
            raise Refusal("INTERSECT", "intersect")
        if isinstance(query, exp.Except):
            raise Refusal("EXCEPT", "except")
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

    def _lower_union_all(self, union: exp.Union, ctes: _Ctes) -> _Rows:
        branches = [self.lower_query(side, ctes) for side in (union.left, union.right)]
        types = self._typer.union_types(
            [[typed.type for _, typed in branch.columns] for branch in branches]
        )
        names = [self._fresh(name) for name, _ in branches[0].columns]
        children = []
        for branch in branches:
            outputs = tuple(
                Output(name, _cast(typed, type_), type_)
                for name, (_, typed), type_ in zip(names, branch.columns, types, strict=True)
            )
            children.append(Project(branch.block.build(), outputs))
        return self._leaf(
            UnionAll(_flatten_unions(children)), [name for name, _ in branches[0].columns]
        )

    def _lower_select(self, select: exp.Select, ctes: _Ctes) -> _Rows:
        self._refuse_clauses(select)
        block, scope = _Block(), _Scope()
        if select.args.get("from_") is None:
            raise Refusal("a SELECT without FROM", "select")
        self._lower_from(select.args["from_"].this, block, scope, ctes)
        for join in select.args.get("joins") or ():
            self._lower_join(join, block, scope, ctes)
        if where := select.args.get("where"):
            block.conditions += conjuncts(self._resolve(where.this, scope))

        if select.args.get("group") or _has_aggregate(select):
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
        keys = tuple(
            Output(self._fresh(name), typed.scalar, typed.type) for name, typed in rows.columns
        )
        node = Aggregate(
            Project(rows.block.build(), keys), tuple(key.column for key in keys), calls=()
        )
        return self._leaf(node, [name for name, _ in rows.columns])

    def _select_list(self, select: exp.Select, scope: _Scope) -> tuple[tuple[str, _Typed], ...]:
        names = [expression.alias_or_name for expression in select.expressions]
        scalars = [self._resolve(expression.unalias(), scope) for expression in select.expressions]
        return tuple(zip(names, self._typed(scalars), strict=True))

    # FROM

    def _lower_from(self, item: exp.Expr, block: _Block, scope: _Scope, ctes: _Ctes) -> None:
        joins = item.args.get("joins") or ()
        if isinstance(item, exp.Subquery) and not item.alias and _is_join_group(item.this):
            self._lower_from(item.this, block, scope, ctes)
        else:
            rows = self._lower_item(item, ctes)
            alias = item.args.get("alias")
            renamed = tuple(column.name for column in (alias.args.get("columns") or ())) if alias else ()
            scope[item.alias_or_name] = dict(_rename(rows.columns, renamed))
            block.inputs += rows.block.inputs
            block.conditions += rows.block.conditions
        for join in joins:
            self._lower_join(join, block, scope, ctes)

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
            raise Refusal("a function as a table", table.name)
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
        alias = self._fresh(alias)
        outputs = tuple(
            Output(
                self._fresh(f"{alias}_{column.name}"), column_scalar(column.name), column.type
            )
            for column in relation.columns
        )
        source = Source(
            SourceKind.TABLE, str(relation.relid), relation=relation.name, relid=relation.relid
        )
        return self._leaf(
            Scan(source, alias, outputs), [column.name for column in relation.columns]
        )

    def _lower_join(
        self, join: exp.Join, block: _Block, scope: _Scope, ctes: _Ctes
    ) -> None:
        side = (join.side or "").upper()
        if side:
            raise Refusal(f"{side} JOIN", side, f"{side} OUTER")
        if (join.kind or "").upper() not in {"", "INNER", "CROSS"}:
            raise Refusal(f"{join.kind.upper()} JOIN", join.kind)
        if (join.args.get("method") or "").upper():
            raise Refusal(f"{join.args['method'].upper()} JOIN", join.args["method"])
        left = dict(scope)
        self._lower_from(join.this, block, scope, ctes)
        if using := join.args.get("using"):
            right = {alias: columns for alias, columns in scope.items() if alias not in left}
            for column in using:
                block.conditions.append(
                    make_scalar(
                        exp.EQ(
                            this=_find(left, column.name).copy(),
                            expression=_find(right, column.name).copy(),
                        )
                    )
                )
        if on := join.args.get("on"):
            block.conditions += conjuncts(self._resolve(on, scope))

    # GROUP BY

    def _lower_aggregate(self, select: exp.Select, block: _Block, scope: _Scope) -> _Rows:
        group = select.args.get("group")
        if group is not None:
            for argument in ("grouping_sets", "cube", "rollup", "totals", "all"):
                if group.args.get(argument):
                    construct = argument.upper().replace("_", " ")
                    raise Refusal(construct, construct)
        key_scalars = [
            self._resolve(_positional(expression, select), scope)
            for expression in (group.expressions if group is not None else ())
        ]
        grouping = _Grouping(self, scope, _unique(key_scalars))
        columns = [
            (expression.alias_or_name, grouping.rewrite(expression.unalias()))
            for expression in select.expressions
        ]
        having = select.args.get("having")
        condition = grouping.rewrite(having.this) if having is not None else None

        node = grouping.node(block.build())
        self._remember(node)
        typed = self._typed([scalar for _, scalar in columns])
        result = _Block([node], conjuncts(condition) if condition else [])
        return _Rows(
            result, tuple((name, one) for (name, _), one in zip(columns, typed, strict=True))
        )

    # Scalars

    def _resolve(self, expression: exp.Expr, scope: _Scope) -> Scalar:
        """Replace the user's column names by expressions over the plan's columns."""
        _refuse_in_scalar(expression)

        def replace_column(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            if node.table:
                columns = scope.get(node.table, {})
                if node.name not in columns:
                    raise Refusal(f"the reference {node.sql()}", node.name)
                tree = parse_scalar(columns[node.name].scalar.sql)
            else:
                tree = _find(scope, node.name)
            simple = isinstance(tree, exp.Column | exp.Literal | exp.Cast | exp.Func)
            return tree.copy() if simple else exp.paren(tree)

        return make_scalar(expression.transform(replace_column))

    def _typed(self, scalars: Sequence[Scalar]) -> list[_Typed]:
        """Give each scalar its type; only real expressions are asked of PostgreSQL."""
        known = {scalar.sql: self._types[name] for scalar in scalars if (name := bare_column(scalar))}
        asked = [scalar for scalar in _unique(scalars) if scalar.sql not in known]
        if asked:
            columns = {name: self._types[name] for scalar in asked for name in scalar.columns}
            answers = self._typer.types_of(asked, columns)
            known |= {scalar.sql: type_ for scalar, type_ in zip(asked, answers, strict=True)}
        return [_Typed(scalar, known[scalar.sql]) for scalar in scalars]

    def _leaf(self, node: Node, names: Sequence[str]) -> _Rows:
        """Show the columns of a node under the given names."""
        self._remember(node)
        columns = tuple(
            (name, _Typed(column_scalar(column.name), column.type))
            for name, column in zip(names, columns_of(node), strict=True)
        )
        return _Rows(_Block([node]), columns)

    def _remember(self, node: Node) -> None:
        self._types |= {column.name: column.type for column in columns_of(node)}

    def _fresh(self, wanted: str) -> str:
        # Plain lower-case letters: one engine ignores case, another wants other quotes.
        base = re.sub(r"[^a-z0-9_]", "_", wanted.lower())[:_MAX_INTERNAL_NAME] or "column"
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


class _Grouping:
    """Splits expressions over groups into keys, aggregate calls and what is computed from them."""

    def __init__(self, lowering: _Lowering, scope: _Scope, keys: list[Scalar]) -> None:
        self._lowering = lowering
        self._scope = scope
        self._keys = {
            key.sql: Output(lowering._fresh(_key_name(key)), key, typed.type)
            for key, typed in zip(keys, lowering._typed(keys), strict=True)
        }
        self._arguments: dict[str, Output] = {}
        self._calls: dict[tuple[str, str | None, str | None, bool], AggregateCall] = {}

    def rewrite(self, expression: exp.Expr) -> Scalar:
        """Express ``expression`` over the columns of the aggregate."""
        return make_scalar(self._rewrite(expression))

    def node(self, child: Node) -> Aggregate:
        """Build the aggregate with all keys and calls that ``rewrite`` met."""
        inputs = {output.name: output for output in self._keys.values()}
        inputs |= {output.name: output for output in self._arguments.values()}
        return Aggregate(
            Project(child, tuple(inputs.values())),
            tuple(key.column for key in self._keys.values()),
            tuple(self._calls.values()),
        )

    def _rewrite(self, expression: exp.Expr) -> exp.Expr:
        if isinstance(expression, exp.Filter) or type(expression) in _AGGREGATES:
            return exp.column(exp.to_identifier(self._call(expression).name, quoted=True))
        if not _has_aggregate(expression):
            scalar = self._lowering._resolve(expression, self._scope)
            if not scalar.columns:
                return expression.copy()
            if (key := self._find_key(scalar)) is not None:
                return exp.column(exp.to_identifier(key.name, quoted=True))
            if isinstance(expression, exp.Column):
                # PostgreSQL accepted it, so the keys determine it: one more key changes nothing.
                return self._add_key(scalar)
        copy = expression.copy()
        for name, value in expression.args.items():
            if isinstance(value, exp.Expr):
                copy.set(name, self._rewrite(value))
            elif isinstance(value, list):
                copy.set(
                    name,
                    [self._rewrite(one) if isinstance(one, exp.Expr) else one for one in value],
                )
        return copy

    def _find_key(self, scalar: Scalar) -> Output | None:
        return self._keys.get(scalar.sql)

    def _add_key(self, scalar: Scalar) -> exp.Expr:
        (typed,) = self._lowering._typed([scalar])
        key = Output(self._lowering._fresh(_key_name(scalar)), scalar, typed.type)
        self._keys[scalar.sql] = key
        return exp.column(exp.to_identifier(key.name, quoted=True))

    def _call(self, expression: exp.Expr) -> AggregateCall:
        condition = None
        if isinstance(expression, exp.Filter):
            condition = self._argument(expression.expression.this, "filter")
            expression = expression.this
        function = _AGGREGATES[type(expression)]
        if expression.expressions or isinstance(expression.this, exp.Order):
            raise Refusal(f"ORDER BY or several arguments inside {function}", function)
        operand, distinct = expression.this, False
        if isinstance(operand, exp.Distinct):
            if len(operand.expressions) != 1:
                raise Refusal(f"{function}(DISTINCT ...) of several columns", function)
            operand, distinct = operand.expressions[0], function not in {"min", "max"}
        argument = None
        if not isinstance(operand, exp.Star):
            argument = self._argument(operand, "arg")
        identity = (
            function,
            argument.name if argument else None,
            condition.name if condition else None,
            distinct,
        )
        if identity not in self._calls:
            name = self._lowering._fresh(function)
            type_ = self._call_type(function, argument)
            self._calls[identity] = AggregateCall(
                name,
                function,
                identity[1],
                argument.type if argument else None,
                identity[2],
                distinct,
                type_,
            )
        return self._calls[identity]

    def _argument(self, expression: exp.Expr, prefix: str) -> Output:
        if _has_aggregate(expression):
            raise Refusal("an aggregate inside an aggregate", "sum", "count")
        scalar = self._lowering._resolve(expression, self._scope)
        if scalar.sql not in self._arguments:
            (typed,) = self._lowering._typed([scalar])
            wanted = bare_column(scalar) or prefix
            name = self._lowering._fresh(f"{wanted}_in")
            self._arguments[scalar.sql] = Output(name, scalar, typed.type)
            self._lowering._types[name] = typed.type
        return self._arguments[scalar.sql]

    def _call_type(self, function: str, argument: Output | None) -> SqlType:
        text = f"{function}({column_scalar(argument.name).sql if argument else '*'})"
        names = (argument.name,) if argument else ()
        types = {argument.name: argument.type} if argument else {}
        (type_,) = self._lowering._typer.types_of([Scalar(text, names)], types)
        return type_


def _has_aggregate(expression: exp.Expr) -> bool:
    if isinstance(expression, exp.Select):
        parts = [*expression.expressions, expression.args.get("having")]
        return any(part is not None and part.find(*_AGGREGATES) for part in parts)
    return expression.find(*_AGGREGATES) is not None


def _refuse_in_scalar(expression: exp.Expr) -> None:
    for node in expression.walk():
        if isinstance(node, exp.Window):
            raise Refusal("a window function", "over")
        if isinstance(node, exp.Exists):
            raise Refusal("EXISTS", "exists")
        if isinstance(node, exp.Query):
            raise Refusal("a subquery in an expression", "in (select", "( select", "any", "select")


def _is_join_group(item: exp.Expr) -> bool:
    return isinstance(item, exp.Table) or (isinstance(item, exp.Subquery))


def _rename(
    columns: tuple[tuple[str, _Typed], ...], names: Sequence[str]
) -> tuple[tuple[str, _Typed], ...]:
    """Give the first columns other names, as ``AS t (a, b)`` does."""
    renamed = tuple(
        (name, typed) for name, (_, typed) in zip(names, columns, strict=False)
    )
    return renamed + columns[len(renamed) :]


def _find(scope: _Scope, name: str) -> exp.Expr:
    for columns in scope.values():
        if name in columns:
            return parse_scalar(columns[name].scalar.sql)
    raise Refusal(f'the reference "{name}"', name)


def _positional(expression: exp.Expr, select: exp.Select) -> exp.Expr:
    if isinstance(expression, exp.Literal) and not expression.is_string:
        chosen: exp.Expr = select.expressions[int(expression.this) - 1]
        return chosen.unalias()
    return expression


def _cast(typed: _Typed, type_: SqlType) -> Scalar:
    if typed.type == type_:
        return typed.scalar
    return make_scalar(parse_scalar(f"({typed.scalar.sql})::{type_.display}"))


def _flatten_unions(children: Sequence[Project]) -> tuple[Node, ...]:
    """Dissolve a union directly inside a union; the outer projection only renames."""
    flat: list[Node] = []
    for child in children:
        if isinstance(child.child, UnionAll):
            flat += [replace(child, child=inner) for inner in child.child.children]
        else:
            flat.append(child)
    return tuple(flat)


def _unique(scalars: Sequence[Scalar]) -> list[Scalar]:
    return list({scalar.sql: scalar for scalar in scalars}.values())


def _key_name(scalar: Scalar) -> str:
    return f"{bare_column(scalar) or 'key'}_key"


