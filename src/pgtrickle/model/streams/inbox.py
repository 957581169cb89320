"""An inbox as its users see it, and what it may be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from pgtrickle.errors import InboxError
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.shown import Shown

MAX_RETRIES = 3
SCHEDULE_SECONDS = 5
INBOX_RETENTION_HOURS = 72.0
URGENT_FROM = 10.0
URGENT_SECONDS = 1
_MOST_RETRIES = 1000
_MOST_HOURS = 876_000  # a hundred years
_MOST_SECONDS = 86_400
_FNV_OFFSET, _FNV_PRIME = 2_166_136_261, 16_777_619


def check_inbox(*, max_retries: int, schedule_seconds: int, retention_hours: float) -> None:
    """Raise ST840 for what an inbox cannot have.

    >>> check_inbox(max_retries=0, schedule_seconds=1, retention_hours=0.5)
    """
    if not 0 <= max_retries <= _MOST_RETRIES:
        raise InboxError(
            f"a message cannot be tried {max_retries} times again",
            hint=f"Give max_retries from 0 to {_MOST_RETRIES:,}.",
        )
    if not 0 <= retention_hours <= _MOST_HOURS:
        raise InboxError(
            f"messages cannot be kept for {retention_hours} hours",
            hint=f"Give a number of hours from 0 to {_MOST_HOURS:,}.",
        )
    check_seconds(schedule_seconds)


def check_seconds(seconds: int) -> None:
    """Raise ST840 for a schedule that a stream table of an inbox cannot have."""
    if not 1 <= seconds <= _MOST_SECONDS:
        raise InboxError(
            f"the stream tables of an inbox cannot be refreshed every {seconds} seconds",
            hint=f"Give schedule_seconds from 1 to {_MOST_SECONDS:,}.",
        )


def inbox_name(name: str, schema: str) -> QualifiedName:
    """Return the name of an inbox to be, in a schema that is named apart, as it is stored.

    >>> str(inbox_name("mail", "Shop")), str(inbox_name("other.mail", "Shop"))
    ('"Shop".mail', 'other.mail')
    """
    return QualifiedName.parse(name, QualifiedName.parse(quote_identifier(schema)).name)


def is_my_partition(aggregate_id: str | None, worker_id: int, total_workers: int) -> bool:
    """Tell whether the messages of an aggregate are one worker's: FNV-1a, as in SQL.

    >>> [is_my_partition("order 7", worker, 3) for worker in range(3)]
    [False, False, True]
    """
    if not 0 <= worker_id < total_workers:
        raise InboxError(
            f"there is no worker {worker_id} of {total_workers}",
            hint="Workers count from 0: worker_id is less than total_workers.",
        )
    found = _FNV_OFFSET
    for byte in (aggregate_id or "").encode():
        found = (found ^ byte) * _FNV_PRIME & 0xFFFF_FFFF
    return found % total_workers == worker_id


@dataclass(frozen=True, slots=True)
class InboxStatus(Shown):
    """What an inbox holds: see ``inbox_status``."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "inbox",
        "messages",
        "pending",
        "dead_letters",
        "processed",
        "oldest_pending_at",
        "trouble",
    )

    inbox: str
    trouble: str | None  # why its table cannot be used any more
    messages: int | None
    pending: int | None
    dead_letters: int | None
    processed: int | None
    oldest_pending_at: datetime | None
    last_received_at: datetime | None
    last_processed_at: datetime | None
    max_retries: int
    retention_hours: float
    ordered_by: str | None
    priority_column: str | None
    stream_tables: list[str]


@dataclass(frozen=True, slots=True)
class InboxCheck(Shown):
    """One thing that was looked at: see ``inbox_health``."""

    in_listing: ClassVar[tuple[str, ...]] = ("inbox", "check", "severity", "detail")

    inbox: str
    check: str
    severity: str  # OK, WARNING or ERROR
    detail: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class OrderingGap(Shown):
    """Numbers that are missing in a sequence: see ``inbox_ordering_gaps``."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "aggregate",
        "after_sequence",
        "next_sequence",
        "missing",
    )

    aggregate: str
    after_sequence: Decimal
    next_sequence: Decimal
    missing: Decimal
