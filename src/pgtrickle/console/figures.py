"""Numbers, times and sparklines as a console writes them: short, and always the same width."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

_BARS = "▁▂▃▄▅▆▇█"
_KEPT = 4096  # texts of figures, which come again and again
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


@lru_cache(maxsize=_KEPT)
def length(seconds: float | None) -> str:
    """Write how long something took or is ago.

    >>> [length(one) for one in (None, 0.0042, 0.5, 7.26, 59.9, 240, 7200, 200_000)]
    ['-', '4ms', '500ms', '7.3s', '59.9s', '4m', '2h', '2d']
    """
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f}ms"
    for unit, size in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.1f}s"


@lru_cache(maxsize=_KEPT)
def age(seconds: float | None) -> str:
    """Write how old something is, in whole seconds.

    >>> [age(one) for one in (None, 0.2, 7.26, 240)]
    ['-', '0s', '7s', '4m']
    """
    if seconds is not None and seconds < 2 * _UNITS[-1][1]:
        return f"{max(seconds, 0):.0f}s"
    return length(seconds)


def milliseconds(value: float | None) -> str:
    """Write a time that is measured in milliseconds."""
    return length(None if value is None else value / 1000)


@lru_cache(maxsize=_KEPT)
def amount(value: float | None) -> str:
    """Write a number of rows.

    >>> [amount(one) for one in (None, 0, 9999, 12_345, 7_654_321, 2e9)]
    ['-', '0', '9,999', '12.3k', '7.7M', '2.0G']
    """
    if value is None:
        return "-"
    for sign, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= max(size, 10_000):
            return f"{value / size:.1f}{sign}"
    return f"{value:,.0f}"


def size(value: float | None) -> str:
    """Write a number of bytes.

    >>> [size(one) for one in (None, 0, 8192, 5 * 2**20)]
    ['-', '0 B', '8.0 kB', '5.0 MB']
    """
    if value is None:
        return "-"
    for unit, one in (("GB", 2**30), ("MB", 2**20), ("kB", 2**10)):
        if value >= one:
            return f"{value / one:.1f} {unit}"
    return f"{value:.0f} B"


def clock(moment: datetime | None) -> str:
    """Write the time of day, in the zone that the server gave it."""
    return "-" if moment is None else f"{moment:%H:%M:%S}"


def day_and_clock(moment: datetime | None) -> str:
    """Write the day and the time."""
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def between(earlier: datetime | None, later: datetime) -> float | None:
    """Return the seconds from one moment to another."""
    return None if earlier is None else (later - earlier).total_seconds()


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw values as bars from nothing to the greatest, the latest at the right.

    >>> sparkline([0, 10, 20, 70], 6)
    '  ▁▂▃█'
    >>> sparkline([], 3), sparkline([0, 0], 2)
    ('   ', '▁▁')
    """
    shown = list(values)[-width:]
    most = max(shown, default=0) or 1
    bars = "".join(_BARS[round(value / most * (len(_BARS) - 1))] for value in shown)
    return bars.rjust(width)
