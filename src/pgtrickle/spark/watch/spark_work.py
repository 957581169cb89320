"""Spark's work for this process, as the stall watch sees it (see ``stall_watch``)."""

from __future__ import annotations

import time
from functools import partial

from pgtrickle.spark.job_tags import cancel
from pgtrickle.spark.sessions.jvm import within
from pgtrickle.spark.sessions.pair import SparkSessions
from pgtrickle.spark.watch.vital_signs import look_at_jobs, processor_seconds

_LOOK_WITHIN = 5.0  # seconds
_MEASURE_FOR = 0.2
# The share of one processor that an idle JVM uses; a working one may get little more,
# on a machine that is overloaded.
_IDLE = 0.01


class SparkWork:
    """The jobs of one Spark, and its processes."""

    def __init__(self, sessions: SparkSessions) -> None:
        self._sessions = sessions
        self._used: tuple[float, float] = (0.0, 0.0)  # when, and the processor time by then
        self._busy = 0  # how often the processes were found busy
        self._failed: dict[str | None, int] = {}  # tasks, by job

    def progress(self, job: str | None) -> object:
        """Return the state of a refresh's jobs and how often Spark was found busy.

        Only the work of a JVM on this machine is visible; it may be work for others.
        """
        found: list[tuple[object, int]] = []
        busy = self._was_busy()
        context = self._sessions.context
        if context is not None:
            within(_LOOK_WITHIN, lambda: found.append(look_at_jobs(context, job)))
            self._measure()  # the check itself is not Spark's work
        states, failed = [state for state, _ in found], sum(number for _, number in found)
        if busy and failed == self._failed.get(job, 0):
            self._busy += 1  # otherwise it is busy with failing tasks
        self._failed[job] = failed
        return (*states, self._busy)

    def cancel(self, job: str | None, seconds: float) -> None:
        """Cancel the jobs of a refresh; those without a name end with the JVM, if need be."""
        sessions = self._sessions.living()
        for session in sessions[:1] if self._sessions.context is not None else sessions:
            if job is not None:
                within(seconds, partial(cancel, session, job))

    def answers(self, seconds: float) -> bool:
        """Tell whether a test of one row returns in time."""
        counted: list[int] = []

        def count() -> None:
            counted.extend(one.range(1).count() for one in self._sessions.living()[:1])

        within(seconds, count)
        return bool(counted)

    def kill(self) -> None:
        """End the JVM."""
        self._sessions.kill()

    def _was_busy(self) -> bool:
        """Tell whether the processes have worked since the last check."""
        before, used_before = self._used
        if time.monotonic() - before < _MEASURE_FOR:
            return False
        self._measure()
        now, used = self._used
        return used - used_before > _IDLE * (now - before)

    def _measure(self) -> None:
        pid = self._sessions.pid
        self._used = (time.monotonic(), 0.0 if pid is None else processor_seconds(pid))
