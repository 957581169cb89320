"""The cost of snapshots: the room that they take, and the changes that only they keep."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.capture.trim import count_consumed
from pgtrickle.catalog.capture.snapshot_gaps import list_snapshot_sources
from pgtrickle.catalog.dependencies import list_consumer_frontiers
from pgtrickle.catalog.snapshots.entries import list_snapshots
from pgtrickle.service.runtime import Runtime


@dataclass(frozen=True, slots=True)
class SnapshotCosts:
    """What all snapshots together take."""

    snapshots: int
    bytes: int  # of their tables
    changes: int | None  # in buffers, which no stream table needs; None: snapshots keep none

    def __str__(self) -> str:
        kept = ""
        if self.changes is not None:
            kept = f", for which change buffers keep {self.changes} changes"
        return f"{self.snapshots} snapshots of {self.bytes} bytes{kept}"


def add_up_snapshots(runtime: Runtime, connection: Connection) -> SnapshotCosts:
    """Return what the snapshots of this database cost."""
    found = list_snapshots(connection)
    size = sum(one.size_bytes or 0 for one in found)
    if not runtime.settings.snapshot_keeps_changes:
        return SnapshotCosts(len(found), size, None)
    changes = 0
    for relid in list_snapshot_sources(connection):
        frontiers = [one.snapshot for one in list_consumer_frontiers(connection, relid)]
        changes += count_consumed(connection, relid, frontiers)
    return SnapshotCosts(len(found), size, changes)
