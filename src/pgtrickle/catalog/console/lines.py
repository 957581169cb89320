"""The lines of a picture that no other part of the program knows: one class for each kind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Moment:
    """Where and when the picture was taken, and who serves the database."""

    taken_at: datetime  # by the server's clock
    database: str
    role: str
    server_version: str
    standby: bool
    catalog_version: int
    served: bool  # a daemon executes requests
    queued: int
    running: int


@dataclass(frozen=True, slots=True)
class TableLine:
    """A stream table in the overview."""

    id: int
    name: str
    status: str
    refresh_mode: str
    effective_refresh_mode: str
    engine: str | None  # None: the setting decides
    schedule: str
    tier: str
    populated: bool
    needs_reinit: bool
    age_s: float | None  # None before the first load
    target_s: float | None  # its service level; None: none was promised
    interval_s: float | None  # None: cron, frozen, or its consumers decide
    stale: bool
    failing: bool
    consecutive_errors: int
    last_error: str | None
    last_refresh_at: datetime | None
    rows: int | None  # as PostgreSQL's statistics have it; None: it was never analysed
    owner: str

    @property
    def late(self) -> bool:
        """Whether its contents are older than promised, or its refresh is overdue."""
        beyond = self.target_s is not None and self.age_s is not None
        return self.stale or (beyond and (self.age_s or 0) > (self.target_s or 0))


@dataclass(frozen=True, slots=True)
class Latencies:
    """The latest refreshes of a stream table: how long each took, and what the last one did."""

    id: int  # of the stream table
    milliseconds: tuple[float, ...]  # of those that completed, the latest last
    action: str | None  # of the latest, whatever came of it
    status: str | None
    engine: str | None  # None: nothing was computed
    changed: int  # rows inserted and deleted by the latest


@dataclass(frozen=True, slots=True)
class Edge:
    """A source of a stream table."""

    id: int  # of the stream table
    name: str
    source: str
    source_type: str


@dataclass(frozen=True, slots=True)
class SlotLine:
    """A logical slot of this database."""

    name: str
    active: bool
    wal_status: str | None
    lag_bytes: int | None  # of log that the server keeps for it


@dataclass(frozen=True, slots=True)
class RequestLine:
    """A request, without its arguments."""

    id: int
    verb: str
    stream_table: str | None
    caller: str
    status: str
    requested_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    error_code: str | None

    @property
    def open(self) -> bool:
        """Whether it waits or is executed."""
        return self.status in {"QUEUED", "RUNNING"}


@dataclass(frozen=True, slots=True)
class SettingLine:
    """A setting of the database, as new processes find it."""

    name: str
    value: str
    source: str
    default: str
    unit: str
    doc: str


@dataclass(frozen=True, slots=True)
class Definition:
    """How one stream table is defined."""

    id: int
    name: str
    query: str  # as the user wrote it
    defining_query: str
    downgrade_reason: str | None
    fuse: str
    fuse_reason: str | None
    created_at: datetime
    updated_at: datetime
