"""Prune outboxes in short transactions, and tell who keeps them from being pruned."""

from __future__ import annotations

import logging
import threading

from pgtrickle.catalog.outboxes.prune import prune_outboxes, tell_blocked
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_BATCH = 10_000  # rows in one short transaction
_BREATH = 0.1  # seconds between two batches


def prune_old_entries(
    runtime: Runtime, stop: threading.Event | None = None, *, batch: int = _BATCH
) -> int:
    """Delete the entries whose time is over; return how many rows."""
    stop, pruned = stop or threading.Event(), 0
    while not stop.is_set():
        with runtime.connection() as connection:
            deleted = prune_outboxes(connection, batch)
        pruned += deleted
        if deleted < batch:
            break
        stop.wait(_BREATH)
    with runtime.connection() as connection:
        for name, group in tell_blocked(connection):
            logger.warning(
                "a consumer group keeps entries of an outbox beyond their time",
                extra={"stream_table": name, "consumer_group": group},
            )
    return pruned
