"""Figures of a whole database, as the functions of SQL have them."""

from __future__ import annotations

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.model.status_report import CaptureLag, MetricsSummary, WorkerSummary

_LIST_LAG = """
    SELECT source_table, buffer_rows, buffer_bytes, lag_seconds FROM pgtrickle.capture_lag()
"""


def list_capture_lag(connection: Connection[TupleRow]) -> list[CaptureLag]:
    """Return the changes that wait, of each source."""
    return [CaptureLag(*row) for row in connection.execute(_LIST_LAG)]


def _columns(kind: type[MetricsSummary | WorkerSummary]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, kind.__dataclass_fields__))


_SUMMARY = sql.SQL("SELECT {columns} FROM pgtrickle.metrics_summary()").format(
    columns=_columns(MetricsSummary)
)


def get_metrics_summary(connection: Connection[TupleRow]) -> MetricsSummary:
    """Return the figures of this database."""
    [row] = connection.execute(_SUMMARY).fetchall()
    return MetricsSummary(*row)


_WORKERS = sql.SQL("SELECT {columns} FROM pgtrickle.cluster_worker_summary()").format(
    columns=_columns(WorkerSummary)
)


def list_workers(connection: Connection[TupleRow]) -> list[WorkerSummary]:
    """Return every process that refreshes, the leading daemon first."""
    return [WorkerSummary(*row) for row in connection.execute(_WORKERS)]
