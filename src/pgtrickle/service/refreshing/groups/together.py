"""Refresh stream tables at one moment, in one transaction: diamonds (ADR 0017), circles (0023)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from pgtrickle.catalog.capture.wal_capture import list_wal_sources
from pgtrickle.catalog.circles import count_members
from pgtrickle.catalog.stream_tables import get_stream_table_by_id
from pgtrickle.errors import ServerBusyError, TrickleError
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, InitiatedBy
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.capturing.mode import LOSSES, hand_back
from pgtrickle.service.capturing.sources import renew_captures
from pgtrickle.service.capturing.trim import trim_sources
from pgtrickle.service.claim import claimed
from pgtrickle.service.refreshing.commit import Committed, deliver_rest, tell_ended
from pgtrickle.service.refreshing.failures import recorded
from pgtrickle.service.refreshing.groups.circle import refresh_circle
from pgtrickle.service.refreshing.groups.shared_transaction import (
    drop_temporary_tables,
    open_together,
    rolled_back,
)
from pgtrickle.service.refreshing.inputs.unseen import TooMuchUnseenError
from pgtrickle.service.refreshing.prepare import prepare
from pgtrickle.service.refreshing.refresh import Prepared, Refresh
from pgtrickle.service.refreshing.run import AfterRefresh, refresh_to, run_refresh
from pgtrickle.service.refreshing.snapshot import BufferView, Snapshot, open_buffers
from pgtrickle.service.refreshing.start_again import StartAgainError, until_it_counts
from pgtrickle.service.runtime import Runtime

Step = list[Prepared]  # refreshed at a time: a stream table, or all members of a circle


def refresh_together(
    runtime: Runtime,
    names: Sequence[QualifiedName],
    *,
    initiated_by: InitiatedBy,
    full: QualifiedName | None = None,
    initial: QualifiedName | None = None,
    after: AfterRefresh | None = None,
    trial: QualifiedName | None = None,
) -> list[RefreshReport]:
    """Refresh stream tables, given in dependency order, to one frontier and commit them at once.

    ``full`` names one to recompute, ``initial`` one to load for the first time, ``trial`` one that
    may be suspended.
    ``after`` is called when the last has its new contents and the snapshot can still be read,
    with those that were refreshed at this snapshot.
    If one fails, none has changed.
    """
    with ExitStack() as stack:
        refreshes = {}
        for name in names:
            by = InitiatedBy.INITIAL if name == initial else initiated_by
            stream_table, lease = stack.enter_context(
                claimed(runtime, name, by, trial=name == trial)
            )
            refreshes[stream_table.id] = Refresh.begin(
                runtime, stream_table, lease, by, requested_full=name == full
            )
        group = _Group(runtime, refreshes, after)
        with group.recorded():
            reports, sources = group.run()
    if any(report.action is not Action.NO_DATA for report in reports):
        # Without a lease: to each member the leases of the others would look like rivals.
        trim_sources(runtime, sources)
    return reports


@dataclass(slots=True)
class _Group:
    """Stream tables that are being refreshed together."""

    runtime: Runtime
    refreshes: dict[int, Refresh]  # by the id of the stream table, with their lessons
    after: AfterRefresh | None = None
    current: Refresh | None = None  # the one in turn: a failure is recorded with it

    def run(self) -> tuple[list[RefreshReport], list[int]]:
        """Refresh all of them; the caller holds their leases.  Returns the captured sources too."""
        return until_it_counts(self._attempt, _altered_again)

    def _attempt(self, unfit: Refresh | None) -> tuple[list[RefreshReport], list[int]]:
        members = self._with_circles(self._prepare(list(self.refreshes), unfit))
        sources = _sources(members)
        renew_captures(self.runtime, sources)
        if not self._captured_from_log(sources):
            try:
                committed = self._at_once(_steps(members))
            except TooMuchUnseenError:
                pass
            else:
                for one in committed:
                    deliver_rest(one)
                    tell_ended(one)
                return [one.report for one in committed], sources
        return self._one_after_another(_steps(members)), sources

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record a failure with the member that met it."""
        try:
            yield
        except TrickleError:
            if self.current is None:
                raise
            with recorded(self.current):
                raise

    def _prepare(self, ids: Sequence[int], unfit: Refresh | None) -> list[Prepared]:
        """Prepare some of them; if one was unfit, the others get new accounts."""
        members = []
        for id_ in ids:
            refresh = self.refreshes[id_]
            if unfit is not None:
                own = unfit.stream_table.id == id_
                refresh = unfit if own else refresh.with_new_account().learned(again=True)
            self.current = refresh
            members.append(prepare(refresh))
            self.refreshes[id_] = members[-1].refresh
        return members

    def _with_circles(self, members: list[Prepared]) -> list[Prepared]:
        """Find the current members of circles, and check that none is missing here."""
        if all(one.stream_table.circle is None for one in members):
            return members
        with self.runtime.connection() as connection:
            members = [
                replace(one, refresh=replace(one.refresh, stream_table=now))
                for one in members
                for now in [get_stream_table_by_id(connection, one.stream_table.id)]
            ]
            for step in _steps(members):
                circle = step[0].stream_table.circle
                if circle is not None and count_members(connection, circle) != len(step):
                    raise ServerBusyError(
                        f'the circle of "{step[0].stream_table.name}" has new members now',
                        hint="Refresh it again: all of them are refreshed together.",
                    )
        return members

    def _captured_from_log(self, sources: Sequence[int]) -> bool:
        with self.runtime.connection() as connection:
            return any(one.relid in sources for one in list_wal_sources(connection))

    def _at_once(self, steps: Sequence[Step]) -> list[Committed]:
        """Refresh all in one transaction."""
        committed: list[Committed] = []
        changed: set[int] = set()
        with self.runtime.connection() as connection, rolled_back(connection):
            refreshes = [one.refresh for step in steps for one in step]
            snapshot = open_together(connection, refreshes)
            buffers = BufferView(connection, snapshot.name)
            for step in steps:
                found = self._step(snapshot, buffers, step, frozenset(changed))
                committed += found
                changed |= {
                    one.prepared.stream_table.relid
                    for one in found
                    if one.report.rows_inserted or one.report.rows_deleted
                }
                drop_temporary_tables(connection)
            if self.after is not None:
                self.after(snapshot, committed)
            connection.commit()
        return committed

    def _step(
        self, snapshot: Snapshot, buffers: BufferView, step: Step, changed: frozenset[int]
    ) -> list[Committed]:
        """Refresh a stream table or a circle."""
        if step[0].stream_table.circle is not None:
            return refresh_circle(snapshot, buffers, step, self._meet)
        [member] = step
        self._meet(member.refresh)
        return [refresh_to(member, snapshot, buffers, changed)]

    def _meet(self, refresh: Refresh) -> None:
        self.current = refresh

    def _one_after_another(self, steps: Sequence[Step]) -> list[RefreshReport]:
        """Refresh each by itself if a common transaction could not see the changes it needs."""
        reports = []
        for step in steps:
            for one in step:
                self.refreshes[one.stream_table.id] = one.refresh.with_new_account()
            after = self.after if step is steps[-1] else None
            if step[0].stream_table.circle is not None:
                reports += self._circle_alone(step, after)
                continue
            [member] = step
            refresh = self.refreshes[member.stream_table.id]
            self.current = replace(refresh, hold_snapshot=after is not None)
            reports.append(run_refresh(self.current, after))
        return reports

    def _circle_alone(self, step: Step, after: AfterRefresh | None) -> list[RefreshReport]:
        """Refresh a circle in a transaction of its own, however its sources are captured."""
        ids, sources = [one.stream_table.id for one in step], _sources(step)

        def attempt(unfit: Refresh | None) -> list[Committed]:
            members = self._prepare(ids, unfit)
            try:
                with self.runtime.connection() as connection, rolled_back(connection):
                    snapshot = open_together(connection, [one.refresh for one in members])
                    with open_buffers(self.runtime, snapshot, sources) as buffers:
                        committed = refresh_circle(snapshot, buffers, members, self._meet)
                    drop_temporary_tables(connection)
                    if after is not None:
                        after(snapshot, committed)
                    connection.commit()
            except LOSSES as error:
                hand_back(self.runtime, error)
                raise StartAgainError(members[0].refresh) from None
            return committed

        committed = until_it_counts(attempt, _altered_again)
        for one in committed:
            deliver_rest(one)
            tell_ended(one)
        return [one.report for one in committed]


def _sources(members: Sequence[Prepared]) -> list[int]:
    """Return the relids of all sources with a buffer."""
    return sorted({relid for member in members for relid in member.captured_relids})


def _steps(members: Sequence[Prepared]) -> list[Step]:
    steps: dict[object, Step] = {}
    for member in members:
        table = member.stream_table
        steps.setdefault(table.name if table.circle is None else table.circle, []).append(member)
    return list(steps.values())


def _altered_again(_: Refresh) -> ServerBusyError:
    return ServerBusyError(
        "the sources of a group of stream tables are being altered again and again",
        hint="Refresh again when that is done.",
    )
