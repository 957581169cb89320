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
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from pgtrickle.errors import (
    InternalError,
    LeaseHeldError,
    Retry,
    ServerBusyError,
    TrickleError,
)
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.schedule import parse_schedule
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.scheduler.bell import Bell, NoBell
from pgtrickle.scheduler.cadence import is_known
from pgtrickle.scheduler.due import LONGEST_BACKOFF, backoff
from pgtrickle.scheduler.timetable import Timetable
from pgtrickle.scheduler.units import Shape, Unit

_TICK = timedelta(seconds=2)  # how soon a new or altered stream table is noticed
_CLOSE_TICK = timedelta(seconds=1)  # and that another does not lead any more, or writes to a lake
_LONGEST_PAUSE = timedelta(seconds=5)  # after which a server that came back is noticed
_LEASE_LOOKED_AT = timedelta(seconds=0.5)  # again, while somebody else has it
_LONGEST_LOCK_PAUSE = timedelta(seconds=15)
_DECIDES_WITHIN = 30.0  # seconds; it is stuck if it does not
_MOVES_WITHIN = 300.0  # seconds, while something waits for a worker
_STOP_NOTICED = timedelta(seconds=0.1)  # while workers are busy


class StreamTables(Protocol):
    """What the loop needs to know and to do."""

    def version(self) -> str:
        """Return what differs whenever the list of stream tables or the graph does."""
        ...

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

    def find_held(self) -> Mapping[int, str]:
        """Return the ids of those that the user wants left alone, with a reason each."""
        ...

    def tend_capture(self) -> None:
        """Keep the capture of changes going, however little is due."""
        ...

    def tend_lake(self) -> bool:
        """Read what is new in the lake, try again what could not be delivered, keep it tidy.

        Returns whether any of its tables is followed, so that it is to be looked at often.
        """
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
    timetable: Timetable = field(default_factory=Timetable)
    bell: Bell = field(default_factory=NoBell)
    # On the monotonic clock: when all that was due was last decided about, and a worker was free.
    _decided_at: float = field(default_factory=time.monotonic)
    _moved_at: float = field(default_factory=time.monotonic)
    _trouble: str = ""  # that the last pass met
    _version: str | None = None  # of what the timetable was loaded from
    _tick: timedelta = _TICK
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
                    failures, self._decided_at, self._trouble = 0, time.monotonic(), ""
                except TrickleError as error:
                    if error.retry is not Retry.BACKOFF:
                        raise
                    failures, self._trouble = failures + 1, f": {error}"
                    pause = min(backoff(failures), _LONGEST_PAUSE)
                    self.watcher.failed(None, error, pause)
                else:
                    pause = self._tick
                    if next_due is not None:
                        pause = min(pause, next_due - self.now())
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

    def busy(self) -> tuple[int, int]:
        """Return how many units are being refreshed, and how many are due and wait.

        Any thread may ask: both are copied before they are counted.
        """
        futures = list(self._in_flight.values())
        running = sum(future.running() for future in futures)
        unstarted = sum(not future.running() and not future.done() for future in futures)
        return running, unstarted + len(self._waited)

    def find_problem(self) -> str | None:
        """Return why it does not get on, if so; any thread may ask."""
        now = time.monotonic()
        if (since := now - self._decided_at) > _DECIDES_WITHIN:
            return f"nothing could be decided for {since:.0f} seconds{self._trouble}"
        futures = list(self._in_flight.values())
        if all(future.running() or future.done() for future in futures):
            return None  # nobody waits for a worker
        if (since := now - self._moved_at) > _MOVES_WITHIN:
            return f"all workers are busy and none has ended for {since:.0f} seconds"
        return None

    def _pass(
        self, pool: Executor, stop: threading.Event, decided: set[Unit] | None = None
    ) -> datetime | None:
        """Hand over what is due and can go; leave out what is ``decided``, and add to it."""
        self._collect()
        if not self.leads():
            self.bell.watch(())
            self._tick = _CLOSE_TICK
            return None
        self.stream_tables.check_catalog()
        self.stream_tables.tend_capture()
        self._tick = _CLOSE_TICK if self.stream_tables.tend_lake() else _TICK
        self._load()
        self.timetable.hurry(self.bell.answer(), self.now())
        left = self._decide(pool, stop, self._find_due(), decided)
        for unit in left:
            self.timetable.put_back(unit, self.now())
        self.bell.watch(self.timetable.resting())
        return self.timetable.next_due()

    def _load(self) -> None:
        """Take over what changed in the catalog, if anything did."""
        version = self.stream_tables.version()
        if version == self._version:
            return
        tables, shape = self.stream_tables.list_stream_tables(), self.stream_tables.shape()
        self._waited = {unit: self._waited[unit] for unit in shape.units if unit in self._waited}
        taken = self._in_flight.keys() | self._waited.keys()
        self.timetable.load(tables, shape, self.now(), taken)
        self._version = version

    def _find_due(self) -> list[Unit]:
        """Return what is due, in order; who waits for something to finish has been due before."""
        waiting = self._waited.keys()
        due = self.timetable.take_due(self.now(), self._in_flight.keys() | waiting)
        return self.timetable.in_order([*due, *waiting]) if waiting else due

    def _decide(
        self, pool: Executor, stop: threading.Event, due: list[Unit], decided: set[Unit] | None
    ) -> list[Unit]:
        """Hand over what can go, take note of what has nothing to do; return what is left."""
        done = decided or set()
        left = [unit for unit in due if unit in done]
        held = self.stream_tables.find_held() if due else {}
        asked = {unit: self.timetable.members(unit, held) for unit in due if unit not in done}
        wanted = [one for members in asked.values() for one in members]
        sure = frozenset(self.bell.sure_of([one.id for one in wanted]))  # before it is looked
        idle = self._find_idle(wanted)
        for unit, members in asked.items():
            if stop.is_set():
                left.append(unit)
                continue
            if self._must_wait(unit):
                continue
            self._waited.pop(unit, None)
            if decided is not None:
                decided.add(unit)
            if all(table.id in idle for table in members):
                self._note_idle(unit, members, sure)
                left.append(unit)
            else:
                if not self._in_flight:
                    self._moved_at = time.monotonic()
                self._in_flight[unit] = pool.submit(self._work, members, stop)
        return left

    def _must_wait(self, unit: Unit) -> bool:
        """Tell whether something that a unit reads is in flight, and it has not waited for it."""
        flying = self.timetable.shape.ancestors[unit] & self._in_flight.keys()
        # Of a unit that had other members before the graph changed, some may be in flight.
        flying |= {one for one in self._in_flight if one.shares_members(unit)}
        if flying <= self._waited.get(unit, frozenset()):
            return False
        self._waited.setdefault(unit, set())
        return True

    def _find_idle(self, due: Sequence[StreamTable]) -> frozenset[int]:
        """Ask by one query which of those that are due have nothing to do."""
        # A schedule that cannot be read is complained about by an attempt, changes or not.
        known = [table for table in due if is_known(table)]
        return self.stream_tables.find_idle(known) if known else frozenset()

    def _work(self, members: Sequence[StreamTable], stop: threading.Event) -> _Outcome:
        """Refresh a unit; runs in a worker."""
        began = self.now()
        if stop.is_set():
            return _Outcome(began)
        try:
            for table in members:
                parse_schedule(table.schedule)
            reports = self.stream_tables.refresh_unit([str(table.name) for table in members])
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
            self._moved_at = time.monotonic()
            for waited in self._waited.values():
                waited.add(unit)
            outcome = None if future.cancelled() else future.result()
            if outcome is not None and isinstance(outcome.error, LeaseHeldError):
                # Somebody refreshes, verifies or alters it: no failure, and over soon.
                self.timetable.postpone(unit, self.now() + _LEASE_LOOKED_AT)
                continue
            if outcome is not None:
                self._note(unit, outcome)
            self.timetable.put_back(unit, self.now())

    def _note_idle(self, unit: Unit, asked: Sequence[StreamTable], sure: frozenset[int]) -> None:
        everyone = self.timetable.members(unit)
        asleep = all(table.id in sure for table in everyone)
        for table in everyone:
            if len(asked) == len(everyone):
                self.timetable.note_nothing(table, self.now(), asleep=asleep)
            else:  # some are held back: they are asked again when it is due, and no bell helps
                self.timetable.note_success(table, self.now(), timedelta())

    def _note(self, unit: Unit, outcome: _Outcome) -> None:
        if outcome.error is not None:
            now = self.now()
            members = self.timetable.members(unit)
            # What is locked may be free in a moment, and costs little to try.
            locked = isinstance(outcome.error, ServerBusyError)
            longest = _LONGEST_LOCK_PAUSE if locked else LONGEST_BACKOFF
            pauses = [self.timetable.note_failure(table, now, longest) for table in members]
            retry_in = max(pauses, default=timedelta())
            self.watcher.failed(", ".join(unit.members), outcome.error, retry_in)
        if outcome.reports:
            # Members that were held back, too: the unit is not due at once because of them.
            for table in self.timetable.members(unit):
                self.timetable.note_success(table, outcome.began, outcome.took)
        for report in outcome.reports:
            self.watcher.refreshed(report)

    def _wait(self, stop: threading.Event, pause: timedelta) -> None:
        """Wait until a worker has finished, the bell rings or it is time for the next pass."""
        if not self._in_flight:
            self.bell.wait(stop, pause.total_seconds())
            return
        until = self.now() + pause
        while not stop.wait(0) and (left := until - self.now()) > timedelta():
            slice_ = min(left, _STOP_NOTICED).total_seconds()
            done, _ = wait(self._in_flight.values(), timeout=slice_, return_when=FIRST_COMPLETED)
            if done or self.bell.rung:
                return
