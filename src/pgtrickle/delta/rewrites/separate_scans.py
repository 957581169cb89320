"""Give every scan of a plan an alias and column names of its own.

An input may stand in several places of one plan: the outer rows of a join and of the count of
their partners, the keys of a subquery and of its empty answers.  Filters and expressions are
pushed into each place by itself, so the places must not share a scan.

    T ⋈ T   becomes   T ⋈ π[a ← a₂](T₂)
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
from pgtrickle.algebra.schema import column_names, scans_of
from pgtrickle.sql.scalars import column_scalar


def separate_scans(node: Node) -> Node:
    """Return an equal plan in which no two scans share an alias."""
    scans = list(scans_of(node))
    if len({scan.alias for scan in scans}) == len(scans):
        return node
    taken = {name for scan in scans for name in column_names(scan)}
    return _Separation({scan.alias for scan in scans}, taken).visit(node)


class _Separation:
    def __init__(self, aliases: set[str], names: set[str]) -> None:
        self._aliases = aliases
        self._names = names
        self._seen: set[str] = set()

    def visit(self, node: Node) -> Node:
        match node:
            case Scan():
                return self._scan(node)
            case Filter() | Project() | Weigh():
                return replace(node, child=self.visit(node.child))
            case InnerJoin():
                return replace(node, left=self.visit(node.left), right=self.visit(node.right))
            case UnionAll():
                return UnionAll(tuple(self.visit(child) for child in node.children))
            case Aggregate() | Recompute():
                raise ValueError("a plan is cut at its stateful operators before")
        assert_never(node)

    def _scan(self, scan: Scan) -> Node:
        if scan.alias not in self._seen:
            self._seen.add(scan.alias)
            return scan
        outputs = tuple(
            replace(output, name=_fresh(output.name, self._names)) for output in scan.outputs
        )
        back = tuple(
            Output(old.name, column_scalar(new.name), old.type)
            for old, new in zip(scan.outputs, outputs, strict=True)
        )
        return Project(
            replace(scan, alias=_fresh(scan.alias, self._aliases), outputs=outputs), back
        )


def _fresh(name: str, taken: set[str]) -> str:
    number = 2
    while (wanted := f"{name}_{number}") in taken:
        number += 1
    taken.add(wanted)
    return wanted
