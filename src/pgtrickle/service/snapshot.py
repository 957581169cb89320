"""The reader's side of a refresh: one transaction whose snapshot becomes the new frontier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection

from pgtrickle.capture.windows import get_frontier
from pgtrickle.model.frontier import Frontier
from pgtrickle.service.runtime import Runtime

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ"
_EXPORT = "SELECT pg_catalog.pg_export_snapshot(), pg_catalog.clock_timestamp()"


@dataclass(slots=True)
class Snapshot:
    """An open REPEATABLE READ transaction and what it sees."""

    connection: Connection
    frontier: Frontier
    name: str  # under which other connections import it
    taken_at: datetime
    released: bool = False

    def release(self) -> None:
        """End the transaction, so that vacuum can go on; nothing more is read under it."""
        self.connection.rollback()
        self.released = True


@contextmanager
def open_snapshot(runtime: Runtime) -> Iterator[Snapshot]:
    """Open the transaction for the length of a block, or until it is released."""
    with runtime.connection() as connection:
        try:
            connection.execute(_BEGIN)
            frontier = get_frontier(connection)
            [(name, taken_at)] = connection.execute(_EXPORT).fetchall()
            yield Snapshot(connection, frontier, name, taken_at)
        finally:
            if not connection.closed:
                connection.rollback()
