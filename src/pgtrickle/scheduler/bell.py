"""A bell that changes ring, so that a stream table at rest need not wait for its next look.

It makes things faster and decides nothing: who hears no bell looks when it is time to.  Who is sure
to hear one looks less often.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Protocol


class Bell(Protocol):
    """What rings when something changes that a stream table reads."""

    @property
    def rung(self) -> bool:
        """Whether it has rung since it was last answered."""
        ...

    def answer(self) -> Collection[int]:
        """Return the ids of the stream tables for which it has rung since it was last asked."""
        ...

    def watch(self, stream_table_ids: Collection[int]) -> None:
        """Ring once for each of these, and for no others."""
        ...

    def sure_of(self, stream_table_ids: Collection[int]) -> Collection[int]:
        """Return those of these for which it has not rung and is sure to, from now on."""
        ...

    def wait(self, stop: threading.Event, seconds: float) -> None:
        """Wait until it rings or something stops, and no longer than so many seconds."""
        ...


class NoBell:
    """Silence: every look comes at its time."""

    rung = False

    def answer(self) -> Collection[int]:
        """Return nothing."""
        return ()

    def watch(self, stream_table_ids: Collection[int]) -> None:
        """Do nothing."""

    def sure_of(self, stream_table_ids: Collection[int]) -> Collection[int]:  # noqa: ARG002 - the port's
        """Return nothing."""
        return ()

    def wait(self, stop: threading.Event, seconds: float) -> None:
        """Wait until it is time or something stops."""
        stop.wait(seconds)
