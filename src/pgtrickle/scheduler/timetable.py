"""The timetable: when each unit is due next, at a cost that follows what is due.

Units stand in a queue by the time they are due.  What is taken out is put back when its refresh
is over, so a pass looks at nothing that is not due, however many stream tables there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from pgtrickle.model.schedule import Schedule
from pgtrickle.model.stream_table import Status, StreamTable
from pgtrickle.model.tier import Tier
from pgtrickle.scheduler.cadence import cadences, schedule_of
from pgtrickle.scheduler.due import LONGEST_BACKOFF, Attempt, due_at, due_if_changed
from pgtrickle.scheduler.units import Shape, Unit

_SET_BACK = timedelta(seconds=2)  # from here on a clock was set, and is not merely adjusted


@dataclass(slots=True)
class Timetable:
    """When what is due; the stream tables and the graph are as they were last loaded."""

    zone: str = "UTC"  # of cron schedules
    auto_backoff: bool = True
    jitter: Callable[[], float] = lambda: 1.0
    shape: Shape = field(default_factory=lambda: Shape({}))
    tables: dict[str, StreamTable] = field(default_factory=dict)
    _attempts: dict[int, Attempt] = field(default_factory=dict)
    _cadences: dict[int, Schedule] = field(default_factory=dict)
    _members: dict[Unit, list[StreamTable]] = field(default_factory=dict)
    _places: dict[Unit, int] = field(default_factory=dict)  # in dependency order
    _due: dict[Unit, datetime] = field(default_factory=dict)  # of those that wait for their time
    _queue: list[tuple[datetime, int, Unit]] = field(default_factory=list)  # with outdated entries
    _looked_at: datetime | None = None
    _of_table: dict[int, Unit] = field(default_factory=dict)  # the unit of each that takes part
    _resting: set[Unit] = field(default_factory=set)  # a change would make them due at once

    def load(
        self, tables: Iterable[StreamTable], shape: Shape, now: datetime, taken: set[Unit]
    ) -> None:
        """Take over what the catalog says now; ``taken`` units are put back when they are done."""
        self.tables = {str(table.name): table for table in tables}
        self.shape = shape
        order = [name for unit in shape.units for name in unit.members]
        found = cadences(self.tables, shape.reads, order)
        self._cadences = {self.tables[name].id: cadence for name, cadence in found.items()}
        ids = {table.id for table in self.tables.values()}
        # Nobody rang for one that took no part until now.
        self._attempts = {
            key: replace(self._attempts[key], asleep=False) for key in self._attempts.keys() & ids
        }
        self._members = {unit: self._taking_part(unit) for unit in shape.units}
        self._places = {unit: place for place, unit in enumerate(shape.units)}
        self._of_table = {one.id: unit for unit, of in self._members.items() for one in of}
        self._fill(now, taken)

    def take_due(self, now: datetime, taken: set[Unit]) -> list[Unit]:
        """Take out what is due, in dependency order."""
        if self._looked_at is not None and now < self._looked_at - _SET_BACK:
            self._fill(now, taken)
        self._looked_at = now
        found = []
        while self._queue and self._queue[0][0] <= now:
            when, _, unit = heapq.heappop(self._queue)
            if self._due.get(unit) == when:
                del self._due[unit]
                self._resting.discard(unit)
                found.append(unit)
        return self.in_order(found)

    def in_order(self, units: Iterable[Unit]) -> list[Unit]:
        """Return units, as far as they are known, each after those it reads."""
        return sorted(
            (unit for unit in units if unit in self._places), key=self._places.__getitem__
        )

    def put_back(self, unit: Unit, now: datetime) -> None:
        """Let a unit wait for its time; nothing happens if it is no longer there."""
        self._resting.discard(unit)
        moments = [self._moments(table, now) for table in self.members(unit)]
        if not moments:
            self._due.pop(unit, None)
            return
        choose = max if unit.slowest else min
        when = choose(one.due for one in moments)
        if max(one.worth_it for one in moments) <= now < when:
            self._put(unit, when)
            self._resting.add(unit)
        else:  # nobody listens to a bell for it
            self._put(unit, choose(one.due_awake for one in moments))

    def postpone(self, unit: Unit, until: datetime) -> None:
        """Let a unit that could not begin wait until then; nothing else is noted of it."""
        self._resting.discard(unit)
        if unit in self._places:
            self._put(unit, until)

    def resting(self) -> list[int]:
        """Return the ids of the stream tables that a change would make due at once."""
        return [table.id for unit in self._resting for table in self.members(unit)]

    def hurry(self, stream_table_ids: Iterable[int], now: datetime) -> None:
        """Make those due, of the stream tables given, that have rested long enough."""
        units = {self._of_table.get(one) for one in stream_table_ids}
        for unit in self._resting.intersection(units):
            for table in self.members(unit):
                # Whatever it finds, this counts as a refresh: the next ring comes no sooner.
                if (attempt := self._attempts.get(table.id)) is not None:
                    self._attempts[table.id] = replace(attempt, worked=now)
            self._resting.discard(unit)
            self._put(unit, now)

    def next_due(self) -> datetime | None:
        """Return when the next unit is due that waits for nothing else."""
        while self._queue and self._due.get(self._queue[0][2]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def members(self, unit: Unit, held: Collection[int] = ()) -> list[StreamTable]:
        """Return the members of a unit that can be refreshed as things are, in order.

        Those that are ``held`` back, by id, cannot, nor those that read them in the same group.
        """
        members = self._members.get(unit, [])
        if not any(table.id in held for table in members):
            return members
        return self._taking_part(unit, held)

    def note_success(self, table: StreamTable, began: datetime, took: timedelta) -> None:
        """Take note of a refresh that succeeded, or was not needed."""
        before = self._attempts.get(table.id)
        if before is None or not self.auto_backoff:
            before = Attempt(began)
        self._attempts[table.id] = before.succeeded(began, took, self._cadence(table).every)

    def note_nothing(self, table: StreamTable, now: datetime, *, asleep: bool = False) -> None:
        """Take note of a look that found nothing to do; ``asleep``: a bell tells when there is."""
        before = self._attempts.get(table.id) or Attempt(table.last_refresh_at or now)
        self._attempts[table.id] = replace(before.found_nothing(now), asleep=asleep)

    def note_failure(
        self, table: StreamTable, now: datetime, longest_pause: timedelta = LONGEST_BACKOFF
    ) -> timedelta:
        """Take note of a refresh that failed; return how long to wait for the next attempt."""
        # From the end of the attempt: one that took minutes to fail is not repeated at once.
        before = self._attempts.get(table.id) or Attempt(now)
        self._attempts[table.id] = before.failed(now, self.jitter(), longest_pause)
        return self._due_at(table, now) - now

    def _fill(self, now: datetime, taken: set[Unit]) -> None:
        self._due, self._queue, self._resting = {}, [], set()
        for unit in self.shape.units:
            if unit not in taken:
                self.put_back(unit, now)

    def _taking_part(self, unit: Unit, held: Collection[int] = ()) -> list[StreamTable]:
        # A stream table that was created since the list was made comes with the next load.
        absent = {
            name
            for name in unit.members
            if name not in self.tables or _rests(self.tables[name]) or self.tables[name].id in held
        }
        return [self.tables[name] for name in self.shape.without(unit, absent)]

    def _moments(self, table: StreamTable, now: datetime) -> _Moments:
        due = awake = self._due_at(table, now)
        attempt = self._attempts.get(table.id)
        if attempt is None:
            return _Moments(due, awake, due)
        if attempt.asleep:
            awake = self._due_at(table, now, awake=True)
        worth_it = due_if_changed(self._cadence(table), attempt)
        return _Moments(due, awake, due if worth_it is None else worth_it)

    def _put(self, unit: Unit, when: datetime) -> None:
        self._due[unit] = when
        heapq.heappush(self._queue, (when, self._places[unit], unit))

    def _due_at(self, table: StreamTable, now: datetime, *, awake: bool = False) -> datetime:
        attempt, last = self._attempts.get(table.id), table.last_refresh_at
        # What lies in the future happened before the clock was set back: nobody waits for it.
        if attempt is not None and attempt.at > now:
            attempt = None
        if last is not None and last > now:
            last = None
        return due_at(self._cadence(table), last, attempt, self.zone, awake=awake)

    def _cadence(self, table: StreamTable) -> Schedule:
        return self._cadences.get(table.id) or schedule_of(table)


class _Moments(NamedTuple):
    """When a stream table is due, when if no bell wakes it, and when a change is worth it."""

    due: datetime
    due_awake: datetime
    worth_it: datetime


def _rests(table: StreamTable) -> bool:
    """Tell whether a stream table takes no part in what the scheduler does."""
    return table.status is Status.SUSPENDED or table.tier is Tier.FROZEN
