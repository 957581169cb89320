"""Comparisons of rows, written out column by column.

    (a, b) < (c, d)    =    a < c OR (a = c AND b < d)

PostgreSQL compares columns from left to right until one pair differs or is NULL, which is what
these conditions say.  Written out, they need no value of an anonymous type: none can be stored,
and no engine but PostgreSQL has one.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

_STRICT: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.LT,
    exp.LTE: exp.LT,
    exp.GT: exp.GT,
    exp.GTE: exp.GT,
}
_MOST = 32  # columns; each nests the condition deeper


def spell_out_rows(expression: exp.Expr) -> exp.Expr:
    """Return an expression whose ordered comparisons of rows are comparisons of columns.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("ROW(a, b) <= ROW(c, d)", dialect="postgres")
    >>> spell_out_rows(query).sql(dialect="postgres")
    '(a < c OR (a = c AND b <= d))'
    """
    return expression.transform(_spelled_out)


def row_compared(node: exp.Expr) -> list[exp.Expr] | None:
    """Return the columns of a row that is compared with a subquery; None for any other node.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("(a, b) = (SELECT c, d FROM t)", dialect="postgres")
    >>> [one.sql() for one in row_compared(query)]
    ['a', 'b']
    """
    if not isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return None
    row = columns_of_row(node.this)
    return row if len(row) > 1 and isinstance(node.expression, exp.Subquery) else None


def compare_rows(
    compare: type[exp.Expr], left: Sequence[exp.Expr], right: Sequence[exp.Expr]
) -> exp.Expr:
    """Compare rows of expressions column by column.

    >>> a, b = exp.column("a"), exp.column("b")
    >>> compare_rows(exp.NEQ, [a, b], [b, a]).sql()
    '(a <> b OR b <> a)'
    """
    if compare not in _STRICT:
        pairs = [
            compare(this=one, expression=other) for one, other in zip(left, right, strict=True)
        ]
        return exp.paren((exp.and_ if compare is exp.EQ else exp.or_)(*pairs), copy=False)
    rows = [exp.Tuple(expressions=list(side)) for side in (left, right)]
    return _spelled_out(compare(this=rows[0], expression=rows[1]))


def _spelled_out(node: exp.Expr) -> exp.Expr:
    if type(node) not in _STRICT or not isinstance(node, exp.Binary):
        return node
    left, right = columns_of_row(node.this), columns_of_row(node.expression)
    if not 1 < len(left) == len(right) <= _MOST:
        return node
    found: exp.Expr = type(node)(this=left[-1], expression=right[-1])
    strict = _STRICT[type(node)]
    for one, other in zip(left[-2::-1], right[-2::-1], strict=True):
        equal = exp.and_(exp.EQ(this=one, expression=other), found)
        found = exp.or_(strict(this=one.copy(), expression=other.copy()), equal)
    return exp.paren(found, copy=False)


def columns_of_row(row: exp.Expr) -> list[exp.Expr]:
    """Return the columns of a row in parentheses, each in parentheses if it needs some.

    >>> import sqlglot
    >>> [one.sql() for one in columns_of_row(sqlglot.parse_one("ROW(a, b)", dialect="postgres"))]
    ['a', 'b']
    """
    inner = row.unnest()
    named = isinstance(inner, exp.Anonymous) and str(inner.this).upper() == "ROW"
    if not (named or isinstance(inner, exp.Tuple)):
        return []
    return [
        exp.paren(one) if isinstance(one, exp.Binary | exp.Connector) else one.copy()
        for one in inner.expressions
    ]
