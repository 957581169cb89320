"""Execute the decision, stage by stage: read, compute, merge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.algebra.nodes import Scan
from pgtrickle.algebra.schema import scans_of
from pgtrickle.delta.cut import RecomputeStage, RowsStage, StatefulStage, follows
from pgtrickle.delta.layout import WEIGHT
from pgtrickle.delta.reads import ReadKind, stage_changes
from pgtrickle.extras import require
from pgtrickle.model.stream_table import Action
from pgtrickle.plan.decide import Decision
from pgtrickle.plan.stages import StagePlan, changing_scans, plan_full, plan_stage
from pgtrickle.service.refreshing.contents import Rows
from pgtrickle.service.refreshing.findings import Findings
from pgtrickle.service.refreshing.refresh import Prepared, Refresh
from pgtrickle.service.refreshing.snapshot import BufferView, Snapshot
from pgtrickle.service.refreshing.stages.computer import Computer
from pgtrickle.service.refreshing.stages.computers import Computers
from pgtrickle.service.refreshing.stages.progress import ProgressReporter
from pgtrickle.service.refreshing.stages.staging import Staging
from pgtrickle.service.refreshing.stages.state_rows import StateRows
from pgtrickle.service.runtime import translated_errors
from pgtrickle.sql.emit import changes_view
from pgtrickle.sql.text.current_time import Moments
from pgtrickle.sql.translate import Dialect
from pgtrickle.storage.fill import copy_state, empty_state, fill_state, state_is_empty
from pgtrickle.storage.merge import merge_aggregate
from pgtrickle.storage.recompute import merge_recompute


@dataclass(frozen=True, slots=True)
class Work:
    """The decision of a refresh, and its snapshot."""

    prepared: Prepared
    findings: Findings
    decision: Decision
    snapshot: Snapshot
    buffers: BufferView
    # Relids of stream tables that were changed earlier in the same transaction: see ADR 0017.
    changed_before: frozenset[int] = frozenset()

    @property
    def full(self) -> bool:
        """Whether all rows are computed again, and not only the change."""
        return self.decision.action is not Action.DIFFERENTIAL

    @property
    def moments(self) -> Moments:
        """The current time of the old contents and of the new ones, in a query that follows it."""
        before, after = self.prepared.stream_table.frontier, self.findings.basis.frontier
        return Moments.between(
            before.time.at if before is not None and before.time is not None else None,
            after.time.at if after.time is not None else None,
        )


def execute(work: Work, writer: Connection, staging: Staging) -> Rows | None:
    """Bring the state up to date; return the rows of the result, or of its change.

    None if the changes do not reach the result.
    """
    refresh = work.prepared.refresh
    progress = ProgressReporter(
        refresh.runtime, refresh.stream_table, refresh.account.started, refresh.runtime.progress
    )
    with ExitStack() as stack:
        if work.full:
            stack.enter_context(progress.watching())
        computers = _computers(work, writer, staging, progress, stack)
        stages = _Stages(work, computers, writer, staging, progress)
        moved = frozenset[str]()
        if work.full:
            stages.recompute()
        else:
            moved = stages.follow(work.findings.changed)
    rows = work.prepared.compiled.staged.rows
    if rows.passes_through is None:
        if not work.full and rows.name not in staging:
            return None
        return Rows(rows.outputs, staging.table(rows.name), weight=WEIGHT)
    condition = rows.body.predicate if isinstance(rows.body, Scan) else None
    if work.full:
        stored = _state_rows(work.prepared)(rows.passes_through)
        return Rows(rows.outputs, f"({stored}) AS stored", condition)
    if rows.passes_through not in moved:
        return None
    return Rows(rows.outputs, stage_changes(rows.passes_through), condition, WEIGHT)


def _computers(
    work: Work,
    writer: Connection,
    staging: Staging,
    progress: ProgressReporter,
    stack: ExitStack,
) -> Computers:
    """Return the engines, of which only those get ready that a stage needs."""

    # Each is imported when it is needed: a refresh without Spark needs no Arrow either.
    @contextmanager
    def in_postgres() -> Iterator[Computer]:
        from pgtrickle.service.refreshing.stages.in_postgres import InPostgres  # noqa: PLC0415

        yield InPostgres(work.prepared, work.buffers, writer, staging, work.moments, progress)

    @contextmanager
    def on_engine() -> Iterator[Computer]:
        require("pyspark")  # before Arrow, which Spark brings: the error names what is wanted
        from pgtrickle.service.refreshing.stages import on_engine as engine  # noqa: PLC0415

        with engine.on_engine(
            work.prepared,
            work.snapshot,
            work.buffers,
            writer,
            staging,
            work.findings.window_rows,
            work.moments,
            progress,
            through_writer=not work.changed_before.isdisjoint(work.findings.basis.sources),
        ) as computer:
            yield computer

    return Computers(stack, in_postgres, on_engine)


def _state_rows(prepared: Prepared) -> StateRows:
    return StateRows(prepared.stream_table.id, prepared.compiled)


@dataclass(frozen=True, slots=True)
class _Stages:
    """Runs the stages of one refresh."""

    work: Work
    computers: Computers
    writer: Connection
    staging: Staging
    progress: ProgressReporter

    @property
    def _prepared(self) -> Prepared:
        return self.work.prepared

    @property
    def _refresh(self) -> Refresh:
        return self.work.prepared.refresh

    def recompute(self) -> None:
        """Compute every stage from all rows of its sources."""
        staged = self._prepared.compiled.staged
        if self._prepared.compiled.binding.watched:
            # The same rows may have another answer now, and a merge looks only at rows that differ.
            for stage in staged.stateful:
                empty_state(self.writer, self._prepared.stream_table.id, stage)
        rows = _state_rows(self._prepared)
        plan = plan_full(staged, self._prepared.dialect, rows, merged=True)
        # PostgreSQL reads the state itself; another engine reads a copy.
        copied = frozenset(
            read.source
            for one in plan.stages
            if one.dialect is not Dialect.POSTGRES
            for read in one.reads
            if read.kind is ReadKind.STAGE
        )
        for one in plan.stages:
            with self._refresh.account.at_stage(one.stage.name):
                self._run(one)
                if one.stage.name in copied:
                    copy_state(self.writer, one.stage.name, rows(one.stage.name))

    def follow(self, changed: frozenset[str]) -> frozenset[str]:
        """Derive the changes from the changed sources; return the stages that have changes, too.

        Only when the earlier stages are done is it known whether a stage has work: a change may
        cancel out, or not alter the result of an aggregate.
        """
        moved = changed
        for stage in self._prepared.compiled.staged.stages:
            with self._refresh.account.at_stage(stage.name):
                if self._follow_stage(stage, moved):
                    moved |= {stage.name}
        return moved

    def _follow_stage(self, stage: StatefulStage | RowsStage, moved: frozenset[str]) -> bool:
        """Follow the changes of one stage's inputs; return whether its state has changed."""
        scans = changing_scans(stage, moved)
        if scans and follows(stage) is None:
            found = self.computers.of(self._dialect_of(stage)).read_changes(stage, scans)
            scans = [scan for scan in scans if changes_view(scan) in found]
        used = {scan.alias for scan in scans}
        self._refresh.account.note_pruned(
            [
                str(scan.source.relation or scan.source.key)
                for scan in scans_of(stage.body)
                if scan.alias not in used
            ]
        )
        plan = self._plan(stage, scans) if scans else None
        return plan is not None and self._run(plan)

    def _plan(self, stage: StatefulStage | RowsStage, scans: Sequence[Scan]) -> StagePlan | None:
        compiled = self._prepared.compiled
        aliases = frozenset(scan.alias for scan in scans)
        own = follows(stage) is not None
        dialect = Dialect.POSTGRES if own else self._dialect_of(stage)
        key = (stage.name, aliases, dialect)
        planned = compiled.plans.get(key)
        if planned is None:
            planned = plan_stage(
                stage, aliases, dialect, _state_rows(self._prepared), compiled.known
            )
            if planned is not None:
                compiled.plans.put(key, planned)
        return planned

    def _dialect_of(self, stage: StatefulStage | RowsStage) -> Dialect:
        return self._prepared.compiled.staged.dialect_of(stage, self._prepared.dialect)

    def _run(self, plan: StagePlan) -> bool:
        """Compute one stage and merge it into its state; return whether that has changed."""
        self._refresh.check_cancelled()
        if not self.work.full and follows(plan.stage) is not None:
            self.staging.use(plan.stage.name, f"({plan.as_query}) AS staged")
        else:
            self.computers.of(plan.dialect).compute(plan)
        staged = self.staging.table(plan.stage.name)
        self._refresh.account.note_computed(plan.dialect.value, self.writer, staged)
        if isinstance(plan.stage, RowsStage):
            return False
        self.progress.note(f"{plan.stage.name}, storing")
        with self._refresh.account.timed("merge"), translated_errors():
            return self._merge(plan.stage, plan.dialect)

    def _merge(self, stage: StatefulStage, dialect: Dialect) -> bool:
        """Merge the computed rows into the state of a stage; return whether that has changed."""
        table, staged = self._prepared.stream_table.id, self.staging.table(stage.name)
        if self.work.full and state_is_empty(self.writer, table, stage):
            grouped = dialect is Dialect.POSTGRES
            return bool(fill_state(self.writer, table, stage, staged, grouped=grouped))
        if isinstance(stage, RecomputeStage):
            changes = merge_recompute(self.writer, table, stage, staged, replace=self.work.full)
        else:
            changes = merge_aggregate(self.writer, table, stage, staged, replace=self.work.full)
        return bool(changes)
