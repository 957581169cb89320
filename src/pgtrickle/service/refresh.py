"""``refresh_stream_table``: the way of a change from the window to the maintained row.

The order of steps is the order of functions here: claim the lease, open the snapshot, decide,
read, compute, merge, apply, commit, trim.  Two transactions take part.  The *reader* holds the
snapshot that becomes the new frontier and writes nothing; the *writer* holds everything that is
to become visible, and commits once.  A crash before that commit leaves no trace but a lease that
expires.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
from psycopg import Connection

from pgtrickle.algebra.nodes import Scan
from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.catalog.leases import Lease, check_lease
from pgtrickle.catalog.refresh_history import RefreshStatus, insert_refresh
from pgtrickle.catalog.stream_tables import (
    find_stream_table,
    update_error,
    update_frontier,
    update_needs_reinit,
    update_plan,
)
from pgtrickle.delta.cut import RecomputeStage, RowsStage, StatefulStage, follows
from pgtrickle.delta.reads import stage_changes
from pgtrickle.errors import (
    DataError,
    InternalError,
    StreamTableNotFoundError,
    TrickleError,
    ValueOutOfRangeError,
)
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import CostRecord, RefreshReport, SourceRead
from pgtrickle.model.stream_table import (
    Action,
    InitiatedBy,
    RefreshMode,
    StreamTable,
)
from pgtrickle.refresh.decide import Decision, decide
from pgtrickle.refresh.stages import (
    StagePlan,
    changes_reads,
    changing_scans,
    plan_full,
    plan_stage,
)
from pgtrickle.service.capture_mode import LOSSES, drain_if_behind, hand_back
from pgtrickle.service.change_keys import consolidate
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import Compiled, compile_stream_table
from pgtrickle.service.costs import record_costs
from pgtrickle.service.facts import captured, find_reshaped, gather_facts
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.read_inputs import (
    Window,
    count_large_reads,
    count_reads,
    describe_large_read,
    read_inputs,
)
from pgtrickle.service.reinitialize import prepare_reinitialize
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.snapshot import BufferView, Snapshot, open_buffers, open_snapshot
from pgtrickle.service.staging import Staging
from pgtrickle.service.state_rows import StateRows
from pgtrickle.service.trim import trim_sources
from pgtrickle.spark.arrow_reader import SnapshotReader
from pgtrickle.spark.large_read import LargeRead
from pgtrickle.sql.emit import changes_view
from pgtrickle.sql.translate import Dialect
from pgtrickle.storage.apply import Applied, apply_result, weigh_result
from pgtrickle.storage.merge import merge_aggregate
from pgtrickle.storage.recompute import merge_recompute

logger = logging.getLogger(__name__)

Inputs = dict[str, pa.Table]

_CHANNEL = "pg_trickle_refresh"
# How often one refresh looks on while the log loses a source, before it gives up.
_LOSSES_MET = 5


def refresh_stream_table(
    runtime: Runtime,
    name: QualifiedName,
    *,
    full: bool = False,
    initiated_by: InitiatedBy = InitiatedBy.MANUAL,
) -> RefreshReport:
    """Bring one stream table up to date and report what that took."""
    with claimed(runtime, name, initiated_by) as (stream_table, lease):
        refresh = Refresh(runtime, stream_table, lease, initiated_by, requested_full=full)
        with refresh.recorded():
            return refresh.run()


@dataclass(slots=True)
class Refresh:
    """One refresh under way: what it knows so far, and what it has spent."""

    runtime: Runtime
    stream_table: StreamTable
    lease: Lease
    initiated_by: InitiatedBy
    requested_full: bool = False
    hold_snapshot: bool = False  # until the caller has compared something under it
    started: float = field(default_factory=time.perf_counter)
    timings: dict[str, float] = field(default_factory=dict)
    reads: list[SourceRead] = field(default_factory=list)
    decision: Decision | None = None
    files: dict[str, int] = field(default_factory=dict)  # that store the sources
    moved: set[str] = field(default_factory=set)  # sources and stages that have changes
    window: Window | None = None  # since the reads began

    # The order of things

    def run(self, after: Callable[[Snapshot, Compiled], None] | None = None) -> RefreshReport:
        """Do the refresh; the caller holds the lease.

        ``after`` is called when the result is committed and, with ``hold_snapshot``, while the
        snapshot it belongs to can still be read.
        """
        for _ in range(_LOSSES_MET):
            try:
                return self._run_once(after)
            except LOSSES as error:
                # The snapshot is older than the triggers that now take over: take another one.
                hand_back(self.runtime, error)
        return self._run_once(after)

    def _run_once(self, after: Callable[[Snapshot, Compiled], None] | None) -> RefreshReport:
        with self.timed("prepare"), self.runtime.connection() as connection:
            dependencies = list_dependencies(connection, self.stream_table.id)
            reshaped = find_reshaped(connection, self.stream_table, dependencies)
            if reshaped:
                prepare_reinitialize(self.runtime, self.stream_table)
                dependencies = list_dependencies(connection, self.stream_table.id)
            compiled = self._compile(connection)
            if compiled.refusal is None and self.stream_table.downgrade_reason is not None:
                # Compiled by an earlier version that could not: there is no state yet.
                prepare_reinitialize(self.runtime, self.stream_table)
                reshaped = ("the compiler",)
            sources = [one.source_relid for one in captured(dependencies)]
            drain_if_behind(self.runtime, connection, sources)
        with ExitStack() as stack:
            snapshot = stack.enter_context(open_snapshot(self.runtime))
            with self.timed("capture"):
                buffers = stack.enter_context(open_buffers(self.runtime, snapshot, sources))
            with self.timed("decide"):
                findings = gather_facts(
                    self.runtime,
                    self.stream_table,
                    snapshot,
                    buffers,
                    dependencies,
                    compiled,
                    reshaped=reshaped,
                    requested_full=self.requested_full,
                )
                self.files = findings.files
                self.decision = decide(findings.facts)
            if self.decision.action is Action.NO_DATA:
                report = self._commit_nothing(snapshot)
            else:
                with keep_lease(self.runtime, self.lease):
                    report = self._execute(snapshot, buffers, compiled, findings.changed)
            if after is not None:
                after(snapshot, compiled)
        if report.action is not Action.NO_DATA:
            with self.timed("trim"):
                trim_sources(self.runtime, sources)
        return report

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Put a failure into the history and onto the stream table."""
        try:
            yield
        except TrickleError as error:
            loss = ""
            # Nothing can be recorded without a server; the original error matters more.
            with suppress(TrickleError), self.runtime.connection() as connection:
                loss = self._find_loss(connection)
                self._record_failure(connection, error)
            if loss:
                raise StreamTableNotFoundError(
                    f'the stream table "{self.stream_table.name}" {loss}',
                    hint="List what exists with: pgtrickle list; a lost table is cleared away with:"
                    f" pgtrickle drop {self.stream_table.name}.",
                ) from error
            raise

    # Steps

    def _find_loss(self, connection: Connection) -> str:
        """Tell whether the stream table or its relation went while it was being refreshed."""
        present = find_stream_table(connection, self.stream_table.name)
        if present is None or present.id != self.stream_table.id:
            return "was dropped during its refresh"
        found = connection.execute(
            "SELECT FROM pg_catalog.pg_class WHERE oid = %s", [self.stream_table.relid]
        ).fetchone()
        return "has lost its table to a DROP TABLE" if found is None else ""

    def _compile(self, connection: Connection) -> Compiled:
        key = (self.stream_table.id, self.stream_table.original_query)
        if key not in self.runtime.compiled:
            compiled = compile_stream_table(connection, self.stream_table)
            self.runtime.compiled[key] = compiled
        return self.runtime.compiled[key]

    def _state_rows(self, compiled: Compiled) -> StateRows:
        return StateRows(self.stream_table.id, compiled)

    def _execute(
        self,
        snapshot: Snapshot,
        buffers: BufferView,
        compiled: Compiled,
        changed: frozenset[str],
    ) -> RefreshReport:
        try:
            return self._run(snapshot, buffers, compiled, changed)
        except (ValueOutOfRangeError, DataError) as error:
            # PostgreSQL holds values that the engine cannot; it may answer by itself, unless the
            # user insists on the delta.  If the data is at fault, it fails in the same way.
            strict = self.stream_table.refresh_mode is RefreshMode.DIFFERENTIAL
            if strict or snapshot.released or compiled.opaque:
                raise
            self.decision = Decision(Action.FULL, f"answered by PostgreSQL alone: {error}")
            return self._run(snapshot, buffers, compiled.as_opaque(), changed)

    def _run(
        self,
        snapshot: Snapshot,
        buffers: BufferView,
        compiled: Compiled,
        changed: frozenset[str],
    ) -> RefreshReport:
        staging = Staging(self.runtime, self.stream_table)
        self.moved = set(changed)
        with (
            staging.cleaned_up(),
            self.runtime.connection() as writer,
            writer.transaction(),
        ):
            with self._reader(snapshot.name) as reader, ExitStack() as stack:
                of_buffers = reader
                if buffers.name != snapshot.name:
                    of_buffers = stack.enter_context(self._reader(buffers.name))
                self.window = Window(buffers, of_buffers, self.stream_table.frontier)
                stages = (
                    self._full_stages(compiled)
                    if self._full
                    else self._differential_stages(compiled, reader, writer)
                )
                for stage, changes in stages:
                    self._run_stage(stage, changes, snapshot, reader, writer, staging)
            buffers.release()
            if not self.hold_snapshot:
                snapshot.release()
            with self.timed("apply"), translated_errors():
                applied = self._apply(writer, compiled, staging)
            with self.timed("commit"):
                report = self._commit(writer, snapshot, applied)
                if compiled.opaque and compiled.refusal is None:
                    # The state tables have not followed: the next refresh starts them anew.
                    update_needs_reinit(writer, self.stream_table.id, needs_reinit=True)
        return report

    def _reader(self, snapshot: str) -> SnapshotReader:
        width = self.runtime.settings.read_connections
        return SnapshotReader(self.runtime.reads, snapshot, width=width)

    @property
    def _full(self) -> bool:
        return self.decision is None or self.decision.action is not Action.DIFFERENTIAL

    def _full_stages(self, compiled: Compiled) -> Iterator[tuple[StagePlan, Inputs]]:
        """Yield every stage, to be computed from all rows of its sources."""
        dialect = self.runtime.engine.dialect
        for stage in plan_full(compiled.staged, dialect, self._state_rows(compiled)).stages:
            yield stage, {}

    def _differential_stages(
        self, compiled: Compiled, reader: SnapshotReader, writer: Connection
    ) -> Iterator[tuple[StagePlan, Inputs]]:
        """Yield each stage that has something to do, with the changes it starts from.

        Which one has is known only when those before it are done: a change may cancel out, or
        leave no trace in what an aggregate shows.
        """
        for stage in compiled.staged.stages:
            scans = changing_scans(stage, self.moved)
            changes: Inputs = {}
            if scans and follows(stage) is None:
                with self.timed("read"):
                    changes = self._read_changes(stage, scans, reader, writer)
                scans = [scan for scan in scans if changes_view(scan) in changes]
            planned = self._plan_stage(compiled, stage, scans) if scans else None
            if planned is not None:
                yield planned, changes

    @property
    def _window(self) -> Window:
        if self.window is None:
            raise InternalError("a stage ran before its window was opened")
        return self.window

    def _read_changes(
        self,
        stage: StatefulStage | RowsStage,
        scans: Sequence[Scan],
        reader: SnapshotReader,
        writer: Connection,
    ) -> Inputs:
        """Read the changes of some scans; those in which everything cancels out are left out."""
        reads = changes_reads(stage, scans)
        found = read_inputs(reads, self._window, reader, writer)
        self.reads += count_reads(reads, found)
        changes = {view: consolidate(table) for view, table in found.items()}
        return {view: table for view, table in changes.items() if table.num_rows}

    def _plan_stage(
        self, compiled: Compiled, stage: StatefulStage | RowsStage, scans: Sequence[Scan]
    ) -> StagePlan | None:
        aliases = frozenset(scan.alias for scan in scans)
        key = (stage.name, aliases)
        if key not in compiled.plans:
            own = follows(stage) is not None
            dialect = Dialect.POSTGRES if own else self.runtime.engine.dialect
            planned = plan_stage(
                stage, aliases, dialect, self._state_rows(compiled), compiled.spread
            )
            if planned is None:
                return None
            compiled.plans[key] = planned
        return compiled.plans[key]

    def _run_stage(
        self,
        stage: StagePlan,
        changes: Inputs,
        snapshot: Snapshot,
        reader: SnapshotReader,
        writer: Connection,
        staging: Staging,
    ) -> None:
        if not self._full and follows(stage.stage) is not None:
            staging.use(stage.stage.name, f"({stage.as_query}) AS staged")
        else:
            self._compute(stage, changes, snapshot, reader, writer, staging)
        if not isinstance(stage.stage, RowsStage):
            with self.timed("merge"), translated_errors():
                self._merge(writer, stage.stage, staging.table(stage.stage.name))

    def _compute(
        self,
        stage: StagePlan,
        changes: Inputs,
        snapshot: Snapshot,
        reader: SnapshotReader,
        writer: Connection,
        staging: Staging,
    ) -> None:
        large = self._large_reads(stage, snapshot)
        small = [read for read in stage.reads if read.view not in {*large, *changes}]
        with self.timed("read"):
            inputs = read_inputs(small, self._window, reader, writer, changes)
        self.reads += count_reads(small, inputs)
        named = {read.view for read in stage.reads}
        inputs |= {view: table for view, table in changes.items() if view in named}
        self.reads += count_large_reads(stage.reads, large)
        if large:
            with self.timed("compute"):
                table = staging.create_shared(stage)
                self.runtime.engine.stage(stage.sql, {**inputs, **large}, table)
        else:
            with self.timed("compute"):
                result = self.runtime.engine.run(stage.sql, inputs)
            with self.timed("stage"), translated_errors():
                staging.copy(writer, stage, result)

    def _merge(self, writer: Connection, stage: StatefulStage, staged: str) -> None:
        if isinstance(stage, RecomputeStage):
            changes = merge_recompute(
                writer, self.stream_table.id, stage, staged, replace=self._full
            )
        else:
            changes = merge_aggregate(
                writer, self.stream_table.id, stage, staged, replace=self._full
            )
        if changes:
            self.moved.add(stage.name)

    def _large_reads(self, stage: StagePlan, snapshot: Snapshot) -> dict[str, LargeRead]:
        if not self._full or not self.runtime.engine.distributed:
            return {}
        smallest = self.runtime.settings.large_read_bytes
        described = {
            read.view: describe_large_read(snapshot, read, smallest) for read in stage.reads
        }
        return {view: large for view, large in described.items() if large is not None}

    def _apply(self, writer: Connection, compiled: Compiled, staging: Staging) -> Applied:
        rows = compiled.staged.rows
        moved = rows.name in staging or rows.passes_through in self.moved
        if not self._full and not moved:
            return Applied(0, 0)
        name = self.stream_table.name
        condition, weight = None, "__weight"
        if rows.passes_through is None:
            source = staging.table(rows.name)
        else:
            condition = rows.body.predicate if isinstance(rows.body, Scan) else None
            source = stage_changes(rows.passes_through)
            if self._full:
                stored = self._state_rows(compiled)(rows.passes_through)
                source, weight = f"({stored}) AS stored", "1"
        less = name if self._full else None
        weigh_result(writer, rows.outputs, source, condition, weight=weight, less=less)
        applied = apply_result(writer, name, compiled.columns)
        if self._full:
            writer.execute(f"ANALYZE {name.sql}".encode())
        return applied

    def _commit(self, writer: Connection, snapshot: Snapshot, applied: Applied) -> RefreshReport:
        """Make contents, state, frontier, history and notification visible at once."""
        check_lease(writer, self.stream_table.id, self.lease.token)
        update_frontier(
            writer,
            self.stream_table.id,
            snapshot.frontier,
            previous=self.stream_table.frontier,
            data_timestamp=snapshot.taken_at,
        )
        decision = self.decision or Decision(Action.FULL, "")
        if decision.action in {Action.FULL, Action.REINITIALIZE}:
            update_plan(writer, self.stream_table.id, {"files": self.files})
        refresh_id = insert_refresh(
            writer,
            self.stream_table.id,
            initiated_by=self.initiated_by,
            status=RefreshStatus.COMPLETED,
            action=decision.action,
            reason=decision.reason,
            start_time=snapshot.taken_at,
            data_timestamp=snapshot.taken_at,
            rows_inserted=applied.inserted,
            rows_deleted=applied.deleted,
            delta_row_count=applied.inserted + applied.deleted,
            reads=self.reads,
            timings_ms=self.timings,
            costs=self._costs(decision),
        )
        if applied.inserted or applied.deleted:
            writer.execute(
                "SELECT pg_catalog.pg_notify(%s, pg_catalog.json_build_object("
                "'name', %s::text, 'refresh_id', %s::bigint, 'action', %s::text,"
                " 'inserted_count', %s::bigint, 'deleted_count', %s::bigint)::text)",
                [
                    _CHANNEL,
                    str(self.stream_table.name),
                    refresh_id,
                    decision.action.value,
                    applied.inserted,
                    applied.deleted,
                ],
            )
        return self._report(refresh_id, applied)

    def _commit_nothing(self, snapshot: Snapshot) -> RefreshReport:
        with self.timed("commit"), self.runtime.connection() as writer, writer.transaction():
            # A crash that forgets this only makes the next refresh look at the same window.
            writer.execute("SET LOCAL synchronous_commit = off")
            return self._commit(writer, snapshot, Applied(0, 0))

    def _record_failure(self, connection: Connection, error: TrickleError) -> None:
        with connection.transaction():
            insert_refresh(
                connection,
                self.stream_table.id,
                initiated_by=self.initiated_by,
                status=RefreshStatus.FAILED,
                action=self.decision.action if self.decision else None,
                reason=self.decision.reason if self.decision else "",
                reads=self.reads,
                timings_ms=self.timings,
                costs=replace(self._costs(self.decision), counted=None),
                error_code=error.code,
                error_message=str(error),
            )
            update_error(connection, self.stream_table.id, f"{error.code}: {error}")

    def _costs(self, decision: Decision | None) -> CostRecord:
        spent = (time.perf_counter() - self.started) * 1000 - self.timings.get("prepare", 0.0)
        return record_costs(self.stream_table, decision, spent)

    def _report(self, refresh_id: int, applied: Applied) -> RefreshReport:
        decision = self.decision or Decision(Action.FULL, "")
        costs = self._costs(decision)
        duration = (time.perf_counter() - self.started) * 1000
        logger.info(
            "refreshed",
            extra={
                "stream_table": str(self.stream_table.name),
                "refresh_id": refresh_id,
                "rows": applied.inserted + applied.deleted,
                "seconds": duration / 1000,
            },
        )
        return RefreshReport(
            str(self.stream_table.name),
            refresh_id,
            decision.action,
            decision.reason,
            applied.inserted,
            applied.deleted,
            duration,
            tuple(self.reads),
            self.timings,
            costs.predicted_ms,
            costs.alternative_ms,
        )

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time a block takes to a step."""
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = (time.perf_counter() - began) * 1000
            self.timings[step] = round(self.timings.get(step, 0.0) + spent, 3)
