"""Simulated courses of changes: what a scheduler records of them, and which interval is best.

The best interval is found by trying all of them on the changes themselves.  It knows the cost that
docs/scheduling.md defines, and nothing of how the planner looks for it.
"""

from __future__ import annotations

import itertools
import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.labs.lab import Lab

HOUR, DAY = 3600.0, 86_400.0
MONDAY = datetime.fromisoformat("2026-06-01T00:00:00+00:00")
WAIT_PRICE = 0.0001  # seconds of work that a second of waiting is worth
CHECK_SECONDS = 0.005  # of a check that finds nothing


@dataclass(frozen=True, slots=True)
class Course:
    """Changes, and what a refresh of them takes; moments are seconds after a Monday began."""

    changes: Sequence[float]
    fixed: float  # seconds that a refresh takes
    per_row: float = 0.0  # and for each row

    @property
    def length(self) -> float:
        return self.changes[-1] - self.changes[0]

    def refreshes(self, interval: float, phase: float = 0.0) -> Iterator[tuple[float, float, int]]:
        """Yield each refresh that finds changes: when it begins, its first change, its rows."""
        at = 0
        while at < len(self.changes):
            first = self.changes[at]
            begins = (math.floor((first - phase) / interval) + 1) * interval + phase
            end = bisect_right(self.changes, begins)
            yield begins, first, end - at
            at = end

    def cost(self, interval: float, phase: float) -> float:
        """Return what a second costs: the work, and the waiting at its price."""
        work, waiting, number = 0.0, 0.0, 0
        for begins, first, rows in self.refreshes(interval, phase):
            work += self.fixed + self.per_row * rows
            waiting += (begins - first) ** 2 / 2
            number += 1
        work += CHECK_SECONDS * max(self.length / interval - number, 0)
        return (work + WAIT_PRICE * waiting) / self.length

    def mean_cost(self, interval: float) -> float:
        """Return the cost wherever the first refresh falls."""
        return sum(self.cost(interval, interval * part) for part in (0.2, 0.5, 0.8)) / 3

    def best_interval(self) -> float:
        """Return the cheapest interval from ten seconds to an hour, in steps of four percent."""
        tried = [10 * math.exp(n * 0.04) for n in range(148)]
        best = min(tried, key=self.mean_cost)
        assert tried[0] < best < tried[-1], "the cheapest is beyond what was tried"
        return best


def draw(rate: Callable[[float], float], most: float, length: float, seed: int) -> list[float]:
    """Draw the moments of changes that come at a rate, by thinning."""
    chance = random.Random(seed)
    found, now = [], 0.0
    while (now := now + chance.expovariate(most)) < length:
        if chance.random() * most < rate(now):
            found.append(now)
    return found


def steady(seed: int = 1) -> Course:
    return Course(draw(lambda _: 0.5, 0.5, 6 * HOUR, seed), fixed=0.2, per_row=1e-5)


def sawtooth(seed: int = 2) -> Course:
    """Return changes that grow more for an hour, stop at once, and begin again."""
    changes = draw(lambda t: (t % HOUR) / HOUR, 1.0, 12 * HOUR, seed)
    return Course(changes, fixed=0.5, per_row=1e-4)


def burst(seed: int = 3) -> Course:
    """Return many changes for two minutes, none for eighteen."""
    changes = draw(lambda t: 5.0 if t % 1200 < 120 else 0.0, 5.0, DAY, seed)
    return Course(changes, fixed=0.8, per_row=1e-5)


def spike(seed: int = 4) -> Course:
    """Return some changes all the time, and twenty thousand within a minute."""
    usual = draw(lambda _: 0.2, 0.2, 12 * HOUR, seed)
    chance = random.Random(seed)
    mass = [5 * HOUR + 60 * chance.random() for _ in range(20_000)]
    return Course(sorted(usual + mass), fixed=0.3, per_row=1e-5)


def weekly(seed: int = 5) -> Course:
    """Return changes from nine to five on weekdays, for three weeks."""

    def rate(moment: float) -> float:
        working = moment // DAY % 7 < 5 and 9 * HOUR <= moment % DAY < 17 * HOUR
        return 0.02 if working else 0.0

    return Course(draw(rate, 0.02, 21 * DAY, seed), fixed=1.5, per_row=1e-4)


def batches(seed: int = 6) -> Course:
    """Return a hundred changes at once, after five minutes on average, for two days."""
    chance = random.Random(seed)
    starts = itertools.accumulate(chance.expovariate(1 / 300) for _ in range(576))
    changes = [start + 0.001 * number for start in starts for number in range(100)]
    return Course(sorted(changes), fixed=0.5, per_row=1e-4)


COURSES: dict[str, Callable[[], Course]] = {
    "steady": steady,
    "sawtooth": sawtooth,
    "burst": burst,
    "spike": spike,
    "weekly": weekly,
    "batches": batches,
}

_FORGET = "DELETE FROM pgtrickle.pgt_refresh_history"
_RECORD = """
    INSERT INTO pgtrickle.pgt_refresh_history
        (pgt_id, start_time, end_time, data_timestamp, action, status, reason, initiated_by,
         rows_inserted, rows_deleted, delta_row_count, reads, timings, actual_ms, changed_rows)
    SELECT s.pgt_id, h.began, h.began + make_interval(secs => h.took), h.began, h.action,
           h.status, 'simulated', 'SCHEDULER', h.amount, 0, h.amount, '[]', '{}', h.took * 1000,
           h.amount
      FROM pgtrickle.pgt_stream_tables AS s,
           unnest(%s::timestamptz[], %s::float8[], %s::bigint[], %s::text[], %s::text[])
               AS h (began, took, amount, action, status)
     WHERE s.pgt_name = %s
     ORDER BY h.began
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A refresh as it is put into the history."""

    began: datetime
    took: float
    amount: int = 1
    action: str = "DIFFERENTIAL"
    status: str = "COMPLETED"


def record(lab: Lab, name: str, refreshes: Sequence[Recorded]) -> None:
    """Give a stream table a history, in place of the one that it has."""
    lab.run(_FORGET)
    columns = [
        [one.began for one in refreshes],
        [float(one.took) for one in refreshes],
        [one.amount for one in refreshes],
        [one.action for one in refreshes],
        [one.status for one in refreshes],
    ]
    lab.connection.execute(_RECORD.encode(), [*columns, name])


def history(course: Course, interval: float, *, noise: float = 0.1) -> list[Recorded]:
    """Return what a scheduler records that looks for changes in an interval."""
    chance = random.Random(7)
    shown: Iterator[float] = (chance.uniform(1 - noise, 1 + noise) for _ in itertools.count())
    return [
        Recorded(
            MONDAY + timedelta(seconds=begins),
            (course.fixed + course.per_row * rows) * next(shown),
            rows,
        )
        for begins, _, rows in course.refreshes(interval)
    ]
