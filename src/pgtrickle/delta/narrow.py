"""Joins in which a row meets at most one partner.

Such a join has no more rows than its larger side.  A pair plan joins whatever was read, so it pays
where every join is of this kind, as along foreign keys.  Where many rows meet many, it would join
rows that did not change with each other: there a term for each changed input is better.
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
from pgtrickle.algebra.schema import children_of, column_names
from pgtrickle.delta.key_sets import equal_columns
from pgtrickle.sql.scalars import bare_column

Key = frozenset[str]  # columns whose values no two rows share; without columns: there is one row
Keys = Callable[[Scan], Collection[Key]]  # in the names of the source's columns


def no_keys(scan: Scan) -> Collection[Key]:  # noqa: ARG001 - Keys
    """Take every value for one that many rows may have."""
    return ()


def is_narrow(node: Node, keys: Keys) -> bool:
    """Tell whether each join below has a side of which a row meets at most one."""
    if isinstance(node, InnerJoin) and not any(_narrow_sides(node, keys)):
        return False
    return all(is_narrow(child, keys) for child in children_of(node))


def _narrow_sides(join: InnerJoin, keys: Keys) -> tuple[bool, bool]:
    compared = {name for *pair, _ in equal_columns(join.on) for name in pair}
    left, right = (
        any(key <= compared & column_names(side) for key in _keys_of(side, keys))
        for side in (join.left, join.right)
    )
    return left, right


def _keys_of(node: Node, keys: Keys) -> set[Key]:
    match node:
        case Scan() | Project():
            inner = set(keys(node)) if isinstance(node, Scan) else _keys_of(node.child, keys)
            names = {bare_column(output.scalar): output.name for output in node.outputs}
            return {
                frozenset(names[column] for column in key) for key in inner if key <= names.keys()
            }
        case Filter() | Weigh():
            return _keys_of(node.child, keys)
        case InnerJoin():
            # A row that meets at most one partner stays one row.
            left, right = _narrow_sides(node, keys)
            found = _keys_of(node.left, keys) if right else set()
            return found | (_keys_of(node.right, keys) if left else set())
        case UnionAll():
            return set()
        case Aggregate() | Recompute():
            raise ValueError("a plan is cut at its stateful operators before it is looked at")
    assert_never(node)
