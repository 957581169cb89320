"""Stages that the engine of the process computes: Arrow in, Arrow or staged rows out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from psycopg import Connection

from pgtrickle.algebra.nodes import Scan
from pgtrickle.delta.cut import RowsStage, StatefulStage
from pgtrickle.delta.reads import ReadKind
from pgtrickle.plan.stages import StagePlan, changes_reads
from pgtrickle.ports import ResultTooLargeError
from pgtrickle.service.refreshing.inputs.change_window import Window
from pgtrickle.service.refreshing.inputs.large import count_large_reads
from pgtrickle.service.refreshing.inputs.of_stage import InputReader, Inputs
from pgtrickle.service.refreshing.inputs.small import count_reads
from pgtrickle.service.refreshing.refresh import Prepared
from pgtrickle.service.refreshing.snapshot import BufferView, Snapshot
from pgtrickle.service.refreshing.stages.progress import STAGED, ProgressReporter
from pgtrickle.service.refreshing.stages.source_versions import add_versions, write_versions
from pgtrickle.service.refreshing.stages.staging import Staging
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.sql.text.current_time import Moments
from pgtrickle.sql.translate import Dialect
from pgtrickle.storage.staging import clear_parts, count_parts
from pgtrickle.transit.arrow_reader import SnapshotReader


@dataclass(frozen=True, slots=True)
class OnEngine:
    """Computes stages on Spark: small inputs pass through this process, large ones do not."""

    prepared: Prepared
    reader: InputReader
    writer: Connection
    staging: Staging
    progress: ProgressReporter
    _changes: dict[str, Inputs] = field(default_factory=dict)  # by stage

    @property
    def dialect(self) -> Dialect:
        """The dialect of the engine."""
        return self._runtime.engine.dialect

    @property
    def _runtime(self) -> Runtime:
        return self.prepared.refresh.runtime

    def read_changes(
        self, stage: StatefulStage | RowsStage, scans: Sequence[Scan]
    ) -> Collection[str]:
        """Read the changes that a stage starts from, without those that cancel out."""
        account = self.prepared.account
        with account.timed("read"):
            changes = self.reader.read(changes_reads(stage, scans))
            account.note_queries(changes.queries, self.reader.window.buffers.connection)
        account.add_reads(count_reads(changes.reads, changes.tables))
        kept = self._changes[stage.name] = changes.consolidated()
        return {*kept.tables, *kept.large}

    def compute(self, plan: StagePlan) -> None:
        """Read the rest of a stage's inputs, compute it and stage its result."""
        account, changes = self.prepared.account, self._changes.get(plan.stage.name, Inputs())
        self.progress.note(f"{plan.stage.name}, reading")
        with account.timed("read"):
            rest = self.reader.read(
                [read for read in plan.reads if read.view not in changes], changes
            )
            inputs = changes.of({read.view for read in plan.reads}, rest)
            account.note_queries(self._sent_elsewhere(rest), self.reader.snapshot.connection)
        small = count_reads(rest.reads, rest.tables)
        account.add_reads(small)
        self.prepared.refresh.check_cancelled()
        read = sum(one.rows for one in small)
        starting = "starting the engine and " if self._runtime.engine.start_ms else ""
        self.progress.note(f"{plan.stage.name}, {starting}computing", read=read)
        result = None if inputs.large else self._compute_small(plan, inputs.tables)
        if result is None:
            with account.timed("compute"):
                self._compute_large(plan, inputs)
        else:
            self.progress.note(f"{plan.stage.name}, staging", staged=result.num_rows)
            with account.timed("stage"), translated_errors():
                self.staging.copy(self.writer, plan, result)

    @staticmethod
    def _sent_elsewhere(inputs: Inputs) -> dict[str, str]:
        """Return the queries that did not go through the writer."""
        elsewhere = [one.view for one in inputs.reads if one.kind is not ReadKind.STAGE]
        return {view: inputs.queries[view] for view in elsewhere if view in inputs.queries}

    def _compute_small(self, plan: StagePlan, tables: Mapping[str, pa.Table]) -> pa.Table | None:
        """Return the result of a stage over relations in memory; None where it is too large."""
        engine = self._runtime.engine
        try:
            with self.prepared.account.timed("compute"):
                return engine.run(*add_versions(plan, tables, engine.dialect))
        except ResultTooLargeError:
            return None

    def _compute_large(self, plan: StagePlan, inputs: Inputs) -> None:
        """Let the executors write the result of a stage, and tell how far they are."""
        runtime, account = self._runtime, self.prepared.account
        table, parts = self.staging.create_shared(plan), self.staging.parts()
        with runtime.connection() as connection:
            clear_parts(connection, parts)
        with self.progress.executors(parts):
            sql = write_versions(plan.sql, plan.versions, runtime.engine.dialect)
            runtime.engine.stage(sql, {**inputs.tables, **inputs.large}, table, parts)
        with runtime.connection() as connection:
            rows = count_parts(connection, parts)
        large = count_large_reads(inputs.reads, inputs.large, rows)
        account.add_reads(large)
        read, staged = sum(one.rows for one in large), rows.get(STAGED, 0)
        self.progress.note(f"{plan.stage.name}, staged", read=read, staged=staged)


@contextmanager
def on_engine(
    prepared: Prepared,
    snapshot: Snapshot,
    buffers: BufferView,
    writer: Connection,
    staging: Staging,
    window_rows: Mapping[str, int],
    moments: Moments,
    progress: ProgressReporter,
    *,
    through_writer: bool,
) -> Iterator[OnEngine]:
    """Open the connections that read at the moment of the refresh, for the length of a block."""
    runtime = prepared.refresh.runtime
    with ExitStack() as stack:
        reader = stack.enter_context(_connections(runtime, snapshot.name))
        of_buffers = reader
        if buffers.name != snapshot.name:
            of_buffers = stack.enter_context(_connections(runtime, buffers.name))
        inputs = InputReader(
            runtime,
            prepared.stream_table,
            snapshot,
            Window(
                buffers,
                of_buffers,
                prepared.stream_table.frontier,
                snapshot.connection,
                moments,
            ),
            reader,
            writer,
            staging,
            window_rows,
            through_writer=through_writer,
        )
        yield OnEngine(prepared, inputs, writer, staging, progress)


def _connections(runtime: Runtime, snapshot: str) -> SnapshotReader:
    return SnapshotReader(runtime.reads(), snapshot, width=runtime.settings.read_connections)
