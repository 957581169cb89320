"""One refresh: the path of a change from the window to the maintained row.

The functions here call the steps in order: prepare, open the snapshot, look, decide,
execute, write the contents, commit, trim.  Two transactions take part.  The *reader* holds the
snapshot that becomes the new frontier and writes nothing; the *writer* holds everything that
becomes visible, and commits once. A crash before that commit leaves only a lease that expires.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TypeVar

from psycopg import Connection

from pgtrickle.catalog.stream_tables import update_needs_reinit
from pgtrickle.errors import DataError, ServerBusyError, ValueOutOfRangeError
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, InitiatedBy, RefreshMode
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.plan.decide import Decision, decide
from pgtrickle.service.capturing.sources import renew_captures
from pgtrickle.service.capturing.trim import trim_sources
from pgtrickle.service.claim import claimed
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.refreshing.commit import (
    Committed,
    Outcome,
    commit,
    commit_nothing,
    deliver_rest,
    tell_ended,
)
from pgtrickle.service.refreshing.contents import (
    NOTHING_WRITTEN,
    Written,
    follow_change,
    replace_contents,
)
from pgtrickle.service.refreshing.execute import Work, execute
from pgtrickle.service.refreshing.failures import recorded
from pgtrickle.service.refreshing.findings import look
from pgtrickle.service.refreshing.fuse_check import check_fuse
from pgtrickle.service.refreshing.groups.shared_transaction import open_writing_moment
from pgtrickle.service.refreshing.prepare import prepare
from pgtrickle.service.refreshing.refresh import Prepared, Refresh
from pgtrickle.service.refreshing.snapshot import BufferView, Snapshot, open_moment, open_writer
from pgtrickle.service.refreshing.stages.staging import Staging
from pgtrickle.service.refreshing.start_again import check_meaning, excused, until_it_counts
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.sql.translate import Dialect

_STRICT = (RefreshMode.DIFFERENTIAL, RefreshMode.IMMEDIATE)
T = TypeVar("T")
AfterRefresh = Callable[[Snapshot, Sequence[Committed]], None]


def refresh_alone(
    runtime: Runtime,
    name: QualifiedName,
    *,
    full: bool = False,
    initiated_by: InitiatedBy = InitiatedBy.MANUAL,
    trial: bool = False,
) -> RefreshReport:
    """Bring one stream table up to date with its sources.

    A ``trial`` may refresh a suspended one; success resumes it.
    """
    with claimed(runtime, name, initiated_by, trial=trial) as (stream_table, lease):
        refresh = Refresh.begin(runtime, stream_table, lease, initiated_by, requested_full=full)
        with recorded(refresh):
            return run_refresh(refresh)


def run_refresh(
    refresh: Refresh, after: AfterRefresh | None = None, *, deliver: bool = True
) -> RefreshReport:
    """Run the refresh; the caller holds the lease.

    ``after`` is called when the result is committed and, with ``hold_snapshot``, while its snapshot
    can still be read.  Without ``deliver`` it also makes the delivery that the refresh has left.
    """
    if refresh.stream_table.circle is not None:
        raise ServerBusyError(
            f'"{refresh.stream_table.name}" has become a member of a circle meanwhile',
            hint="Refresh it again: all of them are refreshed together.",
        )
    runtime, account = refresh.runtime, refresh.account

    def attempt(unfit: Refresh | None) -> Committed:
        prepared = prepare(unfit or refresh)
        sources = prepared.captured_relids
        with account.timed("prepare"):
            renew_captures(runtime, sources)
        with open_refresh_moment(prepared, sources) as (snapshot, buffers):
            committed = refresh_to(prepared, snapshot, buffers)
            if after is not None:
                after(snapshot, [committed])
        return committed

    committed = until_it_counts(attempt, _altered_again)
    if committed.report.action is not Action.NO_DATA:
        with account.timed("trim"):
            sources = committed.prepared.captured_relids
            trim_sources(runtime, sources, token=refresh.lease.token)
    if deliver:
        deliver_rest(committed)
    tell_ended(committed)
    return committed.report


def open_refresh_moment(
    prepared: Prepared, sources: Collection[int], *, kept: bool = True
) -> AbstractContextManager[tuple[Snapshot, BufferView]]:
    """Open the snapshot: of a reader, or of the writer itself where PostgreSQL computes.

    What is not ``kept`` is rolled back.
    """
    refresh = prepared.refresh
    if prepared.immediate:
        from pgtrickle.service.immediate.moment import open_immediate_moment  # noqa: PLC0415

        return open_immediate_moment(prepared)
    if prepared.reads_and_writes:
        return open_writing_moment(refresh, sources, kept=kept)
    return open_moment(refresh.runtime, sources, refresh.account)


def refresh_to(
    prepared: Prepared,
    snapshot: Snapshot,
    buffers: BufferView,
    changed_before: frozenset[int] = frozenset(),
) -> Committed:
    """Refresh to a snapshot; start again if it sees other sources than the captured ones.

    Likewise if a source or buffer was truncated or rewritten between the snapshot and a read.
    ``changed_before`` are the stream tables that were changed in the same transaction.
    """
    refresh, account = prepared.refresh, prepared.account
    findings = look(prepared, snapshot, buffers)
    with account.timed("decide"):
        prepared, decision = with_engine(prepared, decide(findings.facts))
        account.note_decision(decision)
    check_fuse(refresh, snapshot, findings.basis.changed_rows)
    with excused(snapshot, [(prepared, findings.basis)]):
        if decision.action is Action.NO_DATA:
            return commit_nothing(prepared, decision, findings.basis, snapshot)
        # The transaction of a group has locked the lease: nobody else can take it.
        kept = nullcontext() if snapshot.writes else keep_lease(refresh.runtime, refresh.lease)
        work = Work(prepared, findings, decision, snapshot, buffers, changed_before)
        with kept, refresh.runtime.jobs.named(str(prepared.stream_table.name)):
            return somehow(work, _carry_out)


def with_engine(prepared: Prepared, decision: Decision) -> tuple[Prepared, Decision]:
    """Choose the engine where that is open, and add to the reason who computes and why."""
    if decision.action is Action.NO_DATA:
        return prepared, decision
    forecast, compared = decision.forecast, ""
    if forecast is not None:
        forecast = forecast.by_quickest(decision.action)
        compared = forecast.compared(decision.action)
        prepared = replace(prepared, chosen=forecast.engine)
    told = [decision.reason]
    if prepared.dialect is Dialect.POSTGRES:
        told.append("computed by PostgreSQL")
    else:
        stages = prepared.compiled.staged.only_postgres.items()
        told += [f"{name} computed by PostgreSQL: {why}" for name, why in stages]
        told += ["computed by Spark"] if compared else []
    reason = ", ".join(filter(None, ["; ".join(told), compared]))
    return prepared, replace(decision, reason=reason, forecast=forecast)


def somehow(work: Work, carry_out: Callable[[Work], T]) -> T:
    """Carry out the decision; if the engine cannot, let PostgreSQL answer alone."""
    prepared, compiled = work.prepared, work.prepared.compiled
    try:
        return carry_out(work)
    except (ValueOutOfRangeError, DataError) as error:
        # PostgreSQL can hold values that the engine cannot; it may answer alone, unless the user
        # requires the delta. If the data is the cause, it fails in the same way.
        strict = prepared.stream_table.refresh_mode in _STRICT
        if strict or work.snapshot.released or compiled.opaque:
            raise
        decision = Decision(Action.FULL, f"answered by PostgreSQL alone: {error}")
    opaque = replace(prepared, compiled=compiled.as_opaque())
    return carry_out(
        replace(work, prepared=opaque, decision=prepared.account.note_decision(decision))
    )


def _carry_out(work: Work) -> Committed:
    """Execute the stages, write the contents and commit both."""
    prepared, snapshot, basis = work.prepared, work.snapshot, work.findings.basis
    refresh, account, together = prepared.refresh, prepared.account, snapshot.writes
    staging = Staging(refresh.runtime, prepared.stream_table)
    with staging.cleaned_up(), open_writer(refresh.runtime, snapshot) as writer:
        written = write_contents(work, writer, staging)
        refresh.check_cancelled()
        with account.timed("commit"):
            outcome = Outcome(prepared, work.decision, basis, written)
            committed = commit(writer, outcome, together=together)
            if prepared.compiled.opaque and prepared.compiled.refusal is None:
                # The state tables were not updated: the next refresh rebuilds them.
                update_needs_reinit(writer, prepared.stream_table.id, needs_reinit=True)
    return committed


def write_contents(work: Work, writer: Connection, staging: Staging) -> Written:
    """Execute the stages, and write the contents that follow from them."""
    prepared, snapshot = work.prepared, work.snapshot
    refresh, account = prepared.refresh, prepared.account
    rows = execute(work, writer, staging)
    work.buffers.release()
    if not refresh.hold_snapshot:
        snapshot.release()
    refresh.check_cancelled()
    with account.timed("apply"), translated_errors():
        # The outermost select list is computed next.
        check_meaning(writer, prepared, work.findings.basis, together=snapshot.writes)
        write = replace_contents if work.full else follow_change
        return NOTHING_WRITTEN if rows is None else write(writer, prepared, rows)


def _altered_again(refresh: Refresh) -> ServerBusyError:
    return ServerBusyError(
        f'the sources of "{refresh.stream_table.name}" are being altered again and again',
        hint="Refresh again when that is done.",
    )
