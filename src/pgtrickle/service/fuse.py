"""Stop before a mass change, if the scheduler is about to apply it."""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import Connection

from pgtrickle.catalog.fuses import blow_fuse, find_usual_changes, get_fuse
from pgtrickle.errors import FuseBlownError
from pgtrickle.model.fuse import FuseMode
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.runtime import Runtime


def check_fuse(
    runtime: Runtime,
    snapshot: Connection,
    stream_table: StreamTable,
    changed_rows: Mapping[str, int],
) -> None:
    """Raise ST212 if a refresh found more changed rows than its fuse lets pass."""
    changed = sum(changed_rows.values())
    fuse = get_fuse(snapshot, stream_table.id) if changed else None
    if fuse is None or fuse.mode is FuseMode.OFF:
        return
    usual = None
    if fuse.mode is FuseMode.AUTO:
        usual = find_usual_changes(snapshot, stream_table.id)
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
