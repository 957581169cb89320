"""Estimate the number of rows of each operator of a stage's plan, before it runs.

The textbook rules of a query planner, over PostgreSQL's own statistics:

    changes     the number counted in the window, or expected from an earlier stage
    bounded     rows x keys / distinct values, along the chain of bounds from the changes on
    join        left x right / the greater number of distinct values of the two columns

Several restrictions of one read are not independent: the most selective counts in full, the next
with its square root, the one after with its fourth root.  An estimate grows with each of its
inputs, so a larger window never looks cheaper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from pgtrickle.algebra.schema import column_names
from pgtrickle.delta.key_sets import (
    Between,
    Bound,
    ChangedKeys,
    KeySet,
    Restriction,
    StoredKeys,
    equal_columns,
)
from pgtrickle.plan.cost.statistics import ROWS, SELECTIVITY, Statistics, TableStatistics
from pgtrickle.plan.cost.work import Work
from pgtrickle.sql.scalars import column_behind

# If an index must find more than this share of a table, the table is scanned instead.
_INDEX_SHARE = 0.05
# The share of a table's rows between the old and the new value; an average moves little.
_RANGE_SHARE = 0.01
_NOTHING_KNOWN = TableStatistics(ROWS)


class Estimate:
    """The numbers of one stage's plan; each is computed once."""

    def __init__(
        self,
        statistics: Statistics,
        changes: Mapping[str, float],  # rows, by the key of a source or the name of a stage
        bounds: Mapping[str, tuple[Bound, ...]],
    ) -> None:
        self._statistics = statistics
        self._changes = changes
        self._bounds = bounds
        # By identity: equal plans occur in many arms, and comparing them costs more than counting.
        self._rows: dict[int, float] = {}
        self._sizes: dict[int, Work] = {}
        self._keys: dict[int, float] = {}
        self._searches: dict[int, Work] = {}
        self._names: dict[int, frozenset[str]] = {}

    # Rows of operators

    def rows(self, node: Node) -> float:
        """Return the number of rows of an operator."""
        if id(node) not in self._rows:
            self._rows[id(node)] = self._count(node)
        return self._rows[id(node)]

    def _count(self, node: Node) -> float:
        match node:
            case Scan():
                # The other version is the stored rows less or plus changes: about as many.
                changes = node.version is Version.CHANGES
                return self.changed_rows(node) if changes else self.read_rows(node)
            case Filter():
                return self.rows(node.child) * SELECTIVITY
            case Project() | Weigh():
                return self.rows(node.child)
            case UnionAll():
                return sum(map(self.rows, node.children))
            case InnerJoin():
                return self._join(node)
            case Aggregate() | Recompute():
                raise ValueError("a plan is cut at its stateful operators before it is estimated")
        assert_never(node)

    def _join(self, node: InnerJoin) -> float:
        pairs = self.rows(node.left) * self.rows(node.right)
        equal = equal_columns(node.on)
        if node.on is not None and not equal:
            return pairs * SELECTIVITY
        left = self._columns(node.left)
        shares = []
        for first, second, _ in equal:
            mine, theirs = (first, second) if first in left else (second, first)
            values = max(self.distinct(node.left, mine), self.distinct(node.right, theirs))
            shares.append(1.0 / max(values, 1.0))
        return pairs * _together(shares)

    def distinct(self, node: Node, column: str) -> float:
        """Return the number of distinct values of an operator's column."""
        return max(min(self._distinct(node, column), self.rows(node)), 1.0)

    def _distinct(self, node: Node, column: str) -> float:
        match node:
            case Scan():
                known = self._table(node).distinct_values(column_behind(node.outputs, column))
                if node.version is Version.CHANGES:
                    return known
                # A bound takes whole keys: each has as many rows as in the whole table.
                whole = max(self._table(node).rows * self._selectivity(node), 1.0)
                return self.read_rows(node) * min(known, whole) / whole
            case Project():
                inner = column_behind(node.outputs, column)
                return self.rows(node) if inner is None else self.distinct(node.child, inner)
            case Filter() | Weigh():
                return self.distinct(node.child, column)
            case UnionAll():
                # The arms share values: together they have no more than the stored column.
                together = sum(self.distinct(child, column) for child in node.children)
                return min(together, self._known_values(node, column))
            case InnerJoin():
                inner_left = column in self._columns(node.left)
                return self.distinct(node.left if inner_left else node.right, column)
            case Aggregate() | Recompute():
                raise ValueError("a plan is cut at its stateful operators before it is estimated")
        assert_never(node)

    def _known_values(self, node: Node, column: str) -> float:
        """Return the number of values of the stored column behind an operator's column."""
        match node:
            case Scan():
                return self._table(node).distinct_values(column_behind(node.outputs, column))
            case Project():
                inner = column_behind(node.outputs, column)
                return self.rows(node) if inner is None else self._known_values(node.child, inner)
            case Filter() | Weigh():
                return self._known_values(node.child, column)
            case UnionAll():
                return max(self._known_values(child, column) for child in node.children)
            case InnerJoin():
                inner_left = column in self._columns(node.left)
                return self._known_values(node.left if inner_left else node.right, column)
            case Aggregate() | Recompute():
                raise ValueError("a plan is cut at its stateful operators before it is estimated")
        assert_never(node)

    # Rows of reads

    def changed_rows(self, scan: Scan) -> float:
        """Return the number of changes of a scan's source that pass its condition."""
        return self._changes.get(scan.source.key, 0.0) * self._selectivity(scan)

    def read_rows(self, scan: Scan) -> float:
        """Return the number of rows of a scan's read: of all its bounds together."""
        whole = self._table(scan).rows * self._selectivity(scan)
        return min(whole, sum(self._bounded(scan, bound) for bound in self._bounds[scan.alias]))

    def _bounded(self, scan: Scan, bound: Bound) -> float:
        table = self._table(scan)
        shares = [self._share(table, scan, one) for one in bound]
        return table.rows * self._selectivity(scan) * _together(shares)

    def _share(self, table: TableStatistics, scan: Scan, one: Restriction | Between) -> float:
        if isinstance(one, Between):
            return _RANGE_SHARE
        values = table.distinct_values(column_behind(scan.outputs, one.column))
        return min(1.0, self.keys(one.keys) / values)

    def keys(self, keys: KeySet) -> float:
        """Return the number of values of a key set."""
        if id(keys) not in self._keys:
            self._keys[id(keys)] = sum(map(self._values, keys))
        return self._keys[id(keys)]

    def _values(self, key: ChangedKeys | StoredKeys) -> float:
        known = self._table(key.scan).distinct_values(column_behind(key.scan.outputs, key.column))
        if isinstance(key, ChangedKeys):
            return self.changed_rows(key.scan)  # they may no longer be in the table
        return min(known, self._bounded(key.scan, key.bound))

    # PostgreSQL's work for a read

    def search_changes(self, scan: Scan) -> Work:
        """Return the work of reading a scan's changes."""
        changed = self._changes.get(scan.source.key, 0.0)
        kept = self.changed_rows(scan)
        return Work(reads=1, change_rows=changed, moved_values=kept * (len(scan.outputs) + 1))

    def search_rows(self, scan: Scan) -> Work:
        """Return the work of reading a scan's rows: finding and moving them."""
        work = Work(reads=1, moved_values=self.read_rows(scan) * max(len(scan.outputs), 1))
        bounds = self._bounds[scan.alias]
        if not all(bounds):
            return work + Work(scanned_rows=self._table(scan).rows)
        for bound in bounds:
            work += self._search(scan, bound)
        return work

    def _search(self, scan: Scan, bound: Bound) -> Work:
        """Return the work of finding the rows of one bound, its keys included."""
        if id(bound) in self._searches:
            return self._searches[id(bound)]
        table = self._table(scan)
        shares = [
            self._share(table, scan, one)
            for one in bound
            if column_behind(scan.outputs, one.column) in table.indexed
        ]
        work = Work(scanned_rows=table.rows)
        if shares:
            work = Work(keyed_rows=table.rows * min(*shares, _INDEX_SHARE))
        for restriction in bound:
            for key in restriction.keys:
                if isinstance(key, StoredKeys):
                    work += self._search(key.scan, key.bound)
                else:
                    work += Work(change_rows=self._changes.get(key.scan.source.key, 0.0))
        self._searches[id(bound)] = work
        return work

    # The engine's work

    def size(self, node: Node) -> Work:
        """Return the number of operators of a plan and of the rows of its joins."""
        if id(node) not in self._sizes:
            self._sizes[id(node)] = self._measure(node)
        return self._sizes[id(node)]

    def _measure(self, node: Node) -> Work:
        match node:
            case Scan():
                return Work(operators=1)
            case Filter() | Project() | Weigh():
                return self.size(node.child) + Work(operators=1)
            case UnionAll():
                return sum(map(self.size, node.children), Work(operators=1))
            case InnerJoin():
                own = Work(operators=1, joined_rows=self.rows(node))
                return self.size(node.left) + self.size(node.right) + own
            case Aggregate() | Recompute():
                raise ValueError("a plan is cut at its stateful operators before it is estimated")
        assert_never(node)

    # Lookups

    def _table(self, scan: Scan) -> TableStatistics:
        kind, key = scan.source.kind, scan.source.key
        tables = self._statistics.states if kind is SourceKind.STATE else self._statistics.sources
        return tables.get(key, _NOTHING_KNOWN)

    def _selectivity(self, scan: Scan) -> float:
        if scan.predicate is None:
            return 1.0
        known = self._statistics.selectivity
        return known.get((scan.source.key, scan.predicate.sql), SELECTIVITY)

    def _columns(self, node: Node) -> frozenset[str]:
        if id(node) not in self._names:
            self._names[id(node)] = column_names(node)
        return self._names[id(node)]


def _together(shares: Iterable[float]) -> float:
    """Combine the shares of several restrictions that are not independent.

    >>> _together([0.25, 0.01])
    0.005
    """
    result, power = 1.0, 1.0
    for share in sorted(shares):
        result *= share**power
        power /= 2
    return result
