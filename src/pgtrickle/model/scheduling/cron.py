"""Cron expressions: moments of the wall clock of a time zone.

``minute hour day month weekday``, optionally with seconds in front, or ``@hourly``, ``@daily``,
``@weekly``, ``@monthly``, ``@yearly``.  ``CRON_TZ=Europe/Rome`` in front names the time zone;
without it the caller's default holds.  As in cron, a day matches if the day of the month *or* the
weekday does when both are restricted.

When clocks are set forward, a time in the missing hour moves forward by the same amount.
When they are set back, a fixed hour occurs once, and hourly schedules continue every hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pgtrickle.errors import SettingError

_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_DIGITS = 4  # of a number; the largest that means anything has two
_ZONE = re.compile(r"(?:CRON_TZ|TZ)=(\S+)\s+(.*)")
_PART = re.compile(r"(?P<first>\*|[A-Z0-9]+)(?:-(?P<last>[A-Z0-9]+))?(?:/(?P<step>[0-9]{1,4}))?")
_HORIZON = 9 * 366  # days; 29 February comes at least every eight years
_AROUND = timedelta(hours=3)  # more than any change of a clock
_HINT = "Write minute, hour, day, month and weekday, such as '*/5 * * * *' or '0 6 * * MON-FRI'."


@dataclass(frozen=True, slots=True)
class Cron:
    """The values that the fields of an expression allow."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either_day: bool  # both kinds of day are restricted
    every_hour: bool
    zone: str | None = None

    def next_after(self, moment: datetime, default_zone: str = "UTC") -> datetime:
        """Return the first moment after another one, in UTC.

        >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        >>> parse_cron("30 6 * * *").next_after(noon).isoformat()
        '2026-01-02T06:30:00+00:00'
        >>> parse_cron("CRON_TZ=America/New_York 30 6 * * *").next_after(noon).isoformat()
        '2026-01-02T11:30:00+00:00'
        """
        zone = ZoneInfo(self.zone or default_zone)
        local = moment.astimezone(zone).replace(tzinfo=None)
        best: datetime | None = None
        for wall in self._walls(local - _AROUND):
            if best is not None and wall > best.astimezone(zone).replace(tzinfo=None) + _AROUND:
                break
            for fold in (0, 1) if self.every_hour else (0,):
                found = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
                if found > moment and (best is None or found < best):
                    best = found
        if best is None:
            raise SettingError("the cron schedule never comes", hint=_HINT)
        return best

    def _walls(self, after: datetime) -> Iterator[datetime]:
        """Yield the wall-clock times that match, from about ``after`` on."""
        day = after.replace(hour=0, minute=0, second=0, microsecond=0)
        for _ in range(_HORIZON):
            if self._allows(day):
                for hour, minute, second in product(self.hours, self.minutes, self.seconds):
                    wall = day.replace(hour=hour, minute=minute, second=second)
                    if wall > after:
                        yield wall
            day += timedelta(days=1)

    def _allows(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_date or by_weekday) if self.either_day else (by_date and by_weekday)


def parse_cron(text: str) -> Cron:
    """Read an expression, or raise ST501.

    >>> parse_cron("*/20 8-10 * * MON-FRI").minutes
    (0, 20, 40)
    >>> parse_cron("61 * * * *")
    Traceback (most recent call last):
    pgtrickle.errors.SettingError: in the cron schedule "61 * * * *", "61" is not a valid minute
    """
    zone, plain = None, text.strip()
    if match := _ZONE.fullmatch(plain):
        zone, plain = _check_zone(match[1]), match[2].strip()
    fields = _NICKNAMES.get(plain.lower(), plain).upper().split()
    if len(fields) == 5:
        fields.insert(0, "0")
    if len(fields) != 6:
        raise SettingError(f'the cron schedule "{text}" does not have 5 or 6 fields', hint=_HINT)
    second, minute, hour, day, month, weekday = fields
    weekdays = _parse(text, weekday, "weekday", 0, 7, _DAYS)
    cron = Cron(
        _parse(text, second, "second", 0, 59),
        _parse(text, minute, "minute", 0, 59),
        _parse(text, hour, "hour", 0, 23),
        frozenset(_parse(text, day, "day", 1, 31)),
        frozenset(_parse(text, month, "month", 1, 12, ("", *_MONTHS))),
        frozenset(number % 7 for number in weekdays),
        either_day=not day.startswith("*") and not weekday.startswith("*"),
        every_hour=hour.startswith("*"),
        zone=zone,
    )
    if not any(True for _ in cron._walls(datetime(2023, 12, 31))):  # noqa: SLF001 - our own class
        raise SettingError(f'the cron schedule "{text}" never comes', hint=_HINT)
    return cron


def _check_zone(name: str) -> str:
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingError(
            f'the time zone "{name}" does not exist', hint="Write a name such as Europe/Rome."
        ) from None


def _parse(
    text: str, field: str, unit: str, low: int, high: int, names: Sequence[str] = ()
) -> tuple[int, ...]:
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise _refuse(text, part, unit)
        step = int(match["step"] or 1)
        if match["first"] == "*":
            first, last = low, high
        else:
            first = last = _number(text, match["first"], unit, low, high, names)
            if match["last"]:
                last = _number(text, match["last"], unit, low, high, names)
            elif match["step"]:
                last = high
        if first > last or step == 0:
            raise _refuse(text, part, unit)
        found.update(range(first, last + 1, step))
    return tuple(sorted(found))


def _number(text: str, word: str, unit: str, low: int, high: int, names: Sequence[str]) -> int:
    if word in names and word:
        return names.index(word)
    if not word.isdecimal() or len(word) > _DIGITS or not low <= int(word) <= high:
        raise _refuse(text, word, unit)
    return int(word)


def _refuse(text: str, word: str, unit: str) -> SettingError:
    return SettingError(
        f'in the cron schedule "{text}", "{word}" is not a valid {unit}', hint=_HINT
    )
