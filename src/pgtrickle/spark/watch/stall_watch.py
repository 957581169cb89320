"""End work without progress: a Spark job that neither continues nor fails, a call without end.

An executor may be gone while its driver looks healthy, and a hanging JVM does not answer.  Each
call of the engine is watched: if none of its jobs, stages, tasks and rows moves for too long, its
jobs are cancelled, and if Spark does not answer either, its JVM is ended.  The call then gets
an error, which is raised as ST410.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from pgtrickle.errors import RefreshStalledError
from pgtrickle.ports import current_job

logger = logging.getLogger(__name__)

_LOOKS = 10  # checks within the time that a call may stall
_OFTEN, _SELDOM = 0.2, 10.0  # seconds between two checks
_ANSWERS_WITHIN = 30.0  # seconds for cancelling, and for a test


class Work(Protocol):
    """The watched work."""

    def progress(self, job: str | None) -> object:
        """Return a value that changes when a job makes progress; None if that is unknown now."""
        ...

    def cancel(self, job: str | None, seconds: float) -> None:
        """Cancel a job, and wait for it at most the given seconds."""
        ...

    def answers(self, seconds: float) -> bool:
        """Tell whether a small job succeeds within the given seconds."""
        ...

    def kill(self) -> None:
        """End all work at once."""
        ...


@dataclass(slots=True, eq=False)
class _Call:
    """A running call, and the time of its last progress."""

    job: str | None
    moved: float
    seen: object = None
    stalled: bool = False
    failed: threading.Event = field(default_factory=threading.Event)
    settled: threading.Event = field(default_factory=threading.Event)  # Spark answers, or is ended


class StallWatch:
    """Watches calls from one thread, which runs while there are some."""

    def __init__(self, work: Work, seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._every = min(max(seconds / _LOOKS, _OFTEN), _SELDOM)
        self._calls: list[_Call] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch this thread's work in the block; ST410 if it had to be ended."""
        if not self._seconds:
            yield
            return
        call = _Call(current_job.get(), time.monotonic())
        self._enter(call)
        try:
            yield
        except Exception as error:
            call.failed.set()
            if not call.stalled:
                raise
            call.settled.wait(3 * _ANSWERS_WITHIN)  # so that the next attempt uses another Spark
            raise self._error(call) from error
        finally:
            with self._changed:
                self._calls.remove(call)

    def note_progress(self, job: str | None) -> None:
        """Record progress of a job that the engine cannot see."""
        with self._changed:
            for call in self._calls:
                if call.job == job:
                    call.moved = time.monotonic()

    def _enter(self, call: _Call) -> None:
        with self._changed:
            self._calls.append(call)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._watch, name="pgtrickle-stalls", daemon=True
                )
                self._thread.start()
            elif len(self._calls) == 1:
                self._changed.notify()

    def _watch(self) -> None:
        while True:
            with self._changed:
                # For a while, so that not every call pays for a thread.
                if not self._calls and not self._changed.wait(_SELDOM) and not self._calls:
                    self._thread = None
                    return
            time.sleep(self._every)
            try:
                self._look()
            except Exception:
                # Without this thread a hanging call would never end.
                logger.exception("the watch over Spark's jobs met an error")

    def _look(self) -> None:
        with self._changed:
            calls = [one for one in self._calls if time.monotonic() - one.moved > self._every]
        for call in calls:
            self._moves(call)
            if time.monotonic() - call.moved > self._seconds and self._under_way(call):
                self._end(call)

    def _end(self, call: _Call) -> None:
        logger.warning("ending work without progress", extra={"stream_table": call.job})
        call.stalled = True
        self._work.cancel(call.job, _ANSWERS_WITHIN)
        fails = call.failed.wait(self._every)
        # Spark is not ended while it works for others, however long it takes to answer.
        if (not self._work.answers(_ANSWERS_WITHIN) or not fails) and not self._others_move(call):
            self._work.kill()
        call.settled.set()
        call.moved = time.monotonic()  # if it still runs it is ended again later

    def _under_way(self, call: _Call) -> bool:
        with self._changed:
            return call in self._calls and not call.failed.is_set()

    def _others_move(self, call: _Call) -> bool:
        with self._changed:
            others = [one for one in self._calls if one is not call]
        return any(self._moves(one) for one in others)

    def _moves(self, call: _Call) -> bool:
        """Tell whether the call has made progress since the last check."""
        before, seen = call.seen, self._work.progress(call.job)
        if seen is None or seen == before:
            return False
        call.seen, call.moved = seen, time.monotonic()
        return before is not None

    def _error(self, call: _Call) -> RefreshStalledError:
        return RefreshStalledError(
            f"Spark made no progress for {self._seconds:g} s and was stopped"
            + (f' while it refreshed "{call.job}"' if call.job else ""),
            hint="Nothing was changed, and the next refresh tries again. If it only was slow, allow"
            " more time with PGTRICKLE_REFRESH_STALL_SECONDS.",
        )
