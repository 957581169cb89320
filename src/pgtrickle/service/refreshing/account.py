"""The account of one refresh, for its report and its history row, also if it fails."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg import Connection

from pgtrickle.model.report import CostRecord, SourceRead
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.plan.decide import Decision
from pgtrickle.ports import Engine
from pgtrickle.service.observing.trace import Trace
from pgtrickle.service.refreshing.costing.record import record_costs


@dataclass(slots=True)
class Account:
    """Times, reads and the last decision of one refresh, recorded as it runs."""

    engine: Engine
    started: float = field(default_factory=time.perf_counter)
    timings: dict[str, float] = field(default_factory=dict)  # milliseconds, by step
    reads: list[SourceRead] = field(default_factory=list)
    decision: Decision | None = None
    trace: Trace | None = None  # if somebody outside is told of the refresh
    _cold_runs: int = field(init=False)  # of the engine, when the refresh began

    def __post_init__(self) -> None:
        self._cold_runs = self.engine.cold_runs

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time of a block to a step."""
        began = time.perf_counter()
        clock = 0 if self.trace is None else time.time_ns()
        try:
            yield
        finally:
            if self.trace is not None:
                self.trace.add(step, clock)
            spent = (time.perf_counter() - began) * 1000
            self.timings[step] = round(self.timings.get(step, 0.0) + spent, 3)

    def add_reads(self, reads: Iterable[SourceRead]) -> None:
        """Record reads."""
        self.reads += reads

    @contextmanager
    def at_stage(self, name: str) -> Iterator[None]:  # noqa: ARG002 - of the gauge of a rehearsal
        """Mark a block as the work on one stage."""
        yield

    def note_pruned(self, sources: Sequence[str]) -> None:
        """Take note of the sources whose arms of a stage are left out: a rehearsal tells them."""

    def note_queries(self, queries: Mapping[str, str], connection: Connection[Any]) -> None:
        """Take note of the queries that other connections send: a rehearsal measures them."""

    def note_computed(self, engine: str, writer: Connection[Any], rows: str) -> None:
        """Take note of the result of a stage: a rehearsal counts it."""

    def note_decision(self, decision: Decision) -> Decision:
        """Record a decision, and return it."""
        self.decision = decision
        return decision

    @property
    def trace_id(self) -> str | None:
        """The id of the trace, if there is one."""
        return None if self.trace is None else self.trace.id

    @property
    def milliseconds(self) -> float:
        """The time since the refresh began."""
        return (time.perf_counter() - self.started) * 1000

    def record_costs(self, stream_table: StreamTable, decision: Decision | None) -> CostRecord:
        """Return the predicted and the actual costs, without the time of preparing."""
        spent = self.milliseconds - self.timings.get("prepare", 0.0)
        cold = self.engine.cold_runs > self._cold_runs
        return record_costs(stream_table, decision, spent, cold=cold)
