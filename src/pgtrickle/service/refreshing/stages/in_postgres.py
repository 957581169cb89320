"""Stages that PostgreSQL computes, in the transaction that reads and writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from psycopg import Connection

from pgtrickle.algebra.nodes import Scan
from pgtrickle.capture.windows import window_predicate
from pgtrickle.delta.cut import RowsStage, StatefulStage
from pgtrickle.delta.reads import Read, ReadKind, fill_marks
from pgtrickle.model.report import SourceRead
from pgtrickle.plan.stages import StagePlan, changes_reads
from pgtrickle.postgres_engine.changes import Changes, collect_changes
from pgtrickle.postgres_engine.stage import compute_stage
from pgtrickle.service.refreshing.refresh import Prepared
from pgtrickle.service.refreshing.snapshot import BufferView
from pgtrickle.service.refreshing.stages.progress import ProgressReporter
from pgtrickle.service.refreshing.stages.staging import Staging
from pgtrickle.service.runtime import translated_errors
from pgtrickle.sql.text.current_time import Moments
from pgtrickle.sql.translate import Dialect
from pgtrickle.storage.staging import staging_table


@dataclass(frozen=True, slots=True)
class InPostgres:
    """Computes stages through the writer, which sees tables and buffers at the snapshot."""

    prepared: Prepared
    buffers: BufferView
    writer: Connection
    staging: Staging
    moments: Moments
    progress: ProgressReporter
    _changes: dict[str, dict[str, Changes]] = field(default_factory=dict)  # by stage

    @property
    def dialect(self) -> Dialect:
        """PostgreSQL's own."""
        return Dialect.POSTGRES

    def read_changes(
        self, stage: StatefulStage | RowsStage, scans: Sequence[Scan]
    ) -> Collection[str]:
        """Collect the changes of some scans; return the relations of those that have an effect."""
        account = self.prepared.account
        with account.timed("read"), translated_errors(), self._cancellable():
            found = [
                collect_changes(
                    self.writer,
                    f"{stage.name}__delta_{number}",
                    read,
                    [
                        (fill_marks(sql, self._window, {}, self.moments), source)
                        for sql, source in self._parts(read)
                    ],
                )
                for number, read in enumerate(changes_reads(stage, scans))
            ]
        account.add_reads(
            SourceRead(one.read.source, one.read.kind.value, one.read.bounded_by, one.rows, 0)
            for one in found
        )
        self._changes[stage.name] = {one.read.view: one for one in found if one.rows}
        return self._changes[stage.name]

    def compute(self, plan: StagePlan) -> None:
        """Compute a stage into its staging table."""
        name = plan.stage.name
        changes = self._changes.get(name, {})
        self.progress.note(f"{name}, computing")
        with self.prepared.account.timed("compute"), translated_errors(), self._cancellable():
            rows = compute_stage(self.writer, plan, changes, staging_table(name), self.moments)
        self.progress.note(f"{name}, staged", staged=rows)
        self.staging.use(name, staging_table(name))

    def _cancellable(self) -> AbstractContextManager[None]:
        name = str(self.prepared.stream_table.name)
        return self.prepared.refresh.runtime.jobs.statements(name, self.writer)

    @property
    def _window(self) -> str:
        frontier = self.prepared.stream_table.frontier
        if frontier is None:
            return "true"
        return window_predicate(frontier.snapshot, self.buffers.upper)

    def _parts(self, read: Read) -> list[tuple[str, Connection]]:
        """Return the queries of a read, each with the connection that sees its rows."""
        if read.kind is not ReadKind.CHANGES or self.buffers.upper is None:
            return [(read.sql, self.writer)]
        captured = (read.captured_sql or read.sql, self.buffers.connection)
        return [captured, *([(read.moved_sql, self.writer)] if read.moved_sql else [])]
