"""Stream tables that exist only in memory, and a clock that moves when told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pgtrickle.errors import TrickleError
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.scheduling.tier import Tier
from pgtrickle.model.stream_table import Action, RefreshMode, Status, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.scheduler.admission import Saturation
from pgtrickle.scheduler.pace import ON_TIME, Cycle, Pace
from pgtrickle.scheduler.units import Shape

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Clock:
    """Time that passes only when someone waits."""

    at: datetime = NOON

    def now(self) -> datetime:
        return self.at


def standing() -> float:
    """Return the time of a stopwatch for which nothing takes long."""
    return 0.0


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
    resumed_names: list[str] = field(default_factory=list)
    sinks: list[SinkNews] = field(default_factory=list)
    behind: list[tuple[str, int]] = field(default_factory=list)

    def refreshed(self, report: RefreshReport) -> None:
        self.refreshed_names.append(report.stream_table)

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        self.failures.append((name, error.code, retry_in.total_seconds()))

    def resumed(self, name: str) -> None:
        self.resumed_names.append(name)

    def sink_changed(self, news: SinkNews) -> None:
        self.sinks.append(news)

    def fell_behind(self, cycle: Cycle) -> None:
        self.behind.append((str(cycle.stream_table.name), cycle.after.stretch))


@dataclass
class ByHand:
    """A bell that a test rings: at those moments, whoever is watched then is woken."""

    clock: Clock
    rings: list[datetime] = field(default_factory=list)
    watched: set[int] = field(default_factory=set)
    answers: set[int] = field(default_factory=set)
    sure: bool = False  # to be heard by whoever is watched

    @property
    def rung(self) -> bool:
        return bool(self.answers)

    def answer(self) -> set[int]:
        answers, self.answers = self.answers, set()
        return answers

    def watch(self, stream_table_ids: Collection[int]) -> None:
        self.watched = set(stream_table_ids)

    def sure_of(self, stream_table_ids: Collection[int]) -> set[int]:
        return self.watched.intersection(stream_table_ids) if self.sure else set()

    def ring(self) -> None:
        """Ring for nobody."""

    def wait(self, stop: threading.Event, seconds: float) -> None:
        end = self.clock.at + timedelta(seconds=seconds)
        while self.rings and self.rings[0] <= end:
            at = max(self.rings.pop(0), self.clock.at)
            if self.watched:
                self.answers, self.watched = self.watched, set()
                end = at
                break
        stop.wait((end - self.clock.at).total_seconds())


@dataclass
class Shop:
    """Stream tables without a database."""

    clock: Clock = field(default_factory=Clock)
    tables: dict[str, StreamTable] = field(default_factory=dict)
    reads: dict[str, list[str]] = field(default_factory=dict)
    groups: list[tuple[str, ...]] = field(default_factory=list)
    slowest: set[str] = field(default_factory=set)
    refreshes: list[tuple[float, str]] = field(default_factory=list)
    trials: list[tuple[int, str]] = field(default_factory=list)
    trouble: dict[str, Exception] = field(default_factory=dict)
    lost: list[TrickleError] = field(default_factory=list)  # raised by the next looks, in turn
    idle: set[str] = field(default_factory=set)  # names with nothing to do
    changes: dict[str, datetime] = field(default_factory=dict)  # when those get something to do
    looked_at: list[list[str]] = field(default_factory=list)  # by find_idle, call by call
    catalog: TrickleError | None = None  # what is wrong with it
    held: set[str] = field(default_factory=set)  # names that are to be left alone
    tended: int = 0  # how often
    version_told: str | None = None  # whatever changes
    delivered: int = 0  # how often the lake was thought of
    follows: bool = False  # tables of the lake
    takes: timedelta = timedelta(milliseconds=100)
    on_refresh: Callable[[], None] = lambda: None
    paces: dict[int, Pace] = field(default_factory=dict)  # on record
    saturations: list[Saturation | None] = field(default_factory=list)

    def list_paces(self) -> dict[int, Pace]:
        return self.paces

    def note_cycles(self, cycles: Sequence[Cycle]) -> None:
        for cycle in cycles:
            self.paces.pop(cycle.stream_table.id, None)
            if cycle.after != ON_TIME:
                self.paces[cycle.stream_table.id] = cycle.after

    def note_saturation(self, saturation: Saturation | None) -> None:
        self.saturations.append(saturation)

    def check_catalog(self) -> None:
        if self.catalog is not None:
            raise self.catalog

    def find_held(self) -> dict[int, str]:
        return {self.tables[name].id: "because" for name in self.held}

    def tend_capture(self) -> None:
        self.tended += 1

    def tend_lake(self) -> bool:
        self.delivered += 1
        return self.follows

    def sink_news(self) -> list[SinkNews]:
        return []

    def add(
        self,
        name: str,
        schedule: str = "1s",
        reads: tuple[str, ...] = (),
        status: Status = Status.ACTIVE,
        last_refresh_at: datetime | None = None,
        tier: Tier = Tier.HOT,
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
            tier=tier,
        )

    def schedule_token(self) -> str:
        if self.lost:
            raise self.lost.pop()
        return self.version_told or repr(
            [(t.id, t.schedule, t.status, t.suspended_by, t.tier) for t in self.tables.values()]
        )

    def list_stream_tables(self) -> list[StreamTable]:
        return list(self.tables.values())

    def shape(self) -> Shape:
        return Shape(self.reads, tuple(self.groups), frozenset(self.slowest))

    def find_idle(self, stream_tables: Sequence[StreamTable]) -> frozenset[int]:
        self.looked_at.append([str(table.name) for table in stream_tables])
        changed = {name for name, at in self.changes.items() if at <= self.clock.at}
        idle = self.idle - changed
        return frozenset(table.id for table in stream_tables if str(table.name) in idle)

    def refresh_unit(self, names: Sequence[str]) -> list[RefreshReport]:
        self.refreshes += [(round((self.clock.at - NOON).total_seconds(), 1), one) for one in names]
        self.clock.at += self.takes
        self.on_refresh()
        for name in names:
            if name in self.trouble:
                raise self.trouble[name]
        for name in names:
            self.tables[name] = replace(self.tables[name], last_refresh_at=self.clock.at)
            self.changes.pop(name, None)
            # What it changed is news to those who read it.
            self.idle -= {reader for reader, reads in self.reads.items() if name in reads}
        return [
            RefreshReport(name, len(self.refreshes), Action.DIFFERENTIAL, "", 1, 0, 100.0)
            for name in names
        ]

    def suspend(self, name: str, by: str | None = None, errors: int = 3) -> None:
        """Leave a stream table alone, by the word of a person or because of errors."""
        self.tables[name] = replace(
            self.tables[name],
            status=Status.SUSPENDED,
            suspended_by=by,
            consecutive_errors=errors if by else 0,
            last_error_at=self.clock.at if by else None,
        )

    def try_suspended(self, name: str) -> list[RefreshReport]:
        self.trials.append((round((self.clock.at - NOON).total_seconds()), name))
        self.clock.at += self.takes
        if name in self.trouble:
            raise self.trouble[name]
        self.tables[name] = replace(
            self.tables[name],
            status=Status.ACTIVE,
            suspended_by=None,
            last_refresh_at=self.clock.at,
        )
        return [RefreshReport(name, 0, Action.DIFFERENTIAL, "", 1, 0, 100.0)]


class SameThread(Executor):
    """Workers that work at once, in the thread of whoever asks."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future
