"""Pass over the stream tables that have nothing to do, all by one query."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import cast

from pgtrickle.catalog.capture_control import list_held_back
from pgtrickle.catalog.idle import pass_over_idle
from pgtrickle.catalog.wal_capture import list_wal_sources
from pgtrickle.errors import TrickleError
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.service.buffer_sizes import watch_buffers
from pgtrickle.service.capture_mode import drain_or_hand_back
from pgtrickle.service.runtime import Runtime

# Each note writes a row of the catalog: a second's schedule need not do so every second.
_SILENCE = timedelta(seconds=7)  # shorter than a nap, so that each look after one is noted
# A change of columns alone cannot make the contents wrong: it may be noticed a little later.
_SHAPES_LAST = 60.0
# Buffers that nobody trims, because nothing is refreshed, grow too.
_SIZES_LAST = 10.0
# The query holds a lock for each buffer that is not empty, and a server has some thousands.
_AT_ONCE = 1000


def find_idle(runtime: Runtime, stream_tables: Sequence[StreamTable]) -> frozenset[int]:
    """Return the ids of those that a refresh would find unchanged.

    What cannot be told from the catalog is left to the refresh.  A change that commits after the
    query is in the next window, as ever: the frontier has not moved.  Those that are held back, by
    a pause or ``pg_trickle.enabled``, count as idle, but nobody notes that they are current.
    """
    ids = [one.id for one in stream_tables if _told_by_catalog(runtime, one)]
    now = time.monotonic()
    compared = runtime.shapes_compared
    idle: frozenset[int] = frozenset()
    as_of = _read_log(runtime)
    if now >= runtime.buffers_watched + _SIZES_LAST:
        runtime.buffers_watched = now
        # A buffer that cannot be looked at must not keep anything from being refreshed.
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
                connection, some, compare_shapes=old, silence=_SILENCE, as_of=as_of
            )
            compared.update(dict.fromkeys(found.intersection(old), now))
            idle |= found
    return idle


_GET_TIME = "SELECT pg_catalog.clock_timestamp()"


def _read_log(runtime: Runtime) -> datetime | None:
    """Bring the buffers up to date where the log fills them; return the moment they tell of."""
    with runtime.connection() as connection:
        if not list_wal_sources(connection):
            return None
        [(now,)] = connection.execute(_GET_TIME).fetchall()
    drain_or_hand_back(runtime)
    return cast(datetime, now)


def _told_by_catalog(runtime: Runtime, stream_table: StreamTable) -> bool:
    """Tell whether unchanged sources mean that there is nothing to do."""
    if runtime.settings.force_full_refresh and stream_table.refresh_mode is RefreshMode.AUTO:
        return False
    if stream_table.effective_refresh_mode is RefreshMode.DIFFERENTIAL:
        return True
    # Its query may depend on the time, or have a delta by now: only compiling tells.
    compiled = runtime.compiled.get((stream_table.id, stream_table.original_query))
    if compiled is None or compiled.binding.time_dependent:
        return False
    return compiled.refusal is not None or stream_table.downgrade_reason is None
