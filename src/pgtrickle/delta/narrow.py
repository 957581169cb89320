"""Joins in which a row has at most one partner.

Such a join has no more rows than its larger side.  A pair plan joins all rows that were read, so it
pays if every join is of this kind, as along foreign keys.  In a many-to-many join, it would join
unchanged rows with each other: there a term for each changed input is better.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import assert_never

from pgtrickle.algebra.nodes import (
    Aggregate,
    Filter,
    InnerJoin,
    Node,
    Project,
    Recompute,
    Scan,
    UnionAll,
    Weigh,
)
from pgtrickle.delta.key_sets import equal_columns
from pgtrickle.sql.scalars import bare_column

Key = frozenset[str]  # columns whose values no two rows share; without columns: there is one row
Keys = Callable[[Scan], Collection[Key]]  # in the names of the source's columns


def no_keys(scan: Scan) -> Collection[Key]:  # noqa: ARG001 - Keys
    """Assume that many rows may have each value."""
    return ()


def is_narrow(node: Node, keys: Keys) -> bool:
    """Tell whether each join below has a side with at most one partner per row."""
    return keys_of(node, keys) is not None


def keys_of(node: Node, keys: Keys) -> set[Key] | None:
    """Return the keys of an operator's rows; None if a join below is many-to-many."""
    match node:
        case Scan():
            return _renamed(node, set(keys(node)))
        case Project():
            inner = keys_of(node.child, keys)
            return None if inner is None else _renamed(node, inner)
        case Filter() | Weigh():
            return keys_of(node.child, keys)
        case InnerJoin():
            return _keys_of_join(node, keys_of(node.left, keys), keys_of(node.right, keys))
        case UnionAll():
            children = [keys_of(child, keys) for child in node.children]
            return None if None in children else set()
        case Aggregate() | Recompute():
            raise ValueError("a plan is cut at its stateful operators before it is looked at")
    assert_never(node)


def _renamed(node: Scan | Project, inner: set[Key]) -> set[Key]:
    names = {bare_column(output.scalar): output.name for output in node.outputs}
    return {frozenset(names[column] for column in key) for key in inner if key <= names.keys()}


def _keys_of_join(
    join: InnerJoin, left: set[Key] | None, right: set[Key] | None
) -> set[Key] | None:
    if left is None or right is None:
        return None
    compared = {name for *pair, _ in equal_columns(join.on) for name in pair}
    one_left = any(key <= compared for key in left)
    one_right = any(key <= compared for key in right)
    if not one_left and not one_right:
        return None
    # A row that meets at most one partner stays one row.
    return (left if one_right else set()) | (right if one_left else set())
