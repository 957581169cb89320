"""The refreshes that threads of this process work on, which any other thread may cancel.

The engine can only stop what it computes at the moment.  A refresh that reads, merges or applies
looks here between two steps, so that a cancel counts wherever it meets it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from pgtrickle.errors import RefreshCancelledError
from pgtrickle.ports import Engine, job_named


class Jobs:
    """What is being refreshed, by the name of the stream table."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._cancelled: set[str] = set()
        self._lock = threading.Lock()

    @contextmanager
    def named(self, name: str) -> Iterator[None]:
        """Let the engine know for which refresh this thread works, and others cancel it.

        Two at a time are possible where a stream table was dropped and made again meanwhile.
        """
        with self._lock:
            self._running[name] += 1
        try:
            with job_named(name):
                yield
        finally:
            with self._lock:
                self._running[name] -= 1
                if not self._running[name]:
                    del self._running[name]
                    self._cancelled.discard(name)

    def check(self, name: str) -> None:
        """Raise ST214 if the refresh was cancelled; called between two steps of it."""
        if name in self._cancelled:
            raise RefreshCancelledError(
                f'the refresh of "{name}" was cancelled',
                hint="Nothing was changed. Refresh it again when you want to.",
            )

    def cancel(self, engine: Engine, name: str | None = None) -> list[str]:
        """Cancel the refresh of one stream table, or of all; return which were under way."""
        with self._lock:
            names = [one for one in self._running if name in {None, one}]
            self._cancelled.update(names)
        for one in names:
            engine.cancel(one)
        return names
