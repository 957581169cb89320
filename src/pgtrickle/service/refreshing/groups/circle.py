"""Refresh the members of a circle: compute their least fixpoint, apply the difference.

All of it happens in the one transaction of ``refresh_together``, in PostgreSQL: see docs/adr/0023.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.capture.buffers import buffer_of, list_buffer_columns
from pgtrickle.capture.windows import only_inserted, window_predicate
from pgtrickle.catalog.circles import update_iterations
from pgtrickle.model.stream_table import Action
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.plan.decide import Decision, decide_circle
from pgtrickle.service.refreshing.commit import Committed, Outcome, commit, commit_nothing
from pgtrickle.service.refreshing.contents import Rows, follow_change, replace_contents
from pgtrickle.service.refreshing.findings import look
from pgtrickle.service.refreshing.fuse_check import check_fuse
from pgtrickle.service.refreshing.groups.shared_transaction import drop_temporary_tables
from pgtrickle.service.refreshing.refresh import Basis, Prepared, Refresh
from pgtrickle.service.refreshing.snapshot import BufferView, Snapshot
from pgtrickle.service.refreshing.start_again import excused
from pgtrickle.service.runtime import translated_errors
from pgtrickle.sql.bound import Relation
from pgtrickle.sql.circles.fixpoint import Equation
from pgtrickle.storage.fixpoint import Fixpoint, Unknown

Meeting = Callable[[Refresh], None]  # called with the member whose turn it is


@dataclass(frozen=True, slots=True)
class CircleMember:
    """One member of the circle, and the decision for it."""

    prepared: Prepared
    basis: Basis
    decision: Decision

    @property
    def unknown(self) -> Unknown:
        """The member as an unknown of the fixpoint."""
        return _unknown(self.prepared)


def find_least(
    connection: Connection, circle: Sequence[Prepared], instead: Mapping[int, str]
) -> None:
    """Leave the least fixpoint of a circle in temporary tables: see ``least_rows``.

    ``instead`` are queries that take the places of tables outside the circle, by relid.
    """
    unknowns = [_unknown(one) for one in circle]
    limit = circle[0].refresh.runtime.settings.max_fixpoint_iterations
    Fixpoint(connection, unknowns, limit, from_contents=False, instead=instead).run()


def least_rows(member: Prepared) -> str:
    """Return the query of the rows that ``find_least`` has found for a member."""
    unknown = _unknown(member)
    return f"SELECT {unknown.listed} FROM {unknown.found}"


def _unknown(member: Prepared) -> Unknown:
    """Return a member as an unknown of the fixpoint."""
    stream_table, query = member.stream_table, member.compiled.binding.query
    return Unknown(stream_table.relid, stream_table.name, query.columns, Equation.of(query))


def refresh_circle(
    snapshot: Snapshot,
    buffers: BufferView,
    circle: Sequence[Prepared],
    meeting: Meeting = lambda _: None,
) -> list[Committed]:
    """Refresh all members in the transaction of a snapshot that writes.

    Starts again if the snapshot sees other sources than the captured ones.
    """
    found = []
    for prepared in circle:
        meeting(prepared.refresh)
        found.append(look(prepared, snapshot, buffers, priced=False))
    grown = _has_grown(circle, buffers)
    decision = decide_circle([one.facts for one in found], grown=grown)
    members = [
        CircleMember(prepared, findings.basis, decision)
        for prepared, findings in zip(circle, found, strict=True)
    ]
    for member in members:
        meeting(member.prepared.refresh)
        member.prepared.account.note_decision(decision)
        check_fuse(member.prepared.refresh, snapshot, member.basis.changed_rows)
    with excused(snapshot, [(one.prepared, one.basis) for one in members]):
        if decision.action is Action.NO_DATA:
            return [commit_nothing(one.prepared, decision, one.basis, snapshot) for one in members]
        return apply_fixpoint(snapshot, members, meeting)


def _has_grown(circle: Sequence[Prepared], buffers: BufferView) -> bool:
    """Return whether rows were only inserted; anything else starts from nothing."""
    own = _relids(circle)
    windows = [
        (relid, frontier.snapshot)
        for prepared in circle
        for frontier in [prepared.stream_table.frontier]
        for relid in prepared.captured_relids
        if frontier is not None
    ]
    return (
        # This transaction does not see changes that are captured from the log.
        buffers.upper is None
        and only_inserted(buffers.connection, [one for one in windows if one[0] not in own])
        and only_inserted(buffers.connection, [one for one in windows if one[0] in own], none=True)
    )


def _relids(circle: Sequence[Prepared]) -> frozenset[int]:
    return frozenset(one.stream_table.relid for one in circle)


def apply_fixpoint(
    snapshot: Snapshot, members: Sequence[CircleMember], meeting: Meeting = lambda _: None
) -> list[Committed]:
    """Compute the fixpoint as decided, apply it and commit each member's part of it."""
    writer, unknowns = snapshot.connection, [one.unknown for one in members]
    circle = [one.prepared for one in members]
    refreshes = {one.stream_table.relid: one.refresh for one in circle}

    def check(unknown: Unknown) -> None:
        meeting(refreshes[unknown.relid])
        refreshes[unknown.relid].check_cancelled()

    first, grows = circle[0].refresh, members[0].decision.action is Action.DIFFERENTIAL
    limit = first.runtime.settings.max_fixpoint_iterations
    fixpoint = Fixpoint(writer, unknowns, limit, from_contents=grows, check=check)
    with ExitStack() as stack:
        for one in circle:
            stack.enter_context(first.runtime.jobs.named(str(one.stream_table.name)))
        # A failure rolls back only this savepoint, so that its cause can still be found.
        stack.enter_context(writer.transaction())
        with first.account.timed("compute"), translated_errors():
            iterations = fixpoint.run(_inserted(writer, circle) if grows else None)
        committed = []
        for member in members:
            meeting(member.prepared.refresh)
            committed.append(_apply(writer, member, iterations, grows=grows))
            drop_temporary_tables(writer, [one.table for one in unknowns])
        return committed


def _inserted(writer: Connection, circle: Sequence[Prepared]) -> dict[int, dict[int, str]]:
    """Return, by member, the queries of the rows inserted into its sources."""
    own = _relids(circle)
    found: dict[int, dict[int, str]] = {}
    for prepared in circle:
        relations = {one.relid: one for one in prepared.compiled.binding.query.relations.values()}
        found[prepared.stream_table.relid] = {
            relid: _insert_of(writer, prepared, relations[relid])
            for relid in prepared.captured_relids
            if relid not in own
        }
    return found


def _insert_of(writer: Connection, prepared: Prepared, relation: Relation) -> str:
    frontier = prepared.stream_table.frontier
    there: Mapping[str, str] = list_buffer_columns(writer, relation.relid) or {}
    # Nothing depends on a column that was not captured.
    listed = ", ".join(
        f"{name if one.name in there else 'NULL'}::{one.type.display} AS {name}"
        for one in relation.columns
        for name in [quote_identifier(one.name)]
    )
    window = "true" if frontier is None else window_predicate(frontier.snapshot)
    return f"SELECT {listed} FROM {buffer_of(relation.relid).sql} WHERE {window} AND __weight > 0"


def _apply(writer: Connection, member: CircleMember, iterations: int, *, grows: bool) -> Committed:
    """Replace the rows of one member by those of the fixpoint, and commit its part."""
    prepared, unknown = member.prepared, member.unknown
    prepared.refresh.check_cancelled()
    times = "1 round" if iterations == 1 else f"{iterations} rounds"
    reason = f"{member.decision.reason}; fixpoint after {times}"
    decision = prepared.account.note_decision(replace(member.decision, reason=reason))
    write = follow_change if grows else replace_contents
    with prepared.account.timed("apply"), translated_errors():
        written = write(writer, prepared, Rows.of_table(unknown.found, unknown.columns))
    update_iterations(writer, prepared.stream_table.id, iterations)
    with prepared.account.timed("commit"):
        outcome = Outcome(prepared, decision, member.basis, written)
        return commit(writer, outcome, together=True)
