"""Why a read is not bounded by keys.

A bound starts at a change and follows equalities between plain columns. So the reason is the first
join without such an equality on the way from the change to the scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pgtrickle.algebra.nodes import Filter, InnerJoin, Node, Project, Scan, UnionAll, Version
from pgtrickle.algebra.schema import children_of, column_names, scans_of
from pgtrickle.delta.key_sets import bounds_of
from pgtrickle.sql.scalars import bare_column, conjuncts, equality, null_safe_equality


@dataclass(frozen=True, slots=True)
class _Step:
    """A join above a scan: the scan's side, and the other."""

    join: InnerJoin
    mine: Node
    other: Node


def why_unbounded(plan: Node, alias: str) -> str:
    """Return the reason why a derived plan needs every row of the scan ``alias``."""
    for arm in _arms(plan):
        if () in bounds_of(arm).get(alias, ()):
            return _reason(list(_path(arm, alias)))
    return "every row of it takes part"


def _arms(plan: Node) -> Iterator[Node]:
    match plan:
        case UnionAll():
            for child in plan.children:
                yield from _arms(child)
        case Filter() | Project():
            yield from _arms(plan.child)
        case _:
            yield plan


def _path(node: Node, alias: str) -> Iterator[_Step]:
    """Yield the joins between the top of an arm and a scan of the alias, the outermost first."""
    if isinstance(node, InnerJoin):
        for mine, other in ((node.left, node.right), (node.right, node.left)):
            if _reads(mine, alias):
                yield _Step(node, mine, other)
                yield from _path(mine, alias)
                return
    for child in children_of(node):
        if _reads(child, alias):
            yield from _path(child, alias)
            return


def _reads(node: Node, alias: str) -> bool:
    return any(
        scan.alias == alias and scan.version is not Version.CHANGES for scan in scans_of(node)
    )


def _reason(path: list[_Step]) -> str:
    from_change = next((n for n, step in enumerate(path) if _changes(step.other)), 0)
    for step in path[from_change:]:
        if not _equates(step):
            return _missing_equality(step)
    if path:
        return f"which values it shares with {_labels(path[-1].other)} is computed, not stored"
    return "every row of it takes part"


def _missing_equality(step: _Step) -> str:
    other = _labels(step.other)
    if step.join.on is None:
        return f"it is paired with every row of {other}"
    return f"the condition {step.join.on.sql} equates no plain column of it with one of {other}"


def _equates(step: _Step) -> bool:
    mine, other = column_names(step.mine), column_names(step.other)
    for condition in conjuncts(step.join.on) if step.join.on else ():
        sides = equality(condition) or null_safe_equality(condition)
        names = {bare_column(side) for side in sides} if sides else set()
        if names & mine and names & other:
            return True
    return False


def _changes(node: Node) -> bool:
    return any(scan.version is Version.CHANGES for scan in scans_of(node))


def _labels(node: Node) -> str:
    names = (_label(scan) for scan in scans_of(node))
    return ", ".join(dict.fromkeys(names))


def _label(scan: Scan) -> str:
    name = str(scan.source.relation or scan.source.key)
    return f"the changes of {name}" if scan.version is Version.CHANGES else name
