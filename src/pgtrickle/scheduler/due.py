"""Which stream tables are due, from their schedules and what happened to them last.

A cadence counts from the start of one refresh to the start of the next.  After a failure the next
attempt waits twice as long as before, up to five minutes, and never less than the schedule says;
after one at a cron time, it does not wait for the next such time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pgtrickle.model.schedule import Schedule

LONGEST_BACKOFF = timedelta(minutes=5)
AT_ONCE = datetime.min.replace(tzinfo=UTC)

_FIRST_BACKOFF = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Attempt:
    """When a refresh was last tried, and how many in a row have failed."""

    at: datetime
    failures: int = 0


def backoff(failures: int) -> timedelta:
    """Return how long to wait after so many failures in a row.

    >>> [backoff(failures).seconds for failures in (0, 1, 2, 3, 40)]
    [0, 1, 2, 4, 300]
    """
    if failures == 0:
        return timedelta()
    # Capping the exponent first keeps the number small after days of failures.
    return min(_FIRST_BACKOFF * (1 << min(failures - 1, 20)), LONGEST_BACKOFF)


def due_at(
    schedule: Schedule,
    last_refresh_at: datetime | None,
    attempt: Attempt | None,
    zone: str = "UTC",
) -> datetime:
    """Return the moment from which a stream table is due; ``zone`` is that of cron schedules.

    >>> from pgtrickle.model.schedule import parse_schedule
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> due_at(parse_schedule("5m"), noon, None).minute
    5
    >>> due_at(parse_schedule("5m"), None, None) == AT_ONCE
    True
    """
    if attempt is not None:
        if attempt.failures and schedule.cron is not None:
            return attempt.at + backoff(attempt.failures)
        return max(schedule.next_after(attempt.at, zone), attempt.at + backoff(attempt.failures))
    if last_refresh_at is not None:
        return schedule.next_after(last_refresh_at, zone)
    return AT_ONCE
