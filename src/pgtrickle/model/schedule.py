"""How often a stream table is to be refreshed, as the user writes it.

A schedule is a duration (``30s``, ``5m``, ``1h30m``) or the word ``calculated``, which leaves the
cadence to pgtrickle: one second for now, whatever reads the stream table.  Cron expressions are
recognised and refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from pgtrickle.errors import SettingError

CALCULATED = "calculated"
SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(weeks=520)  # far beyond any use, and safely inside what a date can hold

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}  # in seconds
_DURATION = re.compile("".join(rf"(?:(?P<{unit}>[0-9]{{1,18}}){unit})?" for unit in _UNITS))
_CRON = re.compile(r"@[a-z]+|[\d*]\S*(\s+\S+){4,5}", re.IGNORECASE)
_HINT = "Write a duration such as '30s', '5m' or '1h30m', or the word 'calculated'."


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cadence: the text the user chose and the time from one refresh to the next."""

    text: str
    every: timedelta

    def __str__(self) -> str:
        return self.text


def parse_schedule(text: str) -> Schedule:
    """Read a schedule, or raise ST501.

    >>> parse_schedule("1h30m").every
    datetime.timedelta(seconds=5400)
    >>> parse_schedule("calculated").every
    datetime.timedelta(seconds=1)
    >>> parse_schedule("*/5 * * * *")
    Traceback (most recent call last):
    pgtrickle.errors.SettingError: the cron schedule "*/5 * * * *" is not supported yet
    """
    plain = text.strip()
    if plain.lower() == CALCULATED:
        return Schedule(CALCULATED, SHORTEST)
    if _CRON.fullmatch(plain):
        raise SettingError(f'the cron schedule "{plain}" is not supported yet', hint=_HINT)
    match = _DURATION.fullmatch(plain)
    if not plain or match is None:
        raise SettingError(f'the schedule "{plain}" is not a duration', hint=_HINT)
    # In plain seconds first: a timedelta cannot hold every number that fits the pattern.
    seconds = sum(int(count) * _UNITS[unit] for unit, count in match.groupdict("0").items())
    if not SHORTEST.total_seconds() <= seconds <= LONGEST.total_seconds():
        raise SettingError(
            f'the schedule "{plain}" is not between 1 second and {LONGEST.days // 7} weeks',
            hint=_HINT,
        )
    return Schedule(plain, timedelta(seconds=seconds))
