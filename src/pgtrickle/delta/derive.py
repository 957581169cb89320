"""Derive the delta of a plan: the table of rules and the recursion over it.

Only the operators between two stateful ones meet here: a plan is cut at those first (see
``cut``), and each stateful operator's own rule merges the result of this derivation.

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
    SourceKind,
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


def pair(node: Node, changed: Collection[str]) -> Node:
    """Return a plan for the rows of ``node`` before and after, as far as they can differ.

    If several joins combine changes, the difference of both versions is the change, in one pass:

        Δ(L ⋈ R)  =  L⁺ ⋈ R⁺  -  L⁻ ⋈ R⁻

    The derived plan has a term for each changed input of a join, and each of them joins all the
    others.  It still says which rows are needed: a pair of rows that are the same before and
    after cancels out, and all others are in one of the terms.

    >>> from pgtrickle.algebra.nodes import Scalar, Source, SourceKind
    >>> from pgtrickle.algebra.printer import show
    >>> o, c, n = (Scan(Source(SourceKind.TABLE, key), key, ()) for key in "ocn")
    >>> join = InnerJoin(InnerJoin(o, c, Scalar("cid = id")), n, Scalar("nid = key"))
    >>> show(pair(join, changed={"o", "c"}))
    '((o± ⋈[cid = id] c±) ⋈[nid = key] n⁺)'
    """
    return _Recursion(frozenset(changed)).pair(node)


def full(node: Node) -> Node:
    """Return a plan for all rows of ``node`` at the new frontier."""
    everything = frozenset(scan.alias for scan in scans_of(node))
    return _Recursion(everything).at(node, Version.AFTER)


def with_merged_state(node: Node) -> Node:
    """Return the same plan for a reader who sees the state of earlier stages at ``AFTER``."""
    match node:
        case Scan():
            stored = node.source.kind is SourceKind.STATE
            return replace(node, source=replace(node.source, merged=stored))
        case InnerJoin():
            left, right = with_merged_state(node.left), with_merged_state(node.right)
            return replace(node, left=left, right=right)
        case UnionAll():
            return UnionAll(tuple(map(with_merged_state, node.children)))
        case Filter() | Project() | Weigh() | Aggregate() | Recompute():
            return replace(node, child=with_merged_state(node.child))
    assert_never(node)


class _Recursion:
    def __init__(self, changed: frozenset[str]) -> None:
        self._changed = changed
        # By identity: each arm of a derived join has the inputs of the arm before, and one more.
        self._versions: dict[tuple[int, Version], tuple[Node, Node]] = {}

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

    def pair(self, node: Node) -> Node:
        match node:
            case Filter() | Project() | Weigh():
                return replace(node, child=self.pair(node.child))
            case UnionAll():
                # An unchanged input is the same before and after, and is not read.
                children = [one for one in node.children if self._moves(one)]
                return UnionAll(tuple(map(self.pair, children)))
            case InnerJoin() if not self._moves(node.right):
                right = self.at(node.right, Version.AFTER)
                return replace(node, left=self.pair(node.left), right=right)
            case InnerJoin() if not self._moves(node.left):
                left = self.at(node.left, Version.BEFORE)
                return replace(node, left=left, right=self.pair(node.right))
            case _:
                return self.at(node, Version.BOTH)

    def _moves(self, node: Node) -> bool:
        return any(scan.alias in self._changed for scan in scans_of(node))

    def at(self, node: Node, version: Version) -> Node:
        asked = id(node), version
        if asked not in self._versions:
            self._versions[asked] = node, self._find_version(node, version)
        return self._versions[asked][1]

    def _find_version(self, node: Node, version: Version) -> Node:
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
