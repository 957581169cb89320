"""A stream table as the catalog describes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from pgtrickle.model.cdc_mode import CdcMode
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.tier import Tier


class RefreshMode(Enum):
    """How the user wants a stream table to be maintained."""

    AUTO = "AUTO"  # differential where possible, full otherwise, with the reason on record
    DIFFERENTIAL = "DIFFERENTIAL"  # refused if no delta can be derived; full only where a
    # window is lost: the first load, a TRUNCATE, a source that changed shape
    FULL = "FULL"  # recompute every time


class Status(Enum):
    """Where a stream table stands in its life."""

    INITIALIZING = "INITIALIZING"
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"
    ERROR = "ERROR"


class Action(Enum):
    """What a refresh really did."""

    NO_DATA = "NO_DATA"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    REINITIALIZE = "REINITIALIZE"
    SKIPPED = "SKIPPED"


class InitiatedBy(Enum):
    """Who asked for a refresh."""

    MANUAL = "MANUAL"
    INITIAL = "INITIAL"
    SCHEDULER = "SCHEDULER"


@dataclass(frozen=True, slots=True)
class StreamTable:
    """One row of ``pgtrickle.pgt_stream_tables``."""

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
    tier: Tier = Tier.HOT
    circle: int | None = None  # the least id of those that read one another with it: see ADR 0023
