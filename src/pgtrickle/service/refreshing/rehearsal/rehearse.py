"""Rehearse the next refresh of a stream table: run its reads and stages, and roll back.

It takes the lease, so that no refresh runs beside it, and writes only what is undone: no contents,
state, frontier or history, nothing for sinks and listeners.  A refresh that would first have to
capture a source anew, or to follow a lake, does so with commits of its own; that is not rehearsed,
and the answer says so.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.binding.untrusted_types import check_types
from pgtrickle.catalog.circles import list_members
from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.model.insight.rehearsal import Rehearsal
from pgtrickle.model.stream_table import Action, InitiatedBy, RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.plan.decide import decide
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.refreshing.contents import Written
from pgtrickle.service.refreshing.execute import Work
from pgtrickle.service.refreshing.findings import look, look_at_ground
from pgtrickle.service.refreshing.prepare import find_missing_sources, find_missing_state
from pgtrickle.service.refreshing.refresh import Prepared, Refresh
from pgtrickle.service.refreshing.rehearsal.gauge import Gauge
from pgtrickle.service.refreshing.rehearsal.measure_statement import measured
from pgtrickle.service.refreshing.run import (
    open_refresh_moment,
    somehow,
    with_engine,
    write_contents,
)
from pgtrickle.service.refreshing.snapshot import open_writer
from pgtrickle.service.refreshing.stages.staging import Staging
from pgtrickle.service.refreshing.start_again import StartAgainError
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sources.entry import list_positions

_CAPTURED_ANEW = (
    "its sources changed their form, or its frontier belongs to another server: the refresh"
    " captures them anew"
)


class _NotRehearsedError(Exception):
    """The next refresh commits something before it reads."""

    def __init__(self, action: Action, reason: str) -> None:
        super().__init__(reason)
        self.action, self.reason = action, reason


def rehearse_refresh(runtime: Runtime, name: QualifiedName) -> Rehearsal:
    """Run the reads and stages of the next refresh, measure them, and roll back."""
    began = datetime.now(UTC)
    with claimed(runtime, name, InitiatedBy.MANUAL, trial=True) as (stream_table, lease):
        job = str(stream_table.name)
        gauge = Gauge(runtime.engine, list_work=partial(runtime.engine.list_work, job))
        begun = Refresh.begin(runtime, stream_table, lease, InitiatedBy.MANUAL)
        # A crash that was not noted yet is a gap already; noting it would be a commit.
        refresh = replace(begun, account=gauge).learned(crashes_noted=True)
        try:
            return _rehearse(refresh, gauge, began)
        except _NotRehearsedError as found:
            action, reason = found.action, found.reason
        except StartAgainError:
            action, reason = Action.REINITIALIZE, _CAPTURED_ANEW
        return Rehearsal(job, began, action.value, reason, ran=False)


def _rehearse(refresh: Refresh, gauge: Gauge, began: datetime) -> Rehearsal:
    runtime, job = refresh.runtime, str(refresh.stream_table.name)
    prepared = _prepare(refresh)
    sources = prepared.captured_relids
    with open_refresh_moment(prepared, sources, kept=False) as (snapshot, buffers):
        findings = look(prepared, snapshot, buffers)
        with gauge.timed("decide"):
            prepared, decision = with_engine(prepared, decide(findings.facts))
            gauge.note_decision(decision)
        written = None
        if decision.action is not Action.NO_DATA:
            work = Work(prepared, findings, decision, snapshot, buffers)
            # The transaction that reads and writes has locked the lease.
            kept = nullcontext() if snapshot.writes else keep_lease(runtime, refresh.lease)
            with kept, runtime.jobs.named(job):
                written = somehow(work, partial(_carry_out, gauge))
    decided = gauge.decision or decision
    costs = gauge.record_costs(prepared.stream_table, decided)
    return Rehearsal(
        job,
        began,
        decided.action.value,
        decided.reason,
        ran=True,
        changed_rows=findings.basis.changed_rows,
        stages=gauge.stages,
        rows_inserted=written.applied.inserted if written else 0,
        rows_deleted=written.applied.deleted if written else 0,
        apply=tuple(gauge.apply),
        timings_ms=gauge.timings,
        predicted_ms=costs.predicted_ms,
        total_ms=round(gauge.milliseconds, 3),
    )


def _prepare(refresh: Refresh) -> Prepared:
    """Compile the query if need be; raise what would have to be committed before the reads."""
    runtime, stream_table = refresh.runtime, refresh.stream_table
    with refresh.account.timed("prepare"), runtime.connection() as connection:
        _check_way(connection, stream_table)
        dependencies = list_dependencies(connection, stream_table.id)
        ground = look_at_ground(connection, stream_table, dependencies)
        if ground.reshaped or ground.rivals:
            changes = "; ".join(ground.reshaped) or "its names may mean other objects"
            raise _NotRehearsedError(
                Action.REINITIALIZE, f"{changes}: the refresh captures the sources anew"
            )
        compiled = runtime.remembered.use_compiled(stream_table)
        if compiled is None:
            bounds = Bounds.of(runtime.settings)
            compiled = compile_stream_table(connection, stream_table, bounds)
        check_types(connection, compiled.binding.types)
        missing = find_missing_state(connection, refresh, compiled, new=True)
        if missing := missing or find_missing_sources(compiled, dependencies):
            raise _NotRehearsedError(Action.REINITIALIZE, f"{missing}: the refresh sees to that")
        positions = list_positions(connection, [one.source_relid for one in dependencies])
    return Prepared(refresh, compiled, dependencies, positions)


def _check_way(connection: Connection, stream_table: StreamTable) -> None:
    """Raise unless the stream table is refreshed in stages."""
    if stream_table.refresh_mode is RefreshMode.IMMEDIATE:
        raise _NotRehearsedError(
            Action.SKIPPED, "writers maintain it in their own transactions; no refresh is due"
        )
    if list_members(connection, stream_table.name):
        raise _NotRehearsedError(
            Action.FULL, "it is in a circle, whose fixpoint PostgreSQL computes in rounds"
        )


def _carry_out(gauge: Gauge, work: Work) -> Written:
    """Execute the stages and write the contents, in a transaction that is rolled back."""
    runtime = work.prepared.refresh.runtime
    staging = Staging(runtime, work.prepared.stream_table)
    with (
        staging.cleaned_up(),
        open_writer(runtime, work.snapshot, kept=False) as writer,
        measured(writer, gauge.measure),
    ):
        return write_contents(work, writer, staging)
