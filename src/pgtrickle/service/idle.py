"""Pass over the stream tables that have nothing to do, all by one query."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pgtrickle.catalog.idle import pass_over_idle
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.service.runtime import Runtime

# Each note writes a row of the catalog: a second's schedule need not do so every second.
_SILENCE = timedelta(seconds=10)
# The query holds a lock for each buffer that is not empty, and a server has some thousands.
_AT_ONCE = 1000


def find_idle(runtime: Runtime, stream_tables: Sequence[StreamTable]) -> frozenset[int]:
    """Return the ids of those that a refresh would find unchanged.

    What cannot be told from the catalog is left to the refresh.  A change that commits after the
    query is in the next window, as ever: the frontier has not moved.
    """
    ids = [one.id for one in stream_tables if _told_by_catalog(runtime, one)]
    idle: frozenset[int] = frozenset()
    with runtime.connection() as connection:
        for start in range(0, len(ids), _AT_ONCE):
            idle |= pass_over_idle(connection, ids[start : start + _AT_ONCE], silence=_SILENCE)
    return idle


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
