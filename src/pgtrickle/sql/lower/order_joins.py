"""Build a join tree in which every input is connected to those before it, if possible.

``FROM customers c, products p, orders o WHERE o.cid = c.id AND o.pid = p.id`` names two tables
first that share no condition; joined in that order they would form a cross product.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgtrickle.algebra.nodes import Filter, InnerJoin, Node, Scalar
from pgtrickle.algebra.schema import column_names
from pgtrickle.model.compile_steps import step
from pgtrickle.sql.scalars import conjunction, equality, null_safe_equality


def build_join_tree(inputs: Sequence[Node], conditions: Sequence[Scalar]) -> Node:
    """Join ``inputs``, each condition at the lowest place where its columns are present."""
    waiting = list(dict.fromkeys(conditions))
    filtered = []
    for index, node in enumerate(inputs):
        names = column_names(node)
        # A condition without columns (WHERE false) holds for the whole block: the first takes it.
        own = [c for c in waiting if names.issuperset(c.columns) and (c.columns or index == 0)]
        waiting = _without(waiting, own)
        predicate = conjunction(own)
        filtered.append(Filter(node, predicate) if predicate else node)

    names_of = {id(node): column_names(node) for node in filtered}
    # What an input can be joined by reads it: a clique has far more conditions in all.
    reading = {
        key: [one for one in waiting if not names.isdisjoint(one.columns)]
        for key, names in names_of.items()
    }
    tree, *remaining = filtered
    joined = names_of[id(tree)]
    while remaining:
        following = max(
            remaining, key=lambda node: _connection(joined, names_of[id(node)], reading[id(node)])
        )
        remaining.remove(following)
        joined |= names_of[id(following)]
        ready = [condition for condition in waiting if joined.issuperset(condition.columns)]
        waiting = _without(waiting, ready)
        tree = InnerJoin(tree, following, conjunction(ready))
    return tree


def _without(conditions: Sequence[Scalar], others: Sequence[Scalar]) -> list[Scalar]:
    left_out = set(others)
    return [condition for condition in conditions if condition not in left_out]


def _connection(left: frozenset[str], right: frozenset[str], conditions: Sequence[Scalar]) -> int:
    """Rate how well an input fits next: 2 by an equality, 1 by another condition, 0 not at all."""
    step()
    best, joined = 0, left | right
    for condition in conditions:
        used = condition.columns
        placed = [one in left for one in used]
        if any(placed) and not all(placed) and joined.issuperset(used):
            if equality(condition) or null_safe_equality(condition):
                return 2
            best = 1
    return best
