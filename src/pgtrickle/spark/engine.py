"""The engine of a refresh on Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

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
from pgtrickle.spark.spread import spread
from pgtrickle.sql.emit import ONE_PARTITION
from pgtrickle.sql.marks import fill
from pgtrickle.sql.translate import Dialect

_COALESCE = "/*+ COALESCE(1) */"
# From about here generated code and several tasks win back what they cost to set up.
_SMALL_ROWS = 400_000


class SparkEngine:
    """Computes stages on Spark; the JVM starts with the first one."""

    def __init__(self, dsn: str, sessions: SparkSessions | None = None) -> None:
        self.sessions = sessions or SparkSessions()
        self._dsn = dsn

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
            session = self.sessions.large()
            with translated("run a stage"), tagged(session):
                return run(session, inputs, sql)
        hinted = fill(sql, re.escape(ONE_PARTITION), lambda _: _COALESCE, spark=True)
        session = self.sessions.small()
        with translated("run a stage"), tagged(session):
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
        session = self.sessions.large()
        address = make_conninfo(self._dsn, application_name=parts.name)
        with connection_file(address) as path, translated("stage a result"), tagged(session):
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
        session = self.sessions.large()
        with connection_file(self._dsn) as path, translated("spread work"), tagged(session):
            return spread(session, task, parts, str(path))

    def cancel(self, job: str) -> None:
        """Cancel what runs for a refresh, if Spark runs at all."""
        if self.sessions.started:
            with translated("cancel a refresh"):
                for session in (self.sessions.small(), self.sessions.large()):
                    cancel(session, job)

    def close(self) -> None:
        """Stop Spark if it was started."""
        self.sessions.stop()
