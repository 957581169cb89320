"""Skip the stream tables that have nothing to do, all with one query."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import cast

from pgtrickle.catalog.capture.health import list_held_back
from pgtrickle.catalog.capture.wal_capture import list_wal_sources
from pgtrickle.catalog.scheduling.idle import pass_over_idle
from pgtrickle.errors import TrickleError
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.service.capturing.buffer_sizes import watch_buffers
from pgtrickle.service.capturing.mode import drain_or_hand_back
from pgtrickle.service.runtime import Runtime

# Each update of the timestamps writes a catalog row: not every second, whatever the schedule.
_SILENCE = timedelta(seconds=7)  # shorter than a nap, so that each check after a nap updates them
# A change of columns alone cannot make the contents wrong: we may notice it a little later.
_SHAPES_LAST = 60.0
# Buffers grow even if nothing is refreshed and so nothing is trimmed.
_SIZES_LAST = 10.0
# The query holds a lock for each non-empty buffer, and a server has some thousand locks.
_AT_ONCE = 1000


def find_idle(runtime: Runtime, stream_tables: Sequence[StreamTable]) -> frozenset[int]:
    """Return the ids of the stream tables that a refresh would find unchanged.

    If the catalog does not answer that, it is left to the refresh. A change that commits after the
    query is in the next window, since the frontier has not moved. Stream tables that are held back,
    by a pause or ``pg_trickle.enabled``, count as idle, but are not recorded as current.
    """
    ids = [one.id for one in stream_tables if _told_by_catalog(runtime, one)]
    now = time.monotonic()
    compared = runtime.remembered.shapes_compared
    idle: frozenset[int] = frozenset()
    as_of = _read_log(runtime)
    if now >= runtime.buffers_watched + _SIZES_LAST:
        runtime.buffers_watched = now
        # An unreadable buffer must not prevent any refresh.
        with suppress(TrickleError), runtime.connection() as connection:
            watch_buffers(runtime, connection)
    with runtime.connection() as connection:
        held_back = list_held_back(connection)
        idle |= held_back.intersection(one.id for one in stream_tables)
        ids = [one for one in ids if one not in held_back]
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            old = [one for one in some if compared.get(one, -math.inf) < now - _SHAPES_LAST]
            found = pass_over_idle(
                connection,
                some,
                compare_shapes=old,
                silence=_SILENCE,
                as_of=as_of,
                now=runtime.simulated_time,
            )
            compared.update(dict.fromkeys(found.intersection(old), now))
            idle |= found
    return idle


_GET_TIME = "SELECT pg_catalog.clock_timestamp()"


def _read_log(runtime: Runtime) -> datetime | None:
    """Drain the log into the buffers; return the moment up to which they are complete."""
    with runtime.connection() as connection:
        if not list_wal_sources(connection):
            return None
        [(now,)] = connection.execute(_GET_TIME).fetchall()
    drain_or_hand_back(runtime)
    return cast(datetime, now)


def _told_by_catalog(runtime: Runtime, stream_table: StreamTable) -> bool:
    """Return whether unchanged sources mean that there is nothing to do."""
    if runtime.settings.force_full_refresh:
        return False
    if stream_table.effective_refresh_mode is RefreshMode.DIFFERENTIAL:
        return True
    # Its query may depend on the time, or have a delta by now: only compilation shows that.
    compiled = runtime.remembered.find_compiled(stream_table)
    if compiled is None or compiled.binding.volatile:
        return False
    if compiled.binding.time_dependent and not compiled.follows_time:
        return False
    return compiled.refusal is not None or stream_table.downgrade_reason is None
