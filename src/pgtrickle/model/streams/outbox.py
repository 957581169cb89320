"""The outbox of a stream table as its consumers see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pgtrickle.errors import SettingError
from pgtrickle.model.text.shown import Shown

RETENTION_HOURS = 24.0
INLINE_THRESHOLD_ROWS = 10_000
_MOST_HOURS = 876_000  # a hundred years
_MOST_INLINE = 1_000_000


def check_outbox(*, retention_hours: float, inline_threshold_rows: int) -> None:
    """Raise ST501 for what an outbox cannot keep.

    >>> check_outbox(retention_hours=0.5, inline_threshold_rows=0)
    """
    if not 0 <= retention_hours <= _MOST_HOURS:
        raise SettingError(
            f"entries cannot be kept for {retention_hours} hours",
            hint=f"Give a number of hours from 0 to {_MOST_HOURS:,}.",
        )
    if not 0 <= inline_threshold_rows <= _MOST_INLINE:
        raise SettingError(
            f"an entry cannot hold {inline_threshold_rows} changes",
            hint=f"Give a number from 0 to {_MOST_INLINE:,}; more changes are kept apart from it.",
        )


@dataclass(frozen=True, slots=True)
class Outbox(Shown):
    """What an outbox keeps: see ``outbox_status``."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "stream_table",
        "enabled",
        "first_id",
        "last_id",
        "entries",
        "retention_hours",
        "blocked_by",
    )

    stream_table: str
    enabled: bool
    retention_hours: float
    inline_threshold_rows: int
    first_id: int  # of the entries that are kept; one after the last if none is
    last_id: int
    entries: int
    claim_check_entries: int  # whose changes are apart from them
    pending: int  # statements of writers whose entries have no number yet
    oldest_at: datetime | None
    newest_at: datetime | None
    schema_version: int
    consumer_groups: int
    slowest_group: str | None
    slowest_offset: int | None
    blocked_by: str | None  # the consumer group that keeps entries beyond the retention


@dataclass(frozen=True, slots=True)
class OutboxPosition(Shown):
    """Where a consumer begins: the contents that the same snapshot shows, and what follows."""

    pgt_id: int
    first_id: int
    last_id: int
    frontier: dict[str, Any] | None
    data_timestamp: datetime | None
    schema_version: int


@dataclass(frozen=True, slots=True)
class OutboxChange(Shown):
    """One change of one row."""

    outbox_id: int
    row_number: int
    op: str
    key: dict[str, Any] | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class LeasedEntry(Shown):
    """An entry that a consumer has polled."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "outbox_id",
        "action",
        "inserted",
        "updated",
        "deleted",
        "data_timestamp",
    )

    outbox_id: int
    refresh_id: int | None
    action: str
    reset: bool
    frontier: dict[str, Any] | None
    data_timestamp: datetime
    created_at: datetime
    schema_version: int
    inserted: int
    updated: int
    deleted: int
    changes: list[dict[str, Any]] | None  # None: they are many, and outbox_rows has them
    lease_expires_at: datetime


@dataclass(frozen=True, slots=True)
class ConsumerLag(Shown):
    """How far a consumer group is behind."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "group_name",
        "stream_table",
        "committed_id",
        "last_id",
        "lag_changes",
        "lag_seconds",
        "leased_to",
    )

    group_name: str
    stream_table: str
    committed_id: int
    last_id: int
    lag_entries: int
    lag_changes: int
    lag_seconds: float
    leased_to: str | None
    lease_expires_at: datetime | None
    consumers: int
    heartbeat_at: datetime | None
