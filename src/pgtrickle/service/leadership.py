"""Lead, or stand by to take over: of several daemons on a database one schedules refreshes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta

from pgtrickle.catalog.leader import claim_leadership, find_last_leader, release_leadership
from pgtrickle.catalog.leases import delete_leases_of_dead
from pgtrickle.errors import TrickleError
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

# A daemon that died is replaced when its lease ends and another asks: within 7.5 seconds.
_LEASE = timedelta(seconds=6)
_ASK_EVERY = 1.5
# A leader that has missed an occasion to prolong its lease is likely to be dead.
_SILENT = _LEASE - timedelta(seconds=2 * _ASK_EVERY)

_SILENCE_SECONDS = 5.0


@dataclass(slots=True)
class Leadership:
    """Whether this process leads, as far as it knows."""

    runtime: Runtime
    problem: TrickleError | None = None  # why it could not ask, if so
    _until: float = field(default=-1.0)  # on the monotonic clock
    _answered: float = field(default_factory=time.monotonic)  # when the server last did
    _ready: bool = False  # Spark was started, or is about to be

    @property
    def leads(self) -> bool:
        """Whether this process leads: not beyond what it could prolong, even if nobody asked."""
        return time.monotonic() < self._until

    def find_problem(self) -> str | None:
        """Return why it cannot lead or stand by at the moment, if so."""
        if self.problem is not None:
            return str(self.problem)
        # An attempt to reach a server that is gone takes long, and is no answer.
        silence = time.monotonic() - self._answered
        if silence > _SILENCE_SECONDS:
            return f"PostgreSQL has not answered for {silence:.0f} seconds"
        return None

    def ask(self) -> None:
        """Take or prolong the lead, if it is to be had."""
        led, asked = self.leads, time.monotonic()
        try:
            with self.runtime.connection() as connection:
                before = find_last_leader(connection)
                claimed = claim_leadership(connection, self.runtime.owner, _LEASE)
                if claimed and before is not None and before.owner != self.runtime.owner:
                    # It has not given a sign of life for the length of a lease.
                    freed = delete_leases_of_dead(connection, before.owner)
                    logger.info("took over", extra={"from": before.owner, "leases_freed": freed})
        except TrickleError as error:
            # Once: a server that is gone, or a standby, may stay so for days.
            if self.problem is None or self.problem.code != error.code:
                logger.warning("waiting: %s", error, extra={"code": error.code})
            self.problem = error
            return
        self.problem, self._answered = None, time.monotonic()
        self._until = asked + _LEASE.total_seconds() if claimed else -1.0
        if before is not None and not claimed and before.remaining < _SILENT:
            self._get_ready()
        if led != claimed:
            logger.info("leading" if claimed else "standing by", extra={"by": self.runtime.owner})

    def _get_ready(self) -> None:
        """Start Spark while the lease of a leader that is silent runs out: both take seconds."""
        if not self._ready:
            self._ready = True
            threading.Thread(target=self._start_engine, name="pgtrickle-start", daemon=True).start()

    def _start_engine(self) -> None:
        # What keeps Spark from starting is told by the first refresh that needs it.
        with suppress(TrickleError):
            self.runtime.engine.run("SELECT 1 AS ready", {})

    def give_up(self) -> None:
        """Let another lead at once."""
        self._until = -1.0
        with suppress(TrickleError), self.runtime.connection() as connection:
            release_leadership(connection, self.runtime.owner)


@contextmanager
def standing_for_leader(runtime: Runtime) -> Iterator[Leadership]:
    """Ask for the lead again and again, from a thread, for the length of a block."""
    leadership, done = Leadership(runtime), threading.Event()
    leadership.ask()

    def ask() -> None:
        while not done.wait(_ASK_EVERY):
            leadership.ask()

    thread = threading.Thread(target=ask, name="pgtrickle-leader", daemon=True)
    thread.start()
    try:
        yield leadership
    finally:
        done.set()
        thread.join()
        leadership.give_up()
