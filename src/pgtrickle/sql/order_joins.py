"""Build a join tree in which every input is connected to those before it, where that can be.

``FROM customers c, products p, orders o WHERE o.cid = c.id AND o.pid = p.id`` names two tables
first that share no condition; joined in that order they would make a cross product.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgtrickle.algebra.nodes import Filter, InnerJoin, Node, Scalar
from pgtrickle.algebra.schema import column_names
from pgtrickle.sql.scalars import conjunction, equality, null_safe_equality


def build_join_tree(inputs: Sequence[Node], conditions: Sequence[Scalar]) -> Node:
    """Join ``inputs``, each condition at the lowest place where its columns are present."""
    waiting = list(dict.fromkeys(conditions))
    filtered = []
    for index, node in enumerate(inputs):
        names = column_names(node)
        # A condition without columns (WHERE false) holds for the whole block: the first takes it.
        own = [c for c in waiting if names.issuperset(c.columns) and (c.columns or index == 0)]
        waiting = [condition for condition in waiting if condition not in own]
        predicate = conjunction(own)
        filtered.append(Filter(node, predicate) if predicate else node)

    tree, *remaining = filtered
    while remaining:
        following = max(remaining, key=lambda node: _connection(tree, node, waiting))
        remaining.remove(following)
        names = column_names(tree) | column_names(following)
        ready = [condition for condition in waiting if names.issuperset(condition.columns)]
        waiting = [condition for condition in waiting if condition not in ready]
        tree = InnerJoin(tree, following, conjunction(ready))
    return tree


def _connection(tree: Node, node: Node, conditions: Sequence[Scalar]) -> int:
    """Rate how well ``node`` fits next: 2 by an equality, 1 by another condition, 0 not at all."""
    left, right = column_names(tree), column_names(node)
    best = 0
    for condition in conditions:
        used = set(condition.columns)
        if used <= left | right and used & left and used & right:
            keyed = equality(condition) or null_safe_equality(condition)
            best = max(best, 2 if keyed else 1)
    return best
