"""What the history of a stream table speaks for: another schedule, another refresh mode."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from pgtrickle.model.scheduling.schedule import parse_schedule
from pgtrickle.model.text.shown import Shown


@dataclass(frozen=True, slots=True)
class ScheduleAdvice(Shown):
    """The interval at which a stream table costs least, and when most of its changes come."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "stream_table",
        "schedule",
        "current_interval_seconds",
        "recommended_interval_seconds",
        "delta_pct",
        "confidence",
    )

    stream_table: str
    schedule: str
    current_interval_seconds: float | None  # None for cron, frozen, or if consumers decide
    recommended_interval_seconds: float | None  # None while too little is known
    delta_pct: float | None
    peak_window_cron: str | None
    confidence: float  # from 0 to 1
    reasoning: str


@dataclass(frozen=True, slots=True)
class ModeAdvice(Shown):
    """The refresh mode that measured and predicted times speak for."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "stream_table",
        "current_mode",
        "recommended_mode",
        "confidence",
        "reason",
    )

    stream_table: str
    current_mode: str
    effective_mode: str
    recommended_mode: str
    confidence: float
    reason: str
    signals: dict[str, Any]


def schedule_to_take(advice: ScheduleAdvice) -> str | None:
    """Return the schedule that makes the recommended interval the one in effect, by its tier.

    None if there is nothing to take over: too little is known, the schedule is right already, or
    the user has chosen times or consumers to follow.

    >>> one = ScheduleAdvice("public.t", "1m", 120.0, 90.0, -25.0, None, 0.8, "...")
    >>> schedule_to_take(one)
    '45s'
    """
    if not advice.confidence or not advice.recommended_interval_seconds:
        return None
    if not advice.current_interval_seconds:
        return None
    own = parse_schedule(advice.schedule).every
    if own is None:
        return None
    factor = advice.current_interval_seconds / own.total_seconds()
    seconds = max(int(advice.recommended_interval_seconds / factor), 1)
    return None if timedelta(seconds=seconds) == own else f"{seconds}s"
