"""Moments and durations as people like to read them."""

from __future__ import annotations

from datetime import UTC, datetime


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """Say how long ago something was, coarsely.

    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> [ago(datetime(2026, 1, 1, *clock, tzinfo=UTC), noon) for clock in ((11, 59, 30), (9, 10))]
    ['30 s ago', '2 h ago']
    """
    if moment is None:
        return "never"
    seconds = int(max(((now or datetime.now(UTC)) - moment).total_seconds(), 0))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def lasted(start: datetime, end: datetime | None) -> str:
    """Say how long something took, in milliseconds.

    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> lasted(noon, noon.replace(second=2)), lasted(noon, None)
    ('2,000 ms', '')
    """
    return "" if end is None else f"{(end - start).total_seconds() * 1000:,.0f} ms"
