"""Lead, or stand by to take over: one of several daemons on a database schedules refreshes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta

from pgtrickle.catalog.migrate import check_version
from pgtrickle.catalog.refreshes.leases import delete_leases_of_dead
from pgtrickle.catalog.scheduling.leader import (
    claim_leadership,
    find_last_leader,
    release_leadership,
    sweep_daemons,
)
from pgtrickle.errors import CatalogError, TrickleError
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

# A dead daemon is replaced when its lease ends and another one asks: within 7.5 seconds.
_LEASE = timedelta(seconds=6)
_ASK_EVERY = 1.5
# A leader that has not prolonged its lease in time is probably dead.
_SILENT = _LEASE - timedelta(seconds=2 * _ASK_EVERY)

_SILENCE_SECONDS = 5.0


@dataclass(slots=True)
class Leadership:
    """Whether this process leads, as far as it knows."""

    runtime: Runtime
    problem: TrickleError | None = None  # why it could not ask, if any
    leader: str = ""  # another leader: its host and process
    gap: CatalogError | None = None  # the catalog is of another version: it leads no more
    _until: float = field(default=-1.0)  # on the monotonic clock
    _answered: float = field(default_factory=time.monotonic)  # when the server last answered
    _ready: bool = False  # Spark was started, or is about to be

    @property
    def leads(self) -> bool:
        """Whether this process leads: never beyond its last prolongation, even without asking."""
        return time.monotonic() < self._until

    def find_problem(self) -> str | None:
        """Return why it cannot lead or stand by at the moment, None if it can."""
        if self.problem is not None:
            return str(self.problem)
        # An attempt to reach a lost server takes long, and is not an answer.
        silence = time.monotonic() - self._answered
        if silence > _SILENCE_SECONDS:
            return f"PostgreSQL has not answered for {silence:.0f} seconds"
        return None

    def ask(self) -> None:
        """Take or prolong the lead, if it is free and the catalog is of this version."""
        led, asked, known = self.leads, time.monotonic(), self.leader
        try:
            with self.runtime.connection() as connection:
                # Who owns what in it is looked at by the daemon, now and then.
                check_version(connection, trusted=True)
                before = find_last_leader(connection)
                claimed = claim_leadership(connection, self.runtime.owner, _LEASE)
                if claimed and before is not None and before.owner != self.runtime.owner:
                    # It has given no sign of life for the length of a lease.
                    freed = delete_leases_of_dead(connection, before.owner)
                    sweep_daemons(connection)
                    logger.info("took over", extra={"from": before.owner, "leases_freed": freed})
        except CatalogError as error:
            self.gap = error
            self.give_up()
            return
        except TrickleError as error:
            # Logged once: a server may be gone, or a standby, for days.
            if self.problem is None or self.problem.code != error.code:
                logger.warning("waiting: %s", error, extra={"code": error.code})
            self.problem = error
            return
        self.problem, self._answered = None, time.monotonic()
        self._until = asked + _LEASE.total_seconds() if claimed else -1.0
        if before is not None and not claimed and before.remaining < _SILENT:
            self._get_ready()
        self.leader = "" if claimed or before is None else before.owner.rpartition(":")[0]
        if claimed and not led:
            logger.info("leading", extra={"by": self.runtime.owner})
        if not claimed and (led or self.leader != known):
            logger.info("standing by", extra={"by": self.runtime.owner, "leader": self.leader})

    def _get_ready(self) -> None:
        """Start Spark while the lease of a silent leader expires: both take seconds."""
        if not self._ready and not self.runtime.computes_in_postgres:
            self._ready = True
            threading.Thread(target=self._start_engine, name="pgtrickle-start", daemon=True).start()

    def _start_engine(self) -> None:
        # The first refresh that needs Spark reports why it does not start.
        with suppress(TrickleError):
            self.runtime.engine.run("SELECT 1 AS ready", {})

    def give_up(self) -> None:
        """Give up the lead, so that another daemon takes it at once."""
        self._until = -1.0
        with suppress(TrickleError), self.runtime.connection() as connection:
            release_leadership(connection, self.runtime.owner)


@contextmanager
def standing_for_leader(runtime: Runtime) -> Iterator[Leadership]:
    """Ask for the lead repeatedly, from a thread, during a block."""
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
