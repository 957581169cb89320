"""The engine of a refresh on Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from psycopg.conninfo import make_conninfo

from pgtrickle.model.names import QualifiedName
from pgtrickle.ports import PartT, ResultT
from pgtrickle.spark.connection_file import connection_file
from pgtrickle.spark.job_tags import cancel, tagged
from pgtrickle.spark.large_read import LargeRead
from pgtrickle.spark.run_stage import run, run_small, stage
from pgtrickle.spark.session import SparkSessions
from pgtrickle.spark.spark_errors import translated
from pgtrickle.spark.spark_work import SparkWork
from pgtrickle.spark.spread import spread
from pgtrickle.spark.stall_watch import StallWatch
from pgtrickle.spark.users_session import active_session_kept
from pgtrickle.sql.emit import ONE_PARTITION
from pgtrickle.sql.marks import fill
from pgtrickle.sql.translate import Dialect

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import SparkSession

_COALESCE = "/*+ COALESCE(1) */"
# From about here generated code and several tasks win back what they cost to set up.
_SMALL_ROWS = 400_000


class SparkEngine:
    """Computes stages on Spark; the JVM starts with the first one."""

    def __init__(
        self, dsn: str, sessions: SparkSessions | None = None, *, stall_seconds: float = 0.0
    ) -> None:
        self.sessions = sessions or SparkSessions()
        self._dsn = dsn
        self._watch = StallWatch(SparkWork(self.sessions), stall_seconds)

    @property
    def dialect(self) -> Dialect:
        """The dialect of the SQL that the engine understands."""
        return Dialect.SPARK

    @property
    def distributed(self) -> bool:
        """Executors read sources and write results themselves."""
        return True

    def run(self, sql: str, inputs: Mapping[str, pa.Table]) -> pa.Table:
        """Evaluate ``sql`` over relations in memory: few rows in one task, many in parallel."""
        if sum(table.num_rows for table in inputs.values()) > _SMALL_ROWS:
            with self._working("run a stage", self.sessions.large) as session:
                return run(session, inputs, sql)
        hinted = fill(sql, re.escape(ONE_PARTITION), lambda _: _COALESCE, spark=True)
        with self._working("run a stage", self.sessions.small) as session:
            return run_small(session, inputs, hinted)

    def stage(
        self,
        sql: str,
        inputs: Mapping[str, pa.Table | LargeRead],
        target: QualifiedName,
        parts: QualifiedName,
    ) -> None:
        """Evaluate ``sql`` on the executors, which COPY the result into ``target``."""
        # The name by which the sessions of this refresh's executors can be found.
        address = make_conninfo(self._dsn, application_name=parts.name)
        with (
            connection_file(address, self.sessions.scratch) as path,
            self._working("stage a result", self.sessions.large) as session,
        ):
            stage(
                session,
                inputs,
                sql,
                (target.schema, target.name),
                connection_file=str(path),
                report=(parts.schema, parts.name, "staged"),
            )

    def spread(
        self, task: Callable[[str, PartT], ResultT], parts: Sequence[PartT]
    ) -> list[ResultT]:
        """Let executors call ``task`` with the DSN and each part."""
        with (
            connection_file(self._dsn, self.sessions.scratch) as path,
            self._working("spread work", self.sessions.large) as session,
        ):
            return spread(session, task, parts, str(path))

    def cancel(self, job: str) -> None:
        """Cancel what runs for a refresh, if Spark runs at all."""
        if self.sessions.started:
            with translated("cancel a refresh"):
                for session in (self.sessions.small(), self.sessions.large()):
                    cancel(session, job)

    def note_progress(self, job: str) -> None:
        """Let the watch know that rows have moved."""
        self._watch.note_progress(job)

    def kill(self) -> None:
        """End Spark's JVM, if this process has started one."""
        self.sessions.kill()

    def close(self) -> None:
        """Stop Spark if it was started."""
        self.sessions.stop()

    @contextmanager
    def _working(
        self, doing: str, open_session: Callable[[], SparkSession]
    ) -> Iterator[SparkSession]:
        """Yield a session for the jobs of this thread's refresh, which end if they hang."""
        with self._watch.watching(), translated(doing):
            session = open_session()
            with active_session_kept(session), tagged(session):
                yield session
