"""Follow the channels of refreshes and alerts, on a separate connection."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from psycopg import sql

from pgtrickle.catalog.stream_tables import list_stream_tables
from pgtrickle.errors import SettingError, StreamTableNotFoundError
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.session import Session

REFRESHES = "pg_trickle_refresh"
ALERTS = "pg_trickle_alert"
_LOOK = 1.0  # seconds between two checks of the clock and of signals


@dataclass(frozen=True, slots=True)
class Notice:
    """A message on one of the channels."""

    channel: str
    heard_at: datetime
    payload: dict[str, Any] = field(default_factory=dict)

    @property
    def stream_table(self) -> str | None:
        """The stream table it is about, if any."""
        name = self.payload.get("name")
        return None if name is None else str(name)


def follow_notices(
    runtime: Runtime,
    names: Collection[str],
    *,
    listening: Callable[[], None],
    seconds: float | None,
    until: Callable[[], bool] = lambda: False,
) -> Iterator[Notice]:
    """Yield notices about these stream tables, or all, for ``seconds``, or until told to end."""
    end = None if seconds is None else time.monotonic() + seconds
    timeout = int(runtime.settings.connection_timeout_seconds)
    with (
        translated_errors(),
        Session.open(
            str(runtime.pool.conninfo), connect_timeout=timeout, application_name="pgtrickle follow"
        ) as session,
    ):
        if session.pooled:
            raise SettingError(
                "notices do not pass a pooler that shares sessions",
                hint="Connect to PostgreSQL directly: LISTEN needs a session of its own.",
            )
        for channel in (REFRESHES, ALERTS):
            session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        _check_names(runtime, names)
        listening()
        while not until() and (end is None or time.monotonic() < end):
            left = _LOOK if end is None else min(_LOOK, max(end - time.monotonic(), 0))
            for heard in session.notifies(timeout=left):
                notice = _read(heard.channel, heard.payload)
                if not names or notice.stream_table in names:
                    yield notice


def _check_names(runtime: Runtime, names: Collection[str]) -> None:
    if not names:
        return
    with runtime.connection() as connection:
        known = {str(one.name) for one in list_stream_tables(connection)}
    for name in names:
        if name not in known:
            raise StreamTableNotFoundError(
                f'the stream table "{name}" does not exist', hint="List them with: pgtrickle list"
            )


def _read(channel: str, payload: str) -> Notice:
    """Read a notice; anyone may notify on these channels, so it may be anything."""
    try:
        told = json.loads(payload)
    except ValueError:
        told = payload
    return Notice(channel, datetime.now(UTC), told if isinstance(told, dict) else {"text": told})
