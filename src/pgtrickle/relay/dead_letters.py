"""How many dead letters a pipeline keeps: before the next one it is blocked."""

from __future__ import annotations

from pgtrickle.errors import DeadLettersFullError

MAX_DEAD_LETTERS = 10_000  # of a pipeline


def too_many(pipeline: str, hint: str) -> DeadLettersFullError:
    """Return the error of a pipeline that has all the dead letters that it may have."""
    return DeadLettersFullError(
        f"the pipeline {pipeline} has {MAX_DEAD_LETTERS:,} dead letters, and keeps no more",
        hint=f"{hint} It goes on by itself when there is room.",
    )
