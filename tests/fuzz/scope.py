"""What an expression can see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.fuzz.kinds import Value


@dataclass(frozen=True)
class Scope:
    """Columns in sight, those of the queries around, and how deep subqueries may still nest."""

    values: tuple[Value, ...]
    outer: tuple[Value, ...] = ()
    depth: int = 0
    joining: bool = False  # the place is a join condition

    @property
    def sortable(self) -> tuple[Value, ...]:
        """The columns that can be keys."""
        return tuple(value for value in self.values if value.sortable)

    def of(self, values: Iterable[Value]) -> Scope:
        """Return the same place with other columns in sight."""
        return replace(self, values=tuple(values))

    @property
    def flat(self) -> Scope:
        """The same columns, where no subquery may stand."""
        return replace(self, depth=0)

    @property
    def inside(self) -> tuple[Value, ...]:
        """What a subquery that stands here can see around itself."""
        return (*self.outer, *self.values)


@dataclass(frozen=True)
class Item:
    """One item of a FROM clause, and the columns it offers."""

    text: str
    values: tuple[Value, ...]

    @property
    def lateral(self) -> bool:
        """Whether it stands there as LATERAL; sqlglot cannot read a join that starts so."""
        return self.text.startswith("LATERAL")


@dataclass
class From:
    """A FROM clause: its items, and conditions for WHERE that belong to it."""

    items: list[Item] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    closed: bool = False  # nothing may be joined any more

    @property
    def text(self) -> str:
        """The clause's text."""
        return ", ".join(item.text for item in self.items)

    @property
    def values(self) -> tuple[Value, ...]:
        """The columns it offers."""
        return tuple(value for item in self.items for value in item.values)
