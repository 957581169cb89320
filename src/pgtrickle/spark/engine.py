"""The engine of a refresh on Spark."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pgtrickle.spark.run_stage import run
from pgtrickle.spark.session import SparkSessions
from pgtrickle.sql.translate import Dialect


class SparkEngine:
    """Computes stages on Spark; the JVM starts with the first one."""

    def __init__(self, sessions: SparkSessions | None = None) -> None:
        self.sessions = sessions or SparkSessions()

    @property
    def dialect(self) -> Dialect:
        """The dialect of the SQL that ``run`` understands."""
        return Dialect.SPARK

    def run(self, sql: str, inputs: Mapping[str, pa.Table], *, large: bool) -> pa.Table:
        """Evaluate ``sql`` over relations of the given names."""
        session = self.sessions.large() if large else self.sessions.small()
        return run(session, inputs, sql)

    def close(self) -> None:
        """Stop Spark if it was started."""
        self.sessions.stop()
