"""Stream tables that exist only in memory, and a clock that moves when told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from pgtrickle.errors import TrickleError
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, InitiatedBy, RefreshMode, Status, StreamTable

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Clock:
    """Time that passes only when someone waits."""

    at: datetime = NOON

    def now(self) -> datetime:
        return self.at


class Stop(threading.Event):
    """A stop that is never waited for: the clock moves instead, and stops the loop at ``until``."""

    def __init__(self, clock: Clock, until: timedelta) -> None:
        super().__init__()
        self._clock = clock
        self._until = NOON + until

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.at += timedelta(seconds=timeout or 0)
        if self._clock.at >= self._until:
            self.set()
        return self.is_set()


@dataclass
class Watched:
    """Remembers what the loop told it."""

    refreshed_names: list[str] = field(default_factory=list)
    failures: list[tuple[str | None, str, float]] = field(default_factory=list)

    def refreshed(self, report: RefreshReport) -> None:
        self.refreshed_names.append(report.stream_table)

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        self.failures.append((name, error.code, retry_in.total_seconds()))


@dataclass
class Shop:
    """Stream tables without a database."""

    clock: Clock = field(default_factory=Clock)
    tables: dict[str, StreamTable] = field(default_factory=dict)
    reads: dict[str, list[str]] = field(default_factory=dict)
    refreshes: list[tuple[float, str]] = field(default_factory=list)
    trouble: dict[str, Exception] = field(default_factory=dict)
    lost: list[TrickleError] = field(default_factory=list)  # raised by the next lists, in turn
    idle: set[str] = field(default_factory=set)  # names with nothing to do
    looked_at: list[list[str]] = field(default_factory=list)  # by find_idle, call by call
    tended: int = 0  # how often
    delivered: int = 0  # how often the lake was thought of
    takes: timedelta = timedelta(milliseconds=100)
    on_refresh: Callable[[], None] = lambda: None

    def tend_capture(self) -> None:
        self.tended += 1

    def tend_lake(self) -> None:
        self.delivered += 1

    def add(
        self,
        name: str,
        schedule: str = "1s",
        reads: tuple[str, ...] = (),
        status: Status = Status.ACTIVE,
        last_refresh_at: datetime | None = None,
    ) -> None:
        self.reads[f"public.{name}"] = [f"public.{one}" for one in reads]
        self.tables[f"public.{name}"] = StreamTable(
            id=len(self.tables) + 1,
            relid=0,
            name=QualifiedName("public", name),
            defining_query="",
            original_query="",
            schedule=schedule,
            refresh_mode=RefreshMode.AUTO,
            effective_refresh_mode=RefreshMode.DIFFERENTIAL,
            downgrade_reason=None,
            status=status,
            populated=True,
            needs_reinit=False,
            frontier=None,
            data_timestamp=None,
            last_refresh_at=last_refresh_at,
            consecutive_errors=0,
            last_error_message=None,
            owner="ann",
        )

    def list_stream_tables(self) -> list[StreamTable]:
        if self.lost:
            raise self.lost.pop()
        return list(self.tables.values())

    def dependencies(self) -> dict[str, list[str]]:
        return self.reads

    def find_idle(self, stream_tables: Sequence[StreamTable]) -> frozenset[int]:
        self.looked_at.append([str(table.name) for table in stream_tables])
        return frozenset(table.id for table in stream_tables if str(table.name) in self.idle)

    def refresh_stream_table(self, name: str, *, initiated_by: InitiatedBy) -> RefreshReport:
        self.refreshes.append((round((self.clock.at - NOON).total_seconds(), 1), name))
        self.clock.at += self.takes
        self.on_refresh()
        if name in self.trouble:
            raise self.trouble[name]
        self.tables[name] = replace(self.tables[name], last_refresh_at=self.clock.at)
        return RefreshReport(name, len(self.refreshes), Action.DIFFERENTIAL, "", 1, 0, 100.0)
