"""A source of choices that remembers which features it chose.

Every production of the grammar has a name, its *feature*, such as ``join.left``.  A feature that
is switched off is never chosen; one that was chosen is noted, so that a run can tell what it
covered.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from tests.fuzz.cases import Table

T = TypeVar("T")
_TABLES = (2, 3, 3, 4, 4, 5, 6)  # in one query: no cross product grows out of hand


class Draw:
    """Draws the parts of one query over some tables."""

    def __init__(
        self, source: random.Random, tables: Sequence[Table], off: Collection[str] = ()
    ) -> None:
        self.random = source
        self.tables = tuple(tables)
        self._off = tuple(off)
        self._aliases: set[str] = set()
        self.tables_left = source.choice(_TABLES)
        self.features: set[str] = set()

    def pick(self, options: Sequence[T]) -> T:
        """Choose one of several, all equally likely."""
        return options[self.random.randrange(len(options))]

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        """Choose a few of several, each at most once."""
        most = min(most, len(options))
        return self.random.sample(list(options), self.random.randint(min(least, most), most))

    def number(self, *options: int) -> int:
        """Choose a number; one that is given twice is twice as likely."""
        return self.pick(options)

    def chance(self, percent: int, feature: str = "") -> bool:
        """Be true sometimes; a feature that is off never happens."""
        happens = self.random.randrange(100) < percent and self.on(feature)
        if happens and feature:
            self.features.add(feature)
        return happens

    def choose(self, weights: Mapping[str, int]) -> str:
        """Choose a feature by weight, and note it."""
        possible = {name: weight for name, weight in weights.items() if weight and self.on(name)}
        if not possible:
            raise Exhausted(", ".join(weights))
        [name] = self.random.choices(list(possible), list(possible.values()))
        self.features.add(name)
        return name

    def on(self, feature: str) -> bool:
        """Tell whether a feature is switched on: it, or its family, may be off."""
        return not any(feature == off or feature.startswith(f"{off}.") for off in self._off)

    def alias(self, wanted: str) -> str:
        """Return a name that nothing else in the query has."""
        name, number = wanted, 0
        while name in self._aliases:
            number += 1
            name = f"{wanted}_{number}"
        self._aliases.add(name)
        return name


class Exhausted(Exception):  # noqa: N818 - not an error: another case is drawn
    """Every production that could stand here is switched off."""
