"""The account of a rehearsal: it keeps the figures of each stage apart.

Looking takes time, too: what it takes is no part of any figure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg import Connection

from pgtrickle.model.insight.rehearsal import SparkStageFigures, StageFigures, StatementFigures
from pgtrickle.model.report import SourceRead
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.refreshing.account import Account
from pgtrickle.service.refreshing.rehearsal.measure_statement import measure

_MEASURED_STEPS = frozenset({"read", "compute", "stage", "merge", "apply"})
_APPLY = "apply"
ListWork = Callable[[], Sequence[SparkStageFigures]]  # of the engine, for this refresh


@dataclass(slots=True)
class _Stage:
    """The figures of a stage, as they come in."""

    name: str
    engine: str = ""
    timings: dict[str, float] = field(default_factory=dict)
    reads: list[SourceRead] = field(default_factory=list)
    statements: list[StatementFigures] = field(default_factory=list)
    pruned: tuple[str, ...] = ()
    rows_out: int = 0
    bytes_out: int = 0
    spark: tuple[SparkStageFigures, ...] = ()

    def figures(self) -> StageFigures:
        """Return the figures; what a statement read of tables counts beside what was fetched."""
        looked = [one.rows for of in self.statements if of.step != "read" for one in of.tables]
        fetched = sum(one.rows for one in self.reads)
        return StageFigures(
            self.name,
            self.engine,
            fetched + (sum(looked) if self.engine == "postgres" else 0),
            self.rows_out,
            sum(one.bytes for one in self.reads),
            self.bytes_out,
            {step: round(ms, 3) for step, ms in self.timings.items()},
            tuple(self.reads),
            self.pruned,
            tuple(self.statements),
            self.spark,
        )


@dataclass(slots=True)
class Gauge(Account):
    """An account by stages, with the plans of PostgreSQL and the work of Spark."""

    list_work: ListWork = tuple
    apply: list[StatementFigures] = field(default_factory=list)
    _stages: dict[str, _Stage] = field(default_factory=dict)
    _stage: _Stage | None = None
    _step: str = ""
    _aside_ms: float = 0.0  # the time that looking took
    _known_work: set[int] = field(default_factory=set)

    @property
    def stages(self) -> tuple[StageFigures, ...]:
        """The figures of the stages that had work, in their order."""
        return tuple(one.figures() for one in self._stages.values())

    @property
    def milliseconds(self) -> float:
        """The time since the refresh began, without the time that looking took."""
        return (time.perf_counter() - self.started) * 1000 - self._aside_ms

    @contextmanager
    def at_stage(self, name: str) -> Iterator[None]:
        """Note what happens in a block for a stage."""
        self._stage = self._stages.setdefault(name, _Stage(name))
        with self._aside():
            self._known_work = {one.stage for one in self.list_work()}
        try:
            yield
        finally:
            with self._aside():
                done = self.list_work()
            stage, self._stage = self._stage, None
            stage.spark = tuple(one for one in done if one.stage not in self._known_work)
            if not stage.engine and not stage.reads:
                del self._stages[name]  # nothing has changed that it reads

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time of a block to a step, of the refresh and of the stage."""
        outer, self._step = self._step, step
        before, aside = self.timings.get(step, 0.0), self._aside_ms
        try:
            with Account.timed(self, step):
                yield
        finally:
            spent = self.timings[step] - before - (self._aside_ms - aside)
            self.timings[step] = round(before + spent, 3)
            if self._stage is not None:
                self._stage.timings[step] = self._stage.timings.get(step, 0.0) + spent
            self._step = outer

    def add_reads(self, reads: Iterable[SourceRead]) -> None:
        """Record reads, of the refresh and of the stage."""
        found = list(reads)
        Account.add_reads(self, found)
        if self._stage is not None:
            self._stage.reads += found

    def note_pruned(self, sources: Sequence[str]) -> None:
        """Record the sources whose changes the stage need not follow: there are none."""
        if self._stage is not None:
            self._stage.pruned = tuple(dict.fromkeys(sources))

    def note_queries(self, queries: Mapping[str, str], connection: Connection[Any]) -> None:
        """Measure queries that another connection sends, under the same snapshot."""
        for sql in queries.values():
            self.measure(connection, sql, None)

    def note_computed(self, engine: str, writer: Connection[Any], rows: str) -> None:
        """Record who computed a stage, and count its result."""
        if self._stage is None:
            return
        with self._aside():
            counted = f"SELECT count(*), COALESCE(sum(pg_column_size(t.*)), 0) FROM {rows} AS t"
            [(number, size)] = writer.execute(trusted(counted)).fetchall()
        self._stage.engine = engine
        self._stage.rows_out, self._stage.bytes_out = int(number), int(size)

    def measure(self, connection: Connection[Any], sql: str, values: Any) -> None:
        """Measure a statement of a step that works on rows."""
        step = self._step
        if step not in _MEASURED_STEPS or (self._stage is None and step != _APPLY):
            return
        with self._aside():
            found = measure(connection, step, sql, values)
        if found is not None:
            (self.apply if self._stage is None else self._stage.statements).append(found)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Keep the time of a block, which only looks, out of all figures."""
        step, self._step = self._step, ""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._aside_ms += (time.perf_counter() - began) * 1000
            self._step = step
