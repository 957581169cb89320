"""Constant intervals, as PostgreSQL prints them in the interval style ``postgres``.

An interval that is a value of a row travels as text and is not computed with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from pgtrickle.sql.translate.term import refuse

_PART = re.compile(r"([+-]?[0-9]+) (year|mon|day)s?(?: |$)")
_TIME = re.compile(r"([+-]?)([0-9]+):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?")
_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """The three parts of an interval, which PostgreSQL keeps apart."""

    months: int = 0
    days: int = 0
    microseconds: int = 0

    @classmethod
    def parse(cls, node: exp.Expr, text: str) -> Interval:
        """Read an interval; ``node`` is named if it has another form.

        >>> Interval.parse(exp.Null(), "1 year -2 mons +3 days -04:05:06.5")
        Interval(months=10, days=3, microseconds=-14706500000)
        """
        found = {"year": 0, "mon": 0, "day": 0}
        position = 0
        while part := _PART.match(text, position):
            found[part[2]] += int(part[1])
            position = part.end()
        time = _TIME.fullmatch(text, position)
        if time is None and (position < len(text) or not text):
            raise refuse(node)
        return cls(
            found["year"] * 12 + found["mon"], found["day"], _microseconds(time) if time else 0
        )

    @property
    def longest(self) -> int:
        """Its greatest length in microseconds, with months of 31 days."""
        return (self.months * 31 + self.days) * _DAY + self.microseconds

    def times(self, factor: int) -> Interval:
        """Return the interval, negated or unchanged."""
        return Interval(self.months * factor, self.days * factor, self.microseconds * factor)

    def added_to(self, value: str) -> str:
        """Write the sum of a timestamp and this interval for Spark.

        >>> Interval(1, 2, 500_000).added_to("`t`")
        "((`t` + INTERVAL '1' MONTH) + INTERVAL '2 00:00:00.500000' DAY TO SECOND)"
        """
        if self.months:
            value = f"({value} + INTERVAL '{self.months}' MONTH)"
        if total := self.days * _DAY + self.microseconds:
            days, rest = divmod(abs(total), _DAY)
            seconds, fraction = divmod(rest, 1_000_000)
            time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
            sign = "-" if total < 0 else ""
            value = f"({value} + INTERVAL '{sign}{days} {time}' DAY TO SECOND)"
        return value


def _microseconds(time: re.Match[str]) -> int:
    sign, hours, minutes, seconds, fraction = time.groups()
    total = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000
    total += int((fraction or "").ljust(6, "0"))
    return -total if sign == "-" else total
