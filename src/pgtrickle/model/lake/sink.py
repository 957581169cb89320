"""The copy of a stream table in a lake, as the catalog describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar

from pgtrickle.model.frontier import Frontier
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Shown


class DeliveryStatus(Enum):
    """The status of a delivery to the lake."""

    PENDING = "PENDING"  # not tried yet
    WRITING = "WRITING"
    DELIVERED = "DELIVERED"
    FAILED_RETRYABLE = "FAILED_RETRYABLE"  # tried again with a later refresh
    FAILED_PERMANENT = "FAILED_PERMANENT"  # waits for ``pgtrickle sink retry``


class FailureMode(Enum):
    """The effect of a failed delivery on its refresh."""

    WARN = "warn"  # the refresh goes on, the lake catches up later
    ERROR = "error"  # the refresh fails too


@dataclass(frozen=True, slots=True)
class LakeSink:
    """The target of a stream table's copy, and its state."""

    stream_table_id: int
    catalog_schema: str
    lake_table: QualifiedName
    sink_path: str | None  # None: below the data path of the catalog
    table_id: int | None = None  # None: not created yet
    view_id: int | None = None
    snapshot_id: int | None = None
    home: str | None = None  # the table's storage at the last delivery
    needs_load: bool = True
    partition_by: str | None = None  # partition keys, as the user listed them
    catalog_dsn: str = ""  # where the catalog is, without secrets; empty: in this database
    data_path: str | None = None  # of the catalog when it was first used; None: not yet

    @property
    def elsewhere(self) -> bool:
        """Whether the catalog is in another database, which commits separately."""
        return bool(self.catalog_dsn)

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories that may contain its files, whatever the lake's catalog says."""
        return tuple(one for one in (self.data_path, self.sink_path) if one is not None)


# The fields of a sink that an intent changes, and restores if it fails.
BEFORE = ("table_id", "view_id", "snapshot_id", "home")


@dataclass(frozen=True, slots=True)
class Intent:
    """A snapshot that may or may not have been committed in another database."""

    stream_table_id: int
    token: str  # in the extra information of the snapshot
    snapshot_id: int
    first_file_id: int  # this file and later ones belong to it
    paths: tuple[str, ...]
    loads: bool  # all rows, replacing the row map
    before: Mapping[str, Any]  # the sink's values of the fields in ``BEFORE``
    delivery_id: int | None = None  # None: it merges files
    refresh_id: int | None = None
    frontier: Frontier | None = None
    rows: int = 0
    deleted: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class SinkStatus(Shown):
    """One row of ``pgtrickle.ducklake_sink_status()``."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "stream_table",
        "lake_table",
        "status",
        "snapshot_id",
        "last_delivered_at",
        "rows_written",
        "rows_deleted",
        "last_error",
    )

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
    failing_since: datetime | None = None  # the first failure since the last delivery
    remedy: str | None = None
    last_rows: int | None = None  # inserted and deleted by the last delivery; None before one
    last_bytes: int | None = None
    failed_attempts: int = 0  # of the deliveries that are kept


@dataclass(frozen=True, slots=True)
class FailingSink:
    """A copy in the lake that could not be brought up to date."""

    stream_table: QualifiedName
    lake_table: QualifiedName
    status: DeliveryStatus
    attempts: int
    since: datetime  # when the first attempt failed
    next_attempt_at: datetime | None
    error: str  # with its code in front
    hint: str
    refresh_id: int | None = None

    @property
    def lasting(self) -> bool:
        """Whether it is retried only on request."""
        return self.status is DeliveryStatus.FAILED_PERMANENT

    def describe(self) -> str:
        """Describe the start of the failure, the attempts, the next one, and the reason."""
        again = (
            f"next at {self.next_attempt_at:%H:%M:%S %Z}" if self.next_attempt_at else "given up"
        )
        return (
            f"{self.stream_table} since {self.since:%Y-%m-%d %H:%M:%S %Z}"
            f" ({self.attempts} attempts, {again}): {self.error}"
        )

    @property
    def remedy(self) -> str:
        """What to do about it."""
        ask = f"Then run: pgtrickle sink retry {self.stream_table}."
        then = ask if self.lasting else "It is tried again by itself."
        return f"{self.hint} {then}".strip()


@dataclass(frozen=True, slots=True)
class SinkNews:
    """An attempt to deliver that failed, or a copy that is up to date again."""

    sink: FailingSink  # as it was when it failed last
    recovered: bool = False


@dataclass(frozen=True, slots=True)
class SinkCare:
    """The result of maintaining one sink."""

    stream_table: str
    orphans: tuple[str, ...] = ()  # files that no snapshot knew
    replaced: tuple[str, ...] = ()  # removed files whose contents are in others now
    merged: int = 0  # small files that became one
    flushed: int = 0  # deletes that moved from the catalog into files
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LakeCare(Shown):
    """The result of maintaining all sinks."""

    sinks: tuple[SinkCare, ...]
    expired: int = 0  # expired snapshots
