"""The key sets that bound the reads of a derived plan: the rows of each source that it can need.

Walk the plan from the top.  At a join, the side with a change bounds the other side: only rows of
the other side whose join column has a value that occurs on the first side can matter.  The
values a side can have are again read from a window, or from a table that is itself bounded, so a
bound travels along the equalities from the change buffers to every table that is connected.

    (Δc ⋈[c.id = o.cid] o) ⋈[o.pid = p.id] p
    o is bounded by   o.cid ∈ Δc.id
    p is bounded by   p.id ∈ { o.pid of orders with o.cid ∈ Δc.id }

A comparison with one changed value bounds too.  Of accounts whose balance exceeds the
average, only those between the old average and the new one can matter: all others are
above both or below both, so that the rows of the old average and of the new one cancel out.

    a ⋈[a.x > s.v] Δs   where nothing above reads s
    a is bounded by     a.x BETWEEN least Δs.v AND greatest Δs.v

If both sides are bounded, the one whose bound leaves fewer rows bounds the other: a supplier's
lines are bounded by the supplier, not by the customers of its nation.

A bound may let through more rows than needed, never fewer: the joins above check every condition
again.  Rows that were deleted from a table are in its changes, and those bound
the tables around them too, so both versions of a neighbour are covered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any, ClassVar, TypeVar, assert_never

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
from pgtrickle.algebra.schema import children_of, column_names, columns_read_by, scans_of
from pgtrickle.model.compile_steps import step
from pgtrickle.model.text.comparable import can_be_listed
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
    nullable: bool  # or it is NULL: the join treats NULLs as equal


@dataclass(frozen=True, slots=True)
class Between:
    """A column must lie in the range of the values of ``value`` among the changes of a scan.

    It is valid only if those changes delete as many rows as they add, and if no value is NULL;
    that is known once they have been read.
    """

    column: str
    scan: Scan
    value: str

    keys: ClassVar[KeySet] = ()
    nullable: ClassVar[bool] = False


Bound = tuple[Restriction | Between, ...]  # all of them hold; empty: unbounded


_Parts = TypeVar("_Parts", KeySet, Bound)
_T = TypeVar("_T")
# How many key sets the conditions on one scan may take to write down, in a plan of so many scans
# together and in any case: a condition that is enough by itself is kept beyond that.
_ROOM, _LEAST_ROOM = 512, 8

# The number of values of a scan's column: the more, the fewer rows pass a bound on it.
Spread = Callable[[Scan, str], float]


def unknown_spread(scan: Scan, column: str) -> float:  # noqa: ARG001 - a Spread
    """Treat all columns as equally selective."""
    return 1.0


def bounds_of(node: Node, spread: Spread = unknown_spread) -> Mapping[str, tuple[Bound, ...]]:
    """Return, by alias, the bounds under which each scan's rows are needed: one of them holds.

    Scans that read only changes do not appear.  An empty bound among the
    alternatives means that the whole source is needed.
    """
    scans = {id(scan): scan for scan in scans_of(node)}.values()
    number = len({scan.alias for scan in scans})
    compared = frozenset().union(*(column_names(one) for one in scans if _may_compare(one)))
    bounding = _Bounding(spread, max(_LEAST_ROOM, _ROOM // max(number, 1)), compared)
    bounding.collect(node, bounding.unbounded, compared & column_names(node))
    return {alias: tuple(bounds.values()) for alias, bounds in bounding.found.items()}


class _Bounding:
    """The bounds of one plan.

    Every question is asked once: the answers are kept by node, and equal key sets are one object,
    so that two of them are compared by identity, however deep they nest.
    """

    def __init__(self, spread: Spread, room: int, compared: frozenset[str]) -> None:
        self._spread = spread
        self._room = room
        self._compared = compared  # the columns of which it matters whether they are used
        self._shared = _Shared()
        self._names: dict[int, frozenset[str]] = {}  # by the identity of the node, as all of these
        self._reads: dict[int, frozenset[str]] = {}
        self._moving: dict[int, bool] = {}
        self._origins: dict[tuple[int, str], tuple[Scan, str]] = {}
        self._straight: dict[tuple[int, str], tuple[Scan, str] | None] = {}
        self._reached: dict[tuple[int, int, int, frozenset[str]], Bound] = {}
        self._split: dict[tuple[int, int, frozenset[str]], tuple[Bound, Bound]] = {}
        self._values: dict[tuple[int, str, int, frozenset[str]], KeySet | None] = {}
        self.found: dict[str, dict[int, Bound]] = {}
        self.unbounded = self._shared.bound(())

    def collect(self, node: Node, bound: Bound, used: frozenset[str]) -> None:
        """Bound the scans below a node, given which of the compared columns are used above."""
        step()
        match node:
            case Scan():
                if node.version is not Version.CHANGES:
                    self.found.setdefault(node.alias, {})[id(bound)] = bound
            case Filter() | Weigh():
                self.collect(node.child, bound, self._used_below(node, used))
            case Project():
                self.collect(node.child, self._below(node, bound), self._used_below(node, used))
            case UnionAll():
                for child in node.children:
                    self.collect(child, bound, used)
            case InnerJoin():
                left, right = self._sides(node, bound, used)
                below = self._used_below(node, used)
                self.collect(node.left, left, below)
                self.collect(node.right, right, below)
            case Aggregate() | Recompute():
                raise ValueError(_UNCUT)

    def _sides(self, join: InnerJoin, bound: Bound, used: frozenset[str]) -> tuple[Bound, Bound]:
        """Split a bound over the sides of a join, and let the tighter side bound the other."""
        asked = (id(join), id(bound), used)
        if asked not in self._split:
            left, right = self._find_sides(join, bound, used)
            self._split[asked] = self._shared.bound(left), self._shared.bound(right)
        return self._split[asked]

    def _find_sides(
        self, join: InnerJoin, bound: Bound, used: frozenset[str]
    ) -> tuple[Bound, Bound]:
        step()
        below = self._used_below(join, used)
        left, right = (
            self._shared.bound(tuple(one for one in bound if one.column in self._names_of(side)))
            for side in (join.left, join.right)
        )
        ways = [
            (self._strength(join.left, left), join.left, left, join.right, right),
            (self._strength(join.right, right), join.right, right, join.left, left),
        ]
        for strength, side, own, other, its in sorted(ways, key=lambda way: -way[0]):
            more = self._across(join, side, own, other, below) if strength else ()
            if more:
                both = its + self._fitting(more, its)
                return (left, both) if side is join.left else (both, right)
        return (
            left + self._between(join, join.right, join.left, used),
            right + self._between(join, join.left, join.right, used),
        )

    def _strength(self, node: Node, bound: Bound) -> float:
        """Tell how few rows of a side are left; 0 means all of them."""
        if self._moves(node):
            return inf
        return max((self._spread(*self._origin(node, one.column)) for one in bound), default=0.0)

    def _origin(self, node: Node, column: str) -> tuple[Scan, str]:
        """Return the scan from which a column of a bounded side comes, and its name there."""
        asked = (id(node), column)
        if asked not in self._origins:
            self._origins[asked] = self._find_origin(node, column)
        return self._origins[asked]

    def _find_origin(self, node: Node, column: str) -> tuple[Scan, str]:
        step()
        match node:
            case Scan():
                return node, column
            case Project():
                inner = column_behind(node.outputs, column)
                return self._origin(node.child, inner if inner is not None else column)
            case Filter() | Weigh():
                return self._origin(node.child, column)
            case UnionAll():
                return self._origin(node.children[0], column)
            case InnerJoin():
                left = column in self._names_of(node.left)
                return self._origin(node.left if left else node.right, column)
            case Aggregate() | Recompute():
                raise ValueError(_UNCUT)
        assert_never(node)

    def _across(
        self, join: InnerJoin, side: Node, bound: Bound, other: Node, used: frozenset[str]
    ) -> Bound:
        """Bound ``other`` by the values that the join columns of ``side`` can have."""
        result = []
        names, others = self._names_of(side), self._names_of(other)
        for *pair, nullable in equal_columns(join.on):
            mine, theirs = pair if pair[0] in names else pair[::-1]
            if mine not in names or theirs not in others:
                continue
            keys = self._keys(side, mine, bound, used)
            if keys is not None:
                result.append(self._shared.restriction(theirs, keys, nullable=nullable))
        return tuple(result)

    def _fitting(self, more: Bound, own: Bound) -> Bound:
        """Choose the smallest of some restrictions that there is room for beside ``own``.

        Each holds by itself, so one is enough.  A key set contains the bounds of the scans that it
        reads: in a plan that joins everything with everything, they would double at each table.
        """
        size = sum(map(self._shared.size, own))
        if size + sum(map(self._shared.size, more)) <= self._room:
            return more
        chosen: set[int] = set()
        for one in sorted(more, key=self._shared.size):
            size += self._shared.size(one)
            if size > self._room and (chosen or own):
                break
            chosen.add(id(one))
        return tuple(one for one in more if id(one) in chosen)

    def _keys(self, node: Node, column: str, bound: Bound, used: frozenset[str]) -> KeySet | None:
        """Return the values a column of ``node`` can have; None if they cannot be bounded."""
        asked = (id(node), column, id(bound), used)
        if asked not in self._values:
            keys = self._find_keys(node, column, bound, used)
            self._values[asked] = None if keys is None else self._shared.keys(keys)
        return self._values[asked]

    def _find_keys(
        self, node: Node, column: str, bound: Bound, used: frozenset[str]
    ) -> KeySet | None:
        step()
        match node:
            case Scan():
                return self._keys_of(node, column, bound)
            case Filter() | Weigh():
                return self._keys(node.child, column, bound, self._used_below(node, used))
            case Project():
                inner = column_behind(node.outputs, column)
                if inner is None:
                    return None
                below = self._below(node, bound)
                return self._keys(node.child, inner, below, self._used_below(node, used))
            case UnionAll():
                sets = [self._keys(child, column, bound, used) for child in node.children]
                if any(keys is None for keys in sets):
                    return None
                # Members are shared: two that are equal are one object.
                return tuple({id(key): key for keys in sets if keys for key in keys}.values())
            case InnerJoin():
                behind = self._scan_behind(node, column)
                if behind is not None:
                    scan, name = behind
                    return self._keys_of(
                        scan, name, self._bound_at(scan, node, column, bound, used)
                    )
                side, own = self._side_of(node, column, bound, used)
                return self._keys(side, column, own, self._used_below(node, used))
            case Aggregate() | Recompute():
                raise ValueError(_UNCUT)
        assert_never(node)

    def _side_of(
        self, join: InnerJoin, column: str, bound: Bound, used: frozenset[str]
    ) -> tuple[Node, Bound]:
        """Return the side of a join that has a column, and the bound on it."""
        left, right = self._sides(join, bound, used)
        return (join.left, left) if column in self._names_of(join.left) else (join.right, right)

    def _scan_behind(self, node: Node, column: str) -> tuple[Scan, str] | None:
        """Return the only scan that a column comes from, and its name there; None if several do."""
        asked = (id(node), column)
        if asked not in self._straight:
            self._straight[asked] = self._find_scan_behind(node, column)
        return self._straight[asked]

    def _find_scan_behind(self, node: Node, column: str) -> tuple[Scan, str] | None:
        step()
        match node:
            case Scan():
                return node, column
            case Filter() | Weigh():
                return self._scan_behind(node.child, column)
            case Project():
                inner = column_behind(node.outputs, column)
                return None if inner is None else self._scan_behind(node.child, inner)
            case InnerJoin():
                left = column in self._names_of(node.left)
                return self._scan_behind(node.left if left else node.right, column)
            case UnionAll():
                return None
            case Aggregate() | Recompute():
                raise ValueError(_UNCUT)
        assert_never(node)

    def _bound_at(
        self, scan: Scan, node: Node, column: str, bound: Bound, used: frozenset[str]
    ) -> Bound:
        """Return what is left of a bound at the scan behind a column.

        All columns of a scan share the way down to it, so that a join by many keys is walked once.
        """
        asked = (id(scan), id(node), id(bound), used)
        if asked not in self._reached:
            self._reached[asked] = self._find_bound_at(scan, node, column, bound, used)
        return self._reached[asked]

    def _find_bound_at(
        self, scan: Scan, node: Node, column: str, bound: Bound, used: frozenset[str]
    ) -> Bound:
        step()
        match node:
            case Filter() | Weigh():
                below = self._used_below(node, used)
                return self._bound_at(scan, node.child, column, bound, below)
            case Project():
                below, inner = self._used_below(node, used), column_behind(node.outputs, column)
                return self._bound_at(
                    scan, node.child, inner or column, self._below(node, bound), below
                )
            case InnerJoin():
                side, own = self._side_of(node, column, bound, used)
                return self._bound_at(scan, side, column, own, self._used_below(node, used))
            case _:
                return bound

    def _between(self, join: InnerJoin, side: Node, other: Node, used: frozenset[str]) -> Bound:
        """Bound ``other`` by the range of one changed value, if nothing else reads it."""
        if not (
            isinstance(side, Scan) and _may_compare(side) and used.isdisjoint(self._names_of(side))
        ):
            return ()
        conditions = [
            one
            for one in (conjuncts(join.on) if join.on else ())
            if not self._names_of(side).isdisjoint(one.columns)
        ]
        compared = ordering(conditions[0]) if len(conditions) == 1 else None
        if compared is None:
            return ()
        pair = bare_column(compared[0]), bare_column(compared[1])
        for mine, theirs in (pair, pair[::-1]):
            if mine in self._names_of(side) and theirs in self._names_of(other):
                return (self._shared.between(theirs, side, mine),)
        return ()

    def _keys_of(self, scan: Scan, column: str, bound: Bound) -> KeySet | None:
        if scan.source.kind is SourceKind.STATE and column_behind(scan.outputs, column) is None:
            return None  # a stage's changes hold its columns, not the computed columns of a scan
        if not can_be_listed(next(one.type for one in scan.outputs if one.name == column)):
            return None
        if scan.version is Version.CHANGES:
            return (self._shared.values(scan, column, None),)
        if not bound:
            return None
        stored: KeySet = (self._shared.values(scan, column, bound),)
        if scan.version is not stands_at(scan):
            return (*stored, self._shared.values(scan, column, None))
        return stored

    def _below(self, node: Project, bound: Bound) -> Bound:
        """Translate a bound on a projection's outputs to its input, for unchanged columns."""
        result: list[Restriction | Between] = []
        for one in bound:
            inner = column_behind(node.outputs, one.column)
            if inner is not None:
                result.append(self._shared.renamed(one, inner))
        return self._shared.bound(tuple(result))

    def _names_of(self, node: Node) -> frozenset[str]:
        if id(node) not in self._names:
            step()
            self._names[id(node)] = (
                self._names_of(node.left) | self._names_of(node.right)
                if isinstance(node, InnerJoin)
                else column_names(node)
            )
        return self._names[id(node)]

    def _used_below(self, node: Node, used: frozenset[str]) -> frozenset[str]:
        """Return the compared columns that a node reads from its inputs, or that are used above."""
        if id(node) not in self._reads:
            self._reads[id(node)] = self._compared & columns_read_by(node)
        read = self._reads[id(node)]
        return read if isinstance(node, Project) else used | read

    def _moves(self, node: Node) -> bool:
        if id(node) not in self._moving:
            step()
            self._moving[id(node)] = (
                node.version is Version.CHANGES
                if isinstance(node, Scan)
                else any(map(self._moves, children_of(node)))
            )
        return self._moving[id(node)]


class _Shared:
    """Key sets and bounds, each of which exists once, with the number of key sets inside it."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Any] = {}
        self._sizes: dict[int, int] = {}  # by identity

    def size(self, one: Restriction | Between) -> int:
        """Count the key sets that it takes to write a condition down."""
        return self._sizes[id(one)]

    def values(self, scan: Scan, column: str, bound: Bound | None) -> ChangedKeys | StoredKeys:
        """Return the values of a column: among a scan's rows in a bound, or among its changes."""
        place = (scan.alias, scan.version, column)
        if bound is None:
            return self._one(("changed", *place), lambda: ChangedKeys(scan, column), 1)
        size = 1 + self._sizes[id(bound)]
        return self._one(
            ("stored", *place, id(bound)), lambda: StoredKeys(scan, column, bound), size
        )

    def keys(self, keys: KeySet) -> KeySet:
        return self._all("keys", keys)

    def bound(self, bound: Bound) -> Bound:
        return self._all("bound", bound)

    def restriction(self, column: str, keys: KeySet, *, nullable: bool) -> Restriction:
        return self._one(
            ("restriction", column, id(keys), nullable),
            lambda: Restriction(column, keys, nullable),
            self._sizes[id(keys)],
        )

    def between(self, column: str, scan: Scan, value: str) -> Between:
        place = ("between", column, scan.alias, value)
        return self._one(place, lambda: Between(column, scan, value), 1)

    def renamed(self, one: Restriction | Between, column: str) -> Restriction | Between:
        if isinstance(one, Between):
            return self.between(column, one.scan, one.value)
        return self.restriction(column, one.keys, nullable=one.nullable)

    def _all(self, kind: str, parts: _Parts) -> _Parts:
        size = sum(self._sizes[id(one)] for one in parts)
        return self._one((kind, *map(id, parts)), lambda: parts, size)

    def _one(self, key: tuple[object, ...], make: Callable[[], _T], size: int) -> _T:
        if key not in self._known:
            made = self._known[key] = make()
            self._sizes[id(made)] = size
        known: _T = self._known[key]
        return known


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


def _may_compare(scan: Scan) -> bool:
    """Tell whether rows may be bounded by the range of the values of a scan."""
    return scan.version is Version.CHANGES and scan.source.kind is SourceKind.STATE
