"""Whether refreshes keep up with their schedules, and how far an interval is stretched."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pgtrickle.model.stream_table import StreamTable


@dataclass(frozen=True, slots=True)
class Pace:
    """How a stream table keeps up with its schedule."""

    late: int = 0  # consecutive refreshes that took longer than their interval
    stretch: int = 1  # a factor on the interval of the schedule


ON_TIME = Pace()


@dataclass(frozen=True, slots=True)
class Cycle:
    """A refresh, or a check that found nothing, compared with its interval."""

    stream_table: StreamTable
    every: timedelta  # by the schedule
    took: timedelta
    before: Pace
    after: Pace

    @property
    def behind(self) -> bool:
        """Whether it took longer than the interval, stretched as it was.

        >>> from typing import cast
        >>> second = timedelta(seconds=1)
        >>> cycle = Cycle(cast(StreamTable, None), second, 2 * second, ON_TIME, ON_TIME)
        >>> cycle.behind, Cycle(cycle.stream_table, second, second, ON_TIME, ON_TIME).behind
        (True, False)
        """
        return self.took > self.every * self.before.stretch

    @property
    def is_news(self) -> bool:
        """Whether anything has changed that somebody may look at."""
        return self.behind or self.before != self.after
