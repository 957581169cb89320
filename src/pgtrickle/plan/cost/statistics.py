"""The statistics of the tables that a refresh reads: sizes, distinct values, indexes.

PostgreSQL's planner keeps all of them.  Values that it does not know, because a table was never
analyzed, are guessed here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

VALUE_BYTES = 16  # rough size of a value that is read
ROWS = 1000.0  # of a table without statistics
ROWS_PER_KEY = 10.0  # of a column without statistics
SELECTIVITY = 0.33  # of an unknown condition


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """One table: its size, distinct values and indexed columns."""

    rows: float
    distinct: Mapping[str, float] = field(default_factory=dict)  # by column
    indexed: frozenset[str] = frozenset()  # columns that an index finds rows by

    def distinct_values(self, column: str | None) -> float:
        """Return the number of values of a column; None means an expression."""
        known = self.distinct.get(column) if column is not None else None
        return max(self.rows / ROWS_PER_KEY if known is None else min(known, self.rows), 1.0)


@dataclass(frozen=True, slots=True)
class Statistics:
    """All tables of one stream table."""

    sources: Mapping[str, TableStatistics] = field(default_factory=dict)  # by the source's key
    states: Mapping[str, TableStatistics] = field(default_factory=dict)  # by the table's suffix
    contents: TableStatistics = TableStatistics(0.0)  # the stream table itself
    selectivity: Mapping[tuple[str, str], float] = field(default_factory=dict)  # source, predicate
    large_values: float = inf  # of one read, from which the executors read

    @property
    def source_rows(self) -> float:
        """The rows of all sources."""
        return sum(one.rows for one in self.sources.values())
