"""An event loop in a thread, for clients that answer their servers also while nothing is sent.

A loop that ran during calls alone would miss heartbeats, and the server would hang up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, TypeVar

T = TypeVar("T")

_ENDS_WITHIN = 10.0  # seconds


class LoopThread:
    """Runs coroutines for a caller that waits for them."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()

    def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return what it returns; raise TimeoutError, and cancel it, after so long."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except NotInTime:
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop, and cancel what it still does."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ENDS_WITHIN)
