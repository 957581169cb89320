"""The service level of a stream table: the age that its contents must not exceed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pgtrickle.errors import SettingError, SlaTooSmallError
from pgtrickle.model.scheduling.schedule import LONGEST, SHORTEST, parse_duration, parse_schedule
from pgtrickle.model.scheduling.tier import FACTORS, Tier

_HOT, _WARM = 5.0, 30.0  # seconds up to which a service level belongs to the tier


@dataclass(frozen=True, slots=True)
class AgreedLevel:
    """A service level that was set, and what follows from it."""

    stream_table: str
    sla_s: float | None  # None: there is none any more
    tier: Tier
    schedule: str


def parse_sla(text: str | timedelta) -> float:
    """Read a service level, or raise ST501; return its seconds.

    >>> parse_sla("1m30s"), parse_sla(timedelta(seconds=2.5))
    (90.0, 2.5)
    """
    sla = parse_duration(text) if isinstance(text, str) else text
    if not SHORTEST <= sla <= LONGEST:
        raise SettingError(
            f'the service level "{sla}" is not between 1 second and {LONGEST.days // 7} weeks',
            hint="Give a duration such as '30s'.",
        )
    return sla.total_seconds()


def read_seconds(seconds: float) -> float:
    """Read a service level that is given in seconds, or raise ST501.

    >>> read_seconds(2.5)
    2.5
    """
    try:
        return parse_sla(timedelta(seconds=seconds))
    except (OverflowError, ValueError):
        return parse_sla(timedelta.max)  # which refuses it


def tier_for(seconds: float) -> Tier:
    """Return the tier of a service level.

    >>> [tier_for(one).value for one in (5, 30, 31)]
    ['hot', 'warm', 'cold']
    """
    if seconds <= _HOT:
        return Tier.HOT
    return Tier.WARM if seconds <= _WARM else Tier.COLD


def schedule_for(seconds: float, schedule: str, took: float) -> str:
    """Return the schedule by which a service level is kept, if refreshes take ``took`` seconds.

    A change waits at most from one refresh to the next, which the tier makes longer, and for the
    refresh itself.  The schedule stays, if it keeps that; raises ST505 if no schedule would.

    >>> schedule_for(60, "1s", 0.4), schedule_for(60, "1m", 0.4), schedule_for(4, "calculated", 0.4)
    ('1s', '5s', '3s')
    """
    factor = FACTORS[tier_for(seconds)]
    shortest = SHORTEST.total_seconds() * factor
    least = max(shortest, took) + took  # a refresh that takes longer delays the next one
    if seconds < least:
        raise SlaTooSmallError(
            f"a service level of {seconds:g} s cannot be kept: refreshes took up to {took:.3g} s",
            hint=f"Promise {least:.3g} s or more, or make the refresh quicker: explain names"
            " missing indexes.",
        )
    present = parse_schedule(schedule)
    if present.every is None:
        raise SettingError(
            f'the schedule "{schedule}" is a cron expression, which no service level can change',
            hint="Give the stream table a duration as its schedule first.",
        )
    own = present.every.total_seconds() * factor + took
    if not present.calculated and own <= seconds:
        return schedule
    # A tenth of the time is left for refreshes that take longer than they did.
    return f"{max(int((0.9 * seconds - took) / factor), 1)}s"
