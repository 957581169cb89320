"""Which rows of each source a derived plan can need: the key sets that bound its reads.

Walk the plan from the top.  At a join, the side that holds a change bounds the other side: of the
other side only rows can matter whose join column has a value that occurs on the first side.  The
values a side can have are again read from a window, or from a table that is itself bounded, so a
bound travels along the equalities from the change buffers to every table that is connected.

    (Δc ⋈[c.id = o.cid] o) ⋈[o.pid = p.id] p
    o is bounded by   o.cid ∈ Δc.id
    p is bounded by   p.id ∈ { o.pid of orders with o.cid ∈ Δc.id }

A comparison with one value that changed bounds too.  Of accounts whose balance exceeds the
average, only those can matter that lie between the old average and the new: all others are
above both or below both, so that the old average takes away what the new one gives.

    a ⋈[a.x > s.v] Δs   where nothing above reads s
    a is bounded by     a.x BETWEEN least Δs.v AND greatest Δs.v

Where both sides are bounded, the one whose bound leaves fewer rows bounds the other: a supplier's
lines are bounded by the supplier, not by the customers of its nation.

A bound may let through more rows than needed, never fewer: the joins above check every condition
again.  Rows that stood in a table before and are gone now are in its changes, and those bound
the tables around them too, so both versions of a neighbour are covered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import ClassVar, assert_never

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
from pgtrickle.algebra.schema import column_names, columns_read_by, scans_of
from pgtrickle.sql.emit import stands_at
from pgtrickle.sql.scalars import (
    bare_column,
    column_behind,
    conjuncts,
    equality,
    null_safe_equality,
    ordering,
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


_UNCUT = "a plan is cut at its stateful operators before its reads are bounded"

KeySet = tuple[ChangedKeys | StoredKeys, ...]  # the union of its members


@dataclass(frozen=True, slots=True)
class Restriction:
    """A column must have one of the values of a key set."""

    column: str
    keys: KeySet
    nullable: bool  # or it is NULL: the join takes NULLs for equal


@dataclass(frozen=True, slots=True)
class Between:
    """A column must lie in the range of the values of ``value`` among the changes of a scan.

    It holds only if those changes take away as many rows as they add, and if no value is NULL;
    that is known when they have been read.
    """

    column: str
    scan: Scan
    value: str

    keys: ClassVar[KeySet] = ()
    nullable: ClassVar[bool] = False


Bound = tuple[Restriction | Between, ...]  # all of them hold; empty: unbounded


# How many values a scan's column has: the more, the fewer rows a bound on it lets through.
Spread = Callable[[Scan, str], float]


def unknown_spread(scan: Scan, column: str) -> float:  # noqa: ARG001 - a Spread
    """Take all columns for equally telling."""
    return 1.0


def bounds_of(node: Node, spread: Spread = unknown_spread) -> Mapping[str, tuple[Bound, ...]]:
    """Return, by alias, the bounds under which each scan's rows are needed: one of them holds.

    Scans of which only the changes are read do not appear.  An empty bound among the
    alternatives means that the whole source is needed.
    """
    bounding = _Bounding(spread)
    bounding.collect(node, (), column_names(node))
    return {alias: tuple(bounds) for alias, bounds in bounding.found.items()}


class _Bounding:
    def __init__(self, spread: Spread) -> None:
        self._spread = spread
        self.found: dict[str, dict[Bound, None]] = {}

    def collect(self, node: Node, bound: Bound, used: frozenset[str]) -> None:
        """Bound the scans below a node of which the columns ``used`` are read above."""
        match node:
            case Scan():
                if node.version is not Version.CHANGES:
                    self.found.setdefault(node.alias, {})[bound] = None
            case Filter() | Weigh():
                self.collect(node.child, bound, _used_below(node, used))
            case Project():
                self.collect(node.child, _below(node, bound), _used_below(node, used))
            case UnionAll():
                for child in node.children:
                    self.collect(child, bound, used)
            case InnerJoin():
                left, right = self._sides(node, bound, used)
                below = _used_below(node, used)
                self.collect(node.left, left, below)
                self.collect(node.right, right, below)
            case Aggregate() | Recompute():
                raise ValueError(_UNCUT)

    def _sides(self, join: InnerJoin, bound: Bound, used: frozenset[str]) -> tuple[Bound, Bound]:
        """Split a bound over the sides of a join, and let the tighter side bound the other."""
        below = _used_below(join, used)
        left = tuple(one for one in bound if one.column in column_names(join.left))
        right = tuple(one for one in bound if one.column in column_names(join.right))
        ways = [
            (self._strength(join.left, left), join.left, left, join.right),
            (self._strength(join.right, right), join.right, right, join.left),
        ]
        for strength, side, own, other in sorted(ways, key=lambda way: -way[0]):
            more = self._across(join, side, own, other, below) if strength else ()
            if more:
                return (left, right + more) if side is join.left else (left + more, right)
        return (
            left + _between(join, join.right, join.left, used),
            right + _between(join, join.left, join.right, used),
        )

    def _strength(self, node: Node, bound: Bound) -> float:
        """Tell how few rows of a side are left; 0 means all of them."""
        if any(scan.version is Version.CHANGES for scan in scans_of(node)):
            return inf
        return max((self._spread(*_origin(node, one.column)) for one in bound), default=0.0)

    def _across(
        self, join: InnerJoin, side: Node, bound: Bound, other: Node, used: frozenset[str]
    ) -> Bound:
        """Bound ``other`` by the values that the join columns of ``side`` can have."""
        result = []
        for *pair, nullable in equal_columns(join.on):
            mine, theirs = pair if pair[0] in column_names(side) else pair[::-1]
            if mine not in column_names(side) or theirs not in column_names(other):
                continue
            keys = self._keys(side, mine, bound, used)
            if keys is not None:
                result.append(Restriction(theirs, keys, nullable))
        return tuple(result)

    def _keys(self, node: Node, column: str, bound: Bound, used: frozenset[str]) -> KeySet | None:
        """Return the values a column of ``node`` can have; None where they cannot be bounded."""
        match node:
            case Scan():
                return _keys_of(node, column, bound)
            case Filter() | Weigh():
                return self._keys(node.child, column, bound, _used_below(node, used))
            case Project():
                inner = column_behind(node.outputs, column)
                if inner is None:
                    return None
                return self._keys(node.child, inner, _below(node, bound), _used_below(node, used))
            case UnionAll():
                sets = [self._keys(child, column, bound, used) for child in node.children]
                if any(keys is None for keys in sets):
                    return None
                return tuple(dict.fromkeys(key for keys in sets if keys for key in keys))
            case InnerJoin():
                left, right = self._sides(node, bound, used)
                side, own = (
                    (node.left, left) if column in column_names(node.left) else (node.right, right)
                )
                return self._keys(side, column, own, _used_below(node, used))
            case Aggregate() | Recompute():
                raise ValueError(_UNCUT)
        assert_never(node)


def _used_below(node: Node, used: frozenset[str]) -> frozenset[str]:
    """Return the columns of a node's inputs that it reads, or that are read above it."""
    read = columns_read_by(node)
    return read if isinstance(node, Project) else used | read


def _between(join: InnerJoin, side: Node, other: Node, used: frozenset[str]) -> Bound:
    """Bound ``other`` by the range of one value that changed, where nothing else reads it."""
    if not (
        isinstance(side, Scan)
        and side.version is Version.CHANGES
        and side.source.kind is SourceKind.STATE
        and used.isdisjoint(column_names(side))
    ):
        return ()
    conditions = [
        one
        for one in (conjuncts(join.on) if join.on else ())
        if not column_names(side).isdisjoint(one.columns)
    ]
    compared = ordering(conditions[0]) if len(conditions) == 1 else None
    if compared is None:
        return ()
    pair = bare_column(compared[0]), bare_column(compared[1])
    for mine, theirs in (pair, pair[::-1]):
        if mine in column_names(side) and theirs in column_names(other):
            return (Between(theirs, side, mine),)
    return ()


def _keys_of(scan: Scan, column: str, bound: Bound) -> KeySet | None:
    if scan.source.kind is SourceKind.STATE and not _stored_as(scan, column):
        return None  # a stage's changes hold its columns, not what a scan computes of them
    if scan.version is Version.CHANGES:
        return (ChangedKeys(scan, column),)
    if not bound:
        return None
    stored: KeySet = (StoredKeys(scan, column, bound),)
    if scan.version is not stands_at(scan):
        return (*stored, ChangedKeys(scan, column))
    return stored


def _origin(node: Node, column: str) -> tuple[Scan, str]:
    """Return the scan from which a column of a bounded side comes, and its name there."""
    match node:
        case Scan():
            return node, column
        case Project():
            inner = column_behind(node.outputs, column)
            return _origin(node.child, inner if inner is not None else column)
        case Filter() | Weigh():
            return _origin(node.child, column)
        case UnionAll():
            return _origin(node.children[0], column)
        case InnerJoin():
            side = node.left if column in column_names(node.left) else node.right
            return _origin(side, column)
        case Aggregate() | Recompute():
            raise ValueError(_UNCUT)
    assert_never(node)


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


def _stored_as(scan: Scan, column: str) -> bool:
    return any(output.name == column == bare_column(output.scalar) for output in scan.outputs)


def _below(node: Project, bound: Bound) -> Bound:
    """Translate a bound on a projection's outputs to its input, where a column passes as it is."""
    result = []
    for restriction in bound:
        inner = column_behind(node.outputs, restriction.column)
        if inner is not None:
            result.append(replace(restriction, column=inner))
    return tuple(result)
