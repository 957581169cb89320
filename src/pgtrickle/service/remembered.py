"""The memory of one process: compiled queries and forecasts, kept between refreshes within a limit.

A compiled query stays valid as long as its text and the shapes of its sources do.  Whoever drops a
stream table or replaces its query in this process forgets it; what other processes dropped goes
when the scheduler lists the stream tables again, and what they altered when it is looked up.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgtrickle.model.limited import Limited
from pgtrickle.model.status_report import CacheStats

if TYPE_CHECKING:  # a use case that only reads the catalog needs no compiler
    from pgtrickle.model.stream_table import StreamTable
    from pgtrickle.service.compile import Compiled
    from pgtrickle.service.refreshing.costing.memory import CostMemory

_MADE = 8  # created and not yet loaded at one time
Shape = tuple[tuple[int, str], ...]  # the fingerprints of the sources, by relid


@dataclass(slots=True)
class _Entry:
    query: str
    compiled: Compiled
    shape: Shape | None = None  # of the sources at compilation


@dataclass(slots=True)
class Remembered:
    """The compiled queries, forecasts and comparisons of one process, by stream table."""

    limit: int = 0  # the setting template_cache_max_entries
    # When the shapes of a stream table's sources were last compared, on the monotonic clock.
    shapes_compared: dict[int, float] = field(default_factory=dict)
    _queries: Limited[int, _Entry] = field(init=False)
    _costs: Limited[int, CostMemory] = field(init=False)
    _made: Limited[int, Compiled] = field(init=False)  # at a creation, until the first load
    _hits: int = 0
    _misses: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Make the caches, empty."""
        self._queries, self._costs = Limited(self.limit), Limited(self.limit)
        self._made = Limited(_MADE)

    def find_compiled(self, stream_table: StreamTable) -> Compiled | None:
        """Return the compiled query of a stream table, if it was compiled from the same text."""
        entry = self._queries.get(stream_table.id)
        if entry is None or entry.query != stream_table.original_query:
            return None
        return entry.compiled

    def use_compiled(self, stream_table: StreamTable) -> Compiled | None:
        """Return the same for a refresh, which counts as a hit or a miss."""
        found = self.find_compiled(stream_table)
        with self._lock:
            self._hits += found is not None
            self._misses += found is None
        return found

    def hand_on(self, stream_table: StreamTable, made: Compiled) -> None:
        """Keep what was compiled to create a stream table for its first load."""
        self._made.put(stream_table.id, made)

    def take_made(self, stream_table: StreamTable) -> Compiled | None:
        """Return what was compiled at the creation, once."""
        made = self._made.get(stream_table.id)
        self._made.forget(stream_table.id)
        return made

    def keep_compiled(self, stream_table: StreamTable, compiled: Compiled) -> None:
        """Remember a compiled query in the place of an earlier one."""
        self._queries.put(stream_table.id, _Entry(stream_table.original_query, compiled))

    def forget_compiled(self, stream_table: StreamTable) -> None:
        """Forget the compiled query of a stream table: it has to be compiled again."""
        self._queries.forget(stream_table.id)

    def find_shape(self, stream_table: StreamTable) -> Shape | None:
        """Return the shapes of the sources for which the query was compiled."""
        entry = self._queries.get(stream_table.id)
        return None if entry is None else entry.shape

    def keep_shape(self, stream_table: StreamTable, shape: Shape) -> None:
        """Remember the shapes for which the query was compiled."""
        entry = self._queries.get(stream_table.id)
        if entry is not None:
            entry.shape = shape

    def find_cost(self, stream_table: StreamTable) -> CostMemory | None:
        """Return what earlier forecasts of a stream table found."""
        return self._costs.get(stream_table.id)

    def keep_cost(self, stream_table: StreamTable, memory: CostMemory) -> None:
        """Remember what a forecast found."""
        self._costs.put(stream_table.id, memory)

    def forget(self, stream_table: StreamTable) -> None:
        """Forget everything about a stream table."""
        self._queries.forget(stream_table.id)
        self._costs.forget(stream_table.id)
        self._made.forget(stream_table.id)
        self.shapes_compared.pop(stream_table.id, None)

    def retain(self, ids: Collection[int]) -> None:
        """Forget every stream table that is not among these."""
        self._queries.retain(ids.__contains__)
        self._costs.retain(ids.__contains__)
        for gone in [one for one in list(self.shapes_compared) if one not in ids]:
            self.shapes_compared.pop(gone, None)

    def clear(self) -> int:
        """Forget everything; return the number of compiled queries that went."""
        self._costs.clear()
        self._made.clear()
        self.shapes_compared.clear()
        return self._queries.clear()

    def stats(self) -> CacheStats:
        """Return how the cache of compiled queries has done since the process began."""
        return CacheStats(
            entries=len(self._queries),
            plans=sum(len(one.compiled.plans) for one in self._queries.values()),
            hits=self._hits,
            misses=self._misses,
            evictions=self._queries.evicted,
            max_entries=self.limit,
        )
