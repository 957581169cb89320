"""The repeated work of a daemon for the lake, apart from the refreshes."""

from __future__ import annotations

from pgtrickle.catalog.lake.chores import find_chores
from pgtrickle.extras import require
from pgtrickle.service.immediate.copies import request_lagging_copies
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.ducklake.news import SinkWatch


def tend_lake(runtime: Runtime, watch: SinkWatch) -> bool:
    """Follow attached tables, try deliveries again, tidy up; return whether a table is attached.

    Where there is no lake, this costs one small query; where sinks are, ``watch`` looks at them.
    """
    with runtime.connection() as connection:
        chores = find_chores(connection)
    if not (chores.sources or chores.sinks):
        return False
    # Imported where there is a lake: Arrow is an extra.
    require("pyarrow")
    from pgtrickle.service.sinks.ducklake.copies import deliver_due  # noqa: PLC0415
    from pgtrickle.service.sinks.ducklake.upkeep import maintain_due  # noqa: PLC0415
    from pgtrickle.service.sources.ducklake.follow import follow_due  # noqa: PLC0415

    if chores.sources:
        follow_due(runtime)
    if chores.sinks:
        request_lagging_copies(runtime)
        deliver_due(runtime)
        maintain_due(runtime)
        if chores.unsettled or watch.waits:
            with runtime.connection() as connection:
                watch.look(connection)
    return chores.sources
