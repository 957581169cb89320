"""The queries that may be part of a circle: more input rows only ever give more result rows.

    R ⊆ S   implies   Q(R) ⊆ Q(S),   and Q(R) is a set

Then the queries of a circle have a least fixpoint, which is reached from below by evaluating
them repeatedly.  The rule is a list of constructs known to be monotone; any other construct is
refused by name.  The listed constructs also distribute over the rows of each table they name,

    Q(R ∪ S) = Q(R) ∪ Q(S)

so that the new rows alone determine what they add: see ``fixpoint``.  PostgreSQL knows which
functions, such as those that may read a table, rule a query out (``Binding.refusals``).
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from pgtrickle.sql.bound import BoundQuery
from pgtrickle.sql.lower.groups.grouping import has_aggregate
from pgtrickle.sql.text.own_aggregates import OwnAggregate
from pgtrickle.sql.text.own_level import is_subquery, own_nodes
from pgtrickle.sql.text.parse_bound import parse_bound

_SELECT = {"expressions", "from_", "joins", "where", "distinct", "with_", "order", "kind", "hint",
           "laterals"}  # fmt: skip
_NAMES = {
    "group": "GROUP BY",
    "having": "HAVING",
    "windows": "a window",
    "qualify": "a window",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "locks": "FOR UPDATE",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def find_obstacle(query: BoundQuery) -> str | None:
    """Name the first construct that excludes a query from a circle; None if there is none.

    >>> find_obstacle(BoundQuery("SELECT a FROM t EXCEPT SELECT a FROM u", (), {}, {}, ""))
    'EXCEPT'
    >>> find_obstacle(BoundQuery("SELECT a FROM t UNION SELECT a FROM u", (), {}, {}, ""))
    """
    views = (one.definition for one in query.relations.values() if one.definition is not None)
    trees = [parse_bound(one, query.aggregates) for one in (query.sql, *views)]
    found = (obstacle for tree in trees for obstacle in _Check().query(tree))
    return next(found, None) or _duplicates(trees[0])


def _duplicates(query: exp.Expr) -> str | None:
    """Say why a query may have a row twice, so that the rows could grow without end."""
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        return None if query.args.get("distinct") else f"{query.key.upper()} ALL at the top"
    if isinstance(query, exp.Select) and query.args.get("distinct"):
        return None
    return "a SELECT without DISTINCT or UNION at the top"


class _Check:
    """The walk over a query; yields the names of refused constructs."""

    def query(self, query: exp.Expr) -> Iterator[str]:
        while isinstance(query, exp.Subquery) and not query.args.get("joins"):
            yield from self._ending(query)
            query = query.this
        clause = query.args.get("with_")
        if clause is not None:
            if clause.args.get("recursive"):
                yield "WITH RECURSIVE"
            for cte in clause.expressions:
                yield from self.query(cte.this)
        if isinstance(query, exp.SetOperation):
            yield from self._set_operation(query)
        elif isinstance(query, exp.Select):
            yield from self._select(query)
        elif isinstance(query, exp.Values):
            for row in query.expressions:
                yield from self._scalar(row)
        else:
            yield query.key.upper()

    def _ending(self, query: exp.Expr) -> Iterator[str]:
        for name in ("limit", "offset", "locks"):
            if query.args.get(name):
                yield _NAMES[name]

    def _set_operation(self, query: exp.SetOperation) -> Iterator[str]:
        every = not query.args.get("distinct")
        if isinstance(query, exp.Except) or (every and not isinstance(query, exp.Union)):
            yield query.key.upper() + (" ALL" if every else "")
        yield from self._ending(query)
        yield from self.query(query.left)
        yield from self.query(query.right)

    def _select(self, select: exp.Select) -> Iterator[str]:
        for name, value in select.args.items():
            if value and name not in _SELECT:
                yield _NAMES.get(name, name.upper())
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            yield "DISTINCT ON"
        for one in select.expressions:
            yield from self._scalar(one)
        if (start := select.args.get("from_")) is not None:
            yield from self._item(start.this)
        for join in [*(select.args.get("joins") or ()), *(select.args.get("laterals") or ())]:
            yield from self._join(join)
        if (where := select.args.get("where")) is not None:
            yield from self._condition(where.this)
        for one in select.args["order"].expressions if select.args.get("order") else ():
            yield from self._scalar(one)

    # FROM

    def _join(self, join: exp.Expr) -> Iterator[str]:
        if not isinstance(join, exp.Join):
            yield from self._item(join)
            return
        if join.side:
            yield f"{join.side.upper()} JOIN"
        yield from self._item(join.this)
        if (condition := join.args.get("on")) is not None:
            yield from self._condition(condition)

    def _item(self, item: exp.Expr) -> Iterator[str]:
        if item.args.get("sample"):
            yield "TABLESAMPLE"
        if item.args.get("only"):
            yield "ONLY before a table"
        for join in item.args.get("joins") or ():
            yield from self._join(join)
        if isinstance(item, exp.Lateral) and not isinstance(item.this, exp.Subquery):
            yield from self._scalar(item.this)
        elif isinstance(item, exp.Lateral):
            yield from self._item(item.this)
        elif isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table | exp.Subquery):
            yield from self._item(item.this)  # joined tables in parentheses
        elif isinstance(item, exp.Subquery):
            yield from self._ending(item)
            yield from self.query(item.this)
        elif isinstance(item, exp.Values):
            yield from self.query(item)
        elif isinstance(item, exp.Table):
            if not isinstance(item.this, exp.Identifier):
                yield from self._scalar(item.this)  # a function
        elif isinstance(item, exp.Unnest):
            for one in item.expressions:
                yield from self._scalar(one)
        else:
            yield f"{item.key.upper()} as a table"

    # Conditions

    def _condition(self, condition: exp.Expr) -> Iterator[str]:
        """Accept subqueries whose rows can only make the condition true."""
        if isinstance(condition, exp.And | exp.Or):
            yield from self._condition(condition.left)
            yield from self._condition(condition.right)
        elif isinstance(condition, exp.Paren):
            yield from self._condition(condition.this)
        elif isinstance(condition, exp.Exists):
            yield from self.query(condition.this)
        elif isinstance(condition, exp.In) and condition.args.get("query") is not None:
            yield from self._scalar(condition.this)
            yield from self.query(condition.args["query"])
        elif _is_any(condition):
            yield from self._scalar(condition.this)
            yield from self.query(condition.expression.this)
        else:
            yield from self._scalar(condition)

    def _scalar(self, scalar: exp.Expr) -> Iterator[str]:
        for node in own_nodes(scalar):
            if isinstance(node, exp.Window):
                yield "a window function"
            if isinstance(node, exp.Not) and is_subquery(node.this.unnest()):
                yield "NOT EXISTS" if isinstance(node.this.unnest(), exp.Exists) else "NOT IN"
            elif is_subquery(node) or isinstance(node, exp.Query):
                yield _name_of(node)
        if (own := scalar.find(OwnAggregate)) is not None:
            yield f"the aggregate function {own.this}"
        if has_aggregate(scalar):
            yield "an aggregate"


def _is_any(condition: exp.Expr) -> bool:
    return (
        isinstance(condition, _COMPARISONS)
        and isinstance(condition.expression, exp.Any)
        and isinstance(condition.expression.this.unnest(), exp.Query)
    )


def _name_of(node: exp.Expr) -> str:
    if isinstance(node, exp.Binary) and isinstance(node.expression, exp.All):
        return "ALL over a subquery"
    return "a subquery inside an expression"
