"""Listen for captured changes, so that a stream table at rest follows them at once."""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.bell import (
    CHANNEL,
    FLAGS_LAST,
    flag_of,
    list_writers,
    raise_flags,
    writers_ring,
)
from pgtrickle.catalog.dependencies import list_silent, list_source_relids
from pgtrickle.scheduler.wakeup import Bell, NoBell
from pgtrickle.service.runtime import Runtime
from pgtrickle.session import Session

logger = logging.getLogger(__name__)

_LISTEN = sql.SQL("LISTEN {channel}").format(channel=sql.Identifier(CHANNEL))
_LOOK = 2.0  # seconds between two looks; a notification interrupts it
_LOOK_SOON = 0.25  # seconds, while a writer may have missed a flag
_RENEW = FLAGS_LAST / 3
_STOP_NOTICED = 0.1
_SOURCES_LAST = 10.0  # seconds for which the dependencies are cached
_PAUSE = 0.05  # seconds between two readings of notifications
_OID_DIGITS = 10
_RECONNECT = 5.0
_PATIENCE = 2.0
_DEAF = 5.0  # seconds for which a flag stays down that rang for nobody


@dataclass(slots=True)
class ChangeBell:
    """Rings for stream tables when one of their sources changes; a thread listens."""

    runtime: Runtime
    done: threading.Event = field(default_factory=threading.Event)
    _rung: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _watched: set[int] = field(default_factory=set)
    _answers: set[int] = field(default_factory=set)
    _sources: dict[int, frozenset[int]] = field(default_factory=dict)  # by stream table
    _sources_read: float = -_SOURCES_LAST
    _flags_of: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())  # of the watched
    _deaf_until: dict[int, float] = field(default_factory=dict)  # by flag
    _held: frozenset[int] = frozenset()  # flags that are up and that all writers have seen
    _silent: frozenset[int] = frozenset()  # stream tables with a source that does not ring
    _heard_at: float = 0.0  # the last notification, on the monotonic clock
    # A new watch, or the end, interrupts the listening.
    _news: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)

    @property
    def rung(self) -> bool:
        """Whether it has rung since the last answer."""
        return self._rung.is_set()

    def answer(self) -> Collection[int]:
        """Return the ids of the stream tables for which it has rung since the last call."""
        with self._lock:
            self._rung.clear()
            answers, self._answers = self._answers, set()
            return answers

    def watch(self, stream_table_ids: Collection[int]) -> None:
        """Ring once for each of these stream tables, and for no others."""
        with self._lock:
            watched = set(stream_table_ids) - self._answers
            if watched != self._watched:
                self._watched = watched
                self._interrupt()

    def __post_init__(self) -> None:
        for end in self._news:
            end.settimeout(0)

    def sure_of(self, stream_table_ids: Collection[int]) -> Collection[int]:
        """Return those for which it has not rung, and will certainly ring from now on.

        Writers that had not seen a flag have ended by then, so a look after this call sees their
        writes.
        """
        with self._lock:
            able = self._watched.difference(self._silent).intersection(stream_table_ids)
            return {one for one in able if one in self._sources and self._flags(one) <= self._held}

    def ring(self) -> None:
        """Ring for the loop itself."""
        self._rung.set()

    def wait(self, stop: threading.Event, seconds: float) -> None:
        """Wait until it rings or ``stop`` is set, at most ``seconds``."""
        end = time.monotonic() + seconds
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            if self._rung.wait(min(left, _STOP_NOTICED)):
                return

    def listen(self) -> None:
        """Listen until ``close``; reconnect to a lost server."""
        news, send = self._news
        with news, send:
            self._listen()

    def _listen(self) -> None:
        while not self.done.is_set():
            try:
                with self._connected() as connection:
                    if connection.pooled:
                        # Behind a pooler we own no session: LISTEN would reach another one.
                        logger.info("behind a pooler: changes are polled, not listened for")
                        return
                    self._serve(connection)
            except psycopg.Error as error:
                logger.debug("not listening for changes: %s", error)
                self._hold(frozenset())
                self.done.wait(_RECONNECT)

    def _connected(self) -> Session:
        seconds = int(self.runtime.settings.connection_timeout_seconds)
        return Session.open(
            str(self.runtime.pool.conninfo),
            connect_timeout=seconds,
            application_name="pgtrickle bell",
        )

    def _serve(self, connection: Connection[TupleRow]) -> None:
        connection.execute(_LISTEN)
        rings = writers_ring(connection)
        # Flags that are up, each with the transactions that may have read it before.
        raised: dict[int, set[str]] = {}
        renewed = 0.0
        while not self.done.is_set():
            wanted = self._wanted(connection)
            if wanted != raised.keys() or (raised and time.monotonic() > renewed + _RENEW):
                self._note(raised.keys() & wanted if rings else (), raised)
                raise_flags(connection, wanted, raised.keys() - wanted)
                renewed = time.monotonic()
            if wanted != raised.keys() or any(raised.values()):
                writers = list_writers(connection)
                raised = {
                    flag: writers.get(flag, set()) & raised.get(flag, writers.get(flag, set()))
                    for flag in wanted
                }
                self._note(raised.keys() if rings else (), raised)
            # Do not wait for notifications that arrived with the answers to these queries.
            if not self._hear(connection):
                self._await_news(connection, _LOOK_SOON if any(raised.values()) else _LOOK)
                self._hear(connection)
        raise_flags(connection, (), raised)

    def _note(self, flags: Collection[int], raised: dict[int, set[str]]) -> None:
        """Note the flags that every running writer has seen."""
        self._hold(frozenset(flag for flag in flags if not raised[flag]))

    def _hear(self, connection: Connection[TupleRow]) -> bool:
        """Ring for the notifications that have arrived; return whether there were any."""
        heard = False
        # Any role may send any number of notifications: read so many, and no more.
        self.done.wait(self._heard_at + _PAUSE - time.monotonic())
        for notice in connection.notifies(timeout=0):
            heard = True
            if len(notice.payload) <= _OID_DIGITS and notice.payload.isdecimal():
                self._ring(int(notice.payload))
        if heard:
            self._heard_at = time.monotonic()
        return heard

    def _await_news(self, connection: Connection[TupleRow], seconds: float) -> None:
        """Wait for a notification or a new watch, at most ``seconds``."""
        news, _ = self._news
        select.select([connection.fileno(), news.fileno()], [], [], seconds)
        with suppress(BlockingIOError):
            news.recv(4096)

    def _interrupt(self) -> None:
        _, send = self._news
        with suppress(OSError):  # the socket is full, or nobody listens any more
            send.send(b"!")

    def close(self) -> None:
        """Make the listener end soon."""
        self.done.set()
        self._interrupt()

    def _wanted(self, connection: Connection[TupleRow]) -> set[int]:
        """Return the flags of the watched stream tables."""
        with self._lock:
            watched = frozenset(self._watched)
        now = time.monotonic()
        outdated = now - self._sources_read > _SOURCES_LAST
        if watched and (outdated or not watched <= self._sources.keys()):
            found, silent = list_source_relids(connection), list_silent(connection)
            with self._lock:
                self._silent = silent
                self._sources = {one: found.get(one, frozenset()) for one in watched | found.keys()}
            self._sources_read, self._flags_of = now, (frozenset(), frozenset())
        if watched != self._flags_of[0]:
            flags = {flag for one in watched for flag in self._flags(one)}
            self._flags_of = watched, frozenset(flags)
        return {flag for flag in self._flags_of[1] if self._deaf_until.get(flag, now) <= now}

    def _ring(self, source_relid: int) -> None:
        with self._lock:
            woken = {one for one in self._watched if source_relid in self._sources.get(one, ())}
            self._wake(woken)
            if not woken:
                # Another source with the same flag, whose writers would keep ringing.
                self._deaf_until[flag_of(source_relid)] = time.monotonic() + _DEAF

    def _hold(self, held: frozenset[int]) -> None:
        """Note the certain flags; stream tables that relied on another one wake up."""
        with self._lock:
            lost, self._held = self._held - held, held
            if lost:
                self._wake({one for one in self._watched if self._flags(one) & lost})

    def _wake(self, woken: set[int]) -> None:
        self._watched -= woken
        self._answers |= woken
        if woken:
            self._rung.set()

    def _flags(self, stream_table_id: int) -> set[int]:
        return {flag_of(relid) for relid in self._sources.get(stream_table_id, ())}


@contextmanager
def listening_for_changes(runtime: Runtime) -> Iterator[Bell]:
    """Listen from a thread during a block; yield the bell, a silent one if turned off."""
    if not runtime.settings.event_wakeup:
        yield NoBell()
        return
    bell = ChangeBell(runtime)
    thread = threading.Thread(target=bell.listen, name="pgtrickle-bell", daemon=True)
    thread.start()
    try:
        yield bell
    finally:
        bell.close()
        thread.join(_PATIENCE)  # it may be waiting for a server that does not answer
