"""Stop a request that is being executed, from another thread.

The work goes on in the thread of its server, where nothing can be thrown into it.  But it reaches
PostgreSQL through connections that it borrows, and can commit on no other.  So those that it has
at the moment are terminated; if it has none, the next one it asks for is refused.  That happens
once: what cleans up after the failure gets connections again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import RequestCancelledError
from pgtrickle.service.runtime import Runtime

_TERMINATE = "SELECT pg_catalog.pg_terminate_backend(%s)"


@dataclass(slots=True)
class CancellableRuntime(Runtime):
    """A runtime for one request, on the adapters of another."""

    cancelled: bool = False
    _told: bool = False  # the work has met an error because of it
    _thread: int = field(default_factory=threading.get_ident)
    _borrowed: dict[int, Connection[TupleRow]] = field(default_factory=dict)  # by backend
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def like(cls, runtime: Runtime) -> CancellableRuntime:
        """Make one for work in the current thread."""
        return cls(**{one.name: getattr(runtime, one.name) for one in fields(Runtime)})

    @contextmanager
    def connection(self) -> Iterator[Connection[TupleRow]]:
        """Lend a connection, unless the request was cancelled."""
        with Runtime.connection(self) as connection:
            # The threads that help, to renew a lease say, are none of our business.
            mine = threading.get_ident() == self._thread
            pid = connection.info.backend_pid
            with self._lock:
                if mine and self.cancelled and not self._told:
                    self._told = True
                    raise RequestCancelledError("the request was cancelled", hint="Make it again.")
                if mine:
                    self._borrowed[pid] = connection
            try:
                yield connection
            finally:
                with self._lock:
                    self._borrowed.pop(pid, None)

    def cancel(self) -> None:
        """Stop the work; returns at once, and does nothing the second time."""
        with self._lock:
            if self.cancelled:
                return
            self.cancelled = True
            borrowed = list(self._borrowed)
            self._told = bool(borrowed)
        with Runtime.connection(self) as connection:
            for pid in borrowed:
                connection.execute(_TERMINATE, [pid])
