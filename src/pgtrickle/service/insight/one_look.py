"""One look at a time at what may not answer, shared by everybody who asks meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TakesTooLong
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pgtrickle.errors import InternalError, TrickleError

__all__ = ["OneLook", "TakesTooLong"]

T = TypeVar("T")


@dataclass(slots=True)
class OneLook(Generic[T]):
    """Looks from a thread of its own: what never answers keeps that thread, and nobody else."""

    look: Callable[[], T]
    thread: str  # its name
    _last: T | None = None
    _looked: float = float("-inf")  # on the monotonic clock: the end of the last look
    _pending: Future[T] | None = None
    _began: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, good_for: float, timeout: float) -> T:
        """Return what was found, not longer ago than ``good_for`` seconds.

        Any thread may call.  Raises ``TakesTooLong`` when the look takes longer than ``timeout``
        seconds, whoever began it; one that should have ended before is not waited for.
        """
        with self._lock:
            now = time.monotonic()
            if self._last is not None and now - self._looked <= good_for:
                return self._last
            if self._pending is None:
                self._pending, self._began = self._start(), now
            pending, began = self._pending, self._began
        try:
            return pending.result(max(began + timeout - time.monotonic(), 0))
        finally:
            with self._lock:
                if pending.done() and self._pending is pending:
                    self._pending = None

    def _start(self) -> Future[T]:
        pending: Future[T] = Future()

        def work() -> None:
            try:
                found = self.look()
            except TrickleError as error:
                self._last = None
                pending.set_exception(error)
            except BaseException as error:  # noqa: BLE001 - who waits must not wait for ever
                self._last = None
                pending.set_exception(InternalError(f"the metrics could not be read: {error}"))
            else:
                self._last, self._looked = found, time.monotonic()
                pending.set_result(found)

        threading.Thread(target=work, name=self.thread, daemon=True).start()
        return pending
