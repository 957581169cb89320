"""The graph of stream tables: dependencies, their order, diamonds and circles.

A *diamond* is the part between a source and a stream table that reads it on several paths.  Its
members are refreshed together, because a stream table that reads one of them before and another
after a change would mix two versions of the source: see docs/adr/0017.

A *circle* is a set of stream tables that read one another, directly or indirectly: there is no
order among its members, which are adjacent in every order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Generic, TypeVar

Node = TypeVar("Node", bound=Hashable)


@dataclass(frozen=True)
class Graph(Generic[Node]):
    """The sources of each stream table: other stream tables, and other relations."""

    reads: Mapping[Node, Collection[Node]]

    @cached_property
    def order(self) -> tuple[Node, ...]:
        """The stream tables, each after its sources, except within circles.

        >>> Graph({"c": ["b", "a"], "b": ["a"], "a": ["t"]}).order
        ('a', 'b', 'c')
        >>> Graph({"d": ["b"], "a": ["b", "t"], "b": ["a"], "c": ["t"]}).order
        ('a', 'b', 'c', 'd')
        """
        flat = {
            node: [one for one in reads if one in self.reads] for node, reads in self._flat.items()
        }
        members = self._circle_of
        return tuple(
            one
            for node in TopologicalSorter(flat).static_order()
            for one in members.get(node, (node,))
        )

    @cached_property
    def circles(self) -> tuple[tuple[Node, ...], ...]:
        """The circles, each in the order in which the graph names its members.

        >>> Graph({"a": ["b"], "b": ["a", "t"], "c": ["c", "b"], "d": ["c"]}).circles
        (('a', 'b'), ('c',))
        """
        together = _Partition[Node]()
        for node, reads in self.reads.items():
            if node in reads:
                together.join([node])
        while (path := self._contracted(together).find_cycle()) is not None:
            together.join(path)
        return together.sets(self.reads)

    @cached_property
    def _circle_of(self) -> Mapping[Node, tuple[Node, ...]]:
        return {node: circle for circle in self.circles for node in circle}

    @cached_property
    def _flat(self) -> Mapping[Node, Collection[Node]]:
        """The graph with each circle replaced by its first member."""
        if not self.circles:
            return self.reads
        first = {node: circle[0] for node, circle in self._circle_of.items()}
        flat: dict[Node, dict[Node, None]] = {}
        for node, reads in self.reads.items():
            own = first.get(node, node)
            others = (first.get(one, one) for one in reads)
            flat.setdefault(own, {}).update((one, None) for one in others if one != own)
        return flat

    @cached_property
    def readers(self) -> Mapping[Node, tuple[Node, ...]]:
        """The direct consumers of each source."""
        found: dict[Node, list[Node]] = defaultdict(list)
        for node, reads in self.reads.items():
            for one in reads:
                found[one].append(node)
        return {one: tuple(readers) for one, readers in found.items()}

    @cached_property
    def ancestors(self) -> Mapping[Node, frozenset[Node]]:
        """All sources of each stream table, direct or indirect: in a circle, also itself."""
        found: dict[Node, frozenset[Node]] = {}
        for node in self.order:
            if node in found:
                continue
            circle = self._circle_of.get(node, (node,))
            reads = frozenset(one for member in circle for one in self.reads[member])
            reads = reads.union(*(found.get(one, frozenset()) for one in reads))
            found.update(dict.fromkeys(circle, reads))
        return found

    def diamond(self, node: Node) -> frozenset[Node]:
        """Return the stream tables on the paths that meet in ``node``, including itself.

        They are those that a path through another parent bypasses: a node on all paths
        is read at one version anyway.  A path of length one counts: reading a table and its sum
        mixes versions too.

        >>> graph = Graph({"b": ["t"], "c": ["t"], "d": ["b", "c"], "e": ["d"], "f": ["t", "b"]})
        >>> sorted(graph.diamond("d")), sorted(graph.diamond("e")), sorted(graph.diamond("f"))
        (['b', 'c', 'd'], [], ['b', 'f'])
        """
        members: set[Node] = set()
        for parent in set(self.reads[node]) & self.reads.keys():
            others = set(self.reads[node]) - {parent}
            members |= {
                one
                for one in {parent, *self.ancestors[parent]} & self.reads.keys()
                if not self.ancestors[one].isdisjoint(self._reach(others, past=one))
            }
        return frozenset(members | {node}) if members else frozenset()

    def _reach(self, nodes: Collection[Node], *, past: Node) -> set[Node]:
        """Return ``nodes`` and all their sources, direct or indirect, on paths without ``past``."""
        found = set(nodes) - {past}
        waiting = list(found)
        while waiting:
            for one in self.reads.get(waiting.pop(), ()):
                if one != past and one not in found:
                    found.add(one)
                    waiting.append(one)
        return found

    def groups(
        self, atomic: Collection[Node], wanted: Iterable[Collection[Node]] = ()
    ) -> tuple[tuple[Node, ...], ...]:
        """Return the diamonds that end in one of ``atomic``, joined if they overlap.

        ``wanted`` are other groups, and are joined with them.  So are two groups if one could be
        refreshed neither before nor after the other, because each reads from the other.

        >>> Graph({"b": ["t"], "c": ["t"], "d": ["b", "c"], "e": ["d"]}).groups(["d", "e"])
        (('b', 'c', 'd'),)
        >>> Graph({"a": ["b", "t"], "b": ["a"], "d": ["t", "b"]}).groups([])
        (('a', 'b'),)
        """
        together = _Partition[Node]()
        flat = Graph(self._flat)
        for node in flat.order:
            circle = self._circle_of.get(node, (node,))
            if not set(circle).isdisjoint(atomic):
                together.join(flat.diamond(node))
        for circle in self.circles:
            if len(circle) > 1:
                together.join(circle)
        for nodes in wanted:
            together.join(nodes)
        while (path := self._contracted(together).find_cycle()) is not None:
            together.join(path)
        return together.sets(self.order)

    def _contracted(self, together: _Partition[Node]) -> Graph[Node]:
        """Return the graph in which each group is one node."""
        reads: dict[Node, set[Node]] = defaultdict(set)
        for node, read in self.reads.items():
            own = together.find(node)
            reads[own] |= {together.find(one) for one in read} - {own}
        return Graph(reads)

    def find_cycle(self) -> tuple[Node, ...] | None:
        """Return a cyclic path, each node reading the next; None if there is none.

        >>> Graph({"a": ["b"], "b": ["t", "c"], "c": ["a"]}).find_cycle()
        ('a', 'b', 'c', 'a')
        """
        among = {
            node: [one for one in reads if one in self.reads] for node, reads in self.reads.items()
        }
        try:
            TopologicalSorter(among).prepare()
        except CycleError as error:
            # It lists them from source to consumer.
            path = tuple(reversed(error.args[1]))[:-1]
            first = path.index(min(path, key=str))
            turned = path[first:] + path[:first]
            return (*turned, turned[0])
        return None


class _Partition(Generic[Node]):
    """Disjoint sets that can be joined."""

    def __init__(self) -> None:
        self._parents: dict[Node, Node] = {}

    def __contains__(self, node: object) -> bool:
        return node in self._parents

    def find(self, node: Node) -> Node:
        """Return the representative of the set of ``node``."""
        if node not in self._parents:
            return node
        while (parent := self._parents[node]) != node:
            self._parents[node] = self._parents[parent]  # halves the path for the next call
            node = parent
        return node

    def join(self, nodes: Iterable[Node]) -> None:
        """Join the sets of ``nodes``."""
        first: Node | None = None
        for node in nodes:
            self._parents.setdefault(node, node)
            if first is None:
                first = node
            else:
                self._parents[self.find(node)] = self.find(first)

    def sets(self, order: Iterable[Node]) -> tuple[tuple[Node, ...], ...]:
        """Return the sets, each in this order."""
        members: dict[Node, list[Node]] = defaultdict(list)
        for node in order:
            if node in self:
                members[self.find(node)].append(node)
        return tuple(map(tuple, members.values()))
