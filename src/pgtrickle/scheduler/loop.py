"""The loop that keeps stream tables fresh: refresh what is due, wait, repeat.

One process, one refresh at a time, no state of its own beyond the last attempts: what it forgets
when it ends, the catalog knows.  Two loops on one database do no harm, because a refresh holds
its stream table's lease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from pgtrickle.errors import InternalError, Retry, SettingError, TrickleError
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.schedule import Schedule, parse_schedule
from pgtrickle.model.stream_table import Action, InitiatedBy, Status, StreamTable
from pgtrickle.scheduler.due import LONGEST_BACKOFF, Attempt, backoff, due_at
from pgtrickle.scheduler.order import in_dependency_order

_TICK = timedelta(seconds=1)  # how soon a new or altered stream table is noticed


class StreamTables(Protocol):
    """What the loop needs to know and to do."""

    def list_stream_tables(self) -> list[StreamTable]:
        """Return every stream table."""
        ...

    def dependencies(self) -> dict[str, list[str]]:
        """Return, for each stream table, the stream tables it reads."""
        ...

    def find_idle(self, stream_tables: Sequence[StreamTable]) -> frozenset[int]:
        """Return the ids of those with nothing to do, and note that they are current."""
        ...

    def tend_capture(self) -> None:
        """Keep the capture of changes going, however little is due."""
        ...

    def tend_lake(self) -> None:
        """Try again what could not be delivered to the lake, and keep it tidy."""
        ...

    def refresh_stream_table(self, name: str, *, initiated_by: InitiatedBy) -> RefreshReport:
        """Bring one stream table up to date."""
        ...


class Watcher(Protocol):
    """Whoever wants to know what the loop did."""

    def refreshed(self, report: RefreshReport) -> None:
        """Take note of a refresh."""
        ...

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        """Take note of a failure: of one stream table, or of looking for them."""
        ...


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Loop:
    """Refreshes stream tables when they are due, until told to stop."""

    stream_tables: StreamTables
    watcher: Watcher
    now: Callable[[], datetime] = _utc_now
    _attempts: dict[int, Attempt] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Make one pass after another; ``stop`` ends the loop after the refresh in progress."""
        failures = 0
        while not stop.is_set():
            try:
                next_due = self.run_once(stop)
                failures = 0
            except TrickleError as error:
                if error.retry is not Retry.BACKOFF:
                    raise
                failures += 1
                pause = backoff(failures)
                self.watcher.failed(None, error, pause)
            else:
                pause = min(_TICK, next_due - self.now()) if next_due is not None else _TICK
            stop.wait(max(pause.total_seconds(), 0))

    def run_once(self, stop: threading.Event) -> datetime | None:
        """Bring every stream table up to date that is due, in dependency order.

        One query tells for all of them which have nothing to do; only the others are refreshed.
        Returns when the next one will be due, None if there is none.
        """
        self.stream_tables.tend_capture()
        self.stream_tables.tend_lake()
        tables = {
            str(table.name): table
            for table in self.stream_tables.list_stream_tables()
            if table.status is not Status.SUSPENDED
        }
        self._forget_all_but({table.id for table in tables.values()})
        due = {name: table for name, table in tables.items() if self._due(table)}
        busy = self._pass_over_idle(due)
        if busy:
            self._refresh_in_order(tables, due, busy, stop)
        return min(map(self._due_at, tables.values()), default=None)

    def _pass_over_idle(self, due: Mapping[str, StreamTable]) -> set[str]:
        """Take note of the stream tables with nothing to do; return the names of the others."""
        # A schedule that cannot be read is complained about by an attempt, changes or not.
        known = [table for table in due.values() if _has_known_schedule(table)]
        began = self.now()
        idle = self.stream_tables.find_idle(known) if known else frozenset[int]()
        self._attempts |= {number: Attempt(began) for number in idle}
        return {name for name, table in due.items() if table.id not in idle}

    def _refresh_in_order(
        self,
        tables: Mapping[str, StreamTable],
        due: Mapping[str, StreamTable],
        busy: set[str],
        stop: threading.Event,
    ) -> None:
        """Refresh ``busy``, and what follows from it.

        A stream table that had nothing to do, or was not due yet, follows when one that it reads
        has been refreshed in this pass, so that a change needs one pass for a whole chain.
        """
        dependencies = self.stream_tables.dependencies()
        refreshed: set[str] = set()
        for name in in_dependency_order(tables, dependencies):
            if stop.is_set():
                break
            follows = not refreshed.isdisjoint(dependencies.get(name, ()))
            wanted = name in due or self._due(tables[name])
            if (name in busy or (follows and wanted)) and self._refresh(name, tables[name]):
                refreshed.add(name)

    def _due(self, table: StreamTable) -> bool:
        return self._due_at(table) <= self.now()

    def _due_at(self, table: StreamTable) -> datetime:
        attempt, last = self._attempts.get(table.id), table.last_refresh_at
        # What lies in the future happened before the clock was set back: nobody waits for it.
        now = self.now()
        if attempt is not None and attempt.at > now:
            attempt = None
        if last is not None and last > now:
            last = None
        return due_at(_schedule_of(table), last, attempt)

    def _refresh(self, name: str, table: StreamTable) -> bool:
        """Refresh one stream table; tell whether that may have changed it."""
        began = self.now()
        try:
            parse_schedule(table.schedule)
            report = self.stream_tables.refresh_stream_table(
                name, initiated_by=InitiatedBy.SCHEDULER
            )
        except TrickleError as error:
            self._note_failure(name, table, error)
        except Exception as error:  # noqa: BLE001 - a bug met by one stream table must not stop the others
            wrapped = InternalError(f"unexpected {type(error).__name__}: {error}")
            wrapped.__cause__ = error
            self._note_failure(name, table, wrapped)
        else:
            self._attempts[table.id] = Attempt(began)
            self.watcher.refreshed(report)
            return report.action is not Action.NO_DATA
        return False

    def _note_failure(self, name: str, table: StreamTable, error: TrickleError) -> None:
        before = self._attempts.get(table.id)
        # From the end of the attempt: one that took minutes to fail is not repeated at once.
        attempt = Attempt(self.now(), before.failures + 1 if before else 1)
        self._attempts[table.id] = attempt
        self.watcher.failed(name, error, self._due_at(table) - attempt.at)

    def _forget_all_but(self, ids: set[int]) -> None:
        self._attempts = {key: self._attempts[key] for key in self._attempts.keys() & ids}


def _has_known_schedule(table: StreamTable) -> bool:
    try:
        parse_schedule(table.schedule)
    except SettingError:
        return False
    return True


def _schedule_of(table: StreamTable) -> Schedule:
    try:
        return parse_schedule(table.schedule)
    except SettingError:
        # A newer version may have written it: complain at each attempt, keep the others fresh.
        return Schedule(table.schedule, LONGEST_BACKOFF)
