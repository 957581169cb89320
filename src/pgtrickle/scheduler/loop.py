"""The loop that keeps stream tables fresh: hand what is due to workers, wait, repeat.

All decisions are made in one thread; workers only refresh.  The loop has no state of its own
beyond the last attempts and what is in flight: what it forgets when it ends, the catalog knows.
Two loops on one database do no harm, because a refresh holds its stream table's lease.

A unit that is due while something it reads is being refreshed waits for that, once, so that a
change goes down a whole chain without waiting for each schedule.  Once: what it waited for may be
due again by then, and must not go first for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from pgtrickle.errors import InternalError, Retry, TrickleError
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.schedule import Schedule, parse_schedule
from pgtrickle.model.stream_table import Status, StreamTable
from pgtrickle.model.tier import Tier
from pgtrickle.scheduler.cadence import cadences, is_known, schedule_of
from pgtrickle.scheduler.due import Attempt, backoff, due_at
from pgtrickle.scheduler.units import Shape, Unit

_TICK = timedelta(seconds=1)  # how soon a new or altered stream table is noticed
_LONGEST_PAUSE = timedelta(seconds=5)  # after which a server that came back is noticed
_STOP_NOTICED = timedelta(seconds=0.1)  # while workers are busy


class StreamTables(Protocol):
    """What the loop needs to know and to do."""

    def list_stream_tables(self) -> list[StreamTable]:
        """Return every stream table."""
        ...

    def shape(self) -> Shape:
        """Return who reads whom, and who is refreshed together."""
        ...

    def find_idle(self, stream_tables: Sequence[StreamTable]) -> frozenset[int]:
        """Return the ids of those with nothing to do, and note that they are current."""
        ...

    def check_catalog(self) -> None:
        """Raise if another version of the package has taken the catalog over."""
        ...

    def tend_capture(self) -> None:
        """Keep the capture of changes going, however little is due."""
        ...

    def refresh_unit(self, names: Sequence[str]) -> list[RefreshReport]:
        """Bring stream tables up to date, several of them to one moment; any thread may call."""
        ...


class Watcher(Protocol):
    """Whoever wants to know what the loop did."""

    def refreshed(self, report: RefreshReport) -> None:
        """Take note of a refresh."""
        ...

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        """Take note of a failure: of a stream table or group, or of looking for them."""
        ...


def _utc_now() -> datetime:
    return datetime.now(UTC)


def worker_threads(number: int) -> Executor:
    """Return threads that refresh, as many at a time as ``number`` says."""
    return ThreadPoolExecutor(number, "pgtrickle-refresh")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a worker has to tell."""

    began: datetime
    took: timedelta = timedelta()
    reports: Sequence[RefreshReport] = ()
    error: TrickleError | None = None


@dataclass(slots=True)
class Loop:
    """Refreshes stream tables when they are due, until told to stop."""

    stream_tables: StreamTables
    watcher: Watcher
    now: Callable[[], datetime] = _utc_now
    leads: Callable[[], bool] = lambda: True  # or another daemon does, and this one stands by
    workers: Callable[[], Executor] = lambda: worker_threads(1)
    zone: str = "UTC"  # of cron schedules
    auto_backoff: bool = True
    jitter: Callable[[], float] = lambda: 1.0
    _attempts: dict[int, Attempt] = field(default_factory=dict)
    _tables: dict[str, StreamTable] = field(default_factory=dict)  # as last listed
    _shape: Shape = field(default_factory=lambda: Shape({}))  # likewise
    _cadences: dict[str, Schedule] = field(default_factory=dict)  # by name
    _in_flight: dict[Unit, Future[_Outcome]] = field(default_factory=dict)
    # What was finished since a unit that is due began to wait.
    _waited: dict[Unit, set[Unit]] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Make one pass after another; ``stop`` ends the loop after the refreshes in flight."""
        failures = 0
        with self.workers() as pool:
            while not stop.is_set():
                try:
                    next_due = self._pass(pool, stop)
                    failures = 0
                except TrickleError as error:
                    if error.retry is not Retry.BACKOFF:
                        raise
                    failures += 1
                    pause = min(backoff(failures), _LONGEST_PAUSE)
                    self.watcher.failed(None, error, pause)
                else:
                    pause = min(_TICK, next_due - self.now()) if next_due is not None else _TICK
                self._wait(stop, max(pause, timedelta()))
        self._collect()

    def run_once(self, stop: threading.Event) -> datetime | None:
        """Bring every stream table up to date that is due, each once, and what follows from it.

        Returns when the next one will be due, None if there is none.
        """
        decided: set[Unit] = set()
        with self.workers() as pool:
            next_due = self._pass(pool, stop, decided)
            while self._in_flight:
                wait(self._in_flight.values(), return_when=FIRST_COMPLETED)
                next_due = self._pass(pool, stop, decided)
        return next_due

    def _pass(
        self, pool: Executor, stop: threading.Event, decided: set[Unit] | None = None
    ) -> datetime | None:
        """Hand over what is due and can go; leave out what is ``decided``, and add to it."""
        self._collect()
        if not self.leads():
            return None
        self.stream_tables.check_catalog()
        self.stream_tables.tend_capture()
        listed = {str(table.name): table for table in self.stream_tables.list_stream_tables()}
        self._tables = listed
        self._forget_all_but({table.id for table in listed.values()})
        asked = self._find_due(decided or ())
        idle = self._find_idle([one for members in asked.values() for one in members])
        for unit, members in asked.items():
            if stop.is_set():
                break
            if self._must_wait(unit):
                continue
            self._waited.pop(unit, None)
            if decided is not None:
                decided.add(unit)
            if all(table.id in idle for table in members):
                outcome = _Outcome(self.now())
                for table in members:
                    self._attempts[table.id] = self._after_success(table, outcome)
            else:
                names = [str(table.name) for table in members]
                self._in_flight[unit] = pool.submit(self._work, names, stop)
        return self._next_due()

    def _find_due(self, decided: Collection[Unit]) -> dict[Unit, list[StreamTable]]:
        """Return the units that are due, in order, with the members that take part."""
        now = self.now()
        active = [one for one in self._tables.values() if not _rests(one)]
        something = any(self._due_at(table) <= now for table in active)
        if something or self._shape.reads.keys() != self._tables.keys():
            self._shape = self.stream_tables.shape()
            order = [name for unit in self._shape.units for name in unit.members]
            self._cadences = cadences(self._tables, self._shape.reads, order)
        if not something:
            return {}
        known = self._shape.units
        self._waited = {unit: self._waited[unit] for unit in known if unit in self._waited}
        found = {}
        for unit in known:
            due = None if unit in decided or unit in self._in_flight else self._unit_due_at(unit)
            if due is not None and due <= now:
                found[unit] = self._taking_part(unit)
        return found

    def _taking_part(self, unit: Unit) -> list[StreamTable]:
        """Return the members of a unit that can be refreshed as things are."""
        # A stream table that was created since the list was made is found by the next pass.
        absent = {
            name for name in unit.members if name not in self._tables or _rests(self._tables[name])
        }
        return [self._tables[name] for name in self._shape.without(unit, absent)]

    def _unit_due_at(self, unit: Unit) -> datetime | None:
        """Return when a unit is due; None if none of its members can be refreshed."""
        due = map(self._due_at, self._taking_part(unit))
        return (max if unit.slowest else min)(due, default=None)

    def _next_due(self) -> datetime | None:
        """Return when something will be due for which nothing need be finished before."""
        free = (u for u in self._shape.units if u not in self._in_flight and u not in self._waited)
        return min(filter(None, map(self._unit_due_at, free)), default=None)

    def _must_wait(self, unit: Unit) -> bool:
        """Tell whether something that a unit reads is in flight, and it has not waited for it."""
        flying = self._shape.ancestors[unit] & self._in_flight.keys()
        if flying <= self._waited.get(unit, frozenset()):
            return False
        self._waited.setdefault(unit, set())
        return True

    def _find_idle(self, due: Sequence[StreamTable]) -> frozenset[int]:
        """Ask by one query which of those that are due have nothing to do."""
        # A schedule that cannot be read is complained about by an attempt, changes or not.
        known = [table for table in due if is_known(table)]
        return self.stream_tables.find_idle(known) if known else frozenset()

    def _work(self, names: Sequence[str], stop: threading.Event) -> _Outcome:
        """Refresh a unit; runs in a worker."""
        began = self.now()
        if stop.is_set():
            return _Outcome(began)
        try:
            for name in names:
                parse_schedule(self._tables[name].schedule)
            reports = self.stream_tables.refresh_unit(names)
            return _Outcome(began, self.now() - began, reports)
        except TrickleError as error:
            return _Outcome(began, error=error)
        except Exception as error:  # noqa: BLE001 - a bug met by one stream table must not stop the others
            wrapped = InternalError(f"unexpected {type(error).__name__}: {error}")
            wrapped.__cause__ = error
            return _Outcome(began, error=wrapped)

    def _collect(self) -> None:
        """Take note of what the workers have finished."""
        for unit in [unit for unit, future in self._in_flight.items() if future.done()]:
            future = self._in_flight.pop(unit)
            for waited in self._waited.values():
                waited.add(unit)
            if not future.cancelled():
                self._note(unit, future.result())

    def _note(self, unit: Unit, outcome: _Outcome) -> None:
        members = [self._tables[name] for name in unit.members if name in self._tables]
        if outcome.error is not None:
            self._note_failure(unit, members, outcome.error)
            return
        for report in outcome.reports:
            table = self._tables.get(report.stream_table)
            if table is not None:
                self._attempts[table.id] = self._after_success(table, outcome)
            self.watcher.refreshed(report)

    def _after_success(self, table: StreamTable, outcome: _Outcome) -> Attempt:
        before = self._attempts.get(table.id)
        if before is None or not self.auto_backoff:
            before = Attempt(outcome.began)
        every = self._cadence(table).every
        return before.succeeded(outcome.began, outcome.took, every)

    def _note_failure(
        self, unit: Unit, members: Iterable[StreamTable], error: TrickleError
    ) -> None:
        # From the end of the attempt: one that took minutes to fail is not repeated at once.
        now, retry_in = self.now(), timedelta()
        for table in members:
            before = self._attempts.get(table.id) or Attempt(now)
            self._attempts[table.id] = before.failed(now, self.jitter())
            retry_in = max(retry_in, self._due_at(table) - now)
        self.watcher.failed(", ".join(unit.members), error, retry_in)

    def _wait(self, stop: threading.Event, pause: timedelta) -> None:
        """Wait until a worker has finished or it is time for the next pass."""
        if not self._in_flight:
            stop.wait(pause.total_seconds())
            return
        until = self.now() + pause
        while not stop.wait(0) and (left := until - self.now()) > timedelta():
            slice_ = min(left, _STOP_NOTICED).total_seconds()
            done, _ = wait(self._in_flight.values(), timeout=slice_, return_when=FIRST_COMPLETED)
            if done:
                return

    def _due_at(self, table: StreamTable) -> datetime:
        attempt, last = self._attempts.get(table.id), table.last_refresh_at
        # What lies in the future happened before the clock was set back: nobody waits for it.
        now = self.now()
        if attempt is not None and attempt.at > now:
            attempt = None
        if last is not None and last > now:
            last = None
        return due_at(self._cadence(table), last, attempt, self.zone)

    def _cadence(self, table: StreamTable) -> Schedule:
        return self._cadences.get(str(table.name)) or schedule_of(table)

    def _forget_all_but(self, ids: set[int]) -> None:
        self._attempts = {key: self._attempts[key] for key in self._attempts.keys() & ids}


def _rests(table: StreamTable) -> bool:
    """Tell whether a stream table takes no part in what the scheduler does."""
    return table.status is Status.SUSPENDED or table.tier is Tier.FROZEN
