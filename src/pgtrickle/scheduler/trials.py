"""The times of trials of suspended stream tables: rare, and ever rarer.

A trial is a refresh.  Most causes, such as a missing source, are found again before
anything is read, and cost almost nothing; causes that show up late must not take more than a
tenth of the time.  Stream tables that a user has suspended get no trials.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pgtrickle.model.scheduling.tier import Tier
from pgtrickle.model.stream_table import Status, StreamTable

_SHORTEST = timedelta(minutes=1)
_LONGEST = timedelta(minutes=15)
_SHARE = 10  # the pause is this many times as long as the trial


def trial_pause(errors: int, took: timedelta = timedelta()) -> timedelta:
    """Return the pause after a number of consecutive errors and the duration of the last trial.

    >>> [trial_pause(errors).seconds for errors in (0, 3, 7, 8, 9, 10, 11, 1000)]
    [60, 60, 64, 128, 256, 512, 900, 900]
    >>> trial_pause(3, timedelta(minutes=30))
    datetime.timedelta(seconds=18000)
    """
    doubled = timedelta(seconds=1 << min(max(errors - 1, 0), 20))
    return max(_SHORTEST, min(doubled, _LONGEST), _SHARE * took)


@dataclass(slots=True)
class Trials:
    """The stream tables that errors have suspended, and the time of each trial."""

    _tables: dict[int, StreamTable] = field(default_factory=dict)
    _errors: dict[int, int] = field(default_factory=dict)  # in a row
    _due: dict[int, datetime] = field(default_factory=dict)

    def load(self, tables: Iterable[StreamTable], now: datetime) -> None:
        """Load the present catalog; its last error counts once."""
        self._tables = {table.id: table for table in tables if _suspended_by_errors(table)}
        self._errors = {
            key: self._errors.get(key, table.consecutive_errors)
            for key, table in self._tables.items()
        }
        self._due = {
            key: self._due.get(key) or _after(table, now) for key, table in self._tables.items()
        }

    def take_due(self, now: datetime, held: Collection[int] = ()) -> StreamTable | None:
        """Return a due one; it becomes due again even if the end of its trial is not reported."""
        due = [key for key, when in self._due.items() if when <= now and key in self._tables]
        for key in sorted(due, key=self._due.__getitem__):
            self._due[key] = now + _SHORTEST
            if key not in held:
                return self._tables[key]
        return None

    def next_due(self) -> datetime | None:
        """Return when the next one is due."""
        return min(self._due.values(), default=None)

    def note_failure(
        self, table: StreamTable, now: datetime, errors: int = 0, took: timedelta = timedelta()
    ) -> timedelta:
        """Record an error, the first of a suspension or a later one; return the next pause."""
        self._errors[table.id] = max(self._errors.get(table.id, 0) + 1, errors)
        pause = trial_pause(self._errors[table.id], took)
        self._due[table.id] = now + pause
        return pause

    def forget(self, table: StreamTable) -> None:
        """Record a successful trial."""
        for kept in (self._tables, self._errors, self._due):
            kept.pop(table.id, None)


def _after(table: StreamTable, now: datetime) -> datetime:
    # A clock that is ahead of this one must not make it wait longer.
    return min(table.last_error_at or now, now) + trial_pause(table.consecutive_errors)


def _suspended_by_errors(table: StreamTable) -> bool:
    return (
        table.status is Status.SUSPENDED
        and table.suspended_by is not None
        and table.tier is not Tier.FROZEN
    )
