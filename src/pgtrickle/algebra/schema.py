"""The columns that an operator yields, and the scans that a plan reads."""

from __future__ import annotations

from collections.abc import Iterator
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
from pgtrickle.model.sql_type import Column


def columns_of(node: Node) -> tuple[Column, ...]:
    """Return the columns of a plan in order."""
    match node:
        case Scan() | Project():
            return tuple(output.column for output in node.outputs)
        case Filter() | Weigh():
            return columns_of(node.child)
        case Recompute():
            return node.outputs
        case InnerJoin():
            return columns_of(node.left) + columns_of(node.right)
        case UnionAll():
            return columns_of(node.children[0])
        case Aggregate():
            return node.keys + tuple(Column(call.name, call.type) for call in node.calls)
    assert_never(node)


def column_names(node: Node) -> frozenset[str]:
    """Return the names of a plan's columns."""
    return frozenset(column.name for column in columns_of(node))


def children_of(node: Node) -> tuple[Node, ...]:
    """Return the inputs of an operator."""
    match node:
        case Scan():
            return ()
        case Filter() | Project() | Aggregate() | Weigh() | Recompute():
            return (node.child,)
        case InnerJoin():
            return (node.left, node.right)
        case UnionAll():
            return node.children
    assert_never(node)


def columns_read_by(node: Node) -> frozenset[str]:
    """Return the columns of its inputs that an operator uses, beside those it passes on."""
    match node:
        case Filter():
            return frozenset(node.predicate.columns)
        case Weigh():
            return frozenset(node.factor.columns)
        case InnerJoin():
            return frozenset(node.on.columns if node.on else ())
        case Project():
            return frozenset(name for output in node.outputs for name in output.scalar.columns)
        case Scan() | UnionAll() | Aggregate() | Recompute():
            return frozenset()
    assert_never(node)


def scans_of(node: Node) -> Iterator[Scan]:
    """Yield every scan of a plan, from left to right."""
    if isinstance(node, Scan):
        yield node
    for child in children_of(node):
        yield from scans_of(child)
