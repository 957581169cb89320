"""Prune inboxes in short transactions: messages that were dealt with long ago."""

from __future__ import annotations

import logging
import threading

from pgtrickle.catalog.inboxes.config import list_inboxes
from pgtrickle.catalog.inboxes.prune import prune_messages
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_BATCH = 10_000  # messages in one short transaction
_BREATH = 0.1  # seconds between two batches


def prune_inboxes(
    runtime: Runtime, stop: threading.Event | None = None, *, batch: int = _BATCH
) -> int:
    """Delete the messages whose time is over; return how many.

    A table that is not what it was stays as it is: its new owner might have put triggers on it.
    """
    stop, pruned = stop or threading.Event(), 0
    with runtime.connection() as connection:
        inboxes = list_inboxes(connection)
    for one in inboxes:
        if one.trouble is not None:
            told = {"inbox": str(one.table), "trouble": one.trouble}
            logger.warning("an inbox is not pruned", extra=told)
            continue
        while not stop.is_set():
            with runtime.connection() as connection:
                deleted = prune_messages(connection, one, batch)
            pruned += deleted
            if deleted < batch:
                break
            stop.wait(_BREATH)
    return pruned
