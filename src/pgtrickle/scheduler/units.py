"""Units of work: a stream table, or a group of them that is refreshed together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pgtrickle.model.graph import Graph


@dataclass(frozen=True, slots=True)
class Unit:
    """What one worker refreshes at a time, each member after those it reads."""

    members: tuple[str, ...]
    slowest: bool = field(default=False, compare=False)  # due when all are, not when one is

    def shares_members(self, other: Unit) -> bool:
        """Tell whether some stream table belongs to both."""
        return not set(self.members).isdisjoint(other.members)


@dataclass(frozen=True)
class Shape:
    """The graph as the catalog has it: who reads whom, and who is refreshed together."""

    reads: Mapping[str, Collection[str]]  # stream tables by stream tables
    groups: tuple[tuple[str, ...], ...] = ()  # each in dependency order
    slowest: frozenset[str] = frozenset()  # members that want their group to be so

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The units, each after those it reads.

        >>> shape = Shape({"d": ["b", "c"], "c": [], "b": [], "e": ["d"]}, (("b", "c", "d"),))
        >>> [unit.members for unit in shape.units]
        [('b', 'c', 'd'), ('e',)]
        """
        # A circle is a group, so there is none among the units.
        return self._graph.order

    @property
    def ancestors(self) -> Mapping[Unit, frozenset[Unit]]:
        """For each unit all that it reads, directly or not."""
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
        """Return the members that can be refreshed although some take no part.

        One that reads an absent member stays where it is: it would mix two versions.  So does
        every member of a circle, if one of them does.

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
