"""How much a stream table matters: a factor on its schedule."""

from __future__ import annotations

from enum import Enum

from pgtrickle.errors import SettingError


class Tier(Enum):
    """The class of service of a stream table; cron times are the same in all of them."""

    HOT = "hot"  # as often as its schedule says
    WARM = "warm"  # half as often
    COLD = "cold"  # a tenth as often
    FROZEN = "frozen"  # only by hand


def parse_tier(text: str) -> Tier:
    """Read a tier, or raise ST501.

    >>> parse_tier("Warm")
    <Tier.WARM: 'warm'>
    """
    try:
        return Tier(text.lower())
    except ValueError:
        raise SettingError(
            f'the tier "{text}" does not exist',
            hint=f"Choose one of {', '.join(one.value for one in Tier)}.",
        ) from None
