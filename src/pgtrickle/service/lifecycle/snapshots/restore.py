"""``restore_from_snapshot``: give a stream table the rows, the state and the frontier it had.

One transaction exchanges them.  The rows are exchanged by their difference, so readers see the old
or the new ones, and whatever follows the stream table receives few changes.  The next refresh
continues from the frontier of the snapshot; where changes after it are gone, it reinitializes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.binding.renamed_sources import follow_renamed_sources
from pgtrickle.binding.untrusted_types import check_types
from pgtrickle.capture.locks import lock_buffers
from pgtrickle.catalog.capture.snapshot_gaps import adopt_snapshot_gaps
from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.catalog.refreshes.leases import Lease
from pgtrickle.catalog.restored import adopt_stream_tables
from pgtrickle.catalog.snapshots.copied import find_copied
from pgtrickle.catalog.snapshots.entries import find_snapshot, lock_snapshot
from pgtrickle.catalog.stream_tables import get_stream_table_by_id, update_needs_reinit
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, InitiatedBy, StreamTable
from pgtrickle.model.table_snapshot import TableSnapshot
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.plan.decide import Decision
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import Compiled, compile_stream_table
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.lifecycle.snapshots.drop import get_snapshot, not_found
from pgtrickle.service.lifecycle.snapshots.refuse import (
    check_fits,
    check_restorable,
    hold_safe_table,
)
from pgtrickle.service.lifecycle.snapshots.rows import find_rows
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.refreshing.commit import Committed, Outcome, commit, deliver_rest
from pgtrickle.service.refreshing.contents import Rows, replace_contents
from pgtrickle.service.refreshing.refresh import Basis, Prepared, Refresh
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.restoring.unindexed import MANY_ROWS, unindexed_if_empty
from pgtrickle.storage.snapshot_copies import restore_state


def restore_from_snapshot(runtime: Runtime, name: QualifiedName, source: str) -> RefreshReport:
    """Restore a stream table from one of its snapshots; the snapshot stays."""
    # Suspended or not: its contents are to change in any case.
    with (
        claimed(runtime, name, InitiatedBy.INITIAL) as (found, lease),
        keep_lease(runtime, lease),
        runtime.connection() as writer,
    ):
        stream_table, compiled = compile_present(runtime, writer, found)
        table = QualifiedName.parse(source, stream_table.name.schema)
        restoring = _Restoring(runtime, stream_table, lease, compiled, table)
        with restoring.prepared(writer):
            committed = until_free(runtime, writer, lambda: restoring.exchange(writer))
        deliver_rest(committed)
    return committed.report


def compile_present(
    runtime: Runtime, connection: Connection, stream_table: StreamTable
) -> tuple[StreamTable, Compiled]:
    """Compile the query of today: the snapshot has to fit it."""
    adopt_stream_tables(connection)  # of a restored database that was not refreshed yet
    follow_renamed_sources(connection, stream_table)
    stream_table = get_stream_table_by_id(connection, stream_table.id)
    compiled = compile_stream_table(connection, stream_table, Bounds.of(runtime.settings))
    check_types(connection, compiled.binding.types)
    return stream_table, compiled


@dataclass(frozen=True, slots=True)
class _Restoring:
    """The restoration of one stream table, which has been claimed."""

    runtime: Runtime
    stream_table: StreamTable
    lease: Lease
    compiled: Compiled
    table: QualifiedName

    def prepared(self, writer: Connection) -> AbstractContextManager[None]:
        """Let many rows be written to an empty table without its index."""
        snapshot = find_snapshot(writer, self.table)
        if snapshot is None or snapshot.rows < MANY_ROWS:
            return nullcontext()
        return unindexed_if_empty(writer, self.stream_table.name, self.compiled.columns)

    def exchange(self, writer: Connection) -> Committed:
        """Do all that becomes visible at once; it goes down in history as a refresh."""
        check_restorable(writer, self.stream_table)
        snapshot = self._hold(writer)
        check_fits(writer, self.stream_table, snapshot, self.compiled)
        refresh = Refresh.begin(self.runtime, self.stream_table, self.lease, InitiatedBy.MANUAL)
        prepared = Prepared(refresh, self.compiled)
        with refresh.account.timed("apply"):
            source = find_rows(self.runtime, writer, self.stream_table.name, snapshot)
            copied = find_copied(writer, snapshot.id, self.stream_table)
            rows = Rows.of_table(source, self.compiled.columns, stored=True, copied=copied)
            written = replace_contents(writer, prepared, rows)
            if not snapshot.needs_reinit:
                restore_state(writer, self.stream_table.id, snapshot.id)
        reason = f"restored from snapshot {snapshot.table} of {snapshot.data_timestamp}"
        outcome = Outcome(
            prepared,
            Decision(Action.REINITIALIZE, reason),
            _basis(snapshot),
            written,
            restored=True,
        )
        with refresh.account.timed("commit"):
            committed = commit(writer, outcome)
        self._mark(writer, snapshot)
        return committed

    def _hold(self, writer: Connection) -> TableSnapshot:
        """Keep the snapshot, its table, and the changes after it as they are until the commit."""
        dependencies = list_dependencies(writer, self.stream_table.id)
        # Buffers before snapshots: so does whoever trims.
        lock_buffers(writer, sorted(one.source_relid for one in dependencies))
        found = get_snapshot(writer, self.table)
        snapshot = lock_snapshot(writer, found.id)
        if (
            snapshot is None
            or (snapshot.relid is None and snapshot.lake is None)
            or snapshot.table != self.table
            or snapshot.stream_table_id != self.stream_table.id
        ):
            raise not_found(self.table, of=self.stream_table.name)
        if snapshot.lake is None:
            hold_safe_table(writer, self.stream_table, snapshot)
        return snapshot

    def _mark(self, writer: Connection, snapshot: TableSnapshot) -> None:
        """Let the next refresh reinitialize if it cannot continue from the snapshot."""
        lost = adopt_snapshot_gaps(writer, snapshot.id, self.stream_table.id)
        if lost or snapshot.needs_reinit or self.stream_table.needs_reinit:
            update_needs_reinit(writer, self.stream_table.id, needs_reinit=True)


def _basis(snapshot: TableSnapshot) -> Basis:
    """Return what the rows of the snapshot rest on."""
    return Basis(
        snapshot.frontier,
        snapshot.data_timestamp,
        snapshot.plan or {},
        began_at=datetime.now(UTC),
    )
