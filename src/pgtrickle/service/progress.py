"""How far a large refresh is: rows read, rows staged, time spent; told while it runs.

Parts that are done have written their counts into a table.  What the others have done so far is
known to PostgreSQL itself, which counts the rows of every COPY under way; the executors' sessions
are found by the name they give themselves.  Behind a pooler that hides it, only whole parts count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from psycopg import Connection

from pgtrickle.catalog.refresh_progress import clear_progress, set_progress
from pgtrickle.errors import TrickleError
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import Progress
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.repeat import repeated
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
    """Tells how far one refresh is: to the database, and to a listener of this process."""

    runtime: Runtime
    stream_table: StreamTable
    started: float
    listener: Callable[[Progress], None] | None = None
    _told: list[tuple[int, int]] = field(default_factory=list)  # what was told last

    @contextmanager
    def watching(self, stage: str, parts: QualifiedName) -> Iterator[None]:
        """Tell from a thread, every few seconds, how far the stage is, until the block ends."""
        tell = partial(self._tell, stage=stage, parts=parts)
        seconds = self.runtime.settings.progress_seconds
        try:
            with repeated(self.runtime, "tell the progress", seconds, tell):
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
