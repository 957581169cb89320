"""Bounds without repetition: what several of them ask of a table is asked once.

In a chain of joins a table is bounded once for each of the others that may change, and each of
these bounds goes over all tables between.  They differ only at their ends.

    a.k ∈ { b.k of b with b.m ∈ { c.m of c with c.n ∈ Δd.n } }
      or a.k ∈ { b.k of b with b.m ∈ { c.m of c with c.n ∈ { d.n of d with ... } } }
    a.k ∈ { b.k of b with b.m ∈ { c.m of c with c.n ∈ Δd.n ∪ { d.n of d with ... } } }

Both let the same rows through.  Written one by one, the queries of a chain take the cube of its
tables; merged they take the square, and PostgreSQL looks into each table once or twice.  A bound by
changed values alone stays apart: they are mostly known when the query is sent, and PostgreSQL then
finds them by a hash, which it does not do for an array that it computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from pgtrickle.delta.key_sets import Bound, ChangedKeys, KeySet, Restriction, StoredKeys
from pgtrickle.model.compile_steps import step

_T = TypeVar("_T")


class MergedKeys:
    """The merged bounds of one plan; equal questions have one answer, known by identity."""

    def __init__(self) -> None:
        self._bounds: dict[tuple[int, ...], tuple[Bound, ...]] = {}
        self._keys: dict[tuple[int, ...], KeySet] = {}
        # What was made here, and must live as long as its identity is remembered.
        self._unions: dict[tuple[object, ...], Restriction] = {}
        self._joined: dict[tuple[int, ...], Bound] = {}

    def bounds(self, bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
        """Return alternatives that let the same rows through, fewer where some are alike."""
        asked = tuple(map(id, bounds))
        if asked not in self._bounds:
            self._bounds[asked] = tuple(map(self._inside, self._alternatives(bounds)))
        return self._bounds[asked]

    def _alternatives(self, bounds: tuple[Bound, ...]) -> list[Bound]:
        """Join those that differ in the keys of one restriction only."""
        found = _unique(bounds)
        for place in range(max(map(len, found), default=0)):
            groups: dict[tuple[object, ...], list[Bound]] = {}
            for bound in found:
                step()
                groups.setdefault(_all_but_the_keys(bound, place), []).append(bound)
            found = [self._join(group, place) for group in groups.values()]
        return found

    def _join(self, group: list[Bound], place: int) -> Bound:
        first = group[0]
        if len(group) == 1:
            return first
        keys = _unique(key for bound in group for key in bound[place].keys)
        one = first[place]
        asked = (one.column, one.nullable, *map(id, keys))
        if asked not in self._unions:
            self._unions[asked] = Restriction(one.column, tuple(keys), one.nullable)
        joined = (*first[:place], self._unions[asked], *first[place + 1 :])
        return self._joined.setdefault(tuple(map(id, joined)), joined)

    def _inside(self, bound: Bound) -> Bound:
        return tuple(
            Restriction(one.column, self._merged(one.keys), one.nullable)
            if isinstance(one, Restriction)
            else one
            for one in bound
        )

    def _merged(self, keys: KeySet) -> KeySet:
        """Merge the members of a key set that are values of one column of one scan."""
        asked = tuple(map(id, keys))
        if asked not in self._keys:
            self._keys[asked] = self._merge(keys)
        return self._keys[asked]

    def _merge(self, keys: KeySet) -> KeySet:
        found: dict[object, list[ChangedKeys | StoredKeys]] = {}
        for key in keys:
            step()
            # All versions of a scan are read from the same rows.
            place = (key.scan.alias, key.column) if isinstance(key, StoredKeys) else id(key)
            found.setdefault(place, []).append(key)
        merged: list[ChangedKeys | StoredKeys] = []
        for alike in found.values():
            stored = [key for key in alike if isinstance(key, StoredKeys)]
            bounds = self.bounds(tuple(key.bound for key in stored))
            merged += [StoredKeys(alike[0].scan, alike[0].column, bound) for bound in bounds]
            merged += [key for key in alike if isinstance(key, ChangedKeys)]
        return tuple(merged)


def _all_but_the_keys(bound: Bound, place: int) -> tuple[object, ...]:
    """Return what bounds share that differ in the keys of the restriction at ``place`` at most."""
    if place >= len(bound) or not any(isinstance(key, StoredKeys) for key in bound[place].keys):
        return (id(bound),)
    one = bound[place]
    return (one.column, one.nullable, *map(id, bound[:place]), "", *map(id, bound[place + 1 :]))


def _unique(members: Iterable[_T]) -> list[_T]:
    """Return the members without those that are there before: equal ones are one object."""
    return list({id(member): member for member in members}.values())
