"""How long a relay waits before it tries again."""

from __future__ import annotations

import random
from typing import Final

_FIRST: Final = 0.1
_LONGEST: Final = 30.0
_JITTER: Final = 0.2


def pause(attempt: int, draw: random.Random) -> float:
    """Return the seconds before an attempt: twice as long each time, give or take a fifth.

    >>> draw = random.Random(1)
    >>> [0.08 <= pause(1, draw) <= 0.12, 24 <= pause(50, draw) <= 36]
    [True, True]
    """
    seconds = min(_LONGEST, _FIRST * 2.0 ** min(attempt - 1, 20))
    return seconds * draw.uniform(1 - _JITTER, 1 + _JITTER)
