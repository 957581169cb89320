"""Units of work: a stream table, or a group of them that is refreshed together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pgtrickle.model.scheduling.graph import Graph


@dataclass(frozen=True, slots=True)
class Unit:
    """The stream tables that one worker refreshes at a time, sources first."""

    members: tuple[str, ...]
    slowest: bool = field(default=False, compare=False)  # due when all members are, not when one is

    def shares_members(self, other: Unit) -> bool:
        """Tell whether the two units have a stream table in common."""
        return not set(self.members).isdisjoint(other.members)


@dataclass(frozen=True)
class Shape:
    """The graph of stream tables in the catalog, and the groups that are refreshed together."""

    reads: Mapping[str, Collection[str]]  # stream tables by stream tables
    groups: tuple[tuple[str, ...], ...] = ()  # each in dependency order
    slowest: frozenset[str] = frozenset()  # members with the policy "slowest"

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The units, each after its sources.

        >>> shape = Shape({"d": ["b", "c"], "c": [], "b": [], "e": ["d"]}, (("b", "c", "d"),))
        >>> [unit.members for unit in shape.units]
        [('b', 'c', 'd'), ('e',)]
        """
        # A circle is a group, so there is none among the units.
        return self._graph.order

    @property
    def ancestors(self) -> Mapping[Unit, frozenset[Unit]]:
        """For each unit all its sources, direct or indirect."""
        return self._graph.ancestors

    @cached_property
    def _graph(self) -> Graph[Unit]:
        of: dict[str, Unit] = {}
        for members in self.groups:
            unit = Unit(members, slowest=not self.slowest.isdisjoint(members))
            of.update(dict.fromkeys(members, unit))
        for name in sorted(self.reads):
            of.setdefault(name, Unit((name,)))
        reads: dict[Unit, set[Unit]] = {unit: set() for unit in of.values()}
        for name, read in self.reads.items():
            reads[of[name]] |= {of[one] for one in read if one in of} - {of[name]}
        return Graph({unit: sorted(read, key=_by_name) for unit, read in reads.items()})

    def without(self, unit: Unit, absent: Collection[str]) -> tuple[str, ...]:
        """Return the members that can be refreshed although some are absent.

        A consumer of an absent member is not refreshed: it would mix two versions.  Nor is
        any member of a circle with an absent one.

        >>> shape = Shape({"d": ["b", "c"], "c": [], "b": []}, (("b", "c", "d"),))
        >>> shape.without(shape.units[0], {"b"})
        ('c',)
        >>> shape = Shape({"a": ["b"], "b": ["a"]}, (("a", "b"),))
        >>> shape.without(shape.units[0], {"b"})
        ()
        """
        missing = set(absent).intersection(unit.members)
        present = list(unit.members)
        while reached := [
            name
            for name in present
            if name in missing or not missing.isdisjoint(self.reads.get(name, ()))
        ]:
            missing.update(reached)
            present = [name for name in present if name not in missing]
        return tuple(present)


def _by_name(unit: Unit) -> tuple[str, ...]:
    return unit.members
