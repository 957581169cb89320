"""A stream table as the catalog describes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import ClassVar

from pgtrickle.model.capture.cdc_mode import CdcMode
from pgtrickle.model.engine import EngineMode
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.scheduling.tier import Tier
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Shown


class RefreshMode(Enum):
    """How the user wants a stream table to be maintained."""

    AUTO = "AUTO"  # differential if possible, otherwise full, with the reason on record
    DIFFERENTIAL = "DIFFERENTIAL"  # refused if no delta can be derived; full only where a
    # window is lost: the first load, a TRUNCATE, a source that changed shape
    FULL = "FULL"  # recompute every time
    IMMEDIATE = "IMMEDIATE"  # writers maintain it, in their own statements


class Status(Enum):
    """The status of a stream table."""

    INITIALIZING = "INITIALIZING"
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"
    ERROR = "ERROR"


class Action(Enum):
    """The action that a refresh took."""

    NO_DATA = "NO_DATA"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    REINITIALIZE = "REINITIALIZE"
    SKIPPED = "SKIPPED"


class InitiatedBy(Enum):
    """The initiator of a refresh."""

    MANUAL = "MANUAL"
    INITIAL = "INITIAL"
    SCHEDULER = "SCHEDULER"


@dataclass(frozen=True, slots=True)
class StreamTable(Shown):
    """One row of ``pgtrickle.pgt_stream_tables``."""

    in_report: ClassVar[tuple[str, ...]] = (
        "name",
        "status",
        "schedule",
        "tier",
        "refresh_mode",
        "effective_refresh_mode",
        "downgrade_reason",
        "pinned",
        "populated",
        "needs_reinit",
        "data_timestamp",
        "last_refresh_at",
        "consecutive_errors",
        "last_error_message",
        "owner",
        "original_query",
    )
    in_listing: ClassVar[tuple[str, ...]] = (
        "name",
        "status",
        "refresh_mode",
        "effective_refresh_mode",
        "schedule",
        "last_refresh_at",
    )

    id: int
    relid: int
    name: QualifiedName
    defining_query: str  # as PostgreSQL resolved it: every name qualified
    original_query: str  # as the user wrote it
    schedule: str
    refresh_mode: RefreshMode
    effective_refresh_mode: RefreshMode
    downgrade_reason: str | None
    status: Status
    populated: bool
    needs_reinit: bool
    frontier: Frontier | None
    data_timestamp: datetime | None
    last_refresh_at: datetime | None
    consecutive_errors: int
    last_error_message: str | None
    owner: str
    max_delta_fraction: float | None = None  # instead of differential_max_change_ratio
    cdc_mode: CdcMode | None = None  # instead of the setting cdc_mode
    engine: EngineMode | None = None  # instead of the setting engine
    tier: Tier = Tier.HOT
    suspended_by: str | None = None  # the code of the suspending error; None: a user
    last_error_at: datetime | None = None
    pinned: tuple[str, ...] = ()  # what was added to the query so that it has one answer
    circle: int | None = None  # the least id of the members of its circle: see ADR 0023
    has_outbox: bool = False  # whether each refresh appends its changes to an outbox

    @property
    def follows_time(self) -> bool:
        """Whether its rows move as time passes, and a refresh finds them."""
        return self.frontier is not None and self.frontier.time is not None

    @property
    def next_change_at(self) -> datetime | None:
        """When the passing of time next changes a row; None if it does not, or at any time."""
        if self.frontier is None or self.frontier.time is None:
            return None
        return self.frontier.time.next_change_at

    @property
    def failing(self) -> bool:
        """Whether the last refresh failed, even with an error that does not count."""
        if self.consecutive_errors or self.last_error_at is None or not self.last_error_message:
            return self.consecutive_errors > 0
        return self.last_refresh_at is None or self.last_refresh_at < self.last_error_at
