"""Split a grouped query whose SELECT list or HAVING needs more than groups.

    SELECT f(k, agg) FROM t GROUP BY k HAVING p(agg)

becomes ``SELECT f(g.k, g.agg) FROM (SELECT k, agg FROM t GROUP BY k) AS g WHERE p(g.agg)``, so that
window functions and subqueries over groups are ordinary ones over the rows of ``g``.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from pgtrickle.sql.lower.groups.grouping import is_call, is_windowed
from pgtrickle.sql.text.own_level import named, own_nodes, replace_nodes

GROUPS = "__groups"  # the name of the inner query


def split_groups(select: exp.Select, tables: Collection[str] = ()) -> tuple[exp.Select, exp.Select]:
    """Return the grouping query and the query over its rows; ``tables`` are those of its FROM."""
    return _Split(select, tables).run()


def aggregates_inside(select: exp.Select, tables: Collection[str]) -> bool:
    """Tell whether a subquery of a query has an aggregate that belongs to the query itself.

    That is the query whose columns it reads.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("SELECT (SELECT count(*) FROM u WHERE u.a = max(t.a)) FROM t")
    >>> aggregates_inside(query, {"t"}), aggregates_inside(query, {"u"})
    (True, False)
    """
    parts = [*select.expressions, select.args.get("having"), select.args.get("order")]
    return any(
        _belongs(call, tables)
        for part in parts
        if part is not None
        for query in part.find_all(exp.Query)
        for call in query.find_all(exp.AggFunc, exp.Anonymous)
    )


def _belongs(node: exp.Expr, tables: Collection[str]) -> bool:
    if not is_call(node) or is_windowed(node):
        return False
    read = {column.table for column in node.find_all(exp.Column)}
    return bool(read) and read.issubset(tables)


class _Split:
    def __init__(self, select: exp.Select, tables: Collection[str]) -> None:
        self._select = select
        self._tables = tables
        self._columns: dict[str, tuple[str, exp.Expr]] = {}
        self._keys = {_text(one) for one in _key_expressions(select.args.get("group"))}

    def run(self) -> tuple[exp.Select, exp.Select]:
        outer = exp.Select(
            expressions=[
                named(self._visit(one.unalias()), one.alias_or_name)
                for one in self._select.expressions
            ]
        )
        for clause in ("order", "distinct", "limit", "offset"):
            if value := self._select.args.get(clause):
                outer.set(clause, self._visit(value))
        if having := self._select.args.get("having"):
            outer.set("where", exp.Where(this=self._visit(having.this)))
        inner = self._select.copy()
        for clause in ("order", "distinct", "limit", "offset", "having", "with_"):
            inner.set(clause, None)
        inner.set(
            "expressions",
            [named(one.copy(), name) for name, one in self._columns.values()]
            or [named(exp.Literal.number(1), "one")],
        )
        return inner, outer

    def _visit(self, expression: exp.Expr) -> exp.Expr:
        return replace_nodes(expression, self._replacement)

    def _replacement(self, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, exp.Query) and _text(node) not in self._keys:
            # Inside a subquery a key is an outer column, and so is an aggregate of this query.
            return node.transform(self._key_inside)
        if is_call(node) or isinstance(node, exp.Grouping):
            return self._column(node)
        if _text(node) in self._keys and not _is_constant(node):
            return self._column(node)
        if isinstance(node, exp.Column):
            return self._column(node)
        return None

    def _key_inside(self, node: exp.Expr) -> exp.Expr:
        if _belongs(node, self._tables):
            return self._column(node)
        if isinstance(node, exp.Column) and _text(node) in self._keys:
            return self._column(node)
        return node

    def _window(self, node: exp.Window) -> exp.Expr:
        """Replace the inputs of a window function; the function itself is not an aggregate."""
        copy = node.copy()
        function = copy.this
        inner = function.this if isinstance(function, exp.Filter) else function
        if isinstance(function, exp.Filter):
            function.set("expression", self._visit(function.expression))
        for name, value in list(inner.args.items()):
            if isinstance(value, exp.Expr):
                inner.set(name, self._visit(value))
            elif isinstance(value, list):
                inner.set(name, [self._visit(v) if isinstance(v, exp.Expr) else v for v in value])
        for part in ("order", "spec"):
            if value := copy.args.get(part):
                copy.set(part, self._visit(value))
        copy.set("partition_by", [self._visit(one) for one in copy.args.get("partition_by") or ()])
        return copy

    def _column(self, node: exp.Expr) -> exp.Expr:
        name, _ = self._columns.setdefault(
            _text(node), (f"column_{len(self._columns) + 1}", node.copy())
        )
        return exp.column(exp.to_identifier(name), table=exp.to_identifier(GROUPS))


def _key_expressions(group: exp.Expr | None) -> list[exp.Expr]:
    """Return the expressions of GROUP BY, also those inside grouping sets."""
    found: list[exp.Expr] = []
    pending = list(group.expressions) if group is not None else []
    while pending:
        one = pending.pop().unnest()
        if isinstance(one, exp.GroupingSets | exp.Cube | exp.Rollup | exp.Tuple):
            pending += one.expressions
        else:
            found.append(one)
    return found


def _is_constant(node: exp.Expr) -> bool:
    return not any(isinstance(one, exp.Column | exp.Query) for one in own_nodes(node))


def _text(node: exp.Expr) -> str:
    return node.unnest().sql(dialect="postgres", identify=True)
