"""Carry what observers have to send to its receiver, from a thread of its own.

What waits is bounded: while the receiver is away the oldest is dropped and counted.  Nobody who
hands something over waits.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MOST = 2048  # that wait
_BATCH = 256
_CLOSING_SECONDS = 2.0


class Courier(Generic[T]):
    """Sends batches of things, in the order in which they were handed over."""

    def __init__(self, what: str, send: Callable[[Sequence[T]], object], most: int = _MOST) -> None:
        self._what, self._send = what, send
        self._waiting: deque[T] = deque(maxlen=most)
        self._news = threading.Condition()
        self._closed = self._failing = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._work, name=f"pgtrickle: {what}", daemon=True)
        self._thread.start()

    def hand_over(self, things: Sequence[T]) -> None:
        """Take things to be sent, and return at once."""
        with self._news:
            room = (self._waiting.maxlen or 0) - len(self._waiting)
            self.dropped += max(0, len(things) - room)
            self._waiting.extend(things)
            self._news.notify()

    def close(self) -> None:
        """Send what waits, for a short time; a receiver that is away is not waited for."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join(_CLOSING_SECONDS)

    def _work(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._closed or self._waiting)
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            if not batch:
                return
            self._try(batch)

    def _try(self, batch: Sequence[T]) -> None:
        try:
            self._send(batch)
        except Exception as error:  # noqa: BLE001 - whatever a client raises: the next may succeed
            self.dropped += len(batch)
            if not self._failing:  # once, until it succeeds again
                logger.warning("%s cannot be sent: %s", self._what, type(error).__name__)
            self._failing = True
        else:
            self._failing = False
