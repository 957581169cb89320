"""How often each stream table is due: by its schedule, its tier, and its consumers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from pgtrickle.errors import SettingError
from pgtrickle.model.scheduling.schedule import SHORTEST, Schedule, parse_schedule
from pgtrickle.model.scheduling.tier import FACTORS, Tier
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.scheduler.due import LONGEST_BACKOFF


def cadences(
    tables: Mapping[str, StreamTable],
    reads: Mapping[str, Collection[str]],
    order: Sequence[str],
) -> dict[str, Schedule]:
    """Return the cadence of every stream table; ``order`` has each after its sources.

    A calculated cadence is that of the fastest consumer, ignoring consumers with cron.
    Without consumers it is the shortest possible.
    """
    wanted: dict[str, timedelta] = {}
    found: dict[str, Schedule] = {}

    def want(name: str, own: Schedule) -> None:
        if own.every is not None and tables[name].tier is not Tier.FROZEN:
            for parent in reads.get(name, ()):
                wanted[parent] = min(wanted.get(parent, own.every), own.every)

    # First those with their own schedule: in a circle a consumer may come later in the order.
    for name, table in tables.items():
        if not (own := schedule_of(table)).calculated:
            want(name, _in_tier(own, table.tier))
    for name in reversed([name for name in order if name in tables]):
        own = schedule_of(tables[name])
        if own.calculated:
            own = replace(own, every=wanted.get(name, SHORTEST))
        found[name] = own = _in_tier(own, tables[name].tier)
        want(name, own)
    return found


def _in_tier(schedule: Schedule, tier: Tier) -> Schedule:
    if schedule.every is None:
        return schedule
    return replace(schedule, every=schedule.every * FACTORS[tier])


def schedule_of(table: StreamTable) -> Schedule:
    """Return the user's schedule; a slow one if it cannot be read."""
    try:
        return parse_schedule(table.schedule)
    except SettingError:
        # A newer version may have written it: report it at each attempt, keep the others fresh.
        return Schedule(table.schedule, LONGEST_BACKOFF)


def is_known(table: StreamTable) -> bool:
    """Tell whether the schedule of a stream table can be read."""
    try:
        parse_schedule(table.schedule)
    except SettingError:
        return False
    return True
