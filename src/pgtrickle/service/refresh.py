"""One refresh: the way of a change from the window to the maintained row.

The order of steps is the order of functions here: claim the lease, open the snapshot, decide,
read, compute, merge, apply, commit, trim.  Two transactions take part.  The *reader* holds the
snapshot that becomes the new frontier and writes nothing; the *writer* holds everything that is
to become visible, and commits once.  A crash before that commit leaves no trace but a lease that
expires.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
from psycopg import Connection

from pgtrickle.algebra.nodes import Scan
from pgtrickle.capture.fingerprint import list_all_files
from pgtrickle.catalog.bound_objects import find_disturbance
from pgtrickle.catalog.capture_gaps import note_crashes, tells_of_crash
from pgtrickle.catalog.dependencies import Dependency, list_dependencies
from pgtrickle.catalog.ducklake_sinks import find_sink
from pgtrickle.catalog.ducklake_sources import list_sources_among
from pgtrickle.catalog.fuses import restore_fuse
from pgtrickle.catalog.leases import Lease, check_lease
from pgtrickle.catalog.refresh_history import RefreshStatus, insert_refresh
from pgtrickle.catalog.stream_tables import (
    find_stream_table,
    update_frontier,
    update_needs_reinit,
    update_plan,
)
from pgtrickle.catalog.subscriptions import tell_subscribers
from pgtrickle.catalog.successors import is_successor
from pgtrickle.catalog.untrusted_types import check_types
from pgtrickle.delta.cut import RecomputeStage, RowsStage, StatefulStage, follows
from pgtrickle.delta.reads import stage_changes
from pgtrickle.errors import (
    DataError,
    ServerBusyError,
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
from pgtrickle.ports import ResultTooLargeError
from pgtrickle.refresh.decide import Decision, decide
from pgtrickle.refresh.stages import (
    StagePlan,
    changes_reads,
    changing_scans,
    plan_full,
    plan_stage,
)
from pgtrickle.service.capture_mode import LOSSES, drain_if_behind, hand_back
from pgtrickle.service.capture_sources import renew_captures
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import Compiled, compile_stream_table
from pgtrickle.service.costs import record_costs
from pgtrickle.service.facts import Findings, captured, gather_facts, look_at_ground
from pgtrickle.service.failures import note_failure
from pgtrickle.service.follow_lake import follow_sources, tell_positions
from pgtrickle.service.fuse import check_fuse
from pgtrickle.service.lake_sink import LeftDelivery, deliver_left, deliver_refresh, track
from pgtrickle.service.large_inputs import count_large_reads
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.other_versions import add_versions, write_versions
from pgtrickle.service.patience import explained
from pgtrickle.service.progress import ProgressReporter
from pgtrickle.service.read_inputs import count_reads
from pgtrickle.service.reinitialize import prepare_reinitialize
from pgtrickle.service.restored import is_foreign, settle_in
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.snapshot import BufferView, Snapshot, open_buffers, open_snapshot
from pgtrickle.service.stage_inputs import InputReader, Inputs
from pgtrickle.service.staging import Staging
from pgtrickle.service.state_rows import StateRows
from pgtrickle.service.trim import trim_sources
from pgtrickle.service.window import Window
from pgtrickle.spark.arrow_reader import SnapshotReader
from pgtrickle.sql.emit import changes_view
from pgtrickle.sql.translate import Dialect
from pgtrickle.storage.apply import (
    Applied,
    apply_result,
    ensure_row_index,
    load_result,
    weigh_result,
)
from pgtrickle.storage.merge import merge_aggregate
from pgtrickle.storage.recompute import merge_recompute
from pgtrickle.storage.staging import clear_parts, count_parts
from pgtrickle.storage.state_tables import lacks_state_tables
from pgtrickle.storage.tracking import Tracking

logger = logging.getLogger(__name__)

_CHANNEL = "pg_trickle_refresh"
_ATTEMPTS = 5  # to meet sources that nobody alters between the check and the snapshot
_LOSSES_MET = 20  # sources that the log may lose while one refresh looks on


def refresh_alone(
    runtime: Runtime,
    name: QualifiedName,
    *,
    full: bool = False,
    initiated_by: InitiatedBy = InitiatedBy.MANUAL,
) -> RefreshReport:
    """Bring one stream table up to date with its sources as they are."""
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
    # Relids of stream tables that were changed before in the same transaction: see ADR 0017.
    changed_before: frozenset[int] = frozenset()
    started: float = field(default_factory=time.perf_counter)
    timings: dict[str, float] = field(default_factory=dict)
    reads: list[SourceRead] = field(default_factory=list)
    decision: Decision | None = None
    plan: dict[str, dict[str, str]] = field(default_factory=dict)  # for later comparison
    reshaped: tuple[str, ...] = ()  # how what the query relies on changed, in words
    changed_rows: Mapping[str, int] = field(default_factory=dict)  # in the windows, by source
    moved: set[str] = field(default_factory=set)  # sources and stages that have changes
    unsettled: bool = False  # the frontier is not of this server's history
    crashes_noted: bool = False
    sources: tuple[int, ...] = ()  # the relids of all that has a file
    files: Mapping[str, str] = field(default_factory=dict)  # that store them, by the snapshot
    tracking: Tracking | None = None  # the places of the rows that were written, for a sink
    left: LeftDelivery | None = None  # to the lake, when all this is committed
    lake: tuple[tuple[str, int], ...] = ()  # the attached lake tables it reads, and how far

    @property
    def decision_made(self) -> Decision:
        """What was decided; a full refresh as long as nothing was."""
        return self.decision or Decision(Action.FULL, "")

    # The order of things

    def run(self, after: Callable[[Snapshot, Compiled], None] | None = None) -> RefreshReport:
        """Do the refresh; the caller holds the lease.

        ``after`` is called when the result is committed and, with ``hold_snapshot``, while the
        snapshot it belongs to can still be read.
        """
        if self.stream_table.circle is not None:
            raise ServerBusyError(
                f'"{self.stream_table.name}" has come to read itself through others meanwhile',
                hint="Refresh it again: all of them are refreshed together.",
            )
        for attempt in range(_ATTEMPTS):
            compiled, dependencies = self.prepare(again=attempt > 0)
            sources = [one.source_relid for one in captured(dependencies)]
            with self.timed("prepare"):
                renew_captures(self.runtime, sources)
            with self._opened(sources) as (snapshot, buffers):
                report = self.refresh_to(snapshot, buffers, compiled, dependencies)
                if report is not None and after is not None:
                    after(snapshot, compiled)
            if report is not None:
                break
        else:
            raise ServerBusyError(
                f'the sources of "{self.stream_table.name}" are being altered again and again',
                hint="Refresh again when that is done.",
            )
        if report.action is not Action.NO_DATA:
            with self.timed("trim"):
                trim_sources(self.runtime, sources, token=self.lease.token)
        self.deliver_left()
        return report

    def deliver_left(self) -> None:
        """Deliver what the refresh has left; it is committed and still has the lease."""
        if self.left is not None:
            with self.timed("lake"):
                deliver_left(self.runtime, self.stream_table, self.lease, self.left)
            self.left = None

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Put a failure into the history and onto the stream table."""
        try:
            yield
        except TrickleError as error:
            loss = ""
            # Nothing can be recorded without a server; the original error matters more.
            told: TrickleError = error
            with suppress(TrickleError), self.runtime.connection() as connection:
                loss = self._find_loss(connection)
                told = self._explained(connection, error)
                self._record_failure(connection, told)
            if loss:
                raise StreamTableNotFoundError(
                    f'the stream table "{self.stream_table.name}" {loss}',
                    hint="List what exists with: pgtrickle list; a lost table is cleared away with:"
                    f" pgtrickle drop {self.stream_table.name}.",
                ) from error
            if told is not error:
                raise told from error
            raise

    def _explained(self, connection: Connection, error: TrickleError) -> TrickleError:
        """Return an error with the names of those who have locked what the refresh needs."""
        sources = self.sources or [
            one.source_relid for one in list_dependencies(connection, self.stream_table.id)
        ]
        return explained(connection, error, sources, [self.stream_table.relid])

    # Steps

    def prepare(self, *, again: bool) -> tuple[Compiled, list[Dependency]]:
        """Make sure that the query is compiled and captured as its sources are now.

        That a compiled query still fits is asked once, under the snapshot; ``again`` if that
        showed that it does not.
        """
        with self.timed("prepare"), self.runtime.connection() as connection:
            key = (self.stream_table.id, self.stream_table.original_query)
            found = list_dependencies(connection, self.stream_table.id)
            restored: tuple[str, ...] = ()
            if self.unsettled:
                self.stream_table, restored = settle_in(connection, self.stream_table, found)
                self.unsettled, self.reshaped = False, ()
            if self.runtime.compiled_for.get(self.stream_table.id) != _shape(found):
                self.runtime.compiled.pop(key, None)
            if again or restored or key not in self.runtime.compiled:
                ground = look_at_ground(connection, self.stream_table, found)
                if ground.rivals:
                    self.runtime.compiled.pop(key, None)
                if reshaped := restored or ground.reshaped:
                    prepare_reinitialize(self.runtime, self.stream_table, reshaped)
                    self.reshaped += reshaped
                    found = list_dependencies(connection, self.stream_table.id)
            compiled = self._compile(connection)
            check_types(connection, compiled.binding.types)
            self.runtime.compiled_for[self.stream_table.id] = _shape(found)
            if compiled.refusal is None and self.stream_table.downgrade_reason is not None:
                # Compiled by an earlier version that could not: there is no state yet.
                self.reshaped += ("a later version can follow the changes of this query",)
                prepare_reinitialize(self.runtime, self.stream_table, self.reshaped)
            elif self.stream_table.needs_reinit and lacks_state_tables(
                connection, self.stream_table.id, compiled.staged
            ):
                self.reshaped += ("a table that holds its state was dropped",)
                prepare_reinitialize(self.runtime, self.stream_table, self.reshaped)
        with self.timed("lake_sources"):
            followed = follow_sources(
                self.runtime,
                [one.source_relid for one in found],
                lambda: keep_lease(self.runtime, self.lease),
            )
            self.lake = tell_positions(followed)
        return compiled, found

    @contextmanager
    def _opened(self, sources: Sequence[int]) -> Iterator[tuple[Snapshot, BufferView]]:
        """Open the snapshot, and the buffers filled up to it.

        What the log has lost goes back to triggers.  They are younger than the snapshot, so
        another one is taken then.
        """
        with ExitStack() as stack:
            for losses_left in reversed(range(_LOSSES_MET)):
                try:
                    with self.timed("capture"), self.runtime.connection() as connection:
                        drain_if_behind(self.runtime, connection, sources)
                    snapshot = stack.enter_context(open_snapshot(self.runtime))
                    with self.timed("capture"):
                        buffers = stack.enter_context(open_buffers(self.runtime, snapshot, sources))
                except LOSSES as error:
                    stack.close()
                    if not losses_left:
                        raise
                    hand_back(self.runtime, error)
                else:
                    break
            yield snapshot, buffers

    def refresh_to(
        self,
        snapshot: Snapshot,
        buffers: BufferView,
        compiled: Compiled,
        dependencies: Sequence[Dependency],
    ) -> RefreshReport | None:
        """Refresh to a snapshot, or return None if it sees other sources than were captured.

        Likewise if a source or buffer was truncated or rewritten between the snapshot and a read.
        """
        findings = self.look(snapshot, buffers, compiled, dependencies)
        if findings is None:
            return None
        with self.timed("decide"):
            self.decision = decide(findings.facts)
        self.check_fuse(snapshot)
        try:
            if self.decision.action is Action.NO_DATA:
                return self.commit_nothing(snapshot, compiled)
            # The transaction of a group has locked the lease: nobody else can take it.
            kept = nullcontext() if snapshot.writes else keep_lease(self.runtime, self.lease)
            with kept, self.runtime.jobs.named(str(self.stream_table.name)):
                return self._execute(snapshot, buffers, compiled, findings.changed)
        except ReadInVainError:
            return None
        except TrickleError:
            if snapshot.connection.closed or not self.read_in_vain():
                raise
            return None

    def look(
        self,
        snapshot: Snapshot,
        buffers: BufferView,
        compiled: Compiled,
        dependencies: Sequence[Dependency],
        *,
        priced: bool = True,
    ) -> Findings | None:
        """Find out what the refresh must know; None if the snapshot sees other sources."""
        if self.decision is None and is_foreign(self.stream_table.frontier, snapshot.frontier):
            self.unsettled, self.decision = True, Decision(Action.REINITIALIZE, "")
            return None
        with self.timed("decide"):
            ground = look_at_ground(snapshot.connection, self.stream_table, dependencies)
            if ground.reshaped or ground.rivals:
                return None
            findings = gather_facts(
                self.runtime,
                self.stream_table,
                snapshot,
                buffers,
                dependencies,
                compiled,
                reshaped=self.reshaped,
                requested_full=self.requested_full,
                priced=priced,
            )
            self.sources = tuple(one.source_relid for one in dependencies)
            if self.lake:
                # Others may have followed the lake since: the snapshot sees rows and position.
                self.lake = tell_positions(list_sources_among(snapshot.connection, self.sources))
            self.files = list_all_files(snapshot.connection, self.sources)
            if not self.crashes_noted and any(map(tells_of_crash, findings.facts.gaps)):
                self._note_crashes()
                return None
            self.plan = findings.plan
            self.changed_rows = findings.facts.changed_rows
            return findings

    def check_fuse(self, snapshot: Snapshot) -> None:
        """Stop before a sudden mass change, if nobody has asked for this refresh."""
        if self.initiated_by is InitiatedBy.SCHEDULER:
            check_fuse(self.runtime, snapshot.connection, self.stream_table, self.changed_rows)

    def _note_crashes(self) -> None:
        """Turn what a crash has emptied into gaps, which end when all consumers have seen them."""
        with self.runtime.connection() as connection:
            note_crashes(connection)
        self.crashes_noted = True

    def read_in_vain(self) -> bool:
        """Tell whether a relation looked empty, because its file was replaced meanwhile."""
        with self.runtime.connection() as connection:
            return list_all_files(connection, self.sources) != self.files

    def _means_other(self, writer: Connection, snapshot: Snapshot, compiled: Compiled) -> bool:
        """Tell whether what was read may have been computed by other functions than were meant.

        They are found by name when a read begins, which is after they were compared.
        """
        if not self.sources or not any(one.called for one in compiled.binding.objects):
            return False
        # The transaction of a group sees the catalog as it was.
        lent = self.runtime.connection() if snapshot.writes else nullcontext(writer)
        with lent as connection:
            found = find_disturbance(connection, self.stream_table.id)
        return found.rivals or bool(found.changes)

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
            seconds = self.runtime.settings.planning_timeout_seconds
            compiled = compile_stream_table(connection, self.stream_table, seconds)
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
        with staging.cleaned_up(), self._writing(snapshot) as writer:
            with ExitStack() as stack:
                connections = stack.enter_context(self._reader(snapshot.name))
                of_buffers = connections
                if buffers.name != snapshot.name:
                    of_buffers = stack.enter_context(self._reader(buffers.name))
                reader = InputReader(
                    self.runtime,
                    self.stream_table,
                    snapshot,
                    Window(buffers, of_buffers, self.stream_table.frontier),
                    connections,
                    writer,
                    staging,
                    self.changed_rows,
                    through_writer=not self.changed_before.isdisjoint(self.sources),
                )
                stages = (
                    self._full_stages(compiled)
                    if self._full
                    else self._differential_stages(compiled, reader)
                )
                for stage, changes in stages:
                    self.check_cancelled()
                    self._run_stage(stage, changes, reader, writer, staging)
            buffers.release()
            if not self.hold_snapshot:
                snapshot.release()
            self.check_cancelled()
            with self.timed("apply"), translated_errors():
                if self._means_other(writer, snapshot, compiled):
                    raise ReadInVainError  # the outermost select list is about to be computed
                applied = self._apply(writer, compiled, staging)
            self.check_cancelled()
            with self.timed("commit"):
                report = self.commit(writer, snapshot, compiled, applied)
                if compiled.opaque and compiled.refusal is None:
                    # The state tables have not followed: the next refresh starts them anew.
                    update_needs_reinit(writer, self.stream_table.id, needs_reinit=True)
        return report

    def check_cancelled(self) -> None:
        """Raise ST214 if someone has cancelled the refresh."""
        self.runtime.jobs.check(str(self.stream_table.name))

    @contextmanager
    def _writing(self, snapshot: Snapshot) -> Iterator[Connection]:
        """Yield the connection in whose transaction everything is written."""
        if snapshot.writes:
            # Only what this stream table wrote is taken back if it has to be done in another way.
            with snapshot.connection.transaction():
                yield snapshot.connection
        else:
            with self.runtime.connection() as writer, writer.transaction():
                yield writer

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
            yield stage, Inputs()

    def _differential_stages(
        self, compiled: Compiled, reader: InputReader
    ) -> Iterator[tuple[StagePlan, Inputs]]:
        """Yield each stage that has something to do, with the changes it starts from.

        Which one has is known only when those before it are done: a change may cancel out, or
        leave no trace in what an aggregate shows.
        """
        for stage in compiled.staged.stages:
            scans = changing_scans(stage, self.moved)
            changes = Inputs()
            if scans and follows(stage) is None:
                with self.timed("read"):
                    changes = reader.read(changes_reads(stage, scans))
                self.reads += count_reads(changes.reads, changes.tables)
                changes = changes.consolidated()
                scans = [scan for scan in scans if changes_view(scan) in changes]
            planned = self._plan_stage(compiled, stage, scans) if scans else None
            if planned is not None:
                yield planned, changes

    def _plan_stage(
        self, compiled: Compiled, stage: StatefulStage | RowsStage, scans: Sequence[Scan]
    ) -> StagePlan | None:
        aliases = frozenset(scan.alias for scan in scans)
        key = (stage.name, aliases)
        if key not in compiled.plans:
            own = follows(stage) is not None
            dialect = Dialect.POSTGRES if own else self.runtime.engine.dialect
            planned = plan_stage(
                stage, aliases, dialect, self._state_rows(compiled), compiled.known
            )
            if planned is None:
                return None
            compiled.plans[key] = planned
        return compiled.plans[key]

    def _run_stage(
        self,
        stage: StagePlan,
        changes: Inputs,
        reader: InputReader,
        writer: Connection,
        staging: Staging,
    ) -> None:
        if not self._full and follows(stage.stage) is not None:
            staging.use(stage.stage.name, f"({stage.as_query}) AS staged")
        else:
            self._compute(stage, changes, reader, writer, staging)
        if not isinstance(stage.stage, RowsStage):
            with self.timed("merge"), translated_errors():
                self._merge(writer, stage.stage, staging.table(stage.stage.name))

    def _compute(
        self,
        stage: StagePlan,
        changes: Inputs,
        reader: InputReader,
        writer: Connection,
        staging: Staging,
    ) -> None:
        with self.timed("read"):
            rest = reader.read([read for read in stage.reads if read.view not in changes], changes)
            inputs = changes.of({read.view for read in stage.reads}, rest)
        self.reads += count_reads(rest.reads, rest.tables)
        self.check_cancelled()
        result = None if inputs.large else self._compute_small(stage, inputs.tables)
        if result is None:
            with self.timed("compute"):
                self._compute_large(stage, inputs, staging)
        else:
            with self.timed("stage"), translated_errors():
                staging.copy(writer, stage, result)

    def _compute_small(self, stage: StagePlan, tables: Mapping[str, pa.Table]) -> pa.Table | None:
        """Return the result of a stage over relations in memory; None where it is too large."""
        try:
            with self.timed("compute"):
                engine = self.runtime.engine
                return engine.run(*add_versions(stage, tables, engine.dialect))
        except ResultTooLargeError:
            return None

    def _compute_large(self, stage: StagePlan, inputs: Inputs, staging: Staging) -> None:
        """Let the executors write the result of a stage, and tell how far they are."""
        table, parts = staging.create_shared(stage), staging.parts()
        reporter = ProgressReporter(
            self.runtime, self.stream_table, self.started, self.runtime.progress
        )
        with self.runtime.connection() as connection:
            clear_parts(connection, parts)
        with reporter.watching(stage.stage.name, parts):
            engine = self.runtime.engine
            sql = write_versions(stage.sql, stage.versions, engine.dialect)
            engine.stage(sql, {**inputs.tables, **inputs.large}, table, parts)
        with self.runtime.connection() as connection:
            rows = count_parts(connection, parts)
        self.reads += count_large_reads(inputs.reads, inputs.large, rows)

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

    def _apply(self, writer: Connection, compiled: Compiled, staging: Staging) -> Applied:
        rows = compiled.staged.rows
        self.tracking = None  # that of an attempt before is gone with its transaction
        moved = rows.name in staging or rows.passes_through in self.moved
        if not self._full and not moved:
            return Applied(0, 0)
        name = self.stream_table.name
        self.tracking = track(writer, self.stream_table, compiled)
        condition, weight = None, "__weight"
        if rows.passes_through is None:
            source = staging.table(rows.name)
        else:
            condition = rows.body.predicate if isinstance(rows.body, Scan) else None
            source = stage_changes(rows.passes_through)
            if self._full:
                stored = self._state_rows(compiled)(rows.passes_through)
                source, weight = f"({stored}) AS stored", "1"
        if not self._full:
            weigh_result(writer, rows.outputs, source, condition, weight=weight, less=None)
            return apply_result(writer, name, compiled.columns, self.tracking)
        applied = load_result(writer, name, rows.outputs, source, condition, weight=weight)
        ensure_row_index(writer, name, compiled.columns)
        if applied is None:
            weigh_result(writer, rows.outputs, source, condition, weight=weight, less=name)
            applied = apply_result(writer, name, compiled.columns, self.tracking)
        else:
            self.tracking = None  # filled from nothing: a sink takes all of it
        writer.execute(f"ANALYZE {name.sql}".encode())
        return applied

    def commit(
        self, writer: Connection, snapshot: Snapshot, compiled: Compiled, applied: Applied
    ) -> RefreshReport:
        """Make contents, state, frontier, history, notification and lake visible at once."""
        # The transaction of a group sees the catalog as it was.
        files = None if snapshot.writes else list_all_files(writer, self.sources)
        if self.read_in_vain() if files is None else files != self.files:
            raise ReadInVainError
        if self._means_other(writer, snapshot, compiled):
            raise ReadInVainError
        check_lease(writer, self.stream_table.id, self.lease.token)
        frontier = replace(snapshot.frontier, lake=self.lake)
        update_frontier(
            writer,
            self.stream_table.id,
            frontier,
            previous=self.stream_table.frontier,
            data_timestamp=snapshot.taken_at,
        )
        decision = self.decision_made
        if decision.action in {Action.FULL, Action.REINITIALIZE}:
            update_plan(writer, self.stream_table.id, self.plan)
        if self.changed_rows:
            restore_fuse(writer, self.stream_table.id)
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
        # Nobody is told of a successor: what it holds is not to be seen yet.
        if (applied.inserted or applied.deleted) and not is_successor(self.stream_table.name):
            [(told,)] = writer.execute(
                "SELECT pgtrickle.notify(%s, pg_catalog.json_build_object("
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
            ).fetchall()
            if not told:
                logger.warning(
                    "the queue of notifications is filling up: a refresh is not told to listeners",
                    extra={"stream_table": str(self.stream_table.name), "refresh_id": refresh_id},
                )
            tell_subscribers(
                writer,
                self.stream_table.id,
                refresh_id,
                inserted=applied.inserted,
                deleted=applied.deleted,
                coalesce_ms=self.runtime.settings.notify_coalesce_ms,
            )
        sink = find_sink(writer, self.stream_table.id)
        if sink is not None:
            with self.timed("lake"):
                self.left = deliver_refresh(
                    self.runtime,
                    writer,
                    self.stream_table,
                    sink,
                    compiled.columns,
                    self.tracking,
                    refresh_id=refresh_id,
                    frontier=frontier,
                    written=bool(applied.inserted or applied.deleted),
                )
        return self._report(refresh_id, applied)

    def commit_nothing(self, snapshot: Snapshot, compiled: Compiled) -> RefreshReport:
        """Move the frontier of a stream table whose rows stay as they are."""
        self.tracking = None
        with self.timed("commit"), self._writing(snapshot) as writer:
            if snapshot.writes:
                return self.commit(writer, snapshot, compiled, Applied(0, 0))
            # A crash that forgets this only makes the next refresh look at the same window.
            writer.execute("SET LOCAL synchronous_commit = off")
            return self.commit(writer, snapshot, compiled, Applied(0, 0))

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
            note_failure(self.runtime, connection, self.stream_table, error, self.initiated_by)

    def _costs(self, decision: Decision | None) -> CostRecord:
        spent = (time.perf_counter() - self.started) * 1000 - self.timings.get("prepare", 0.0)
        return record_costs(self.stream_table, decision, spent)

    def _report(self, refresh_id: int, applied: Applied) -> RefreshReport:
        decision = self.decision_made
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


class ReadInVainError(Exception):
    """What was read counts for nothing: the refresh starts again from a later snapshot."""


def _shape(dependencies: Sequence[Dependency]) -> tuple[tuple[int, str], ...]:
    return tuple((one.source_relid, one.schema_fingerprint) for one in dependencies)
