"""A fuse: the number of changed rows that the scheduler applies without asking."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from pgtrickle.errors import SettingError
from pgtrickle.model.text.choices import parse_choice

_SENSITIVITY = 10.0  # times the usual number
_MOST = 2.0**62  # rows, more than any table has
_LEAST = 1000  # rows below which nothing is unusual


class FuseMode(Enum):
    """When a fuse blows."""

    OFF = "off"
    ON = "on"  # above its ceiling
    AUTO = "auto"  # also far above the usual number for the stream table


def parse_fuse_mode(text: FuseMode | str) -> FuseMode:
    """Read the mode of a fuse, or raise ST501.

    >>> parse_fuse_mode("Auto")
    <FuseMode.AUTO: 'auto'>
    """
    return parse_choice(FuseMode, text, 'the fuse "{}" does not exist')


@dataclass(frozen=True, slots=True)
class Fuse:
    """The fuse of one stream table."""

    mode: FuseMode = FuseMode.OFF
    ceiling: int | None = None  # in rows; None: the setting decides
    sensitivity: float | None = None
    bridged: bool = False  # the next refresh passes

    def limit(self, usual: float | None, default_ceiling: int) -> int | None:
        """Return the number of changed rows above which it blows; None if there is none.

        ``usual`` is the median of recent refreshes, None if there were too few.

        >>> Fuse(FuseMode.ON, 500).limit(10, 0), Fuse(FuseMode.ON).limit(10, 0)
        (500, None)
        >>> Fuse(FuseMode.AUTO, 5000).limit(200, 0), Fuse(FuseMode.AUTO).limit(3, 0)
        (2000, 1000)
        """
        if self.mode is FuseMode.OFF or self.bridged:
            return None
        limits = [self.ceiling or default_ceiling] if self.ceiling or default_ceiling else []
        if self.mode is FuseMode.AUTO and usual is not None:
            unusual = min(usual * (self.sensitivity or _SENSITIVITY), _MOST)
            limits.append(max(int(unusual), _LEAST))
        return min(limits, default=None)


def check_fuse(fuse: Fuse) -> Fuse:
    """Return the fuse if its numbers are valid, or raise ST501.

    >>> check_fuse(Fuse(FuseMode.AUTO, sensitivity=math.inf))
    Traceback (most recent call last):
    pgtrickle.errors.SettingError: the numbers of a fuse must be positive and finite
    """
    if (fuse.ceiling is not None and not 0 < fuse.ceiling < 2**63) or (
        fuse.sensitivity is not None
        and not (fuse.sensitivity > 1 and math.isfinite(fuse.sensitivity))
    ):
        raise SettingError(
            "the numbers of a fuse must be positive and finite",
            hint="Choose a ceiling of at least 1 row, and a sensitivity greater than 1.",
        )
    return fuse
