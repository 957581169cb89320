"""The engine of a refresh on Spark.

Every connected process has one, but most only read the catalog: Arrow and the compiler
are imported with the first stage, as Spark is.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from psycopg.conninfo import make_conninfo

from pgtrickle.model.insight.engine_figures import EngineCounts
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.ports import PartT, ResultT
from pgtrickle.spark.executors.connection_file import connection_file
from pgtrickle.spark.job_tags import cancel, tagged
from pgtrickle.spark.sessions.pair import SparkSessions
from pgtrickle.spark.sessions.users_session import active_session_kept
from pgtrickle.spark.spark_errors import translated
from pgtrickle.spark.watch.spark_figures import SparkGauge
from pgtrickle.spark.watch.spark_work import SparkWork
from pgtrickle.spark.watch.stall_watch import StallWatch

if TYPE_CHECKING:  # see the docstring
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from pgtrickle.model.insight.engine_figures import SparkFigures
    from pgtrickle.model.insight.rehearsal import SparkStageFigures
    from pgtrickle.spark.executors.large_read import LargeRead
    from pgtrickle.sql.translate import Dialect

_COALESCE = "/*+ COALESCE(1) */"
# From about this size, generated code and several tasks are worth their setup.
_SMALL_ROWS = 400_000
# Runs of a session after which the JVM has loaded and compiled its classes.
_WARM_AFTER = 3
# The start of a JVM with an archive of its classes on two quiet cores: see docs/benchmarks/latency.
_START_MS = 4_700.0


class SparkEngine:
    """Computes stages on Spark; the JVM starts with the first one."""

    def __init__(
        self, dsn: str, sessions: SparkSessions | None = None, *, stall_seconds: float = 0.0
    ) -> None:
        self.sessions = sessions or SparkSessions()
        self._dsn = dsn
        self._watch = StallWatch(SparkWork(self.sessions), stall_seconds)
        self._runs: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()
        self._cold_runs = 0
        self._gauge = SparkGauge()
        self._running, self._ended, self._failed, self._seconds = 0, 0, 0, 0.0
        self._counting = threading.Lock()

    @property
    def dialect(self) -> Dialect:
        """The dialect of the SQL that the engine understands."""
        from pgtrickle.sql.translate import Dialect  # noqa: PLC0415 - see the docstring

        return Dialect.SPARK

    @property
    def distributed(self) -> bool:
        """Executors read sources and write results themselves."""
        return True

    @property
    def cold_runs(self) -> int:
        """The number of computations that started the JVM, or were among the first of a session."""
        return self._cold_runs

    @property
    def start_ms(self) -> float:
        """The usual time of a start, while there is no context."""
        return 0.0 if self.sessions.started else _START_MS

    @property
    def counts(self) -> EngineCounts:
        """What this process has asked of Spark."""
        with self._counting:
            completed = self._ended - self._failed
            return EngineCounts(
                self.sessions.started, self._running, completed, self._failed, self._seconds
            )

    def run(self, sql: str, inputs: Mapping[str, pa.Table]) -> pa.Table:
        """Evaluate ``sql`` over relations in memory: few rows in one task, many in parallel."""
        from pgtrickle.spark.run_stage import run, run_small  # noqa: PLC0415 - see the docstring
        from pgtrickle.sql.emit import ONE_PARTITION  # noqa: PLC0415 - see the docstring
        from pgtrickle.sql.text.placeholders import fill  # noqa: PLC0415 - see the docstring

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
        from pgtrickle.spark.run_stage import stage  # noqa: PLC0415 - see the docstring

        # The name that identifies the sessions of this refresh's executors.
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
        from pgtrickle.spark.executors.spread_work import spread  # noqa: PLC0415 - see the docstring

        with (
            connection_file(self._dsn, self.sessions.scratch) as path,
            self._working("spread work", self.sessions.large) as session,
        ):
            return spread(session, task, parts, str(path))

    def cancel(self, job: str) -> None:
        """Cancel the jobs of a refresh, if Spark runs at all."""
        if self.sessions.started:
            with translated("cancel a refresh"):
                for session in (self.sessions.small(), self.sessions.large()):
                    cancel(session, job)

    def list_work(self, job: str) -> Sequence[SparkStageFigures]:
        """Return the latest stages of a refresh; none through Spark Connect, which tells none."""
        context = self.sessions.context if self.sessions.started else None
        if context is None:
            return ()
        from pgtrickle.spark.watch.stage_figures import list_stages  # noqa: PLC0415 - see above

        with translated("count the work of a refresh"):
            return list_stages(context, job)

    def measure(self) -> SparkFigures | None:
        """Return what Spark knows of itself; None through Spark Connect, which tells nothing."""
        context = self.sessions.context if self.sessions.started else None
        if context is None:
            return None
        with translated("measure Spark"):
            return self._gauge.look(context)

    def note_progress(self, job: str) -> None:
        """Report to the watch that rows have moved."""
        self._watch.note_progress(job)

    def kill(self) -> None:
        """End Spark's JVM, if this process has started one."""
        self.sessions.kill()

    def close(self) -> None:
        """Stop Spark if it was started."""
        self.sessions.stop()

    def _count(self, session: SparkSession) -> None:
        """Count a computation, and whether it includes loading and compiling classes."""
        with self._counting:
            runs = self._runs.get(session, 0)
            self._runs[session] = runs + 1
            self._cold_runs += runs < _WARM_AFTER

    @contextmanager
    def _working(
        self, doing: str, open_session: Callable[[], SparkSession]
    ) -> Iterator[SparkSession]:
        """Yield a session for the jobs of this thread's refresh, which are ended if they hang."""
        with self._counted(), self._watch.watching(), translated(doing):
            session = open_session()
            self._count(session)
            with active_session_kept(session), tagged(session):
                yield session

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count a computation, and how it ends."""
        began, failed = time.monotonic(), True
        with self._counting:
            self._running += 1
        try:
            yield
            failed = False
        finally:
            with self._counting:
                self._running -= 1
                self._ended += 1
                self._failed += failed
                self._seconds += time.monotonic() - began
