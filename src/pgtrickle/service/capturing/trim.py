"""Delete from the change buffers the rows that every consumer has read."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pgtrickle.capture.locks import try_lock_buffer
from pgtrickle.capture.trim import Fill, list_losers, look_at_buffers, settle_buffer, trim_buffer
from pgtrickle.catalog.capture.gaps import delete_gaps, has_gaps, note_trimmed
from pgtrickle.catalog.capture.snapshot_gaps import (
    insert_snapshot_gaps,
    keep_gaps_of_snapshots,
    list_snapshot_frontiers,
)
from pgtrickle.catalog.dependencies import list_consumer_frontiers
from pgtrickle.errors import TrickleError
from pgtrickle.service.capturing.buffer_sizes import watch_buffers
from pgtrickle.service.runtime import Runtime
from pgtrickle.session import Session
from pgtrickle.settings import Settings

logger = logging.getLogger(__name__)

TRIMMED = "they were trimmed"


def trim_sources(runtime: Runtime, relids: Sequence[int], *, token: int | None = None) -> int:
    """Trim the buffers of sources after a refresh; a failure here loses nothing and is logged.

    ``token`` is that of the lease under which the refresh ran.
    """
    trimmed = 0
    try:
        with runtime.connection() as connection:
            for relid, fill in look_at_buffers(connection, relids).items():
                if fill.has_changes:
                    trimmed += _trim(connection, relid, fill, runtime.settings)
            if has_gaps(connection, relids):
                with connection.transaction():
                    keep_gaps_of_snapshots(connection, relids)
                    delete_gaps(connection, relids)
            watch_buffers(runtime, connection, list(relids), token=token)
    except TrickleError as error:
        logger.warning("could not trim a change buffer", extra={"code": error.code})
    return trimmed


def _trim(connection: Session, relid: int, fill: Fill, settings: Settings) -> int:
    """Trim one buffer; return how many changes were deleted."""
    with connection.transaction():
        # If a crash undoes this, rows remain that no consumer reads again.
        connection.execute("SET LOCAL synchronous_commit = off")
        if not try_lock_buffer(connection, relid):
            return 0
        # Under the lock, because a restore moves a frontier back; and before the snapshots, because
        # one that is taken later has the frontier of its stream table.
        frontiers = [one.snapshot for one in list_consumer_frontiers(connection, relid)]
        if not frontiers:
            return 0
        snapshots = list_snapshot_frontiers(connection, relid)
        if settings.snapshot_keeps_changes:
            frontiers += snapshots.values()
        elif lost := list_losers(connection, relid, frontiers, snapshots):
            insert_snapshot_gaps(connection, lost, relid, TRIMMED)
        deleted = trim_buffer(connection, relid, frontiers, settings.trim_rows)
        if deleted:
            note_trimmed(connection, relid, min(one.xmax for one in frontiers))
        if fill.needs_settling:
            settle_buffer(connection, relid, frontiers, settings.trim_rows)
    return deleted
