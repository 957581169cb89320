"""ARRAY(Q) as a query of one row.

    ARRAY(SELECT v FROM ... ORDER BY s)   =   SELECT array_agg(v ORDER BY s) FROM ...

If Q chooses among its rows, groups, or unites, it stands in FROM, with what it is ordered by as
columns of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from pgtrickle.sql.lower.groups.grouping import has_aggregate
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.text.own_level import named

_ALIAS = "listed"
_CHOOSING = ("limit", "offset", "distinct", "group", "having", "with_")


def in_one_call(query: exp.Expr) -> exp.Select:
    """Return a query whose one value is the array of the values of another.

    >>> import sqlglot
    >>> def show(sql):
    ...     print(in_one_call(sqlglot.parse_one(sql, dialect="postgres")).sql(dialect="postgres"))
    >>> show("SELECT a FROM t ORDER BY b DESC")
    SELECT ARRAY_AGG(a ORDER BY b DESC) AS "array_agg" FROM t
    >>> show("SELECT DISTINCT a FROM t ORDER BY a")  # doctest: +NORMALIZE_WHITESPACE
    SELECT ARRAY_AGG("listed"."value" ORDER BY "listed"."value") AS "array_agg"
      FROM (SELECT DISTINCT a FROM t ORDER BY a) AS "listed"("value")
    """
    query = query.copy()
    order = query.args.get("order")
    if order is None and not _is_one_row(query):
        raise Refusal(
            "ARRAY(SELECT ...) without ORDER BY", "array", hint="Write the order of the elements."
        )
    if not isinstance(query, exp.Select) or has_aggregate(query) or _chooses(query):
        return _over(query)
    query.set("order", None)
    sorts = order.expressions if order is not None else []
    query.set("expressions", [_call(query.expressions[0].unalias(), sorts)])
    return query


def _chooses(query: exp.Select) -> bool:
    return any(query.args.get(clause) for clause in _CHOOSING)


def _is_one_row(query: exp.Expr) -> bool:
    return (
        isinstance(query, exp.Select)
        and has_aggregate(query)
        and not any(query.args.get(clause) for clause in ("group", "having", "distinct"))
    )


def _over(query: exp.Expr) -> exp.Select:
    """Return the call over the rows of a query, which keeps its own order."""
    order = query.args.get("order")
    names = ["value"]
    sorts = []
    for item in order.expressions if order is not None else ():
        copy = item.copy() if isinstance(item, exp.Ordered) else exp.Ordered(this=item.copy())
        place = _place(query, copy.this)
        if place is None:
            if not isinstance(query, exp.Select) or query.args.get("distinct"):
                raise Refusal("ARRAY of rows in the order of an expression", "array")
            place = len(names)
            names.append(f"sort_{place}")
            query.set("expressions", [*query.expressions, named(copy.this.copy(), names[-1])])
        copy.set("this", _column(names[place]))
        sorts.append(copy)
    columns = [exp.to_identifier(name, quoted=True) for name in names]
    alias = exp.TableAlias(this=exp.to_identifier(_ALIAS, quoted=True), columns=columns)
    table = exp.Subquery(this=query, alias=alias)
    return exp.Select(expressions=[_call(_column("value"), sorts)], from_=exp.From(this=table))


def _place(query: exp.Expr, item: exp.Expr) -> int | None:
    """Return which column of a query an item of its ORDER BY is."""
    inner = item.unnest()
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return int(inner.this) - 1
    text = inner.sql(dialect="postgres")
    value = query.selects[0] if isinstance(query, exp.Query) else item
    known = {value.unalias().sql(dialect="postgres")}
    if isinstance(query, exp.SetOperation):
        known.add(value.alias_or_name)
    return 0 if text in known else None


def _call(value: exp.Expr, sorts: Sequence[exp.Expr]) -> exp.Alias:
    listed = exp.Order(this=value.copy(), expressions=list(sorts)) if sorts else value.copy()
    return named(exp.ArrayAgg(this=listed), "array_agg")


def _column(name: str) -> exp.Column:
    return exp.column(
        exp.to_identifier(name, quoted=True), table=exp.to_identifier(_ALIAS, quoted=True)
    )
