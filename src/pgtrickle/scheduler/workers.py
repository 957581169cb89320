"""Threads that refresh: as many at a time as may run now, hot stream tables first.

Work that waits long comes first in the end: a cold stream table a minute after a hot one.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import count
from typing import Any

from pgtrickle.model.scheduling.tier import Tier

_YIELDS = {Tier.HOT: 0.0, Tier.WARM: 30.0, Tier.COLD: 60.0, Tier.FROZEN: 60.0}  # seconds
_LOOK = 0.5  # seconds between two looks at a number that may grow


@dataclass(frozen=True, slots=True)
class Job:
    """Work of a stream table with a tier."""

    act: Callable[[], Any]
    tier: Tier

    def __call__(self) -> Any:
        """Do it."""
        return self.act()


class Workers(Executor):
    """Threads that do what is submitted, the most urgent first."""

    def __init__(
        self, limit: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit, self._clock = limit, clock
        self._queue: list[tuple[float, int, Future[Any], Callable[[], Any]]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._running = 0
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do something as soon as there is room; jobs of hot stream tables go first."""
        future: Future[Any] = Future()
        yields = _YIELDS[fn.tier] if isinstance(fn, Job) else 0.0
        with self._changed:
            if self._closed:
                raise RuntimeError("the workers have ended")
            item = (self._clock() + yields, next(self._numbers), future)
            heapq.heappush(self._queue, (*item, lambda: fn(*args, **kwargs)))
            self._start_if_needed()
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - of Executor
        """Take nothing more; do what was submitted, unless it is cancelled."""
        with self._changed:
            self._closed = True
            if cancel_futures:
                for _, _, future, _ in self._queue:
                    future.cancel()
            self._changed.notify_all()
        if wait:
            for thread in self._threads:
                thread.join()

    def _start_if_needed(self) -> None:
        """Start a thread if there is work for it; one more than may work sees when more may."""
        wanted = min(self._running + len(self._queue), self._limit() + 1)
        if len(self._threads) >= wanted:
            return
        name = f"pgtrickle-refresh-{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (item := self._take()) is not None:
            future, act = item
            try:
                if future.set_running_or_notify_cancel():
                    try:
                        result = act()
                    except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
                        future.set_exception(error)
                    else:
                        future.set_result(result)
            finally:
                del future, act  # what they hold is not needed while this thread waits
                with self._changed:
                    self._running -= 1
                    self._changed.notify_all()

    def _take(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Wait for work and for room; None: there will be no more."""
        with self._changed:
            while True:
                # At the end nothing is held back: what waits has been told to stop.
                if self._queue and (self._closed or self._running < self._limit()):
                    _, _, future, act = heapq.heappop(self._queue)
                    self._running += 1
                    self._start_if_needed()
                    return future, act
                if self._closed:
                    return None
                self._changed.wait(_LOOK if self._queue else None)
