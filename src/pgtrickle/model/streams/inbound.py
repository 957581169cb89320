"""The inbound pipelines of relays as their owner sees them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pgtrickle.model.text.shown import Shown


@dataclass(frozen=True, slots=True)
class InboundStatus(Shown):
    """What an inbound pipeline does: see ``inbound_status``."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "pipeline",
        "inbox",
        "origin",
        "state",
        "messages",
        "duplicates",
        "dead_letters",
        "error_code",
    )

    pipeline: str
    inbox: str | None
    origin: str
    # new, starting, receiving, full, retrying, waiting, paused, blocked, lost, failed or stopped
    state: str
    since: datetime | None
    paused: bool
    relay: str | None  # the process that receives
    messages: int  # that are new to the inbox
    duplicates: int  # that the inbox had
    dead_letters: int
    lag: int | None  # messages that have yet to be received, if the origin tells
    retries: int
    received_at: datetime | None
    error_code: str | None
    error: str | None
    hint: str | None


@dataclass(frozen=True, slots=True)
class InboundDeadLetter(Shown):
    """A message that cannot be read, as it came."""

    in_listing: ClassVar[tuple[str, ...]] = ("dead_letter_id", "pipeline", "message_id", "error")

    dead_letter_id: int
    pipeline: str
    message_id: str
    key: bytes | None
    value: bytes | None
    headers: dict[str, Any]
    error_code: str
    error: str
    failed_at: datetime
    replay_at: datetime | None
