"""A stream table over the history of refreshes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pgtrickle.model.text.shown import Shown


@dataclass(frozen=True, slots=True)
class MonitoringPart(Shown):
    """One of the stream tables of self-monitoring."""

    part: str
    stream_table: str
    status: str
    schedule: str
    last_refresh_at: datetime | None
    failing: bool
