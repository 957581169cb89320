"""How many refreshes may run at a time: fewer while the server or Spark has no room for more.

An error that says so halves the number; each few refreshes that succeed raise it by one, up to what
the settings allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pgtrickle.errors import (
    MemoryLimitError,
    RefreshStalledError,
    StorageFullError,
    TrickleError,
)

_OVERLOADS = (MemoryLimitError, RefreshStalledError, StorageFullError)
_CALM = 3  # refreshes that succeed for one more at a time
_WAITED = 5.0  # seconds after which refreshes without a worker are worth a word
_BUSY = "all workers are busy"


@dataclass(frozen=True, slots=True)
class Saturation:
    """Refreshes that are due wait for room."""

    reason: str
    running: int
    waiting: int
    limit: int  # of refreshes at a time
    most: int  # the same by the settings


@dataclass(slots=True)
class Admission:
    """The number of refreshes that may run at a time, and whether that is too few."""

    most: Callable[[], int] = lambda: 1
    clock: Callable[[], float] = time.monotonic
    _cut: int | None = None  # the limit after errors
    _calm: int = 0
    _reason: str = ""
    _crowded: float | None = None  # since when refreshes wait
    _told: Saturation | None = None

    @property
    def limit(self) -> int:
        """How many may run now."""
        most = max(self.most(), 1)
        return most if self._cut is None else min(self._cut, most)

    def note_error(self, error: TrickleError) -> None:
        """Let fewer run if an error says that there is no room.

        >>> from pgtrickle.errors import ServerBusyError
        >>> admission = Admission(lambda: 8)
        >>> admission.note_error(StorageFullError("no connection left"))
        >>> admission.note_error(ServerBusyError("a lock"))
        >>> admission.limit
        4
        """
        if isinstance(error, _OVERLOADS):
            self._cut, self._calm = max(self.limit // 2, 1), 0
            self._reason = f"{error.code}: {type(error).__doc__ or ''}".strip().rstrip(".")

    def note_success(self) -> None:
        """Let more run again when enough refreshes have succeeded.

        >>> admission = Admission(lambda: 2)
        >>> admission.note_error(StorageFullError("no connection left"))
        >>> for _ in range(3):
        ...     admission.note_success()
        >>> admission.limit
        2
        """
        if self._cut is None:
            return
        self._calm += 1
        if self._calm >= _CALM:
            self._cut, self._calm = self._cut + 1, 0
            if self._cut >= self.most():
                self._cut, self._reason = None, ""

    def look(self, running: int, waiting: int) -> tuple[Saturation | None] | None:
        """Return the news of a moment, None if there is none: a saturation, or the end of one."""
        now = self.clock()
        if not waiting:
            self._crowded = None
        elif self._crowded is None:
            self._crowded = now
        crowded = self._crowded is not None and now - self._crowded >= _WAITED
        if self._cut is None and not crowded:
            found = None
        else:
            found = Saturation(self._reason or _BUSY, running, waiting, self.limit, self.most())
        # Not for each refresh that comes or goes.
        same = (found and found.reason) == (self._told and self._told.reason)
        if same and (found and found.limit) == (self._told and self._told.limit):
            return None
        self._told = found
        return (found,)
