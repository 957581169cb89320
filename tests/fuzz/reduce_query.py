"""Smaller queries like a given one, the boldest cuts first.

A cut may well leave a query that means nothing: whoever asks tries each one.  What must not happen
is a query with more than one right answer, so nothing that orders rows is touched on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sqlglot
from sqlglot import exp

_Cut = Callable[[exp.Expr], exp.Expr | None]  # a new root, or None if the node was changed
_CLAUSES = ("where", "having", "qualify", "with_", "distinct")
_SCALARS = (exp.Condition, exp.Binary, exp.Unary, exp.Func, exp.Case)


def reductions(query: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the text and the column names of smaller queries."""
    tree = sqlglot.parse_one(query, dialect="postgres")
    for smaller in _smaller(tree):
        if isinstance(smaller, exp.Query) and (names := smaller.named_selects):
            text = smaller.sql(dialect="postgres")
            if len(text) < len(query) and len(set(names)) == len(names):
                yield text, tuple(names)


def _smaller(tree: exp.Expr) -> Iterator[exp.Expr]:
    yield from _inner_queries(tree)
    for number, node in enumerate(tree.walk()):
        for cut in _cuts(node):
            copy = tree.copy()
            target = next(n for place, n in enumerate(copy.walk()) if place == number)
            result = cut(target)
            yield result if target is copy and result is not None else copy


def _inner_queries(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Take a part for the whole; CTEs stay in sight."""
    ctes = tree.args.get("with_")
    for node in tree.walk():
        if node is not tree and isinstance(node, exp.Select | exp.SetOperation):
            part = node.copy()
            if ctes is not None and not part.args.get("with_"):
                part.set("with_", ctes.copy())
            yield part
            yield node.copy()


def _cuts(node: exp.Expr) -> Iterator[_Cut]:
    match node:
        case exp.SetOperation():
            yield lambda n: _put(n, n.this)
            yield lambda n: _put(n, n.expression)
            yield from _clauses(node)
        case exp.Select():
            yield from _clauses(node)
            yield from _items(node, "expressions", least=1)
            yield from _items(node, "joins", least=0)
            if node.args.get("group"):
                yield from _items(node, "group", least=1)
        case exp.With():
            yield from _items(node, "expressions", least=1)
        case exp.Table() | exp.Subquery():
            yield from _items(node, "joins", least=0)
            if isinstance(node, exp.Subquery) and node.args.get("joins"):
                yield lambda n: _put(n, n.this)
        case exp.Join() if node.side:
            yield _drop("side")
        case exp.Filter():
            yield lambda n: _put(n, n.this)
        case _ if isinstance(node, _SCALARS) and not _ordered(node):
            yield from (_put_child(key) for key in _children(node))


def _clauses(node: exp.Expr) -> Iterator[_Cut]:
    for key in _CLAUSES:
        if node.args.get(key):
            yield _drop(key)
    if node.args.get("limit") or node.args.get("offset"):
        yield _drop("limit", "offset", "order")
        if node.args.get("limit") and node.args.get("offset"):
            yield _drop("offset")


def _items(node: exp.Expr, key: str, least: int) -> Iterator[_Cut]:
    holder = node.args[key] if key == "group" else node
    listed = holder.args.get("expressions" if key == "group" else key) or []
    if len(listed) > least:
        for place in range(len(listed)):
            yield _drop_item(key, place)


def _drop(*keys: str) -> _Cut:
    def cut(node: exp.Expr) -> None:
        for key in keys:
            node.set(key, None)

    return cut


def _drop_item(key: str, place: int) -> _Cut:
    def cut(node: exp.Expr) -> None:
        holder = node.args[key] if key == "group" else node
        name = "expressions" if key == "group" else key
        listed = list(holder.args[name])
        del listed[place]
        holder.set(name, listed)

    return cut


def _children(node: exp.Expr) -> list[tuple[str, int]]:
    """List the parts that can stand for the whole: a condition only for a condition."""
    found = []
    for key, value in node.args.items():
        for place, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, (exp.If, *_SCALARS)) and not isinstance(child, exp.Literal):
                found.append((key, place))
    if isinstance(node, exp.Case):
        return [(key, place) for key, place in found if key != "this"]
    if _is_condition(node):
        return [
            (key, place)
            for key, place in found
            if _is_condition(
                node.args[key][place] if isinstance(node.args[key], list) else node.args[key]
            )
        ]
    return found


def _is_condition(node: exp.Expr) -> bool:
    return isinstance(node.unnest(), exp.Predicate | exp.Connector | exp.Not | exp.Boolean)


def _put_child(where: tuple[str, int]) -> _Cut:
    key, place = where

    def cut(node: exp.Expr) -> exp.Expr | None:
        value = node.args[key]
        child = value[place] if isinstance(value, list) else value
        return _put(node, child.args["true"] if isinstance(child, exp.If) else child)

    return cut


def _put(node: exp.Expr, part: exp.Expr) -> exp.Expr:
    if node.parent is None:
        while isinstance(part, exp.Subquery) and not part.args.get("joins"):
            part = part.this
        part = part.copy()
        if node.args.get("with_") and not part.args.get("with_"):
            part.set("with_", node.args["with_"].copy())
        return part
    node.replace(part.copy())
    return part


def _ordered(node: exp.Expr) -> bool:
    """Tell whether an expression has a part in an order, or in what an order makes unique."""
    if node.find_ancestor(exp.Order, exp.Window, exp.WindowSpec) or isinstance(node, exp.Window):
        return True
    select = node.find_ancestor(exp.Select)
    return select is not None and bool(
        select.args.get("limit")
        or select.args.get("offset")
        or select.find(exp.Window)
        or (select.args.get("distinct") and select.args["distinct"].args.get("on"))
    )
