"""Queries over ``pgt_refresh_history``: what every refresh did, why, and at what cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import ClassVar

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.errors import TrickleError
from pgtrickle.model.report import CostRecord, SourceRead
from pgtrickle.model.stream_table import Action, InitiatedBy
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Shown


class RefreshStatus(Enum):
    """How far a refresh got."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"  # by whoever had asked for it, or an operator: no failure
    SKIPPED = "SKIPPED"


@dataclass(frozen=True, slots=True)
class Refresh(Shown):
    """One row of the history."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "id",
        "stream_table",
        "action",
        "status",
        "rows_inserted",
        "rows_deleted",
        "start_time",
        "actual_ms",
        "reason",
    )

    id: int
    stream_table: QualifiedName
    action: Action | None
    status: RefreshStatus
    reason: str
    initiated_by: InitiatedBy
    start_time: datetime
    end_time: datetime | None
    data_timestamp: datetime | None
    rows_inserted: int
    rows_deleted: int
    delta_row_count: int
    reads: tuple[SourceRead, ...]
    timings_ms: dict[str, float]
    predicted_ms: float | None  # for the action that ran
    predicted_differential_ms: float | None
    predicted_full_ms: float | None
    actual_ms: float | None
    rows_read: int | None  # None where executors read without counting
    bytes_read: int | None
    error_code: str | None
    error_message: str | None
    error_hint: str | None = None  # what whoever met the error was told to do
    changed_rows: int | None = None  # of the sources; None where an earlier version wrote it
    trace_id: str | None = None  # under which it was told to others; None: it was not


_NO_COSTS = CostRecord()
_INSERT = """
    INSERT INTO pgtrickle.pgt_refresh_history
        (pgt_id, start_time, end_time, data_timestamp, action, status, reason, initiated_by,
         rows_inserted, rows_deleted, delta_row_count, reads, timings, predicted_ms,
         predicted_differential_ms, predicted_full_ms, actual_ms, rows_read, bytes_read, cost,
         error_code, error_message, error_hint, changed_rows, trace_id)
    VALUES
        (%(stream_table_id)s,
         -- The caller's clock may run ahead of the server's: a refresh never ends before it began.
         LEAST(COALESCE(%(start_time)s, pg_catalog.clock_timestamp()),
               pg_catalog.clock_timestamp()),
         pg_catalog.clock_timestamp(),
         %(data_timestamp)s, %(action)s, %(status)s, %(reason)s, %(initiated_by)s,
         %(rows_inserted)s, %(rows_deleted)s, %(delta_row_count)s, %(reads)s, %(timings)s,
         %(predicted_ms)s, %(predicted_differential_ms)s, %(predicted_full_ms)s, %(actual_ms)s,
         %(rows_read)s, %(bytes_read)s, %(cost)s, %(error_code)s, %(error_message)s,
         %(error_hint)s, %(changed_rows)s, %(trace_id)s)
    RETURNING refresh_id
"""


@dataclass(frozen=True, slots=True)
class RefreshRecord:
    """The record of a refresh that has ended."""

    initiated_by: InitiatedBy
    status: RefreshStatus
    action: Action | None = None
    reason: str = ""
    start_time: datetime | None = None  # None: now
    data_timestamp: datetime | None = None
    rows_inserted: int = 0
    rows_deleted: int = 0
    changed_rows: int | None = None  # of the sources
    reads: Sequence[SourceRead] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    costs: CostRecord = _NO_COSTS
    error: TrickleError | None = None
    trace_id: str | None = None


def insert_refresh(
    connection: Connection[TupleRow], stream_table_id: int, record: RefreshRecord
) -> int:
    """Record a refresh; return its id."""
    error = record.error
    values = {
        "stream_table_id": stream_table_id,
        "initiated_by": record.initiated_by.value,
        "status": record.status.value,
        "action": None if record.action is None else record.action.value,
        "reason": record.reason,
        "start_time": record.start_time,
        "data_timestamp": record.data_timestamp,
        "rows_inserted": record.rows_inserted,
        "rows_deleted": record.rows_deleted,
        "delta_row_count": record.rows_inserted + record.rows_deleted,
        "timings": Jsonb(dict(record.timings_ms)),
        "error_code": None if error is None else error.code,
        "error_message": None if error is None else str(error),
        "error_hint": None if error is None else error.hint or None,
        "changed_rows": record.changed_rows,
        "trace_id": record.trace_id,
        **_read_values(record.reads),
        **_cost_values(record.costs),
    }
    return int(connection.execute(_INSERT, values).fetchall()[0][0])


def _read_values(reads: Sequence[SourceRead]) -> dict[str, object]:
    return {
        "reads": Jsonb([asdict(read) for read in reads]),
        "rows_read": _total([read.rows for read in reads]),
        "bytes_read": _total([read.bytes for read in reads]),
    }


def _total(amounts: Sequence[int]) -> int | None:
    """Add up what reads brought; None where one of them did not count."""
    return None if any(amount < 0 for amount in amounts) else sum(amounts)


def _cost_values(costs: CostRecord) -> dict[str, object]:
    return {
        "predicted_ms": costs.predicted_ms,
        "predicted_differential_ms": costs.predicted_differential_ms,
        "predicted_full_ms": costs.predicted_full_ms,
        "actual_ms": costs.actual_ms,
        "cost": None if costs.counted is None else Jsonb(dict(costs.counted)),
    }


_SELECT = """
    SELECT h.refresh_id, s.pgt_schema, s.pgt_name, h.action, h.status, h.reason, h.initiated_by,
           h.start_time, h.end_time, h.data_timestamp, h.rows_inserted, h.rows_deleted,
           h.delta_row_count, h.reads, h.timings, h.predicted_ms, h.predicted_differential_ms,
           h.predicted_full_ms, h.actual_ms, h.rows_read, h.bytes_read, h.error_code,
           h.error_message, h.error_hint, h.changed_rows, h.trace_id
      FROM pgtrickle.pgt_refresh_history AS h
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = h.pgt_id
"""
_LIST = f"""
    {_SELECT}
     WHERE (%(name)s::pg_catalog.text IS NULL AND s.pgt_schema <> 'pgtrickle_state')
        OR (s.pgt_schema = %(schema)s AND s.pgt_name = %(name)s)
     ORDER BY h.start_time DESC, h.refresh_id DESC
     LIMIT %(limit)s
"""


def list_refreshes(
    connection: Connection[TupleRow], name: QualifiedName | None = None, *, limit: int = 100
) -> list[Refresh]:
    """Return the latest refreshes of one stream table, or of all, the newest first."""
    values = {
        "schema": None if name is None else name.schema,
        "name": None if name is None else name.name,
        "limit": limit,
    }
    return [_read(row) for row in connection.execute(_LIST, values)]


_FIND = f"{_SELECT} WHERE h.refresh_id = %(refresh_id)s"


def find_refresh(connection: Connection[TupleRow], refresh_id: int) -> Refresh | None:
    """Return one refresh; None if it is no longer on record."""
    row = connection.execute(_FIND, {"refresh_id": refresh_id}).fetchone()
    return None if row is None else _read(row)


def _read(row: TupleRow) -> Refresh:
    return Refresh(
        id=row[0],
        stream_table=QualifiedName(row[1], row[2]),
        action=None if row[3] is None else Action(row[3]),
        status=RefreshStatus(row[4]),
        reason=row[5],
        initiated_by=InitiatedBy(row[6]),
        start_time=row[7],
        end_time=row[8],
        data_timestamp=row[9],
        rows_inserted=row[10],
        rows_deleted=row[11],
        delta_row_count=row[12],
        reads=tuple(SourceRead(**read) for read in row[13]),
        timings_ms=row[14],
        predicted_ms=row[15],
        predicted_differential_ms=row[16],
        predicted_full_ms=row[17],
        actual_ms=row[18],
        rows_read=row[19],
        bytes_read=row[20],
        error_code=row[21],
        error_message=row[22],
        error_hint=row[23],
        changed_rows=row[24],
        trace_id=row[25],
    )


_PRUNE = """
    DELETE FROM pgtrickle.pgt_refresh_history AS h
     USING (SELECT old.refresh_id FROM pgtrickle.pgt_refresh_history AS old
             -- Not clock_timestamp(), with which the whole index would be read.
             WHERE old.start_time < pg_catalog.statement_timestamp() - %(keep)s
             ORDER BY old.start_time
             LIMIT %(batch)s
               FOR UPDATE SKIP LOCKED) AS old
     WHERE h.refresh_id = old.refresh_id
"""


def prune_refreshes(connection: Connection[TupleRow], keep: timedelta, batch: int) -> int:
    """Delete refreshes that began longer ago than ``keep``, at most ``batch``; return how many."""
    return connection.execute(_PRUNE, {"keep": keep, "batch": batch}).rowcount


@dataclass(frozen=True, slots=True)
class RefreshStatistics:
    """The statistics of the latest refreshes of a stream table."""

    stream_table: QualifiedName
    refreshes: int
    failures: int
    p50_ms: float | None  # of those that completed
    p99_ms: float | None
    freshness: timedelta | None  # how far the contents are behind now

    @property
    def error_rate(self) -> float:
        """The share of refreshes that failed."""
        return self.failures / self.refreshes if self.refreshes else 0.0


_STATISTICS = """
    SELECT s.pgt_schema, s.pgt_name, h.refreshes, h.failures, h.p50, h.p99,
           pg_catalog.clock_timestamp() - s.data_timestamp
      FROM pgtrickle.pgt_stream_tables AS s
     CROSS JOIN LATERAL (
        SELECT count(*) AS refreshes,
               count(*) FILTER (WHERE r.status = 'FAILED') AS failures,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY r.took)
                   FILTER (WHERE r.status = 'COMPLETED') AS p50,
               percentile_cont(0.99) WITHIN GROUP (ORDER BY r.took)
                   FILTER (WHERE r.status = 'COMPLETED') AS p99
          FROM (SELECT status,
                       1000 * extract(epoch FROM end_time - start_time)::float8 AS took
                  FROM pgtrickle.pgt_refresh_history
                 WHERE pgt_id = s.pgt_id
                   -- Not clock_timestamp(), for which no index is read.
                   AND start_time > pg_catalog.statement_timestamp() - %(window)s) AS r
     ) AS h
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY s.pgt_schema, s.pgt_name
"""


def list_refresh_statistics(
    connection: Connection[TupleRow], window: timedelta
) -> list[RefreshStatistics]:
    """Return for every stream table what its refreshes within a window before now were like."""
    return [
        RefreshStatistics(QualifiedName(schema, name), *rest)
        for schema, name, *rest in connection.execute(_STATISTICS, {"window": window})
    ]
