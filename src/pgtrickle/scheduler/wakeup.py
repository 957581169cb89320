"""A bell that changes ring, so that a stream table at rest need not wait for its next check.

It only saves time: without a bell, stream tables are checked at their usual times.  If a bell is
sure to ring, they are checked less often.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Protocol

_RING_NOTICED = 0.25  # seconds


class Bell(Protocol):
    """The bell that rings when a source of a stream table changes."""

    @property
    def rung(self) -> bool:
        """Whether it has rung since it was last answered."""
        ...

    def answer(self) -> Collection[int]:
        """Return the ids of the stream tables for which it has rung since the last call."""
        ...

    def watch(self, stream_table_ids: Collection[int]) -> None:
        """Ring once for each of these stream tables, and for no others."""
        ...

    def sure_of(self, stream_table_ids: Collection[int]) -> Collection[int]:
        """Return the given ones for which it has not rung and is sure to ring from now on."""
        ...

    def ring(self) -> None:
        """Ring for the loop itself, which has to look at what has changed."""
        ...

    def wait(self, stop: threading.Event, seconds: float) -> None:
        """Wait until it rings, or ``stop`` is set, or the time is over."""
        ...


class NoBell:
    """No bell for changes: every check comes at its usual time."""

    def __init__(self) -> None:
        self._rung = False

    @property
    def rung(self) -> bool:
        """Whether the loop has to look."""
        return self._rung

    def answer(self) -> Collection[int]:
        """Return nothing."""
        self._rung = False
        return ()

    def watch(self, stream_table_ids: Collection[int]) -> None:
        """Do nothing."""

    def sure_of(self, stream_table_ids: Collection[int]) -> Collection[int]:  # noqa: ARG002 - the port's
        """Return nothing."""
        return ()

    def ring(self) -> None:
        """Ring for the loop itself."""
        self._rung = True

    def wait(self, stop: threading.Event, seconds: float) -> None:
        """Wait until the time is over, or ``stop`` is set, or somebody rings for the loop."""
        left = seconds
        while left > 0 and not self._rung and not stop.wait(min(left, _RING_NOTICED)):
            left -= _RING_NOTICED
