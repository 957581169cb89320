"""The timetable: when each unit is next due; its cost depends only on the due units.

A queue holds the units by due time.  A unit that is taken out is put back when its refresh
ends, so a pass handles only due units, however many stream tables there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from pgtrickle.model.scheduling.schedule import Schedule
from pgtrickle.model.scheduling.tier import Tier
from pgtrickle.model.stream_table import Status, StreamTable
from pgtrickle.scheduler.cadence import cadences, schedule_of
from pgtrickle.scheduler.due import LONGEST_BACKOFF, Attempt, due_at, due_if_changed
from pgtrickle.scheduler.pace import Cycle, Pace
from pgtrickle.scheduler.units import Shape, Unit

_SET_BACK = timedelta(seconds=2)  # a larger step means that the clock was set, not adjusted


@dataclass(slots=True)
class Timetable:
    """The due times of units, over the last loaded stream tables and graph."""

    zone: str = "UTC"  # of cron schedules
    backs_off: Callable[[], bool] = lambda: True  # the setting auto_backoff
    jitter: Callable[[], float] = lambda: 1.0
    shape: Shape = field(default_factory=lambda: Shape({}))
    tables: dict[str, StreamTable] = field(default_factory=dict)
    _attempts: dict[int, Attempt] = field(default_factory=dict)
    _cadences: dict[int, Schedule] = field(default_factory=dict)
    _members: dict[Unit, list[StreamTable]] = field(default_factory=dict)
    _places: dict[Unit, int] = field(default_factory=dict)  # in dependency order
    _due: dict[Unit, datetime] = field(default_factory=dict)  # of the waiting units
    _queue: list[tuple[datetime, int, Unit]] = field(default_factory=list)  # has outdated entries
    _looked_at: datetime | None = None
    _of_table: dict[int, Unit] = field(default_factory=dict)  # the unit of each active stream table
    _resting: set[Unit] = field(default_factory=set)  # due at once after a change
    _cycles: dict[int, Cycle] = field(default_factory=dict)  # news of them, by stream table

    def load(
        self,
        tables: Iterable[StreamTable],
        shape: Shape,
        now: datetime,
        taken: set[Unit],
        paces: Mapping[int, Pace] = MappingProxyType({}),
    ) -> None:
        """Load the present catalog; ``taken`` units are put back when they end.

        ``paces`` are those on record, for stream tables that this process has not refreshed yet.
        """
        resting = {table.id for table in self.tables.values() if _rests(table)}
        self.tables = {str(table.name): table for table in tables}
        # A resumed stream table is due now, however long it had to wait before.
        for table in self.tables.values():
            if table.id in resting and not _rests(table):
                self._attempts.pop(table.id, None)
        self._follow(paces)
        self.shape = shape
        order = [name for unit in shape.units for name in unit.members]
        found = cadences(self.tables, shape.reads, order)
        self._cadences = {self.tables[name].id: cadence for name, cadence in found.items()}
        ids = {table.id for table in self.tables.values()}
        # No bell rang for one that was inactive until now.
        self._attempts = {
            key: replace(self._attempts[key], asleep=False) for key in self._attempts.keys() & ids
        }
        self._members = {unit: self._taking_part(unit) for unit in shape.units}
        self._places = {unit: place for place, unit in enumerate(shape.units)}
        self._of_table = {one.id: unit for unit, of in self._members.items() for one in of}
        self._fill(now, taken)

    def _follow(self, paces: Mapping[int, Pace]) -> None:
        """Go on with the intervals that another process has stretched."""
        for table in self.tables.values() if self.backs_off() else ():
            pace, last = paces.get(table.id), table.last_refresh_at
            if pace is not None and last is not None and table.id not in self._attempts:
                self._attempts[table.id] = Attempt(last, late=pace.late, stretch=pace.stretch)

    def stand_by(self) -> None:
        """Forget every attempt: another process refreshes, and knows better."""
        self._attempts.clear()
        self._cycles.clear()

    def cycles(self) -> list[Cycle]:
        """Return the news of refreshes that fell behind, or caught up."""
        return list(self._cycles.values())

    def forget_cycles(self) -> None:
        """Forget that news."""
        self._cycles.clear()

    def take_due(self, now: datetime, taken: set[Unit]) -> list[Unit]:
        """Take out the due units, in dependency order."""
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
        """Return the known units among these, each after its sources."""
        return sorted(
            (unit for unit in units if unit in self._places), key=self._places.__getitem__
        )

    def put_back(self, unit: Unit, now: datetime) -> None:
        """Put a unit back into the queue, unless it no longer exists."""
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
        else:  # no bell is watched for it
            self._put(unit, choose(one.due_awake for one in moments))

    def postpone(self, unit: Unit, until: datetime) -> None:
        """Delay a unit that could not start until a moment; record nothing else."""
        self._resting.discard(unit)
        if unit in self._places:
            self._put(unit, until)

    def resting(self) -> list[int]:
        """Return the ids of the stream tables that a change would make due at once."""
        return [table.id for unit in self._resting for table in self.members(unit)]

    def hurry(self, stream_table_ids: Iterable[int], now: datetime) -> None:
        """Make the given stream tables due that have rested long enough."""
        units = {self._of_table.get(one) for one in stream_table_ids}
        for unit in self._resting.intersection(units):
            for table in self.members(unit):
                # This counts as a refresh in any case, which limits the rate of rings.
                if (attempt := self._attempts.get(table.id)) is not None:
                    self._attempts[table.id] = replace(attempt, worked=now)
            self._resting.discard(unit)
            self._put(unit, now)

    def next_due(self) -> datetime | None:
        """Return when the next unit without a pending wait is due."""
        while self._queue and self._due.get(self._queue[0][2]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def members(self, unit: Unit, held: Collection[int] = ()) -> list[StreamTable]:
        """Return the members of a unit that can be refreshed now, in order.

        Members that are ``held`` back, by id, cannot, nor their consumers in the same group.
        """
        members = self._members.get(unit, [])
        if not any(table.id in held for table in members):
            return members
        return self._taking_part(unit, held)

    def note_success(self, table: StreamTable, began: datetime, took: timedelta) -> None:
        """Record a refresh that succeeded, or was not needed."""
        before = self._attempts.get(table.id) or Attempt(began)
        every = self._cadence(table).every
        base = before if self.backs_off() else Attempt(began)
        after = base.succeeded(began, took, every)
        self._attempts[table.id] = after
        self._note_cycle(table, took, before, after)

    def note_nothing(self, table: StreamTable, now: datetime, *, asleep: bool = False) -> None:
        """Record a check that found no change; ``asleep``: a bell announces the next change."""
        before = self._attempts.get(table.id) or Attempt(table.last_refresh_at or now)
        after = replace(before.found_nothing(now), asleep=asleep)
        self._attempts[table.id] = after
        self._note_cycle(table, timedelta(), before, after)

    def note_failure(
        self, table: StreamTable, now: datetime, longest_pause: timedelta = LONGEST_BACKOFF
    ) -> timedelta:
        """Record a failed refresh; return the wait before the next attempt."""
        # From the end of the attempt: one that took minutes to fail is not repeated at once.
        before = self._attempts.get(table.id) or Attempt(now)
        self._attempts[table.id] = before.failed(now, self.jitter(), longest_pause)
        return self._due_at(table, now) - now

    def _note_cycle(
        self, table: StreamTable, took: timedelta, before: Attempt, after: Attempt
    ) -> None:
        cycle = Cycle(
            table, self._cadence(table).every or timedelta.max / 8, took, before.pace, after.pace
        )
        if cycle.is_news:
            self._cycles[table.id] = cycle

    def failures(self, table: StreamTable) -> int:
        """Return the number of consecutive failures of a stream table that this process knows."""
        attempt = self._attempts.get(table.id)
        return 0 if attempt is None else attempt.failures

    def _fill(self, now: datetime, taken: set[Unit]) -> None:
        self._due, self._queue, self._resting = {}, [], set()
        for unit in self.shape.units:
            if unit not in taken:
                self.put_back(unit, now)

    def _taking_part(self, unit: Unit, held: Collection[int] = ()) -> list[StreamTable]:
        # A stream table that was created since comes with the next load.
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
        # A time in the future dates from before the clock was set back, and is ignored.
        if attempt is not None and attempt.at > now:
            attempt = None
        if last is not None and last > now:
            last = None
        return due_at(self._cadence(table), last, attempt, self.zone, awake=awake)

    def _cadence(self, table: StreamTable) -> Schedule:
        return self._cadences.get(table.id) or schedule_of(table)


class _Moments(NamedTuple):
    """When a stream table is due, when it is due without a bell, and when after a change."""

    due: datetime
    due_awake: datetime
    worth_it: datetime


def _rests(table: StreamTable) -> bool:
    """Tell whether the scheduler ignores a stream table."""
    return table.status is Status.SUSPENDED or table.tier is Tier.FROZEN
