"""The transactions of a refresh: one whose snapshot becomes the new frontier, one that writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection

from pgtrickle.capture.wal.slot import get_log_end
from pgtrickle.capture.windows import get_frontier
from pgtrickle.catalog.capture.wal_capture import list_wal_sources
from pgtrickle.model.frontier import Frontier, FrontierTime, PgSnapshot
from pgtrickle.service.capturing.drain_wal import drain_wal
from pgtrickle.service.capturing.mode import LOSSES, drain_if_behind, hand_back
from pgtrickle.service.refreshing.account import Account
from pgtrickle.service.runtime import Runtime
from pgtrickle.session import BEGIN_SNAPSHOT, Session
from pgtrickle.transit.fixed_settings import FIXED_SETTINGS

_LOSSES_MET = 20  # sources that the log may lose during one refresh

# A source may be locked for hours: then the refresh is tried again later.
_EXPORT = """
    SELECT pg_catalog.pg_export_snapshot(), pg_catalog.clock_timestamp(),
           pg_catalog.set_config('lock_timeout', '1s', true)
"""
_GET_TIME = "SELECT pg_catalog.now(), pg_catalog.current_setting('TimeZone')"


@dataclass(slots=True)
class Snapshot:
    """An open REPEATABLE READ transaction and its snapshot."""

    connection: Session
    frontier: Frontier
    name: str  # under which other connections import it
    taken_at: datetime
    released: bool = False
    writes: bool = False  # the transaction is the writer's: it ends with the commit

    def time(self, runtime: Runtime) -> FrontierTime:
        """Return the current time: one value for the whole transaction."""
        [(now, zone)] = self.connection.execute(_GET_TIME).fetchall()
        return FrontierTime(runtime.clock(now), zone)

    def release(self) -> None:
        """End the transaction, so that vacuum can proceed; nothing more is read under it."""
        if not self.writes:
            self.connection.rollback()
            self.released = True


@contextmanager
def open_snapshot(runtime: Runtime) -> Iterator[Snapshot]:
    """Open the transaction for a block, or until it is released."""
    with runtime.connection() as connection:
        try:
            connection.execute(BEGIN_SNAPSHOT)
            frontier = get_frontier(connection)
            [(name, taken_at, _)] = connection.execute(_EXPORT).fetchall()
            yield Snapshot(connection, frontier, name, taken_at)
        finally:
            if not connection.closed:
                connection.rollback()


@dataclass(slots=True)
class BufferView:
    """The transaction under which the buffers of a refresh are read.

    Changes that triggers captured are visible under the snapshot itself. Changes from the log are
    written after the snapshot was taken, so a later transaction has to read them, and ``upper``
    keeps it from reading too much: see docs/adr/0014.
    """

    connection: Connection
    name: str  # under which other connections import it
    upper: PgSnapshot | None = None

    def release(self) -> None:
        """End the view's own transaction, so that vacuum can proceed."""
        if self.upper is not None:
            self.connection.rollback()


@contextmanager
def open_buffers(
    runtime: Runtime, snapshot: Snapshot, relids: Collection[int]
) -> Iterator[BufferView]:
    """Fill the buffers of some sources up to the snapshot, and open them.

    The capture mode of a source is read under the snapshot: the log holds no change of a source
    handed over later that the snapshot sees.
    """
    captured = {one.relid for one in list_wal_sources(snapshot.connection)}
    if captured.isdisjoint(relids):
        yield BufferView(snapshot.connection, snapshot.name)
        return
    with runtime.connection() as connection:
        end = get_log_end(connection)
    drain_wal(runtime, end)
    with open_snapshot(runtime) as later:
        # Connections with these settings parse the values that are printed here.
        later.connection.execute(FIXED_SETTINGS)
        yield BufferView(later.connection, later.name, snapshot.frontier.snapshot)


@contextmanager
def open_moment(
    runtime: Runtime, sources: Collection[int], account: Account
) -> Iterator[tuple[Snapshot, BufferView]]:
    """Open the snapshot, and the buffers filled up to it.

    Sources whose changes the log has lost go back to triggers. These are younger than the snapshot,
    so another one is taken then.
    """
    with ExitStack() as stack:
        for losses_left in reversed(range(_LOSSES_MET)):
            try:
                with account.timed("capture"), runtime.connection() as connection:
                    drain_if_behind(runtime, connection, sources)
                snapshot = stack.enter_context(open_snapshot(runtime))
                with account.timed("capture"):
                    buffers = stack.enter_context(open_buffers(runtime, snapshot, sources))
            except LOSSES as error:
                stack.close()
                if not losses_left:
                    raise
                hand_back(runtime, error)
            else:
                break
        yield snapshot, buffers


@contextmanager
def open_writer(runtime: Runtime, snapshot: Snapshot, *, kept: bool = True) -> Iterator[Session]:
    """Open the transaction that writes everything, and commit it at the end.

    If it is not ``kept``, it is rolled back.
    """
    if snapshot.writes:
        # If it has to be done in another way, only the writes of this stream table are undone.
        with snapshot.connection.transaction(force_rollback=not kept):
            yield snapshot.connection
    else:
        with runtime.connection() as writer, writer.transaction(force_rollback=not kept):
            yield writer
