"""The seeds of random cases: the same in every run, unless someone asks for new ones.

``make test`` must pass every time on every machine, so its cases are fixed.  ``make test-long``,
``make fuzz`` and ``make lake-random`` draw new ones: the first sets ``PGTRICKLE_NEW_CASES``.
"""

from __future__ import annotations

import os
import random

NEW_CASES = bool(os.environ.get("PGTRICKLE_NEW_CASES"))


def seed_of(variable: str, usual: int) -> int:
    """Return the seed that an environment variable names, else a new one or the usual one."""
    drawn = random.SystemRandom().randrange(10**9) if NEW_CASES else usual
    return int(os.environ.get(variable, drawn))
