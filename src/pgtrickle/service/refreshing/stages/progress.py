"""The progress of a large refresh while it runs: rows read, rows staged, time spent.

Finished parts have written their counts into a table. For the others, PostgreSQL counts the rows of
every running COPY; the executors' sessions are found by their application name. Behind a pooler
that hides it, only whole parts count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from psycopg import Connection

from pgtrickle.catalog.refreshes.progress import clear_progress, set_progress
from pgtrickle.errors import TrickleError
from pgtrickle.model.report import Progress
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.periodic import repeated
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.staging import count_parts

STAGED = "staged"

_UNDER_WAY = """
    SELECT COALESCE(sum(p.tuples_processed) FILTER (WHERE p.command = 'COPY TO'), 0)::bigint,
           COALESCE(sum(p.tuples_processed) FILTER (WHERE p.command = 'COPY FROM'), 0)::bigint
      FROM pg_catalog.pg_stat_progress_copy AS p
      JOIN pg_catalog.pg_stat_activity AS a ON a.pid = p.pid
     WHERE a.datname = pg_catalog.current_database() AND a.application_name = %(name)s
"""


@dataclass(frozen=True, slots=True)
class ProgressReporter:
    """Reports the progress of one refresh to the database, and to a listener of this process."""

    runtime: Runtime
    stream_table: StreamTable
    started: float
    listener: Callable[[Progress], None] | None = None
    _told: list[tuple[int, int]] = field(default_factory=list)  # the last report

    @contextmanager
    def watching(self, stage: str, parts: QualifiedName) -> Iterator[None]:
        """Report the progress of the stage every few seconds, from a thread, during the block."""
        tell = partial(self._tell, stage=stage, parts=parts)
        seconds = self.runtime.settings.progress_seconds
        try:
            with repeated(self.runtime, "report the progress", seconds, tell):
                yield
        finally:
            with suppress(TrickleError), self.runtime.connection() as connection:
                clear_progress(connection, self.stream_table.id)

    def _tell(self, connection: Connection, stage: str, parts: QualifiedName) -> None:
        finished = count_parts(connection, parts)
        [(reading, staging)] = connection.execute(_UNDER_WAY, {"name": parts.name}).fetchall()
        staged = finished.pop(STAGED, 0)
        progress = Progress(
            str(self.stream_table.name),
            stage,
            sum(finished.values()) + reading,
            staged + staging,
            time.perf_counter() - self.started,
        )
        set_progress(
            connection,
            self.stream_table.id,
            stage=stage,
            rows_read=progress.rows_read,
            rows_staged=progress.rows_staged,
            seconds=progress.seconds,
        )
        if self._told[-1:] != [(progress.rows_read, progress.rows_staged)]:
            self._told[:] = [(progress.rows_read, progress.rows_staged)]
            self.runtime.engine.note_progress(str(self.stream_table.name))
        if self.listener is not None:
            self.listener(progress)
