"""The copy of a stream table in a lake, as the catalog describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from pgtrickle.model.frontier import Frontier
from pgtrickle.model.names import QualifiedName


class DeliveryStatus(Enum):
    """How far a delivery to the lake is."""

    PENDING = "PENDING"  # not tried yet
    WRITING = "WRITING"
    DELIVERED = "DELIVERED"
    FAILED_RETRYABLE = "FAILED_RETRYABLE"  # tried again with a later refresh
    FAILED_PERMANENT = "FAILED_PERMANENT"  # waits for someone to ask for it


class FailureMode(Enum):
    """What a delivery that fails does to the refresh it belongs to."""

    WARN = "warn"  # the refresh goes on, the lake catches up later
    ERROR = "error"  # the refresh fails too


@dataclass(frozen=True, slots=True)
class LakeSink:
    """Where the rows of a stream table are copied to, and how far that is."""

    stream_table_id: int
    catalog_schema: str
    lake_table: QualifiedName
    sink_path: str | None  # None: below the data path of the catalog
    table_id: int | None = None  # None: not created yet
    view_id: int | None = None
    snapshot_id: int | None = None
    home: str | None = None  # where the rows were stored when they were delivered last
    needs_load: bool = True
    partition_by: str | None = None  # partition keys, as the user listed them
    catalog_dsn: str = ""  # where the catalog is, without secrets; empty: in this database
    data_path: str | None = None  # of the catalog when it was first used; None: not yet

    @property
    def elsewhere(self) -> bool:
        """Whether the catalog is in another database, which commits apart."""
        return bool(self.catalog_dsn)

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories below which its files may lie, whatever the catalog of the lake says."""
        return tuple(one for one in (self.data_path, self.sink_path) if one is not None)


# What an intent changes of its sink, and gives back if it comes to nothing.
BEFORE = ("table_id", "view_id", "snapshot_id", "home")


@dataclass(frozen=True, slots=True)
class Intent:
    """A snapshot that was about to be committed in another database; it may have been or not."""

    stream_table_id: int
    token: str  # in the extra information of the snapshot
    snapshot_id: int
    first_file_id: int  # this one and later files are its own
    paths: tuple[str, ...]
    loads: bool  # all rows, in place of what the row map knew
    before: Mapping[str, Any]  # what the sink said, of ``BEFORE``
    delivery_id: int | None = None  # None: it merges files
    refresh_id: int | None = None
    frontier: Frontier | None = None
    rows: int = 0
    deleted: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """One row of ``pgtrickle.ducklake_sink_status()``."""

    stream_table: str
    lake_table: str
    status: DeliveryStatus
    attempt_count: int
    snapshot_id: int | None
    last_delivered_at: datetime | None
    next_attempt_at: datetime | None
    deliveries: int
    rows_written: int
    rows_deleted: int
    bytes_written: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class SinkCare:
    """What tending one sink came to."""

    stream_table: str
    orphans: tuple[str, ...] = ()  # files that no snapshot knew
    replaced: tuple[str, ...] = ()  # files whose contents are in others now, removed
    merged: int = 0  # small files that became one
    flushed: int = 0  # deletes that went from the catalog into files
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LakeCare:
    """What tending all sinks came to."""

    sinks: tuple[SinkCare, ...]
    expired: int = 0  # snapshots that were forgotten
