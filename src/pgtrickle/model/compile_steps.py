"""The steps of one compilation, counted where the compiler recurses.

The count tells how the work grows with the query; it is the same on every machine.  At each step
the time is looked at too, so that no query holds a process longer than ``compile_timeout_ms``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pgtrickle.errors import CompileTimeoutError


@dataclass(slots=True)
class Steps:
    """The work of one compilation so far, and its limit."""

    taken: int = 0
    milliseconds: float = math.inf
    deadline: float = math.inf  # on the monotonic clock


_CURRENT: ContextVar[Steps | None] = ContextVar("steps of a compilation", default=None)


@contextmanager
def counted_steps() -> Iterator[Steps]:
    """Count the steps of the block.

    >>> with counted_steps() as steps:
    ...     step()
    ...     step()
    >>> steps.taken
    2
    """
    with _counted(Steps()) as steps:
        yield steps


@contextmanager
def limited_steps(milliseconds: float) -> Iterator[Steps]:
    """Let the compilation in the block take so long; the step after that raises ST112.

    >>> with limited_steps(0):
    ...     while True:
    ...         step()
    Traceback (most recent call last):
    pgtrickle.errors.CompileTimeoutError: the query needs more than 0 ms to be compiled
    """
    with _counted(Steps(0, milliseconds, time.monotonic() + milliseconds / 1000)) as steps:
        yield steps


@contextmanager
def _counted(steps: Steps) -> Iterator[Steps]:
    token = _CURRENT.set(steps)
    try:
        yield steps
    finally:
        _CURRENT.reset(token)


def step() -> None:
    """Count one step of the compilation around, if someone counts or limits it."""
    steps = _CURRENT.get()
    if steps is not None:
        steps.taken += 1
        check_time()


def check_time() -> None:
    """Raise ST112 if the compilation around has taken too long; counts nothing.

    It is for work whose amount depends on what earlier compilations left in caches, or shows in the
    length of what is written.
    """
    steps = _CURRENT.get()
    if steps is not None and time.monotonic() > steps.deadline:
        raise CompileTimeoutError(
            f"the query needs more than {steps.milliseconds:g} ms to be compiled",
            hint="Split it into stream tables, or allow more with the setting compile_timeout_ms.",
        )
