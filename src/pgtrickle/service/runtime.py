"""The common needs of all use cases: connections, the engine, the settings."""

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
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from pgtrickle.errors import ConnectionLostError, SettingError, TrickleError
from pgtrickle.model.engine import EngineMode
from pgtrickle.model.report import Progress
from pgtrickle.model.text.connection_string import HINT, may_be_misread
from pgtrickle.service.configuration.live import LiveSettings
from pgtrickle.service.lazy import Late
from pgtrickle.service.remembered import Remembered
from pgtrickle.service.running_refreshes import Jobs
from pgtrickle.session import Session
from pgtrickle.settings import POSTGRES, Settings
from pgtrickle.transit.pg_errors import error_for

if TYPE_CHECKING:  # a use case that only reads the catalog needs neither Arrow nor the compiler
    from pgtrickle.ports import Engine
    from pgtrickle.service.observing.observer import Observer
    from pgtrickle.sql.translate import Dialect
    from pgtrickle.transit.arrow_reader import ReadConnections

_PATIENCE = 3.0  # seconds for which one request for a connection waits


def connections_for(settings: Settings) -> int:
    """Return how many connections a process may need.

    A refresh holds two or three and borrows one more now and then; as many may be asked for as the
    scheduler begins.
    """
    return 8 + 8 * settings.max_concurrent_refreshes


def _owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def _as_told(now: datetime) -> datetime:
    return now


class Claims:
    """The stream tables whose lease some thread of this process holds or wants."""

    def __init__(self) -> None:
        self._threads: Counter[int] = Counter()  # by stream table
        self._lock = threading.Lock()

    @contextmanager
    def entered(self, stream_table_id: int) -> Iterator[None]:
        """Enter one for a block."""
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
    reads: Late[ReadConnections]
    engine: Engine
    settings: Settings
    search_path: str  # the user's, to resolve names; for our own see ``Session``
    owner: str = field(default_factory=_owner)
    claims: Claims = field(default_factory=Claims)
    jobs: Jobs = field(default_factory=Jobs)
    buffers_watched: float = -math.inf  # when their sizes were last read, likewise
    cancelled: bool = False  # the caller no longer wants the work
    progress: Callable[[Progress], None] | None = None  # gets that of large refreshes
    switch_followed: int = -1  # the version of the settings for which cdc_paused was followed
    capture_tended: float = -math.inf  # when the log was last read for its own sake
    next_hand_over: dict[int, float] = field(default_factory=dict)  # not before; by source
    gap: TrickleError | None = None  # why the catalog cannot be used
    remembered: Remembered = field(default_factory=Remembered)
    clock: Callable[[datetime], datetime] = _as_told  # the current time, given the server's
    observers: tuple[Observer, ...] = ()  # who are told of refreshes
    live: LiveSettings | None = None  # what the settings follow; None: the caller has fixed them

    @property
    def database(self) -> str:
        """The name of the database."""
        return str(conninfo_to_dict(str(self.pool.conninfo)).get("dbname") or "")

    @property
    def settings_version(self) -> int:
        """A number that grows whenever the settings change."""
        return 0 if self.live is None else self.live.version

    @property
    def simulated_time(self) -> datetime | None:
        """The current time, if it is not the server's."""
        return None if self.clock is _as_told else self.clock(datetime.now(UTC))

    @property
    def computes_in_postgres(self) -> bool:
        """Whether PostgreSQL computes the stages of refreshes, and no JVM starts for them."""
        return self.settings.engine == POSTGRES

    def engine_mode(self, own: EngineMode | None) -> EngineMode:
        """Return a stream table's own engine, or that of the settings."""
        return EngineMode(self.settings.engine) if own is None else own

    def dialect_of(self, engine: EngineMode) -> Dialect:
        """Return the dialect in which an engine computes stages; one to be chosen is Spark."""
        from pgtrickle.sql.translate import Dialect  # noqa: PLC0415 - see above

        return Dialect.POSTGRES if engine is EngineMode.POSTGRES else self.engine.dialect

    @property
    def distributes(self) -> bool:
        """Whether other processes may read and write what is large."""
        return self.engine.distributed and not self.computes_in_postgres

    def users_path(self, given: str | None) -> str:
        """Return the search path for the names of a query: the given one, or the user's."""
        return self.search_path if given is None else given

    @contextmanager
    def connection(self) -> Iterator[Session]:
        """Lend a connection in autocommit mode; errors of the server get a code.

        Raise ST203 or ST216 if the database has no catalog, or an older one.
        """
        if self.gap is not None:
            raise self.gap
        with self.connection_before_catalog() as connection:
            self._follow_settings(connection)
            yield connection

    def fit_pool(self) -> None:
        """Let the pool have as many connections as the refreshes that may run at a time need."""
        most = connections_for(self.settings)
        if most > self.pool.max_size:
            self.pool.resize(self.pool.min_size, most)

    def look_at_settings(self) -> None:
        """Follow what the database says of the settings at this moment."""
        if self.live is not None:
            self.live.expire()
            with self.connection():
                pass

    def _follow_settings(self, connection: Session) -> None:
        """Take over the settings that have changed, if it is time to look at them."""
        if self.live is None:
            return
        before = self.settings
        after = self.live.follow(connection, before)
        if self.live.outdated:
            self.live.outdated = False
            self.pool.drain()
        if after is not before and self.settings is before:
            self.settings = after
            self.live.tell()

    @contextmanager
    def connection_before_catalog(self) -> Iterator[Session]:
        """Lend a connection for work that needs no catalog, such as creating it."""
        try:
            with translated_errors(), self._lent() as connection:
                yield connection
        except ConnectionLostError:
            # The event that ended one connection may have ended all: the next attempt gets live
            # ones.
            self.pool.check()
            raise

    @contextmanager
    def _lent(self) -> Iterator[Session]:
        """Lend a connection of the pool, and ask for it more than once.

        The pool gives up a lost server; a caller that waited before that would wait in vain.
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
    """Withhold libpq's message about a connection string that it may have misread.

    A string that has connected before was read as intended.
    """
    try:
        yield
    except TrickleError as error:
        cause = error.__cause__
        unread = isinstance(cause, psycopg.ProgrammingError)  # it quotes the unreadable part
        if (
            isinstance(cause, psycopg.Error)
            and not cause.sqlstate
            and (unread or may_be_misread(dsn))
        ):
            raise SettingError(
                "could not connect, and the connection string may be read in two ways",
                detail="The message of the client library is withheld: it may contain a password.",
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
