"""The tier of a stream table: a factor on its schedule."""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType

from pgtrickle.model.text.choices import parse_choice


class Tier(Enum):
    """The class of service of a stream table; cron times are the same in all of them."""

    HOT = "hot"  # as often as its schedule says
    WARM = "warm"  # half as often
    COLD = "cold"  # a tenth as often
    FROZEN = "frozen"  # only manually


FACTORS = MappingProxyType({Tier.HOT: 1, Tier.WARM: 2, Tier.COLD: 10, Tier.FROZEN: 1})


def parse_tier(text: Tier | str) -> Tier:
    """Read a tier, or raise ST501.

    >>> parse_tier("Warm")
    <Tier.WARM: 'warm'>
    """
    return parse_choice(Tier, text, 'the tier "{}" does not exist')
