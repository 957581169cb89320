"""Delete from the change buffers the rows that every consumer has read."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pgtrickle.capture.trim import look_at_buffer, settle_buffer, trim_buffer
from pgtrickle.catalog.capture.gaps import delete_gaps, note_trimmed
from pgtrickle.catalog.dependencies import list_consumer_frontiers
from pgtrickle.errors import TrickleError
from pgtrickle.service.capturing.buffer_sizes import watch_buffers
from pgtrickle.service.runtime import Runtime
from pgtrickle.session import Session

logger = logging.getLogger(__name__)


def trim_sources(runtime: Runtime, relids: Sequence[int], *, token: int | None = None) -> int:
    """Trim the buffers of sources after a refresh; a failure here loses nothing and is logged.

    ``token`` is that of the lease under which the refresh ran.
    """
    trimmed = 0
    try:
        with runtime.connection() as connection:
            for relid in relids:
                trimmed += _trim(connection, relid, runtime.settings.trim_rows)
            delete_gaps(connection, relids)
            watch_buffers(runtime, connection, list(relids), token=token)
    except TrickleError as error:
        logger.warning("could not trim a change buffer", extra={"code": error.code})
    return trimmed


def _trim(connection: Session, relid: int, limit: int) -> int:
    """Trim one buffer; return how many changes were deleted."""
    frontiers = [frontier.snapshot for frontier in list_consumer_frontiers(connection, relid)]
    if not frontiers or not (fill := look_at_buffer(connection, relid)).has_changes:
        return 0
    with connection.transaction():
        # If a crash undoes this, rows remain that no consumer reads again.
        connection.execute("SET LOCAL synchronous_commit = off")
        deleted = trim_buffer(connection, relid, frontiers, limit)
        if deleted:
            note_trimmed(connection, relid, min(one.xmax for one in frontiers))
        if fill.needs_settling:
            settle_buffer(connection, relid, frontiers, limit)
    return deleted
