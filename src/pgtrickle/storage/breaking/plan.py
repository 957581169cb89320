"""Which columns of a stream table are dropped, and which are made anew, for those of a query.

PostgreSQL adds columns only at the end.  So from the first column on that is new, moved or of
another type, every column is dropped and added again; those before it stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgtrickle.model.sql_type import Column


@dataclass(frozen=True, slots=True)
class BreakingChange:
    """The columns that go for good, those that are made anew, and all that are added, in order."""

    dropped: tuple[str, ...]
    made_anew: tuple[str, ...]
    retyped: tuple[str, ...]  # of those that are made anew
    added: tuple[Column, ...]

    @property
    def going(self) -> tuple[str, ...]:
        """The columns that are dropped, for good or not."""
        return (*self.dropped, *self.made_anew)


def plan_breaking_change(
    stored: Sequence[tuple[str, str]], wanted: Sequence[Column]
) -> BreakingChange:
    """Return the change from the columns ``stored`` to those of a query.

    >>> from pgtrickle.model.sql_type import BIGINT
    >>> a, b, c = (Column(name, BIGINT) for name in "abc")
    >>> stored = [("a", "bigint"), ("x", "text"), ("b", "integer"), ("c", "bigint")]
    >>> change = plan_breaking_change(stored, [a, b, c])
    >>> change.dropped, change.made_anew, change.retyped
    (('x',), ('b', 'c'), ('b',))
    >>> [column.name for column in change.added]
    ['b', 'c']
    """
    names, types = [name for name, _ in stored], dict(stored)
    kept, last = 0, -1
    for column in wanted:
        if types.get(column.name) != column.type.display or names.index(column.name) < last:
            break
        kept, last = kept + 1, names.index(column.name)
    staying = {column.name for column in wanted[:kept]}
    added = tuple(wanted[kept:])
    present = [one for one in added if one.name in types]
    coming = {one.name for one in present}
    return BreakingChange(
        tuple(name for name in names if name not in staying | coming),
        tuple(one.name for one in present),
        tuple(one.name for one in present if types[one.name] != one.type.display),
        added,
    )
