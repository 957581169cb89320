"""The pipelines of relays as their owner sees them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from pgtrickle.model.text.shown import Shown


@dataclass(frozen=True, slots=True)
class RelayStatus(Shown):
    """What a pipeline does: see ``relay_status``."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "pipeline",
        "stream_table",
        "sink",
        "state",
        "lag_entries",
        "lag_seconds",
        "messages",
        "dead_letters",
        "error_code",
    )

    pipeline: str
    stream_table: str | None
    sink: str
    # new, starting, snapshot, streaming, retrying, waiting, paused, blocked, needs_snapshot, failed
    # or stopped
    state: str
    since: datetime | None
    paused: bool
    relay: str | None  # the process that delivers
    outbox_id: int | None  # the entry at which it goes on
    last_id: int | None  # the last entry of the outbox
    lag_entries: int
    lag_rows: int
    lag_seconds: float
    in_flight: int
    messages: int
    retries: int
    dead_letters: int
    sent_at: datetime | None
    error_code: str | None
    error: str | None
    hint: str | None


@dataclass(frozen=True, slots=True)
class DeadLetter(Shown):
    """A message that a receiver refused, or a later one of its key; rows are JSON texts."""

    in_listing: ClassVar[tuple[str, ...]] = ("dead_letter_id", "message_id", "op", "key", "error")

    dead_letter_id: int
    pipeline: str
    message_id: str
    op: str
    key: str | None
    before: str | None
    after: str | None
    error_code: str
    error: str
    failed_at: datetime
    replay_at: datetime | None
