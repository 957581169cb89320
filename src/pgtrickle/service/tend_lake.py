"""What a daemon does for the lake beside the refreshes, again and again."""

from __future__ import annotations

from pgtrickle.catalog.lake_chores import find_chores
from pgtrickle.service.follow_lake import follow_due
from pgtrickle.service.lake_control import deliver_due
from pgtrickle.service.lake_maintain import maintain_due
from pgtrickle.service.runtime import Runtime


def tend_lake(runtime: Runtime) -> bool:
    """Follow attached tables, try deliveries again, tidy up; return whether a table is attached.

    Where there is no lake, this costs one small query.
    """
    with runtime.connection() as connection:
        chores = find_chores(connection)
    if chores.sources:
        follow_due(runtime)
    if chores.sinks:
        deliver_due(runtime)
        maintain_due(runtime)
    return chores.sources
