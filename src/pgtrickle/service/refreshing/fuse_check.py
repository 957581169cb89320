"""Stop before a mass change, if the scheduler is about to apply it."""

from __future__ import annotations

from collections.abc import Mapping

from pgtrickle.catalog.scheduling.fuses import blow_fuse, find_usual_changes, get_fuse
from pgtrickle.errors import FuseBlownError
from pgtrickle.model.scheduling.fuse import FuseMode
from pgtrickle.model.stream_table import InitiatedBy
from pgtrickle.service.refreshing.refresh import Refresh
from pgtrickle.service.refreshing.snapshot import Snapshot


def check_fuse(refresh: Refresh, snapshot: Snapshot, changed_rows: Mapping[str, int]) -> None:
    """Raise ST212 if the scheduler's refresh found more changed rows than the fuse allows."""
    if refresh.initiated_by is not InitiatedBy.SCHEDULER:
        return
    runtime, stream_table = refresh.runtime, refresh.stream_table
    changed = sum(changed_rows.values())
    fuse = get_fuse(snapshot.connection, stream_table.id) if changed else None
    if fuse is None or fuse.mode is FuseMode.OFF:
        return
    usual = None
    if fuse.mode is FuseMode.AUTO:
        usual = find_usual_changes(snapshot.connection, stream_table.id)
    limit = fuse.limit(usual, runtime.settings.fuse_default_ceiling)
    if limit is None or changed <= limit:
        return
    reason = f"{changed} changed rows, more than {limit}"
    with runtime.connection() as connection:
        blow_fuse(connection, stream_table.id, stream_table.name, reason)
    raise FuseBlownError(
        f'the fuse of "{stream_table.name}" has blown: {reason}',
        hint="Look at the change. To apply it, refresh by hand or reset the fuse.",
    )
