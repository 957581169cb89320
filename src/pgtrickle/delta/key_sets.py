"""Which rows of each source a derived plan can need: the key sets that bound its reads.

Walk the plan from the top.  At a join, the side that holds a change bounds the other side: of the
other side only rows can matter whose join column has a value that occurs on the first side.  The
values a side can have are again read from a window, or from a table that is itself bounded, so a
bound travels along the equalities from the change buffers to every table that is connected.

    (Δc ⋈[c.id = o.cid] o) ⋈[o.pid = p.id] p
    o is bounded by   o.cid ∈ Δc.id
    p is bounded by   p.id ∈ { o.pid of orders with o.cid ∈ Δc.id }

A bound may let through more rows than needed, never fewer: the joins above check every condition
again.  Rows that stood in a table before and are gone now are in its changes, and those bound
the tables around them too, so both versions of a neighbour are covered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from pgtrickle.algebra.nodes import (
    Aggregate,
    Filter,
    InnerJoin,
    Node,
    Project,
    Recompute,
    Scalar,
    Scan,
    SourceKind,
    UnionAll,
    Version,
    Weigh,
)
from pgtrickle.algebra.schema import column_names, scans_of
from pgtrickle.sql.emit import stands_at
from pgtrickle.sql.scalars import (
    bare_column,
    column_behind,
    conjuncts,
    equality,
    null_safe_equality,
)


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """The values of a column among the changes of a scan."""

    scan: Scan
    column: str


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """The values of a column among the rows of a scan that satisfy ``bound``."""

    scan: Scan
    column: str
    bound: Bound


KeySet = tuple[ChangedKeys | StoredKeys, ...]  # the union of its members


@dataclass(frozen=True, slots=True)
class Restriction:
    """A column must have one of the values of a key set."""

    column: str
    keys: KeySet
    nullable: bool  # or it is NULL: the join takes NULLs for equal


Bound = tuple[Restriction, ...]  # all of them hold; empty: unbounded


def bounds_of(node: Node) -> Mapping[str, tuple[Bound, ...]]:
    """Return, by alias, the bounds under which each scan's rows are needed: one of them holds.

    Scans of which only the changes are read do not appear.  An empty bound among the
    alternatives means that the whole source is needed.
    """
    found: dict[str, dict[Bound, None]] = {}
    _collect(node, (), found)
    return {alias: tuple(bounds) for alias, bounds in found.items()}


def _collect(node: Node, bound: Bound, found: dict[str, dict[Bound, None]]) -> None:
    match node:
        case Scan():
            if node.version is not Version.CHANGES:
                found.setdefault(node.alias, {})[bound] = None
        case Filter() | Weigh():
            _collect(node.child, bound, found)
        case Project():
            _collect(node.child, _below(node, bound), found)
        case UnionAll():
            for child in node.children:
                _collect(child, bound, found)
        case InnerJoin():
            left, right = _sides(node, bound)
            _collect(node.left, left, found)
            _collect(node.right, right, found)
        case Aggregate() | Recompute():
            raise ValueError("a plan is cut at its stateful operators before its reads are bounded")


def _sides(join: InnerJoin, bound: Bound) -> tuple[Bound, Bound]:
    """Split a bound over the sides of a join, and let each side bound the other."""
    left = tuple(one for one in bound if one.column in column_names(join.left))
    right = tuple(one for one in bound if one.column in column_names(join.right))
    if _is_bounded(join.left, left):
        right += _across(join, join.left, left, join.right)
    elif _is_bounded(join.right, right):
        left += _across(join, join.right, right, join.left)
    return left, right


def _is_bounded(node: Node, bound: Bound) -> bool:
    return bool(bound) or any(scan.version is Version.CHANGES for scan in scans_of(node))


def _across(join: InnerJoin, side: Node, bound: Bound, other: Node) -> Bound:
    """Bound ``other`` by the values that the join columns of ``side`` can have."""
    result = []
    for *pair, nullable in equal_columns(join.on):
        mine, theirs = pair if pair[0] in column_names(side) else pair[::-1]
        if mine not in column_names(side) or theirs not in column_names(other):
            continue
        keys = _keys(side, mine, bound)
        if keys is not None:
            result.append(Restriction(theirs, keys, nullable))
    return tuple(result)


@lru_cache(maxsize=4096)
def equal_columns(on: Scalar | None) -> tuple[tuple[str, str, bool], ...]:
    """Return the pairs of columns that a join compares, and whether NULL equals NULL there."""
    pairs = []
    for condition in conjuncts(on) if on else ():
        plain, null_safe = equality(condition), null_safe_equality(condition)
        sides = plain or null_safe
        if sides is not None:
            left, right = bare_column(sides[0]), bare_column(sides[1])
            if left is not None and right is not None:
                pairs.append((left, right, plain is None))
    return tuple(pairs)


def _keys(node: Node, column: str, bound: Bound) -> KeySet | None:
    """Return the values a column of ``node`` can have; None where they cannot be bounded."""
    match node:
        case Scan():
            if node.source.kind is SourceKind.STATE and not _stored_as(node, column):
                return None  # a stage's changes hold its columns, not what a scan computes of them
            if node.version is Version.CHANGES:
                return (ChangedKeys(node, column),)
            if not bound:
                return None
            stored: KeySet = (StoredKeys(node, column, bound),)
            if node.version is not stands_at(node):
                return (*stored, ChangedKeys(node, column))
            return stored
        case Filter() | Weigh():
            return _keys(node.child, column, bound)
        case Project():
            inner = column_behind(node.outputs, column)
            return _keys(node.child, inner, _below(node, bound)) if inner else None
        case UnionAll():
            sets = [_keys(child, column, bound) for child in node.children]
            if any(keys is None for keys in sets):
                return None
            return tuple(dict.fromkeys(key for keys in sets if keys for key in keys))
        case InnerJoin():
            left, right = _sides(node, bound)
            if column in column_names(node.left):
                return _keys(node.left, column, left)
            return _keys(node.right, column, right)
        case Aggregate() | Recompute():
            raise ValueError("a plan is cut at its stateful operators before its reads are bounded")
    assert_never(node)


def _stored_as(scan: Scan, column: str) -> bool:
    return any(output.name == column == bare_column(output.scalar) for output in scan.outputs)


def _below(node: Project, bound: Bound) -> Bound:
    """Translate a bound on a projection's outputs to its input, where a column passes as it is."""
    result = []
    for restriction in bound:
        inner = column_behind(node.outputs, restriction.column)
        if inner is not None:
            result.append(Restriction(inner, restriction.keys, restriction.nullable))
    return tuple(result)
