"""One refresh as values: the request, the preparation, the basis of the new contents.

No step changes them. Each step returns a value of its own, which the next step takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pgtrickle.catalog.dependencies import Dependency, SourceType
from pgtrickle.catalog.refreshes.leases import Lease
from pgtrickle.model.engine import EngineMode
from pgtrickle.model.frontier import Frontier, Position
from pgtrickle.model.stream_table import InitiatedBy, RefreshMode, StreamTable
from pgtrickle.service.compile import Compiled
from pgtrickle.service.observing.trace import Trace
from pgtrickle.service.refreshing.account import Account
from pgtrickle.service.runtime import Runtime
from pgtrickle.sql.translate import Dialect

_CAPTURED = frozenset({SourceType.TABLE, SourceType.STREAM_TABLE})
_POLLED = frozenset({SourceType.MATVIEW, SourceType.FOREIGN_TABLE})


@dataclass(frozen=True, slots=True)
class Lessons:
    """The findings of failed attempts of a refresh."""

    again: bool = False  # there were some: the cached query may no longer fit
    reshaped: tuple[str, ...] = ()  # the changes of the query's objects, in words
    foreign: bool = False  # the frontier does not belong to this server's history
    settled: bool = False  # the catalog has been adapted to a foreign frontier
    crashes_noted: bool = False


@dataclass(frozen=True, slots=True)
class Refresh:
    """One refresh: its stream table, its caller and its lease."""

    runtime: Runtime
    stream_table: StreamTable
    lease: Lease
    initiated_by: InitiatedBy
    account: Account
    requested_full: bool = False
    hold_snapshot: bool = False  # until the caller has compared something under it
    lessons: Lessons = field(default_factory=Lessons)
    # Of the settings when it began: they may change meanwhile, and its stages agree on one.
    default_engine: EngineMode = EngineMode.SPARK

    @classmethod
    def begin(
        cls,
        runtime: Runtime,
        stream_table: StreamTable,
        lease: Lease,
        initiated_by: InitiatedBy,
        *,
        requested_full: bool = False,
        hold_snapshot: bool = False,
    ) -> Refresh:
        """Return a refresh that begins now; the caller holds the lease."""
        return cls(
            runtime,
            stream_table,
            lease,
            initiated_by,
            _open_account(runtime),
            requested_full,
            hold_snapshot,
            default_engine=runtime.engine_mode(None),
        )

    def learned(self, **lessons: Any) -> Refresh:
        """Return the same refresh with more lessons."""
        return replace(self, lessons=replace(self.lessons, **lessons))

    def with_new_account(self) -> Refresh:
        """Return the same refresh as if it began now, with an empty account."""
        return replace(self, account=_open_account(self.runtime))

    def check_cancelled(self) -> None:
        """Raise ST214 if someone has cancelled the refresh."""
        self.runtime.jobs.check(str(self.stream_table.name))


def _open_account(runtime: Runtime) -> Account:
    return Account(runtime.engine, trace=Trace() if runtime.observers else None)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A refresh whose query is compiled and captured for the current sources."""

    refresh: Refresh
    compiled: Compiled
    dependencies: Sequence[Dependency] = ()
    positions: tuple[Position, ...] = ()  # of the sources outside PostgreSQL
    chosen: EngineMode | None = None  # for this refresh, where that is a choice

    @property
    def stream_table(self) -> StreamTable:
        """The stream table to refresh."""
        return self.refresh.stream_table

    @property
    def account(self) -> Account:
        """The account of the refresh."""
        return self.refresh.account

    @property
    def dialect(self) -> Dialect:
        """The dialect of the stages that any engine can compute."""
        return self.refresh.runtime.dialect_of(self.chosen or self.engine_mode)

    @property
    def engine_mode(self) -> EngineMode:
        """The engine of the stream table."""
        if self.immediate:
            return EngineMode.POSTGRES
        own = self.stream_table.engine
        return self.refresh.default_engine if own is None else own

    @property
    def computes_in_postgres(self) -> bool:
        """Whether PostgreSQL computes a stage, as far as that is known."""
        return self.dialect is Dialect.POSTGRES or bool(self.compiled.staged.only_postgres)

    @property
    def reads_and_writes(self) -> bool:
        """Whether one transaction reads and writes.

        So it must if PostgreSQL may compute a stage.  And a function that reads tables, and that is
        evaluated when the result is written, must see them as they were read.
        """
        return (
            self.computes_in_postgres
            or self.engine_mode is EngineMode.AUTO
            or bool(self.compiled.binding.watched)
        )

    @property
    def immediate(self) -> bool:
        """Whether writers maintain the stream table."""
        return self.stream_table.refresh_mode is RefreshMode.IMMEDIATE

    @property
    def captured(self) -> list[Dependency]:
        """The sources that have a change buffer; none where writers follow their changes."""
        if self.immediate:
            return []
        return [one for one in self.dependencies if one.source_type in _CAPTURED]

    @property
    def polled(self) -> list[Dependency]:
        """The sources without one; not views, which are inlined."""
        return [one for one in self.dependencies if one.source_type in _POLLED]

    @property
    def captured_relids(self) -> list[int]:
        """The relids of the sources that have a change buffer."""
        return [one.source_relid for one in self.captured]


@dataclass(frozen=True, slots=True)
class Basis:
    """The frontier and the sources on which new contents rest."""

    frontier: Frontier
    taken_at: datetime  # the frontier
    # A later refresh compares its sources with these: the files that store them, and the checksums
    # of the rows of polled sources.
    plan: Mapping[str, Mapping[str, str]]
    changed_rows: Mapping[str, int] = field(default_factory=dict)  # by source
    sources: tuple[int, ...] = ()  # relids of all sources that were read; empty: none were
    files: Mapping[str, str] = field(default_factory=dict)  # that store them, by the snapshot
    began_at: datetime | None = None  # if not when the frontier was taken
