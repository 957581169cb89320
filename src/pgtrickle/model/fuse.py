"""A fuse: how many changed rows the scheduler applies without asking."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from pgtrickle.errors import SettingError

_SENSITIVITY = 10.0  # times what is usual
_MOST = 2.0**62  # rows, and above any that there are
_LEAST = 1000  # rows below which nothing is unusual


class FuseMode(Enum):
    """When a fuse blows."""

    OFF = "off"
    ON = "on"  # above its ceiling
    AUTO = "auto"  # also far above what is usual for the stream table


def parse_fuse_mode(text: str) -> FuseMode:
    """Read the mode of a fuse, or raise ST501.

    >>> parse_fuse_mode("Auto")
    <FuseMode.AUTO: 'auto'>
    """
    try:
        return FuseMode(text.lower())
    except ValueError:
        raise SettingError(
            f'the fuse "{text}" does not exist',
            hint=f"Choose one of {', '.join(one.value for one in FuseMode)}.",
        ) from None


@dataclass(frozen=True, slots=True)
class Fuse:
    """The fuse of one stream table."""

    mode: FuseMode = FuseMode.OFF
    ceiling: int | None = None  # in rows; None: the setting decides
    sensitivity: float | None = None
    bridged: bool = False  # the next refresh passes

    def limit(self, usual: float | None, default_ceiling: int) -> int | None:
        """Return the changed rows above which it blows; None if there is no such number.

        ``usual`` is what refreshes found lately, None if there were too few.

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
    """Return a fuse whose numbers mean something, or raise ST501.

    >>> check_fuse(Fuse(FuseMode.AUTO, sensitivity=math.inf))
    Traceback (most recent call last):
    pgtrickle.errors.SettingError: a fuse cannot be like that
    """
    if (fuse.ceiling is not None and not 0 < fuse.ceiling < 2**63) or (
        fuse.sensitivity is not None
        and not (fuse.sensitivity > 1 and math.isfinite(fuse.sensitivity))
    ):
        raise SettingError(
            "a fuse cannot be like that",
            hint="The ceiling is a number of rows above 0, the sensitivity a factor above 1.",
        )
    return fuse
