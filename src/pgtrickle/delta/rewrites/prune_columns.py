"""Drop the columns of scans and projections that nothing above reads.

    π[a](scan T yielding a, b, c)   becomes   π[a](scan T yielding a)

Columns that a scan does not yield are neither captured, nor read, nor moved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from pgtrickle.algebra.nodes import (
    Aggregate,
    Filter,
    InnerJoin,
    Node,
    Output,
    Project,
    Recompute,
    Scan,
    UnionAll,
    Weigh,
)
from pgtrickle.algebra.schema import columns_read_by


def prune_columns(node: Node, needed: frozenset[str]) -> Node:
    """Return an equal plan that yields only the ``needed`` columns where it can."""
    match node:
        case Scan():
            return replace(node, outputs=_keep(node.outputs, needed))
        case Filter() | Weigh():
            return replace(node, child=prune_columns(node.child, needed | columns_read_by(node)))
        case Project():
            kept = replace(node, outputs=_keep(node.outputs, needed))
            return replace(kept, child=prune_columns(node.child, columns_read_by(kept)))
        case InnerJoin():
            below = needed | columns_read_by(node)
            return replace(
                node, left=prune_columns(node.left, below), right=prune_columns(node.right, below)
            )
        case UnionAll():
            return UnionAll(tuple(prune_columns(child, needed) for child in node.children))
        case Aggregate() | Recompute():
            raise ValueError("a plan is cut at its stateful operators before columns are pruned")
    assert_never(node)


def _keep(outputs: tuple[Output, ...], needed: frozenset[str]) -> tuple[Output, ...]:
    return tuple(output for output in outputs if output.name in needed)
