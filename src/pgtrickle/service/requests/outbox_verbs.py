"""The verbs of requests that give stream tables outboxes, and take them away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgtrickle.model.streams.outbox import INLINE_THRESHOLD_ROWS, RETENTION_HOURS
from pgtrickle.service.lease_waits import when_free
from pgtrickle.service.outboxes.enable import disable, enable
from pgtrickle.service.requests.ask_daemon import WAITING
from pgtrickle.service.requests.caller import get_own_stream_table

if TYPE_CHECKING:  # which imports this module
    from pgtrickle.errors import LeaseHeldError
    from pgtrickle.service.requests.verbs import Ask


def enable_outbox(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Give a stream table of the caller an outbox."""
    stream_table = get_own_stream_table(ask, given["name"])
    hours, most = given.get("retention_hours"), given.get("inline_threshold_rows")
    name = when_free(
        lambda: enable(
            ask.runtime,
            stream_table.name,
            retention_hours=RETENTION_HOURS if hours is None else hours,
            inline_threshold_rows=INLINE_THRESHOLD_ROWS if most is None else most,
        ),
        waiting=lambda error: _tell(ask, error, str(stream_table.name)),
        seconds=given.get("wait_seconds"),
    )
    return {"name": str(name), "enabled": True}


def disable_outbox(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Take the outbox of a stream table of the caller away."""
    stream_table = get_own_stream_table(ask, given["name"])
    ended = when_free(
        lambda: disable(ask.runtime, stream_table.name, if_exists=bool(given.get("if_exists"))),
        waiting=lambda error: _tell(ask, error, str(stream_table.name)),
        seconds=given.get("wait_seconds"),
    )
    return {"name": str(stream_table.name), "enabled": False, "ended": ended}


def _tell(ask: Ask, error: LeaseHeldError, name: str) -> None:
    ask.notice(f"{name}{WAITING}{error}")
