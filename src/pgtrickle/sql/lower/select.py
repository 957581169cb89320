"""SELECT: from FROM and WHERE over groups to windows and the ending."""

from __future__ import annotations

from sqlglot import exp

from pgtrickle.sql.lower.conditions import lower_conditions
from pgtrickle.sql.lower.from_clause import FromClause
from pgtrickle.sql.lower.groups.expand_grouping_sets import expand_grouping_sets, has_grouping_sets
from pgtrickle.sql.lower.groups.grouping import (
    Grouping,
    has_aggregate,
    is_call,
    is_windowed,
)
from pgtrickle.sql.lower.groups.split_groups import (
    GROUPS,
    aggregates_inside,
    split_groups,
)
from pgtrickle.sql.lower.half_built import Block, Compiler, Context, Frame, Rows
from pgtrickle.sql.lower.query_end import end, limits_by_rows, read_ending
from pgtrickle.sql.lower.set_operations import union_all
from pgtrickle.sql.lower.set_returning import expand_functions
from pgtrickle.sql.lower.subqueries.as_values import attach_subqueries
from pgtrickle.sql.lower.window_functions import (
    expand_named_windows,
    expand_windows,
    has_window,
    refuse_windows,
)
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.row_comparison import columns_of_row
from pgtrickle.sql.rows_as_text import calls_with_text
from pgtrickle.sql.scalars import conjuncts, null_scalar, parse_scalar
from pgtrickle.sql.scope import Scope, resolve
from pgtrickle.sql.text.own_level import calls_any, has_subquery, named, replace_nodes
from pgtrickle.sql.whole_rows import fields_of_rows

_CLAUSES = ("where", "group", "having", "order", "distinct")


class SelectLowering:
    """Lowers one SELECT."""

    def __init__(self, compiler: Compiler, context: Context) -> None:
        self._compiler = compiler
        self._columns = compiler.columns
        self._context = context

    def lower(self, select: exp.Select) -> Rows:
        """Lower a query; its rows carry the outer values that it depends on."""
        _refuse(select)
        select = fields_of_rows(select)
        self._refuse_outer_aggregates(select)
        frame = FromClause(self._compiler, self._context).lower(select)
        select = calls_with_text(select, frame.own(frame.scope))
        select = _qualified(expand_named_windows(select), frame)
        if where := select.args.get("where"):
            self._filter(where.this, frame)
        tables = frame.own(frame.scope)
        if not _is_grouped(select) and not aggregates_inside(select, tables):
            return self._plain(select, frame)
        if not self._needs_split(select):
            return self._grouped(select, frame)
        inner, outer = split_groups(select, tables)
        rows = self._grouped(inner, frame)
        over = Frame(rows.block, self._over_groups(rows), rows.carried)
        if where := outer.args.get("where"):
            self._filter(where.this, over)
        return self._plain(outer, over)

    def _over_groups(self, rows: Rows) -> Scope:
        """Return the meaning of names over the rows of a grouped query, including outer names."""
        scope: Scope = {GROUPS: dict(rows.columns)}
        if self._context.correlation is not None:
            for alias, columns in self._context.correlation.meaning(rows.carried).items():
                scope[alias] = columns
        return scope

    def _refuse_outer_aggregates(self, select: exp.Select) -> None:
        """Refuse an aggregate that belongs to the query around this one.

        It belongs to that query if it reads only columns of that query.
        """
        outer = self._context.correlation.references if self._context.correlation else {}
        for call in select.find_all(exp.AggFunc, exp.Anonymous):
            names = [(one.table, one.name) for one in call.find_all(exp.Column)]
            if not is_call(call) or is_windowed(call):
                continue
            if names and all(name in outer for name in names):
                raise Refusal("an aggregate of the outer query inside a subquery", "select")

    def _filter(self, condition: exp.Expr, frame: Frame) -> None:
        lower_conditions(self._compiler, condition, frame, self._context)

    def _plain(self, select: exp.Select, frame: Frame) -> Rows:
        """Compute the SELECT list of a query that does not group."""
        ending, extra = read_ending(select, dependent=self._context.correlation is not None)
        listed = [*(one.unalias() for one in select.expressions), *extra]
        for one in listed:
            refuse_windows(one)
        names = [one.alias_or_name for one in select.expressions] + ["sort"] * len(extra)
        attached = [
            attach_subqueries(self._compiler, one, frame, self._context)
            if has_subquery(one)
            else one
            for one in listed
        ]
        scalars = [resolve(one, frame.scope) for one in attached]
        scalars = expand_windows(self._compiler, scalars, frame)
        scalars = expand_functions(self._compiler, scalars, frame)
        typed = self._columns.typed(scalars)
        rows = Rows(frame.block, tuple(zip(names, typed, strict=True)), frame.carried)
        return end(self._compiler, rows, ending, self._context)

    # Groups

    def _needs_split(self, select: exp.Select) -> bool:
        """Tell whether the query needs more than expressions over its groups."""
        parts = [
            one for clause in ("having", "order", "distinct") if (one := select.args.get(clause))
        ]
        parts += select.expressions
        if self._context.correlation is not None and limits_by_rows(select):
            return True
        if any(has_window(one) or _reads_subquery(one) for one in parts):
            return True
        functions = self._compiler.bound.set_functions
        if any(calls_any(one, functions) for one in parts):
            return True
        ends = any(select.args.get(clause) for clause in ("limit", "offset"))
        return has_grouping_sets(select) and ends

    def _grouped(self, select: exp.Select, frame: Frame) -> Rows:
        ending, extra = read_ending(select, dependent=self._context.correlation is not None)
        if has_grouping_sets(select):
            return end(self._compiler, self._grouping_sets(select, frame), ending, self._context)
        if extra:
            select = select.copy()
            select.set("expressions", [*select.expressions, *(named(e, "sort") for e in extra)])
        return end(self._compiler, self._one_grouping(select, frame), ending, self._context)

    def _grouping_sets(self, select: exp.Select, frame: Frame) -> Rows:
        def null_of(key: exp.Expr) -> exp.Expr:
            (typed,) = self._columns.typed([resolve(key, frame.scope)])
            return parse_scalar(null_scalar(typed.type).sql).copy()

        branches = []
        for branch in expand_grouping_sets(select, null_of):
            same = Frame(
                Block(list(frame.block.inputs), list(frame.block.conditions)),
                dict(frame.scope),
                frame.carried,
            )
            branches.append(self._one_grouping(branch, same))
        return union_all(self._compiler, branches)

    def _one_grouping(self, select: exp.Select, frame: Frame) -> Rows:
        group = select.args.get("group")
        if group is not None and group.args.get("totals"):
            raise Refusal("GROUP BY TOTALS", "totals")
        select = self._attached(select, frame)
        group = select.args.get("group")
        given = [
            _positional(expression, select)
            for expression in (group.expressions if group is not None else ())
            if expression != exp.Tuple()  # GROUP BY (): all rows are one group
        ]
        given = [part for one in given for part in columns_of_row(one) or [one]]
        keys = [resolve(one, frame.scope) for one in given]
        grouping = Grouping(self._columns, frame.scope, keys, frame.carried)
        columns = [
            (expression.alias_or_name, grouping.rewrite(expression.unalias()))
            for expression in select.expressions
        ]
        having = select.args.get("having")
        condition = grouping.rewrite(having.this) if having is not None else None

        correlation = self._context.correlation
        if correlation is not None and not given:
            node = grouping.node_with_absent(frame.block.build(), correlation)
        else:
            node = grouping.node(frame.block.build())
        self._columns.remember(node)
        typed = self._columns.typed([scalar for _, scalar in columns])
        return Rows(
            Block([node], conjuncts(condition) if condition else []),
            tuple((name, one) for (name, _), one in zip(columns, typed, strict=True)),
            grouping.carried,
        )

    def _attached(self, select: exp.Select, frame: Frame) -> exp.Select:
        """Attach the subqueries that are arguments of aggregates or keys of groups."""
        parts = [*select.expressions, select.args.get("group"), select.args.get("having")]
        if not any(part is not None and has_subquery(part) for part in parts):
            return select
        copy = select.copy()
        copy.set(
            "expressions",
            [
                attach_subqueries(self._compiler, one, frame, self._context)
                for one in select.expressions
            ],
        )
        for clause in ("group", "having"):
            if value := select.args.get(clause):
                attached = attach_subqueries(self._compiler, value, frame, self._context)
                copy.set(clause, attached)
        return copy


def _refuse(select: exp.Select) -> None:
    if select.args.get("locks"):
        raise Refusal("a locking clause", "for")
    if select.args.get("into"):
        raise Refusal("SELECT INTO", "into")


def _is_grouped(select: exp.Select) -> bool:
    return bool(select.args.get("group") or select.args.get("having") or has_aggregate(select))


def _reads_subquery(expression: exp.Expr) -> bool:
    """Tell whether a subquery occurs outside the arguments of aggregates."""
    if is_call(expression):
        return False
    if isinstance(expression, exp.Query | exp.Exists):
        return True
    return any(_reads_subquery(child) for child in expression.iter_expressions())


def _qualified(select: exp.Select, frame: Frame) -> exp.Select:
    """Name the table of every column at the level of the query itself.

    PostgreSQL omits it if a query has only one table, but names it in subqueries.
    """
    owners: dict[str, str] = {}
    for alias, columns in frame.scope.items():
        for name in columns:
            owners.setdefault(name, alias)

    def qualify(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Query) and node is not select:
            return node
        if isinstance(node, exp.Column) and not node.table and owners.get(node.name):
            return exp.column(
                exp.to_identifier(node.name, quoted=True),
                table=exp.to_identifier(owners[node.name], quoted=True),
            )
        return None

    copy = select.copy()
    for clause in _CLAUSES:
        value = select.args.get(clause)
        if isinstance(value, exp.Expr):
            copy.set(clause, replace_nodes(value, qualify))
    copy.set(
        "expressions",
        [
            named(replace_nodes(one.unalias(), qualify), one.alias_or_name)
            for one in select.expressions
        ],
    )
    return copy


def _positional(expression: exp.Expr, select: exp.Select) -> exp.Expr:
    if isinstance(expression, exp.Literal) and not expression.is_string:
        chosen: exp.Expr = select.expressions[int(expression.this) - 1]
        return chosen.unalias()
    return expression
