"""Telling the one who waits how far a benchmark is."""

from __future__ import annotations

import sys
import time

from pgtrickle.model.report import Progress


def say(text: str) -> None:
    """Print a line with the time of day, beside the results and not among them."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def say_progress(progress: Progress) -> None:
    """Say how far a large refresh is."""
    rate = progress.rows_read / max(progress.seconds, 0.001)
    say(
        f"{progress.stage}: {progress.rows_read:,} rows read, {progress.rows_staged:,} staged,"
        f" {progress.seconds:.0f} s, {rate:,.0f} rows/s"
    )
