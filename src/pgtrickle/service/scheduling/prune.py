"""Delete what the settings keep no longer, in batches, beside the refreshes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from psycopg import Connection

from pgtrickle.catalog.lake.retention import prune_deliveries, prune_provenance
from pgtrickle.catalog.refreshes.history import prune_refreshes
from pgtrickle.catalog.snapshots.entries import list_snapshots
from pgtrickle.errors import TrickleError
from pgtrickle.model.table_snapshot import ListedSnapshot
from pgtrickle.service.inboxes.prune import prune_inboxes
from pgtrickle.service.lifecycle.replacing.successors import discard_abandoned
from pgtrickle.service.lifecycle.snapshots.drop import drop_snapshot, sweep_lost_snapshots
from pgtrickle.service.outboxes.prune import prune_old_entries
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_BATCH = 10_000  # rows in one short transaction
_BREATH = 0.1  # seconds between two batches

_Prune = Callable[[Connection, timedelta, int], int]


def prune_history(runtime: Runtime, stop: threading.Event | None = None) -> int:
    """Delete the history that is older than the setting; return the number of rows."""
    days = runtime.settings.history_retention_days
    return _prune(runtime, stop, days, prune_refreshes)


def prune_record_of_deliveries(runtime: Runtime, stop: threading.Event | None = None) -> int:
    """Delete old deliveries and their provenance; return the number of rows."""
    days = runtime.settings.delivery_retention_days
    return sum(_prune(runtime, stop, days, one) for one in (prune_deliveries, prune_provenance))


def drop_old_snapshots(runtime: Runtime, stop: threading.Event | None = None) -> int:
    """Drop the snapshots that are older than the setting; return how many.

    One that cannot be dropped, because others depend on it, stays, and the log says so.
    """
    days = runtime.settings.snapshot_retention_days
    if not days:
        return 0
    stop, dropped = stop or threading.Event(), 0
    before = datetime.now(UTC) - timedelta(days=days)
    for one in _older(runtime, before):
        if stop.is_set():
            break
        try:
            drop_snapshot(runtime, one.table)
        except TrickleError as error:
            told = {"snapshot": str(one.table), "code": error.code}
            logger.warning("could not drop an old snapshot", extra=told)
        else:
            dropped += 1
            logger.info("dropped an old snapshot", extra={"snapshot": str(one.table)})
    return dropped


def _older(runtime: Runtime, before: datetime) -> list[ListedSnapshot]:
    """Return the snapshots from before a moment, without the newest of each stream table."""
    with runtime.connection() as connection:
        every = list_snapshots(connection)
    newest = {one.stream_table: one.table for one in every}  # they are in the order of creation
    return [
        one for one in every if one.created_at < before and newest[one.stream_table] != one.table
    ]


def _prune(runtime: Runtime, stop: threading.Event | None, days: int, prune: _Prune) -> int:
    if not days:
        return 0
    stop, pruned = stop or threading.Event(), 0
    while not stop.is_set():
        with runtime.connection() as connection:
            deleted = prune(connection, timedelta(days=days), _BATCH)
        pruned += deleted
        if deleted < _BATCH:
            break
        stop.wait(_BREATH)
    return pruned


@contextmanager
def pruning_history(runtime: Runtime) -> Iterator[None]:
    """Prune repeatedly, from a thread, during a block.

    Also drop abandoned successors, which prevent their buffers from being trimmed, what is left of
    snapshots whose tables are gone, entries of outboxes and messages of inboxes
    whose time is over.
    """
    done = threading.Event()
    chores: tuple[Callable[[], object], ...] = (
        lambda: discard_abandoned(runtime),
        lambda: sweep_lost_snapshots(runtime),
        lambda: prune_history(runtime, done),
        lambda: prune_record_of_deliveries(runtime, done),
        lambda: drop_old_snapshots(runtime, done),
        lambda: prune_old_entries(runtime, done),
        lambda: prune_inboxes(runtime, done),
    )

    def prune() -> None:
        while not done.wait(runtime.settings.history_prune_interval_seconds):
            for chore in chores:
                try:
                    chore()
                except TrickleError as error:
                    logger.warning("could not clear up", extra={"code": error.code})

    thread = threading.Thread(target=prune, name="pgtrickle-prune", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
