"""Transactions that wait only briefly for locks, so that they do not block others.

A session that waits for a strong lock blocks all later sessions. So it gives up after a tenth of a
second and tries again, for as long as the settings say; then the error names the blocking session.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from psycopg import Connection

from pgtrickle.binding.lock_holders import Blocker, find_blockers, find_holders
from pgtrickle.errors import ServerBusyError, TrickleError
from pgtrickle.service.runtime import Runtime, translated_errors

T = TypeVar("T")

ATTEMPTS: Final = 5
HINT: Final = (
    "Let it end, or end it with: SELECT pg_terminate_backend(pid). Nothing was changed; try again."
)
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE = 1.0
# Longer than the server's deadlock_timeout, after which an autovacuum gives way.
_BEHIND_VACUUM = "1200ms"
_GLANCE = 0.03
_LOCK_NOT_AVAILABLE = "55P03"
_PASSING = (_LOCK_NOT_AVAILABLE, "40P01", "40001", None)

# A pooler chooses the process for each transaction.
_SET = "SELECT pg_catalog.set_config('lock_timeout', %s, true), pg_catalog.pg_backend_pid()"


@contextmanager
def impatient(connection: Connection, patience: str = "100ms") -> Iterator[int]:
    """Run a block in a transaction that waits at most ``patience`` for a lock.

    Yields the id of the server process.
    """
    with connection.transaction():
        [(_, pid)] = connection.execute(_SET, [patience]).fetchall()
        yield pid


def try_again(transaction: Callable[[], T], attempts: int = ATTEMPTS) -> T:
    """Run a transaction up to ``attempts`` times while locks time out; raise the last error."""
    for attempt in range(1, attempts):
        try:
            return transaction()
        except ServerBusyError:
            time.sleep(_PAUSE_SECONDS * attempt)
    return transaction()


def until_free(
    runtime: Runtime, connection: Connection, block: Callable[[], T], seconds: float | None = None
) -> T:
    """Run a transaction that waits only briefly for locks, again until it gets them all.

    After ``seconds``, by default ``lock_wait_seconds``, ST408 names the blocking sessions.
    """
    end = time.monotonic() + (runtime.settings.lock_wait_seconds if seconds is None else seconds)
    blockers: list[Blocker] = []
    pause = _PAUSE_SECONDS / 2
    while True:
        only_vacuum = bool(blockers) and all(one.is_vacuum for one in blockers)
        try:
            with (
                translated_errors(),
                impatient(connection, _BEHIND_VACUUM if only_vacuum else "100ms") as pid,
                _watched(runtime, pid, blockers),
            ):
                return block()
        except ServerBusyError as error:
            if error.sqlstate not in _PASSING:  # cancelled, for example
                raise
            if time.monotonic() > end:
                raise named(error, blockers) from error
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - nothing is to be kept secret
        pause = min(2 * pause, _LONGEST_PAUSE)


_LOCKED_FOR_READERS = ("AccessExclusiveLock",)
_LOCKED_FOR_WRITERS = (
    "ShareLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
)


def explained(
    connection: Connection, error: TrickleError, read: Collection[int], written: Collection[int]
) -> TrickleError:
    """Return the error of a refresh, with the names of the sessions that blocked it."""
    if not is_lock_timeout(error):
        return error
    holders = find_holders(connection, read, _LOCKED_FOR_READERS)
    holders += find_holders(connection, written, _LOCKED_FOR_WRITERS)
    return named(error, holders)


def is_lock_timeout(error: TrickleError) -> bool:
    """Return whether work failed because another session holds a lock that it needs."""
    return isinstance(error, ServerBusyError) and error.sqlstate == _LOCK_NOT_AVAILABLE


def named(error: TrickleError, blockers: Sequence[Blocker]) -> TrickleError:
    """Return the error of a lock timeout, with the names of the blocking sessions."""
    if not is_lock_timeout(error) or not blockers:
        return error
    found = ServerBusyError(
        f"could not get a lock: {blockers[0]}",
        detail="; ".join(map(str, blockers[1:])),
        hint=HINT,
    )
    found.sqlstate = error.sqlstate
    return found


@contextmanager
def _watched(runtime: Runtime, pid: int, blockers: list[Blocker]) -> Iterator[None]:
    """Note, from a thread, the sessions that block a server process during the block."""
    done = threading.Event()

    def look() -> None:
        # A blocker that cannot be found is omitted; the error matters more than its explanation.
        pause = _GLANCE
        with suppress(TrickleError):
            while not done.wait(pause):
                pause = min(1.5 * pause, _LONGEST_PAUSE)
                with runtime.connection() as observer:
                    found = find_blockers(observer, pid)
                blockers[:] = found or blockers

    thread = threading.Thread(target=look, name="pgtrickle: look for blockers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
