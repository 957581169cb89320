"""Delete old history in batches, beside the refreshes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from pgtrickle.catalog.refreshes.history import prune_refreshes
from pgtrickle.errors import TrickleError
from pgtrickle.service.lifecycle.replacing.successors import discard_abandoned
from pgtrickle.service.lifecycle.snapshots.drop import sweep_lost_snapshots
from pgtrickle.service.outboxes.prune import prune_old_entries
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_BATCH = 10_000  # rows in one short transaction
_BREATH = 0.1  # seconds between two batches


def prune_history(runtime: Runtime, stop: threading.Event | None = None) -> int:
    """Delete the history that is older than the setting; return the number of rows."""
    days = runtime.settings.history_retention_days
    if not days:
        return 0
    stop, pruned = stop or threading.Event(), 0
    while not stop.is_set():
        with runtime.connection() as connection:
            deleted = prune_refreshes(connection, timedelta(days=days), _BATCH)
        pruned += deleted
        if deleted < _BATCH:
            break
        stop.wait(_BREATH)
    return pruned


@contextmanager
def pruning_history(runtime: Runtime) -> Iterator[None]:
    """Prune repeatedly, from a thread, during a block.

    Also drop abandoned successors, which prevent their buffers from being trimmed, what is left of
    snapshots whose tables are gone, and entries of outboxes whose time is over.
    """
    done = threading.Event()

    def prune() -> None:
        while not done.wait(runtime.settings.history_prune_interval_seconds):
            try:
                discard_abandoned(runtime)
                sweep_lost_snapshots(runtime)
                prune_history(runtime, done)
                prune_old_entries(runtime, done)
            except TrickleError as error:
                logger.warning("could not clear up", extra={"code": error.code})

    thread = threading.Thread(target=prune, name="pgtrickle-prune", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
