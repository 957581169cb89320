"""The status of a database: its daemons, their work, and the problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from pgtrickle.model.lake.sink import SinkStatus
from pgtrickle.model.text.shown import Shown


class Severity(Enum):
    """The severity of a finding, the least first."""

    OK = "OK"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One check without a finding, or one finding of a check."""

    check_name: str
    severity: Severity
    detail: str
    evidence: Mapping[str, Any] | None = None
    command: str | None = None  # that helps


def worst(checks: Sequence[HealthCheck]) -> Severity:
    """Return the greatest severity of some checks.

    >>> worst([HealthCheck("stale", Severity.WARNING, ""), HealthCheck("daemon", Severity.OK, "")])
    <Severity.WARNING: 'WARNING'>
    """
    order = list(Severity)
    return max((check.severity for check in checks), key=order.index, default=Severity.OK)


@dataclass(frozen=True, slots=True)
class Daemon:
    """A live daemon; it leads or stands by."""

    daemon: str
    leads: bool
    started_at: datetime
    seen_at: datetime
    package: str | None = None  # the version of pgtrickle that it runs
    spark: str | None = None  # its version of PySpark


@dataclass(frozen=True, slots=True)
class RequestQueue:
    """The requests of SQL sessions to the daemon."""

    queued: int
    running: int
    oldest_queued_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunningRefresh:
    """A stream table that is being refreshed; only large refreshes have a stage and counts."""

    stream_table: str
    daemon: str
    running_since: datetime
    stage: str | None
    rows_read: int | None
    rows_staged: int | None


@dataclass(frozen=True, slots=True)
class CaptureLag:
    """The captured changes of a source that wait, about how many, and for how long at most."""

    source: str
    buffer_rows: int
    buffer_bytes: int
    lag_seconds: float | None


@dataclass(frozen=True, slots=True)
class MetricsSummary:
    """The figures of a database: stream tables now, refreshes of the last hour, what waits."""

    database: str
    stream_tables: int
    active: int
    suspended: int
    failing: int
    falling_behind: int
    oldest_contents_seconds: float | None
    refreshes: int
    failures: int
    p50_ms: float | None
    p99_ms: float | None
    rows_inserted: int
    rows_deleted: int
    buffer_rows: int
    buffer_bytes: int
    capture_lag_seconds: float
    slot_lag_bytes: int
    requests_queued: int
    lock_fallbacks: int


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """A process that refreshes stream tables, and what it does."""

    database: str
    daemon: str
    leads: bool
    started_at: datetime | None  # None: a command or a program, and no daemon
    seen_at: datetime | None
    package: str | None
    refreshes_running: int
    oldest_running_since: datetime | None
    waiting: int  # refreshes that are due and wait for room
    refreshes_admitted: int | None
    saturation: str | None  # why they wait


@dataclass(frozen=True, slots=True)
class StillRunning:
    """A refresh that had not ended when the wait for it did."""

    stream_table: str
    daemon: str  # the process that refreshes it
    running_since: datetime


@dataclass(frozen=True, slots=True)
class Quiesced:
    """Whether the scheduler starts nothing and nothing runs, and what still runs."""

    quiet: bool
    left: tuple[StillRunning, ...]


@dataclass(frozen=True, slots=True)
class TableState:
    """A stream table that needs attention."""

    stream_table: str
    status: str
    schedule: str
    staleness_seconds: float | None  # None before the first load
    consecutive_errors: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Hold:
    """A stream table that is held back."""

    stream_table: str
    reason: str


@dataclass(frozen=True, slots=True)
class StatusReport(Shown):
    """The status of a database at one moment."""

    severity: Severity
    checks: Sequence[HealthCheck]
    daemons: Sequence[Daemon]
    queue: RequestQueue
    stream_tables: int
    running: Sequence[RunningRefresh]
    behind: Sequence[TableState]
    failing: Sequence[TableState]
    suspended: Sequence[TableState]
    sinks: Sequence[SinkStatus]
    holds: Sequence[Hold]


@dataclass(frozen=True, slots=True)
class TreeLine:
    """One line of the dependency tree of stream tables."""

    tree_line: str
    node: str
    node_type: str
    depth: int
    status: str | None
    refresh_mode: str | None


@dataclass(frozen=True, slots=True)
class FuseStatus:
    """The fuse of one stream table."""

    stream_table: str
    fuse_mode: str
    fuse_state: str
    fuse_ceiling: int | None
    fuse_sensitivity: float | None
    blown_at: datetime | None
    blow_reason: str | None


@dataclass(frozen=True, slots=True)
class GateStatus:
    """A source that is or was gated."""

    source_table: str
    gated: bool
    gated_at: datetime
    ungated_at: datetime | None
    gated_by: str
    affected_stream_tables: Sequence[str]


@dataclass(frozen=True, slots=True)
class Watermark:
    """The moment up to which a source is complete, as declared by its loader."""

    source_table: str
    watermark: datetime
    updated_at: datetime
    advanced_by: str


@dataclass(frozen=True, slots=True)
class WatermarkGroup:
    """Sources whose consumers wait until their watermarks agree."""

    group_name: str
    sources: Sequence[str]
    tolerance_secs: float
    min_watermark: datetime | None
    max_watermark: datetime | None
    lag_secs: float | None
    aligned: bool


@dataclass(frozen=True, slots=True)
class RefreshGroup:
    """Stream tables that the user wants refreshed together."""

    group_name: str
    members: Sequence[str]
    isolation: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DiamondGroup:
    """Stream tables that are refreshed together because paths meet in one of them."""

    members: Sequence[str]
    schedule_policy: str


@dataclass(frozen=True, slots=True)
class ListedSource:
    """A source of a stream table, and how its changes are captured."""

    source_table: str
    source_type: str
    cdc_mode: str | None  # None: they are looked for
    columns_used: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class BufferSize:
    """How many captured changes a source keeps."""

    source_table: str
    cdc_mode: str | None
    consumers: int
    pending_rows: int
    buffer_bytes: int


@dataclass(frozen=True, slots=True)
class Efficiency:
    """How often a stream table followed its changes, how often it was recomputed, at what cost."""

    stream_table: str
    total_refreshes: int
    differential_count: int
    full_count: int
    no_data_count: int
    avg_differential_ms: float | None
    avg_full_ms: float | None
    avg_changed_rows: float | None
    speedup: float | None  # FULL divided by DIFFERENTIAL


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """How long the refreshes of a stream table took, how old it is, how many failed.

    With a service level, also for how many seconds of the window it was missed.
    """

    stream_table: str
    refreshes: int
    p50_ms: float | None
    p99_ms: float | None
    freshness_lag_s: float | None
    error_rate: float | None
    error_budget_remaining: float | None
    sla_s: float | None = None
    breach_s: float | None = None


@dataclass(frozen=True, slots=True)
class Versions(Shown):
    """The versions of the package, the catalog, the server and Spark, here and in the daemon."""

    package: str
    catalog: int
    server: str
    daemon_running: bool
    migrated_by: str  # the version of the package that last migrated the catalog
    spark: str | None  # PySpark in this process
    daemon: str | None = None  # the package that the leading daemon runs, or the last one ran
    daemon_spark: str | None = None


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The counts of one process since it began."""

    entries: int  # compiled queries that it remembers
    plans: int  # plans of their stages
    hits: int  # refreshes that found their query compiled
    misses: int  # refreshes that had to compile it
    evictions: int  # compiled queries that made room for others
    max_entries: int  # the setting template_cache_max_entries; 0: no limit
