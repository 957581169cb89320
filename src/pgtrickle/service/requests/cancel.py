"""Stop a request that is being executed, from another thread.

The work goes on in the thread of its server, where nothing can be thrown into it.  But it reaches
PostgreSQL through connections that it borrows, and can commit on no other.  So those that it has
at the moment are cut off, and the server rolls back what was not committed; if it has none, the
next one it asks for is refused.  That happens once: what cleans up after the failure gets
connections again.

They are cut off at the socket and not by the number of their backend, which behind a pooler is
not that of any backend, or of one that belongs to somebody else.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import RequestCancelledError, TrickleError
from pgtrickle.service.running_refreshes import Jobs
from pgtrickle.service.runtime import Runtime
from pgtrickle.session import Session

_SECONDS_TO_CANCEL = 2.0


@dataclass(slots=True)
class CancellableRuntime(Runtime):
    """A runtime for one request, on the adapters of another."""

    _told: bool = False  # the work has met an error because of it
    _thread: int = field(default_factory=threading.get_ident)
    _borrowed: list[Connection[TupleRow]] = field(default_factory=list)
    _cut_off: list[Connection[TupleRow]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def like(cls, runtime: Runtime) -> CancellableRuntime:
        """Make one for work in the current thread."""
        shared = {one.name: getattr(runtime, one.name) for one in fields(Runtime)}
        return cls(**shared | {"jobs": Jobs(), "cancelled": False})

    @contextmanager
    def connection(self) -> Iterator[Session]:
        """Lend a connection, unless the request was cancelled."""
        with Runtime.connection(self) as connection:
            # The threads that help, to renew a lease say, are none of our business.
            mine = threading.get_ident() == self._thread
            with self._lock:
                if mine and self.cancelled and not self._told:
                    self._told = True
                    raise RequestCancelledError("the request was cancelled", hint="Make it again.")
                if mine:
                    self._borrowed.append(connection)
            try:
                yield connection
            finally:
                # Not before it is cut off, if that is being done now: it would hit the next user.
                with self._lock:
                    if mine:
                        self._borrowed.remove(connection)
                    if connection in self._cut_off:
                        connection.close()  # the pool makes another

    def cancel(self) -> None:
        """Stop the work; does nothing the second time."""
        with self._lock:
            if self.cancelled:
                return
            self.cancelled = True
            self._told = bool(self._borrowed)
            self._cut_off = list(self._borrowed)
            for connection in self._cut_off:
                _cut_off(connection)
        # What it computes is of no use to anybody: without it the work meets an error at once.
        with suppress(TrickleError):
            self.jobs.cancel(self.engine)


def _cut_off(connection: Connection[TupleRow]) -> None:
    # A statement that runs now would go on in the server without the one that asked for it.
    with suppress(psycopg.Error):
        connection.cancel_safe(timeout=_SECONDS_TO_CANCEL)
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
