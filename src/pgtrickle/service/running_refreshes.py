"""The refreshes of this process, which any thread may cancel.

The engine can only stop its current computation. A refresh that reads, merges or applies checks for
a cancel between two steps, so that a cancel takes effect at any step.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import Connection

from pgtrickle.errors import RefreshCancelledError, TrickleError
from pgtrickle.ports import Engine, job_named

_SECONDS_TO_CANCEL = 2.0


def cancelled(name: str) -> RefreshCancelledError:
    """Return the error of a cancelled refresh."""
    return RefreshCancelledError(
        f'the refresh of "{name}" was cancelled',
        hint="Nothing was changed. Refresh it again when you want to.",
    )


class Jobs:
    """The running refreshes, by the name of the stream table."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._cancelled: set[str] = set()
        self._statements: dict[str, Connection] = {}
        self._lock = threading.Lock()

    @contextmanager
    def named(self, name: str) -> Iterator[None]:
        """Register this thread's refresh with the engine, so that other threads can cancel it.

        Two at a time are possible if a stream table was dropped and created again meanwhile.
        """
        with self._lock:
            self._running[name] += 1
        try:
            with job_named(name):
                yield
        except RefreshCancelledError:
            raise
        except TrickleError as error:
            # Any error after that, such as the engine's own for being stopped, is the cancel.
            self._check(name, error)
            raise
        finally:
            with self._lock:
                self._running[name] -= 1
                if not self._running[name]:
                    del self._running[name]
                    self._cancelled.discard(name)

    @contextmanager
    def statements(self, name: str, connection: Connection) -> Iterator[None]:
        """Let a cancel end what PostgreSQL computes for a refresh, for the length of a block."""
        self.check(name)
        with self._lock:
            self._statements[name] = connection
        try:
            yield
        finally:
            with self._lock:
                del self._statements[name]

    def check(self, name: str) -> None:
        """Raise ST214 if the refresh was cancelled; called between its steps."""
        self._check(name, None)

    def _check(self, name: str, cause: TrickleError | None) -> None:
        if name in self._cancelled:
            raise cancelled(name) from cause

    def cancel(self, engine: Engine, name: str | None = None) -> list[str]:
        """Cancel the refresh of one stream table, or all refreshes; return the names."""
        with self._lock:
            names = [one for one in self._running if name in {None, one}]
            self._cancelled.update(names)
            for one in names:
                if one in self._statements:
                    # Under the lock: later the connection may be somebody else's.
                    with suppress(psycopg.Error):
                        self._statements[one].cancel_safe(timeout=_SECONDS_TO_CANCEL)
        for one in names:
            engine.cancel(one)
        return names
