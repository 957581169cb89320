"""Telling the one who waits how far a benchmark is."""

from __future__ import annotations

import sys
import time


def say(text: str) -> None:
    """Print a line with the time of day, beside the results and not among them."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
