"""Walk an expression at the level of its own query, without entering subqueries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp


def own_nodes(expression: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression; a subquery is yielded, but not its contents.

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("a + (SELECT max(b) FROM t)")
    >>> any(isinstance(node, exp.Max) for node in own_nodes(tree))
    False
    """
    yield expression
    if isinstance(expression, exp.Query):
        return
    for child in expression.iter_expressions():
        yield from own_nodes(child)


def replace_nodes(
    expression: exp.Expr, replacement: Callable[[exp.Expr], exp.Expr | None]
) -> exp.Expr:
    """Return a copy in which the outermost nodes that have a replacement are replaced.

    Subqueries are offered for replacement, and entered if they have none.
    """
    found = replacement(expression)
    if found is not None:
        return found
    arguments = {
        name: [
            replace_nodes(one, replacement) if isinstance(one, exp.Expr) else one for one in value
        ]
        if isinstance(value, list)
        else (replace_nodes(value, replacement) if isinstance(value, exp.Expr) else value)
        for name, value in expression.args.items()
    }
    return type(expression)(**arguments)


def is_subquery(node: exp.Expr) -> bool:
    """Tell whether a node is an expression whose value comes from a subquery."""
    if isinstance(node, exp.Exists):
        return True
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    if isinstance(node, exp.Array):
        return any(isinstance(one, exp.Query) for one in node.expressions)
    if isinstance(node, exp.Binary) and isinstance(node.expression, exp.Any | exp.All):
        return isinstance(node.expression.this.unnest(), exp.Query)
    return isinstance(node, exp.Subquery)


def has_subquery(expression: exp.Expr) -> bool:
    """Tell whether an expression contains a subquery."""
    return any(isinstance(node, exp.Query | exp.Exists) for node in own_nodes(expression))


def calls_any(expression: exp.Expr, names: frozenset[str]) -> bool:
    """Tell whether an expression calls one of the functions named."""
    return any(
        isinstance(node, exp.Func)
        and node.sql(dialect="postgres").partition("(")[0].lower() in names
        for node in own_nodes(expression)
    )


def named(expression: exp.Expr, name: str) -> exp.Alias:
    """Give an expression of a SELECT list its name; also a subquery, which has its own aliases.

    >>> named(exp.column("a"), "b").sql()
    'a AS "b"'
    """
    return exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True))
