"""Derive the delta of a plan: the table of rules and the recursion over it.

Only the operators between two stateful ones meet here: a plan is cut at those first (see
``cut``), and each stateful operator's own rule merges what this derivation yields.

Adding an operator is one file in ``rules/`` and one arm here; the type checker and
tests/delta/test_rules_complete.py fail until both are there, with a golden case.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
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
    Version,
    Weigh,
)
from pgtrickle.algebra.schema import scans_of
from pgtrickle.delta.rules.filter import delta_filter
from pgtrickle.delta.rules.inner_join import delta_inner_join
from pgtrickle.delta.rules.project import delta_project
from pgtrickle.delta.rules.scan import delta_scan
from pgtrickle.delta.rules.union_all import delta_union_all
from pgtrickle.delta.rules.weigh import delta_weigh
from pgtrickle.sql.emit import stands_at


def derive(node: Node, changed: Collection[str]) -> Node | None:
    """Return a plan for the weighted rows by which ``node`` changed since the last refresh.

    ``changed`` holds the aliases of the scans that have changes; None means that nothing can have
    changed.
    """
    return _Recursion(frozenset(changed)).delta(node)


def full(node: Node) -> Node:
    """Return a plan for all rows of ``node`` at the new frontier."""
    everything = frozenset(scan.alias for scan in scans_of(node))
    return _Recursion(everything).at(node, Version.AFTER)


class _Recursion:
    def __init__(self, changed: frozenset[str]) -> None:
        self._changed = changed

    def delta(self, node: Node) -> Node | None:
        match node:
            case Scan():
                return delta_scan(node, changed=node.alias in self._changed)
            case Filter():
                return delta_filter(node, self)
            case Project():
                return delta_project(node, self)
            case InnerJoin():
                return delta_inner_join(node, self)
            case UnionAll():
                return delta_union_all(node, self)
            case Weigh():
                return delta_weigh(node, self)
            case Aggregate() | Recompute():
                raise ValueError("a plan is cut at its stateful operators before it is derived")
        assert_never(node)

    def at(self, node: Node, version: Version) -> Node:
        match node:
            case Scan():
                # Both versions of an unchanged source are the same rows: read the plain one.
                changed = node.alias in self._changed
                return replace(node, version=version if changed else stands_at(node))
            case Filter() | Project() | Weigh():
                return replace(node, child=self.at(node.child, version))
            case InnerJoin():
                return replace(
                    node, left=self.at(node.left, version), right=self.at(node.right, version)
                )
            case UnionAll():
                children = tuple(self.at(child, version) for child in node.children)
                return replace(node, children=children)
            case Aggregate() | Recompute():
                raise ValueError("a plan is cut at its stateful operators before it is derived")
        assert_never(node)
