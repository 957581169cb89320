"""Commit a refresh: contents, state, frontier, history, notification and sink, all at once."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection

from pgtrickle.catalog.capture.snapshot_gaps import note_reinitialized
from pgtrickle.catalog.insight.self_monitoring import is_part
from pgtrickle.catalog.lake.followed import note_copied
from pgtrickle.catalog.refreshes.history import RefreshRecord, RefreshStatus, insert_refresh
from pgtrickle.catalog.refreshes.leases import check_lease
from pgtrickle.catalog.scheduling.subscriptions import tell_subscribers
from pgtrickle.catalog.stream_tables import update_frontier, update_plan
from pgtrickle.catalog.successors import is_successor
from pgtrickle.errors import StreamTableNotFoundError
from pgtrickle.immediate.install import mark_ready
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, InitiatedBy
from pgtrickle.plan.decide import Decision
from pgtrickle.service.observing.observer import Ended, tell
from pgtrickle.service.refreshing.contents import NOTHING_WRITTEN, Written
from pgtrickle.service.refreshing.refresh import Basis, Prepared
from pgtrickle.service.refreshing.snapshot import Snapshot, open_writer
from pgtrickle.service.refreshing.start_again import check_files, check_meaning
from pgtrickle.service.sinks.entry import find_copy
from pgtrickle.service.sinks.kind import Delivery, Left

logger = logging.getLogger(__name__)

_CHANNEL = "pg_trickle_refresh"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a refresh, before its commit."""

    prepared: Prepared
    decision: Decision
    basis: Basis
    written: Written
    restored: bool = False  # the contents are those of a snapshot, and can be continued


@dataclass(frozen=True, slots=True)
class Committed:
    """A finished refresh, perhaps with a delivery still to be made."""

    prepared: Prepared
    report: RefreshReport
    left: Left | None  # to a sink, after the commit
    time: datetime | None = None  # the current time for which the contents hold


def commit(writer: Connection, outcome: Outcome, *, together: bool = False) -> Committed:
    """Write everything that becomes visible with the writer's commit; ``together``: of a group.

    Starts again if the rows that were read are no longer valid.
    """
    prepared, basis = outcome.prepared, outcome.basis
    stream_table = prepared.stream_table
    check_files(writer, prepared, basis, together=together)
    check_meaning(writer, prepared, basis, together=together)
    check_lease(writer, stream_table.id, prepared.refresh.lease.token)
    update_frontier(
        writer,
        stream_table.id,
        basis.frontier,
        previous=stream_table.frontier,
        data_timestamp=basis.taken_at,
        changed=bool(basis.changed_rows),
    )
    if outcome.decision.action in {Action.FULL, Action.REINITIALIZE}:
        update_plan(writer, stream_table.id, dict(basis.plan))
    if outcome.decision.action is Action.REINITIALIZE and not outcome.restored:
        note_reinitialized(writer, stream_table.id, outcome.decision.reason)
    if prepared.immediate:
        mark_ready(writer, stream_table.id)
    refresh_id = _record(writer, outcome)
    if stream_table.has_outbox:
        _append(writer, outcome, refresh_id)
    # Nobody is notified of a successor: its contents are not visible yet.
    if refresh_id is not None and outcome.written.changed and not is_successor(stream_table.name):
        _tell(writer, outcome, refresh_id)
    left = _deliver(writer, outcome, refresh_id)
    time = basis.frontier.time
    report = _report(outcome, refresh_id)
    return Committed(prepared, report, left, None if time is None else time.at)


_IS_THERE = "SELECT FROM pg_catalog.pg_class WHERE oid = %(relid)s"


def commit_nothing(
    prepared: Prepared, decision: Decision, basis: Basis, snapshot: Snapshot
) -> Committed:
    """Move the frontier of a stream table whose rows do not change."""
    runtime, outcome = prepared.refresh.runtime, Outcome(prepared, decision, basis, NOTHING_WRITTEN)
    with prepared.account.timed("commit"), open_writer(runtime, snapshot) as writer:
        if not snapshot.writes:
            # If a crash undoes this, the next refresh only reads the same window again.
            writer.execute("SET LOCAL synchronous_commit = off")
        stream_table = prepared.stream_table
        if writer.execute(_IS_THERE, {"relid": stream_table.relid}).fetchone() is None:
            # Nothing would have been written, so nothing has missed it yet.
            raise StreamTableNotFoundError(f'the stream table "{stream_table.name}" is gone')
        return commit(writer, outcome, together=snapshot.writes)


def deliver_rest(committed: Committed) -> None:
    """Make the delivery that a refresh has left; it is committed and still holds the lease."""
    if committed.left is not None:
        refresh = committed.prepared.refresh
        with refresh.account.timed("lake"):
            committed.left(refresh.lease)


def tell_ended(committed: Committed) -> None:
    """Tell those who observe refreshes of one that is committed."""
    refresh = committed.prepared.refresh
    if (trace := refresh.account.trace) is not None:
        prepared, report = committed.prepared, committed.report
        tell(refresh.runtime, Ended(refresh, trace, time.time_ns(), prepared, report))


def _record(writer: Connection, outcome: Outcome) -> int | None:
    """Write the history row; None if the scheduler found no change, or only passed time.

    That would be one row every few seconds, for as long as the history is kept.
    """
    prepared, decision, basis = outcome.prepared, outcome.decision, outcome.basis
    by, applied = prepared.refresh.initiated_by, outcome.written.applied
    if by is InitiatedBy.SCHEDULER and not outcome.written.changed:
        nothing = decision.only_time or decision.action is Action.NO_DATA
        # A row of self-monitoring would be a change for it to follow, without an end.
        if nothing or is_part(writer, prepared.stream_table.id):
            return None
    record = RefreshRecord(
        initiated_by=by,
        status=RefreshStatus.COMPLETED,
        action=decision.action,
        reason=decision.reason,
        start_time=basis.began_at or basis.taken_at,
        data_timestamp=basis.taken_at,
        rows_inserted=applied.inserted,
        rows_deleted=applied.deleted,
        changed_rows=sum(basis.changed_rows.values()),
        reads=prepared.account.reads,
        timings_ms=prepared.account.timings,
        costs=prepared.account.record_costs(prepared.stream_table, decision),
        trace_id=prepared.account.trace_id,
    )
    return insert_refresh(writer, prepared.stream_table.id, record)


_NOTIFY = """
    SELECT pgtrickle.notify(%(channel)s, pg_catalog.json_build_object(
               'name', %(name)s::text, 'refresh_id', %(id)s::bigint, 'action', %(action)s::text,
               'inserted_count', %(inserted)s::bigint, 'deleted_count', %(deleted)s::bigint)::text)
"""


def _tell(writer: Connection, outcome: Outcome, refresh_id: int) -> None:
    """Notify the listeners of all refreshes, and the subscribers of this stream table."""
    stream_table, applied = outcome.prepared.stream_table, outcome.written.applied
    values = {
        "channel": _CHANNEL,
        "name": str(stream_table.name),
        "id": refresh_id,
        "action": outcome.decision.action.value,
        "inserted": applied.inserted,
        "deleted": applied.deleted,
    }
    [(told,)] = writer.execute(_NOTIFY, values).fetchall()
    if not told:
        logger.warning(
            "the queue of notifications is filling up: listeners are not notified of a refresh",
            extra={"stream_table": str(stream_table.name), "refresh_id": refresh_id},
        )
    tell_subscribers(
        writer,
        stream_table.id,
        refresh_id,
        inserted=applied.inserted,
        deleted=applied.deleted,
        coalesce_ms=outcome.prepared.refresh.runtime.settings.notify_coalesce_ms,
    )


def _deliver(writer: Connection, outcome: Outcome, refresh_id: int | None) -> Left | None:
    """Deliver to the sink, if there is one; return the delivery to make after the commit."""
    prepared, written = outcome.prepared, outcome.written
    stream_table, runtime = prepared.stream_table, prepared.refresh.runtime
    copy = find_copy(writer, stream_table)
    if copy is None:
        return None
    columns, frontier = prepared.compiled.columns, outcome.basis.frontier
    immediate = prepared.immediate
    delivery = Delivery(stream_table, columns, frontier, refresh_id, after_commit=immediate)
    with prepared.account.timed("lake"):
        if immediate:  # rows of writers are among those that the copy lacks
            note_copied(writer, stream_table.id)
            return copy.deliver(runtime, writer, delivery, None, written=True)
        return copy.deliver(runtime, writer, delivery, written.tracking, written=written.changed)


def _append(writer: Connection, outcome: Outcome, refresh_id: int | None) -> None:
    """Append the changes to the outbox; a stream table without one does not get here."""
    from pgtrickle.service.outboxes.append import append_to_outbox  # noqa: PLC0415 - most have none

    append_to_outbox(
        writer,
        outcome.prepared,
        outcome.written,
        action=outcome.decision.action,
        refresh_id=refresh_id,
        frontier=outcome.basis.frontier,
        data_timestamp=outcome.basis.taken_at,
    )


def _report(outcome: Outcome, refresh_id: int | None) -> RefreshReport:
    prepared, decision = outcome.prepared, outcome.decision
    account, applied = prepared.account, outcome.written.applied
    costs = account.record_costs(prepared.stream_table, decision)
    duration = account.milliseconds
    logger.info(
        "refreshed",
        extra={
            "stream_table": str(prepared.stream_table.name),
            "refresh_id": refresh_id,
            "action": decision.action.value,
            "reason": decision.reason,
            "rows_inserted": applied.inserted,
            "rows_deleted": applied.deleted,
            "seconds": duration / 1000,
            **({} if account.trace is None else {"trace_id": account.trace.id}),
        },
    )
    return RefreshReport(
        str(prepared.stream_table.name),
        refresh_id,
        decision.action,
        decision.reason,
        applied.inserted,
        applied.deleted,
        duration,
        tuple(account.reads),
        account.timings,
        costs.predicted_ms,
        costs.alternative_ms,
    )
