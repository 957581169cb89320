"""The schedule of a stream table, as the user writes it.

A schedule is a duration (``30s``, ``5m``, ``1h30m``), a cron expression (see ``cron``), or the
word ``calculated``: then the consumers decide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from pgtrickle.errors import SettingError
from pgtrickle.model.scheduling.cron import Cron, parse_cron
from pgtrickle.model.text.lengths import LONGEST_SCHEDULE, shorten

CALCULATED = "calculated"
SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(weeks=520)  # far beyond any use, and safely inside the range of dates

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}  # in seconds
_DURATION = re.compile("".join(rf"(?:(?P<{unit}>[0-9]{{1,18}}){unit})?" for unit in _UNITS))
_CRON = re.compile(r"((CRON_)?TZ=\S+\s+)?(@[a-z]+|[\d*]\S*(\s+\S+){4,})", re.IGNORECASE)
_HINT = (
    "Write a duration such as '30s', '5m' or '1h30m', a cron expression such as '0 6 * * *', or"
    " the word 'calculated'."
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cadence: the user's text, and its meaning for the next refresh."""

    text: str
    every: timedelta | None  # from one refresh to the next; None: the wall clock decides
    cron: Cron | None = None

    def next_after(self, moment: datetime, zone: str = "UTC", *, times: int = 1) -> datetime:
        """Return the due time of the refresh after one that began at a moment.

        ``zone`` is that of cron times, ``times`` makes a duration longer.
        """
        if self.cron is not None:
            return self.cron.next_after(moment, zone)
        return moment + (self.every or SHORTEST) * times

    @property
    def calculated(self) -> bool:
        """Whether the consumers decide."""
        return self.text == CALCULATED

    def __str__(self) -> str:
        return self.text


def parse_schedule(text: str) -> Schedule:
    """Read a schedule, or raise ST501.

    >>> parse_schedule("1h30m").every
    datetime.timedelta(seconds=5400)
    >>> parse_schedule("calculated").every
    datetime.timedelta(seconds=1)
    >>> parse_schedule("*/20 * * * *").cron.minutes
    (0, 20, 40)
    """
    return _parse_schedule(_check_length(text, "schedule", _HINT))


def check_schedule(text: str) -> str:
    """Return a schedule as the user wrote it, or raise ST501.

    >>> check_schedule("1h30m")
    '1h30m'
    """
    parse_schedule(text)
    return text


@lru_cache(maxsize=4096)
def _parse_schedule(text: str) -> Schedule:
    plain = text.strip()
    if plain.lower() == CALCULATED:
        return Schedule(CALCULATED, SHORTEST)
    if _CRON.fullmatch(plain):
        return Schedule(plain, None, parse_cron(plain))
    return Schedule(plain, _read_duration(plain, "schedule", _HINT))


def parse_duration(text: str) -> timedelta:
    """Read a duration in the notation of schedules, or raise ST501.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    hint = "Write one such as '30s', '5m' or '1h30m'."
    return _read_duration(_check_length(text, "duration", hint).strip(), "duration", hint)


def _check_length(text: str, what: str, hint: str) -> str:
    if len(text) > LONGEST_SCHEDULE:
        raise SettingError(f'the {what} "{shorten(text)}" is too long', hint=hint)
    return text


def _read_duration(plain: str, what: str, hint: str) -> timedelta:
    match = _DURATION.fullmatch(plain)
    if not plain or match is None:
        raise SettingError(f'the {what} "{plain}" is not a duration', hint=hint)
    # In plain seconds first: a timedelta cannot hold every number that fits the pattern.
    seconds = sum(int(count) * _UNITS[unit] for unit, count in match.groupdict("0").items())
    if not SHORTEST.total_seconds() <= seconds <= LONGEST.total_seconds():
        raise SettingError(
            f'the {what} "{plain}" is not between 1 second and {LONGEST.days // 7} weeks',
            hint=hint,
        )
    return timedelta(seconds=seconds)
