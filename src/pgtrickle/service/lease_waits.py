"""Wait while another process holds the lease of a stream table."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from typing import TypeVar

from pgtrickle.errors import LeaseHeldError

_LOOK_AGAIN = (0.05, 0.5)  # seconds: two that wait for the same lease do not meet twice

T = TypeVar("T")


def when_free(
    act: Callable[[], T],
    waiting: Callable[[LeaseHeldError], object] = lambda _: None,
    seconds: float | None = None,
) -> T:
    """Run work that needs leases; while another process holds them, try again for ``seconds``.

    ``waiting`` gets the reason once.
    """
    end = math.inf if seconds is None else time.monotonic() + seconds
    told = False
    while True:
        try:
            return act()
        except LeaseHeldError as error:
            if time.monotonic() >= end:
                raise
            if not told:
                waiting(error)
            told = True
        time.sleep(random.uniform(*_LOOK_AGAIN))  # noqa: S311 - nothing is to be kept secret
