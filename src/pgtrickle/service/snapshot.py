"""The reader's side of a refresh: one transaction whose snapshot becomes the new frontier."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection

from pgtrickle.capture.wal.slot import get_log_end
from pgtrickle.capture.windows import get_frontier
from pgtrickle.catalog.wal_capture import list_wal_sources
from pgtrickle.model.frontier import Frontier, PgSnapshot
from pgtrickle.service.drain_wal import drain_wal
from pgtrickle.service.runtime import Runtime
from pgtrickle.session import BEGIN_SNAPSHOT
from pgtrickle.spark.arrow_reader import FIXED_SETTINGS

# What it reads may be locked for hours: then the refresh is tried again, and others go on.
_EXPORT = """
    SELECT pg_catalog.pg_export_snapshot(), pg_catalog.clock_timestamp(),
           pg_catalog.set_config('lock_timeout', '1s', true)
"""


@dataclass(slots=True)
class Snapshot:
    """An open REPEATABLE READ transaction and what it sees."""

    connection: Connection
    frontier: Frontier
    name: str  # under which other connections import it
    taken_at: datetime
    released: bool = False
    writes: bool = False  # the transaction is the writer's: it ends with the commit

    def release(self) -> None:
        """End the transaction, so that vacuum can go on; nothing more is read under it."""
        if not self.writes:
            self.connection.rollback()
            self.released = True


@contextmanager
def open_snapshot(runtime: Runtime) -> Iterator[Snapshot]:
    """Open the transaction for the length of a block, or until it is released."""
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

    What triggers wrote is in the buffers under the snapshot itself.  What came from the log was
    written later than the snapshot was taken, so a later transaction has to read it, and ``upper``
    keeps it from reading too much: see docs/adr/0014.
    """

    connection: Connection
    name: str  # under which other connections import it
    upper: PgSnapshot | None = None

    def release(self) -> None:
        """End a transaction of its own, so that vacuum can go on."""
        if self.upper is not None:
            self.connection.rollback()


@contextmanager
def open_buffers(
    runtime: Runtime, snapshot: Snapshot, relids: Collection[int]
) -> Iterator[BufferView]:
    """See that the buffers hold all that the snapshot sees of some sources, and open them.

    Who captures a source is asked under the snapshot: a source that was handed over later has no
    change there that the snapshot sees.
    """
    captured = {one.relid for one in list_wal_sources(snapshot.connection)}
    if captured.isdisjoint(relids):
        yield BufferView(snapshot.connection, snapshot.name)
        return
    with runtime.connection() as connection:
        end = get_log_end(connection)
    drain_wal(runtime, end)
    with open_snapshot(runtime) as later:
        # Values that are written out here are read by connections with these settings.
        later.connection.execute(FIXED_SETTINGS)
        yield BufferView(later.connection, later.name, snapshot.frontier.snapshot)
