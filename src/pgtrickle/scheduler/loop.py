"""The loop that keeps stream tables fresh: hand due units to workers, wait, repeat.

All decisions are made in one thread; workers only refresh.  The loop has no state
beyond the last attempts and the running refreshes: the catalog knows everything else.
Two loops on one database do no harm, because a refresh holds its stream table's lease.

A unit that is due while one of its sources is being refreshed waits for that, once, so that a
change passes down a whole chain without waiting for each schedule.  Only once: the source may be
due again by then, and must not go first forever.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

from pgtrickle.errors import (
    InternalError,
    LeaseHeldError,
    RefreshCancelledError,
    Retry,
    ServerBusyError,
    TrickleError,
)
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.scheduling.schedule import parse_schedule
from pgtrickle.model.scheduling.tier import Tier
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.scheduler.admission import Admission, Saturation
from pgtrickle.scheduler.cadence import is_known
from pgtrickle.scheduler.due import LONGEST_BACKOFF, backoff
from pgtrickle.scheduler.pace import Cycle, Pace
from pgtrickle.scheduler.timetable import Timetable
from pgtrickle.scheduler.trials import Trials
from pgtrickle.scheduler.units import Shape, Unit
from pgtrickle.scheduler.wakeup import Bell, NoBell
from pgtrickle.scheduler.workers import Job, Workers

_TICK = timedelta(seconds=2)  # how soon a new or altered stream table is noticed
_CLOSE_TICK = timedelta(seconds=1)  # how soon a lost leader, or a write to a lake, is noticed
_LONGEST_PAUSE = timedelta(seconds=5)  # after which a server that came back is noticed
_LONGEST_LOCK_PAUSE = timedelta(seconds=15)
_DECIDES_WITHIN = 30.0  # seconds; otherwise it is stuck
_MOVES_WITHIN = 300.0  # seconds, while a unit waits for a worker
# A pass asks the server the same few questions, whoever has ended: workers that end all the time
# must not keep it busy with them.  Beside a refresh longer than a pass this delays nothing.
_REST = 3  # times what the last pass took
_LONGEST_REST = 0.5  # seconds
_STOP_NOTICED = timedelta(seconds=0.1)  # while workers are busy


class StreamTables(Protocol):
    """The operations on stream tables that the loop needs."""

    def schedule_token(self) -> str:
        """Return a token that changes whenever the list of stream tables or the graph changes."""
        ...

    def list_stream_tables(self) -> list[StreamTable]:
        """Return every stream table."""
        ...

    def shape(self) -> Shape:
        """Return the graph of stream tables, and the groups that are refreshed together."""
        ...

    def list_paces(self) -> Mapping[int, Pace]:
        """Return which stream tables fall behind their schedules, as it is on record."""
        ...

    def note_cycles(self, cycles: Sequence[Cycle]) -> None:
        """Record which stream tables fall behind, or keep up again, and alert."""
        ...

    def note_saturation(self, saturation: Saturation | None) -> None:
        """Record that due refreshes wait for room, or None: no more."""
        ...

    def find_idle(self, stream_tables: Sequence[StreamTable]) -> frozenset[int]:
        """Return the ids of the idle stream tables, and record that they are current."""
        ...

    def check_catalog(self) -> None:
        """Raise if another version of the package has migrated the catalog."""
        ...

    def find_held(self) -> Mapping[int, str]:
        """Return the ids of the stream tables that are held back, each with a reason."""
        ...

    def tend_capture(self) -> None:
        """Maintain the capture of changes, even if nothing is due."""
        ...

    def tend_lake(self) -> bool:
        """Follow the lake's changes, retry failed deliveries, and maintain the lake.

        Returns whether any of its tables is followed, so that it must be checked often.
        """
        ...

    def sink_news(self) -> Sequence[SinkNews]:
        """Return the copies in the lake that failed or recovered since the last call."""
        ...

    def refresh_unit(self, names: Sequence[str]) -> list[RefreshReport]:
        """Refresh stream tables, several of them at one moment; any thread may call this."""
        ...

    def try_suspended(self, name: str) -> list[RefreshReport]:
        """Refresh a suspended stream table: success resumes it."""
        ...


class Watcher(Protocol):
    """An observer of the loop."""

    def refreshed(self, report: RefreshReport) -> None:
        """Observe a refresh."""
        ...

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        """Observe a failure: of a stream table or group, or of the search for due ones.

        The error names the stream table that it suspended.
        """
        ...

    def resumed(self, name: str) -> None:
        """Observe a suspended stream table that works again."""
        ...

    def sink_changed(self, news: SinkNews) -> None:
        """Observe a copy in the lake that failed or recovered."""
        ...

    def fell_behind(self, cycle: Cycle) -> None:
        """Observe a refresh that took longer than its interval."""
        ...


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _lease_pause() -> timedelta:
    """Return when to look at a lease again: two that wait for the same one do not meet twice."""
    return timedelta(seconds=random.uniform(0.05, 0.5))  # noqa: S311 - nothing is to be kept secret


def worker_threads(number: int) -> Executor:
    """Return a pool of ``number`` refreshing threads."""
    return Workers(lambda: number)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of a worker."""

    began: datetime
    took: timedelta = timedelta()
    reports: Sequence[RefreshReport] = ()
    error: TrickleError | None = None
    trial: StreamTable | None = None  # the suspended stream table


@dataclass(frozen=True, slots=True)
class _Checked:
    """The due units, and what a check of their sources found."""

    asked: dict[Unit, list[StreamTable]]  # the members that can be refreshed
    done: list[Unit]  # those that were decided before
    sure: frozenset[int]  # the stream tables whose next change a bell announces
    idle: frozenset[int]  # the stream tables without changes

    @property
    def any_changed(self) -> bool:
        """Whether a refresh would find a change."""
        return any(one.id not in self.idle for of in self.asked.values() for one in of)


@dataclass(slots=True)
class Loop:
    """Refreshes stream tables when they are due, until told to stop."""

    stream_tables: StreamTables
    watcher: Watcher
    now: Callable[[], datetime] = _utc_now
    leads: Callable[[], bool] = lambda: True  # otherwise this daemon stands by
    cancel: Callable[[], object] = lambda: None  # the running refreshes, when it cannot go on
    workers: Callable[[], Executor] = lambda: worker_threads(1)
    timetable: Timetable = field(default_factory=Timetable)
    bell: Bell = field(default_factory=NoBell)
    trials: Trials = field(default_factory=Trials)
    admission: Admission = field(default_factory=Admission)
    lease_pause: Callable[[], timedelta] = _lease_pause
    stopwatch: Callable[[], float] = time.monotonic  # seconds, of what a pass takes
    # On the monotonic clock: when all due units were last decided, and a worker was free.
    _decided_at: float = field(default_factory=time.monotonic)
    _moved_at: float = field(default_factory=time.monotonic)
    _trouble: str = ""  # of the last pass
    _token: str | None = None  # of the catalog when the timetable was loaded
    _tick: timedelta = _TICK
    _in_flight: dict[Unit, Future[_Outcome]] = field(default_factory=dict)
    # The units that finished since a due unit began to wait.
    _waited: dict[Unit, set[Unit]] = field(default_factory=dict)
    _trial: Unit | None = None  # the latest

    def run(self, stop: threading.Event) -> None:
        """Make one pass after another; ``stop`` ends the loop after the running refreshes.

        An error that no repetition mends sets ``stop`` and cancels them.
        """
        failures = 0
        with self.workers() as pool:
            while not stop.is_set():
                began = self.stopwatch()
                try:
                    next_due = self._pass(pool, stop)
                    failures, self._decided_at, self._trouble = 0, time.monotonic(), ""
                except TrickleError as error:
                    if error.retry is not Retry.BACKOFF:
                        stop.set()  # what waits for a worker does not begin
                        self.cancel()
                        raise
                    failures, self._trouble = failures + 1, f": {error}"
                    pause = min(backoff(failures), _LONGEST_PAUSE)
                    self.watcher.failed(None, error, pause)
                else:
                    pause = self._tick
                    if next_due is not None:
                        pause = min(pause, next_due - self.now())
                rest = min(_REST * (self.stopwatch() - began), _LONGEST_REST)
                self._wait(stop, max(pause, timedelta()), rest)
        self._collect()

    def run_once(self, stop: threading.Event) -> datetime | None:
        """Refresh every due stream table once, and then its consumers.

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

        Any thread may call this: both are copied before they are counted.
        """
        running, unstarted = self._count_started()
        return running, unstarted + len(self._waited)

    def _count_started(self) -> tuple[int, int]:
        """Return how many units are being refreshed, and how many wait for a worker."""
        futures = list(self._in_flight.values())
        running = sum(future.running() for future in futures)
        return running, sum(not future.running() and not future.done() for future in futures)

    def find_problem(self) -> str | None:
        """Return why the loop makes no progress, or None; any thread may call this."""
        now = time.monotonic()
        if (since := now - self._decided_at) > _DECIDES_WITHIN:
            return f"nothing could be decided for {since:.0f} seconds{self._trouble}"
        futures = list(self._in_flight.values())
        if all(future.running() or future.done() for future in futures):
            return None  # no unit waits for a worker
        if (since := now - self._moved_at) > _MOVES_WITHIN:
            return f"all workers are busy and none has ended for {since:.0f} seconds"
        return None

    def _pass(
        self, pool: Executor, stop: threading.Event, decided: set[Unit] | None = None
    ) -> datetime | None:
        """Hand over the due units that can start; skip the ``decided`` ones, and add to them."""
        self._collect()
        if not self.leads():
            self.bell.watch(())
            self._tick = _CLOSE_TICK
            if self._token is not None:
                self._token = None
                self.timetable.stand_by()
            return None
        self.stream_tables.check_catalog()
        self._tell_cycles()
        self._tell_saturation()
        self.stream_tables.tend_capture()
        self._tick = _CLOSE_TICK if self.stream_tables.tend_lake() else _TICK
        for news in self.stream_tables.sink_news():
            self.watcher.sink_changed(news)
        self._load()
        self.timetable.hurry(self.bell.answer(), self.now())
        checked = self._check(self._find_due(), decided)
        # A change made after an alteration is not refreshed on the schedule from before it.
        if checked.any_changed and self._load():
            checked = self._check(self._find_due(), decided)
        left = self._decide(pool, stop, checked, decided)
        for unit in left:
            self.timetable.put_back(unit, self.now())
        self.bell.watch(self.timetable.resting())
        moments = [self.timetable.next_due(), self._try_suspended(pool, stop)]
        return min((one for one in moments if one is not None), default=None)

    def _tell_cycles(self) -> None:
        """Tell which stream tables fall behind, or keep up again; first on record."""
        cycles = self.timetable.cycles()
        if cycles:
            self.stream_tables.note_cycles(cycles)
            self.timetable.forget_cycles()
        for cycle in cycles:
            if cycle.behind:
                self.watcher.fell_behind(cycle)

    def _tell_saturation(self) -> None:
        news = self.admission.look(*self._count_started())
        if news is not None:
            self.stream_tables.note_saturation(news[0])

    def _try_suspended(self, pool: Executor, stop: threading.Event) -> datetime | None:
        """Hand over suspended stream tables, one at a time; return when the next is due."""
        if self._trial in self._in_flight:
            return None  # decided when that one ends
        due = self.trials.next_due()
        if due is None or due > self.now() or stop.is_set():
            return due
        table = self.trials.take_due(self.now(), self.stream_tables.find_held())
        if table is not None:
            self._trial = Unit((str(table.name),))
            job = Job(partial(self._work_on_trial, table, stop), Tier.COLD)
            self._in_flight[self._trial] = pool.submit(job)
            return None
        return self.trials.next_due()

    def _load(self) -> bool:
        """Load the catalog if it changed; tell whether it did."""
        token = self.stream_tables.schedule_token()
        if token == self._token:
            return False
        tables, shape = self.stream_tables.list_stream_tables(), self.stream_tables.shape()
        self._waited = {unit: self._waited[unit] for unit in shape.units if unit in self._waited}
        taken = self._in_flight.keys() | self._waited.keys()
        self.timetable.load(tables, shape, self.now(), taken, self.stream_tables.list_paces())
        self.trials.load(tables, self.now())
        self._token = token
        return True

    def _find_due(self) -> list[Unit]:
        """Return the due units, in order; waiting units were due before."""
        waiting = self._waited.keys()
        due = self.timetable.take_due(self.now(), self._in_flight.keys() | waiting)
        return self.timetable.in_order([*due, *waiting]) if waiting else due

    def _check(self, due: list[Unit], decided: set[Unit] | None) -> _Checked:
        """Find out which due units have something to refresh."""
        done = decided or set()
        held = self.stream_tables.find_held() if due else {}
        asked = {unit: self.timetable.members(unit, held) for unit in due if unit not in done}
        wanted = [one for members in asked.values() for one in members]
        sure = frozenset(self.bell.sure_of([one.id for one in wanted]))  # before the check
        return _Checked(
            asked, [unit for unit in due if unit in done], sure, self._find_idle(wanted)
        )

    def _decide(
        self, pool: Executor, stop: threading.Event, checked: _Checked, decided: set[Unit] | None
    ) -> list[Unit]:
        """Hand over the units that can start, record the idle ones; return the rest."""
        left = checked.done
        for unit, members in checked.asked.items():
            if stop.is_set():
                left.append(unit)
                continue
            if self._must_wait(unit):
                continue
            self._waited.pop(unit, None)
            if decided is not None:
                decided.add(unit)
            if all(table.id in checked.idle for table in members):
                self._note_idle(unit, members, checked.sure)
                left.append(unit)
            else:
                if not self._in_flight:
                    self._moved_at = time.monotonic()
                tiers = [one.tier for one in members]
                first = next((one for one in Tier if one in tiers), Tier.HOT)
                self._in_flight[unit] = pool.submit(Job(partial(self._work, members, stop), first))
        return left

    def _must_wait(self, unit: Unit) -> bool:
        """Tell whether a source of a unit is being refreshed and was not waited for."""
        flying = self.timetable.shape.ancestors[unit] & self._in_flight.keys()
        # After a change of the graph, some members of a unit may still be running.
        flying |= {one for one in self._in_flight if one.shares_members(unit)}
        if flying <= self._waited.get(unit, frozenset()):
            return False
        self._waited.setdefault(unit, set())
        return True

    def _find_idle(self, due: Sequence[StreamTable]) -> frozenset[int]:
        """Find the idle ones among the due stream tables, with one query."""
        # An unreadable schedule is reported by an attempt, with or without changes.
        known = [table for table in due if is_known(table)]
        return self.stream_tables.find_idle(known) if known else frozenset()

    def _work(self, members: Sequence[StreamTable], stop: threading.Event) -> _Outcome:
        """Refresh a unit; runs in a worker."""

        def work() -> list[RefreshReport]:
            for table in members:
                parse_schedule(table.schedule)
            return self.stream_tables.refresh_unit([str(table.name) for table in members])

        return _Outcome(self.now()) if stop.is_set() else self._outcome(work)

    def _work_on_trial(self, table: StreamTable, stop: threading.Event) -> _Outcome:
        """Refresh a suspended stream table; runs in a worker."""
        if stop.is_set():
            return _Outcome(self.now(), trial=table)
        work = partial(self.stream_tables.try_suspended, str(table.name))
        return replace(self._outcome(work), trial=table)

    def _outcome(self, work: Callable[[], list[RefreshReport]]) -> _Outcome:
        began = self.now()
        try:
            reports = work()
            return _Outcome(began, self.now() - began, reports)
        except TrickleError as error:
            return _Outcome(began, self.now() - began, error=error)
        except Exception as error:  # noqa: BLE001 - a bug met by one stream table must not stop the others
            wrapped = InternalError(f"unexpected {type(error).__name__}: {error}")
            wrapped.__cause__ = error
            return _Outcome(began, self.now() - began, error=wrapped)

    def _collect(self) -> None:
        """Record the results of the workers."""
        for unit in [unit for unit, future in self._in_flight.items() if future.done()]:
            future = self._in_flight.pop(unit)
            self._moved_at = time.monotonic()
            for waited in self._waited.values():
                waited.add(unit)
            outcome = None if future.cancelled() else future.result()
            if outcome is not None and outcome.trial is not None:
                self._note_trial(outcome.trial, outcome)
            elif outcome is not None and isinstance(outcome.error, LeaseHeldError):
                # Another process refreshes, verifies or alters it: not a failure, and over soon.
                self.timetable.postpone(unit, self.now() + self.lease_pause())
                continue
            elif outcome is not None:
                self._note(unit, outcome)
            self.timetable.put_back(unit, self.now())

    def _note_trial(self, table: StreamTable, outcome: _Outcome) -> None:
        """Record the outcome of a trial."""
        for report in outcome.reports:
            self.watcher.refreshed(report)
        if outcome.error is None and outcome.reports:
            self.trials.forget(table)
            self.timetable.note_success(table, outcome.began, outcome.took)
            self.watcher.resumed(str(table.name))
        elif outcome.error is not None and not isinstance(outcome.error, LeaseHeldError):
            pause = self.trials.note_failure(table, self.now(), took=outcome.took)
            outcome.error.suspended = str(table.name)
            self.watcher.failed(str(table.name), outcome.error, pause)

    def _note_idle(self, unit: Unit, asked: Sequence[StreamTable], sure: frozenset[int]) -> None:
        everyone = self.timetable.members(unit)
        # No bell rings when time has passed.
        asleep = all(table.id in sure and not table.follows_time for table in everyone)
        for table in everyone:
            if len(asked) == len(everyone):
                self.timetable.note_nothing(table, self.now(), asleep=asleep)
            else:  # some are held back: they are checked again when due, and no bell helps
                self.timetable.note_success(table, self.now(), timedelta())

    def _note(self, unit: Unit, outcome: _Outcome) -> None:
        if outcome.error is None:
            self.admission.note_success()
        else:
            self.admission.note_error(outcome.error)
            now = self.now()
            members = self.timetable.members(unit)
            # A lock may be released soon, and retrying costs little.
            locked = isinstance(outcome.error, ServerBusyError)
            longest = _LONGEST_LOCK_PAUSE if locked else LONGEST_BACKOFF
            if isinstance(outcome.error, RefreshCancelledError):
                # It was cancelled on purpose: it runs again when it is due, and does not count as
                # failed.
                for table in members:
                    self.timetable.note_success(table, now, timedelta())
                self.watcher.failed(", ".join(unit.members), outcome.error, timedelta())
                return
            pauses = [self.timetable.note_failure(table, now, longest) for table in members]
            retry_in = max(pauses, default=timedelta())
            for table in members:
                if str(table.name) == outcome.error.suspended:
                    errors = self.timetable.failures(table)
                    retry_in = self.trials.note_failure(table, now, errors, outcome.took)
            self.watcher.failed(", ".join(unit.members), outcome.error, retry_in)
        if outcome.reports:
            # Including members that were held back: the unit is not due at once because of them.
            for table in self.timetable.members(unit):
                self.timetable.note_success(table, outcome.began, outcome.took)
        for report in outcome.reports:
            self.watcher.refreshed(report)

    def _wait(self, stop: threading.Event, pause: timedelta, rest: float) -> None:
        """Wait until a worker finishes, the bell rings or the next pass is due.

        Next to running refreshes at least the ``rest``, in seconds, whatever is due meanwhile.
        """
        if not self._in_flight:
            self.bell.wait(stop, pause.total_seconds())
            return
        until = self.now() + pause
        stop.wait(rest)
        while not stop.wait(0) and (left := until - self.now()) > timedelta():
            slice_ = min(left, _STOP_NOTICED).total_seconds()
            done, _ = wait(self._in_flight.values(), timeout=slice_, return_when=FIRST_COMPLETED)
            if done or self.bell.rung:
                return
