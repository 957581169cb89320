"""The progress of a refresh while it runs: its stage and step, rows read and staged, time spent.

A computation of everything is reported from its first second, whoever computes; a refresh that
follows changes, from its first stage that executors compute.

Finished parts have written their counts into a table. For the others, PostgreSQL counts the rows of
every running COPY; the executors' sessions are found by their application name. Behind a pooler
that hides it, only whole parts count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

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
_SOON = 0.5  # seconds after which a refresh reports for the first time

_UNDER_WAY = """
    SELECT COALESCE(sum(p.tuples_processed) FILTER (WHERE p.command = 'COPY TO'), 0)::bigint,
           COALESCE(sum(p.tuples_processed) FILTER (WHERE p.command = 'COPY FROM'), 0)::bigint
      FROM pg_catalog.pg_stat_progress_copy AS p
      JOIN pg_catalog.pg_stat_activity AS a ON a.pid = p.pid
     WHERE a.datname = pg_catalog.current_database() AND a.application_name = %(name)s
"""


@dataclass(slots=True)
class ProgressReporter:
    """Reports the progress of one refresh to the database, and to a listener of this process."""

    runtime: Runtime
    stream_table: StreamTable
    started: float
    listener: Callable[[Progress], None] | None = None
    _doing: str = "reading"  # the stage and its step
    _read: int = 0  # by finished reads and stages
    _staged: int = 0
    _parts: QualifiedName | None = None  # where executors report, while they compute
    _watching: bool = False
    _told: tuple[int, int] | None = None  # the last report

    def note(self, doing: str, *, read: int = 0, staged: int = 0) -> None:
        """Note the present step, and rows that are done."""
        self._doing = doing
        self._read += read
        self._staged += staged

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Report soon, and then every few seconds, from a thread, during the block."""
        if self._watching:
            yield
            return
        self._watching = True
        seconds = self.runtime.settings.progress_seconds
        soon = min(_SOON, seconds)
        try:
            with repeated(self.runtime, "report the progress", seconds, self._tell, first=soon):
                yield
        finally:
            self._watching = False
            if self._told is not None:
                with suppress(TrickleError), self.runtime.connection() as connection:
                    clear_progress(connection, self.stream_table.id)

    @contextmanager
    def executors(self, parts: QualifiedName) -> Iterator[None]:
        """Report what executors note in a table during the block."""
        with self.watching():
            self._parts = parts
            try:
                yield
            finally:
                self._parts = None

    def _tell(self, connection: Connection) -> None:
        read, staged = self._read, self._staged
        if (parts := self._parts) is not None:
            finished = count_parts(connection, parts)
            [(reading, staging)] = connection.execute(_UNDER_WAY, {"name": parts.name}).fetchall()
            staged += finished.pop(STAGED, 0) + staging
            read += sum(finished.values()) + reading
        seconds = time.perf_counter() - self.started
        progress = Progress(str(self.stream_table.name), self._doing, read, staged, seconds)
        set_progress(
            connection,
            self.stream_table.id,
            stage=progress.stage,
            rows_read=read,
            rows_staged=staged,
            seconds=seconds,
        )
        if self._told != (read, staged):
            self._told = (read, staged)
            if parts is not None:
                self.runtime.engine.note_progress(str(self.stream_table.name))
        if self.listener is not None:
            self.listener(progress)
