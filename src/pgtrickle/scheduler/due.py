"""Which stream tables are due, from their schedules and their last attempts.

A cadence counts from the start of one refresh to the start of the next.  After a failure the next
attempt waits twice as long as before, up to five minutes, and never less than the schedule says;
after one at a cron time, it does not wait for the next such time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pgtrickle.model.scheduling.schedule import Schedule
from pgtrickle.scheduler.pace import Pace

LONGEST_BACKOFF = timedelta(minutes=5)
AT_ONCE = datetime.min.replace(tzinfo=UTC)

_FIRST_BACKOFF = timedelta(seconds=1)
NAP = timedelta(seconds=8)  # the longest time between two checks if a bell is sure to ring
_LATE = 3
_LONGEST_STRETCH = 8


@dataclass(frozen=True, slots=True)
class Attempt:
    """The last attempt of a refresh, and its outcome."""

    at: datetime
    failures: int = 0  # consecutive
    jitter: float = 1.0  # a factor on the pause after them
    late: int = 0  # consecutive refreshes that took longer than their interval
    stretch: int = 1  # a factor on the interval of the schedule
    worked: datetime | None = None  # when it last found changes; None: this time
    asleep: bool = False  # a bell is sure to ring at the next change
    longest_pause: timedelta = LONGEST_BACKOFF  # after failures

    def succeeded(self, began: datetime, took: timedelta, every: timedelta | None) -> Attempt:
        """Return the attempt that follows a successful refresh of a given duration.

        Three consecutive ones that take longer than their interval double it; one that takes
        no longer than the schedule resets it.

        >>> noon, second = datetime(2026, 1, 1, 12, tzinfo=UTC), timedelta(seconds=1)
        >>> attempt = Attempt(noon)
        >>> for _ in range(7):
        ...     attempt = attempt.succeeded(noon, 3 * second, second)
        >>> attempt.stretch, attempt.succeeded(noon, second, second).stretch
        (4, 1)
        """
        if every is None or took <= every:
            return Attempt(began)
        if took <= every * self.stretch:
            return Attempt(began, stretch=self.stretch)
        if self.late + 1 < _LATE:
            return Attempt(began, late=self.late + 1, stretch=self.stretch)
        return Attempt(began, stretch=min(2 * self.stretch, _LONGEST_STRETCH))

    def found_nothing(self, at: datetime) -> Attempt:
        """Return the attempt that follows a check that found no change."""
        return Attempt(at, worked=self.worked or self.at)

    def failed(
        self, at: datetime, jitter: float, longest_pause: timedelta = LONGEST_BACKOFF
    ) -> Attempt:
        """Return the attempt that follows a failure."""
        return Attempt(
            at, self.failures + 1, jitter, self.late, self.stretch, longest_pause=longest_pause
        )

    @property
    def pace(self) -> Pace:
        """How the refreshes so far have kept up."""
        return Pace(self.late, self.stretch)

    @property
    def pause(self) -> timedelta:
        """The shortest wait after it."""
        return min(backoff(self.failures), self.longest_pause) * self.jitter


def backoff(failures: int) -> timedelta:
    """Return the wait after a number of consecutive failures.

    >>> [backoff(failures).seconds for failures in (0, 1, 2, 3, 40)]
    [0, 1, 2, 4, 300]
    """
    if failures == 0:
        return timedelta()
    # Capping the exponent first keeps the number small after days of failures.
    return min(_FIRST_BACKOFF * (1 << min(failures - 1, 20)), LONGEST_BACKOFF)


def due_if_changed(schedule: Schedule, attempt: Attempt) -> datetime | None:
    """Return the moment from which a change starts a refresh; None: when it is due anyway.

    The schedule is the shortest time between refreshes.  A check without changes does not count.

    >>> from pgtrickle.model.scheduling.schedule import parse_schedule
    >>> noon, minute = datetime(2026, 1, 1, 12, tzinfo=UTC), timedelta(minutes=1)
    >>> looked = Attempt(noon).found_nothing(noon + 5 * minute)
    >>> due_if_changed(parse_schedule("5m"), looked).minute
    5
    """
    if attempt.failures or schedule.cron is not None:
        return None
    return schedule.next_after(attempt.worked or attempt.at, times=attempt.stretch)


def due_at(
    schedule: Schedule,
    last_refresh_at: datetime | None,
    attempt: Attempt | None,
    zone: str = "UTC",
    *,
    awake: bool = False,
) -> datetime:
    """Return the moment from which a stream table is due; ``zone`` is that of cron schedules.

    A sleeping stream table is checked less often than its schedule says, unless ``awake`` is set.

    >>> from pgtrickle.model.scheduling.schedule import parse_schedule
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> due_at(parse_schedule("5m"), noon, None).minute
    5
    >>> due_at(parse_schedule("5m"), None, None) == AT_ONCE
    True
    """
    if attempt is not None:
        after = attempt.at + attempt.pause
        if attempt.asleep and not awake:
            after = max(after, _end_of_nap(attempt.at))
        if schedule.cron is not None:
            return after if attempt.failures else schedule.next_after(attempt.at, zone)
        return max(schedule.next_after(attempt.at, zone, times=attempt.stretch), after)
    if last_refresh_at is not None:
        return schedule.next_after(last_refresh_at, zone)
    return AT_ONCE


def _end_of_nap(began: datetime) -> datetime:
    """Return the next check of sleeping stream tables: all at once, since one check is cheaper.

    >>> noon, second = datetime(2026, 1, 1, 12, tzinfo=UTC), timedelta(seconds=1)
    >>> [_end_of_nap(noon + after * second).second for after in (0, 1, 7, 8, 9)]
    [8, 8, 8, 16, 16]
    """
    end = began + NAP
    return end - (end - AT_ONCE) % NAP
