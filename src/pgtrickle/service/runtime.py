"""What every use case needs: connections, the engine, the settings."""

from __future__ import annotations

import math
import os
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from pgtrickle.errors import ConnectionLostError, SettingError, TrickleError
from pgtrickle.model.connection_string import HINT, may_be_misread
from pgtrickle.model.report import Progress
from pgtrickle.ports import Engine
from pgtrickle.service.compile import Compiled
from pgtrickle.service.cost_memory import CostMemory
from pgtrickle.service.jobs import Jobs
from pgtrickle.session import Session
from pgtrickle.settings import Settings
from pgtrickle.spark.arrow_reader import ReadConnections
from pgtrickle.spark.pg_errors import error_for

_PATIENCE = 3.0  # seconds for which one request for a connection waits


def _owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


class Claims:
    """The stream tables whose lease some thread of this process has or wants."""

    def __init__(self) -> None:
        self._threads: Counter[int] = Counter()  # by stream table
        self._lock = threading.Lock()

    @contextmanager
    def entered(self, stream_table_id: int) -> Iterator[None]:
        """Enter one for the length of a block."""
        with self._lock:
            self._threads[stream_table_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._threads[stream_table_id] -= 1
                if not self._threads[stream_table_id]:
                    del self._threads[stream_table_id]

    @contextmanager
    def closed(self, stream_table_id: int) -> Iterator[bool]:
        """Let nobody enter or leave for a short block; yields whether one thread is in."""
        with self._lock:
            yield self._threads[stream_table_id] == 1


@dataclass(slots=True)
class Runtime:
    """The adapters of one process, composed by ``bootstrap``."""

    pool: ConnectionPool[Session]
    reads: ReadConnections
    engine: Engine
    settings: Settings
    search_path: str  # where names that the user writes are looked for; our own: see ``Session``
    owner: str = field(default_factory=_owner)
    claims: Claims = field(default_factory=Claims)
    jobs: Jobs = field(default_factory=Jobs)
    compiled: dict[tuple[int, str], Compiled] = field(default_factory=dict)
    # The fingerprints of the sources for which each was compiled, by stream table: another process
    # may have started it anew since.
    compiled_for: dict[int, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    # When the shapes of a stream table's sources were last compared, on the monotonic clock.
    shapes_compared: dict[int, float] = field(default_factory=dict)
    buffers_watched: float = -math.inf  # when their sizes were last looked at, likewise
    cost_memories: dict[int, CostMemory] = field(default_factory=dict)  # by stream table
    progress: Callable[[Progress], None] | None = None  # is told how far large refreshes are
    capture_tended: float = -math.inf  # when the log was last read for its own sake
    next_hand_over: dict[int, float] = field(default_factory=dict)  # not before; by source

    def users_path(self, given: str | None) -> str:
        """Return where the names of a query are looked for: where its writer says, or does."""
        return self.search_path if given is None else given

    @contextmanager
    def connection(self) -> Iterator[Session]:
        """Lend a connection in autocommit mode; errors of the server leave with a code."""
        try:
            with translated_errors(), self._lent() as connection:
                yield connection
        except ConnectionLostError:
            # What ended one connection may have ended all: the next attempt gets live ones.
            self.pool.check()
            raise

    @contextmanager
    def _lent(self) -> Iterator[Session]:
        """Lend a connection of the pool, and ask for it more than once.

        The pool gives up a server that is gone; who waited before that would wait in vain.
        """
        end = time.monotonic() + self.pool.timeout
        with ExitStack() as stack:
            while True:
                left = end - time.monotonic()
                try:
                    patience = max(min(left, _PATIENCE), 0.1)
                    connection = stack.enter_context(self.pool.connection(timeout=patience))
                except PoolTimeout:
                    if left <= _PATIENCE:
                        raise
                else:
                    break
            yield connection


@contextmanager
def withheld_words(dsn: str) -> Iterator[None]:
    """Keep back what libpq says of a connection string that it may have misread.

    A string with which somebody has connected before was read as it was meant.
    """
    try:
        yield
    except TrickleError as error:
        cause = error.__cause__
        unread = isinstance(cause, psycopg.ProgrammingError)  # it quotes what it cannot read
        if (
            isinstance(cause, psycopg.Error)
            and not cause.sqlstate
            and (unread or may_be_misread(dsn))
        ):
            raise SettingError(
                "could not connect, and the connection string may be read in two ways",
                detail="What the client library says of it is withheld: it may hold a password.",
                hint=HINT,
            ) from None
        raise


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn errors of PostgreSQL into ours, by SQLSTATE."""
    try:
        yield
    except TrickleError:
        raise
    except PoolTimeout as error:
        raise ConnectionLostError(
            "could not connect to PostgreSQL",
            detail=str(error),
            hint="Check that the server runs and that the DSN is right.",
        ) from error
    except psycopg.Error as error:
        if error.sqlstate in TrickleError.registry:
            # Raised by a function of ours in the database.
            raise TrickleError.registry[error.sqlstate](
                error.diag.message_primary or "",
                detail=error.diag.message_detail or "",
                hint=error.diag.message_hint or "",
            ) from error
        connecting = isinstance(error, psycopg.OperationalError) and not error.sqlstate
        raise error_for(
            error.sqlstate,
            str(error),
            doing="be reached" if connecting else "do this",
            context=error.diag.context,
        ) from error
