"""What the scheduler says of its own pace: who falls behind, and whether there is room."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict

from pgtrickle.catalog.scheduling.paces import NewPace, list_paces, note_pace, note_saturation
from pgtrickle.scheduler.admission import Saturation
from pgtrickle.scheduler.pace import Cycle, Pace
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)


def show_paces(runtime: Runtime) -> dict[int, Pace]:
    """Return which stream tables fall behind, by id, as the last leader has left it."""
    with runtime.connection() as connection:
        return {number: Pace(*pace) for number, pace in list_paces(connection).items()}


def note_cycles(runtime: Runtime, cycles: Sequence[Cycle]) -> None:
    """Record who falls behind or keeps up again, and alert of each refresh that was late."""
    with runtime.connection() as connection, connection.transaction():
        for cycle in cycles:
            note_pace(connection, _news(cycle))
    for cycle in cycles:
        name = str(cycle.stream_table.name)
        if cycle.before.stretch != cycle.after.stretch:
            logger.info(
                "%s: refreshed every %g s from now on",
                *(name, (cycle.every * cycle.after.stretch).total_seconds()),
                extra={"stream_table": name, "stretch": cycle.after.stretch},
            )


def _news(cycle: Cycle) -> NewPace:
    return NewPace(
        cycle.stream_table.id,
        cycle.stream_table.name,
        cycle.after.late,
        cycle.after.stretch,
        cycle.every.total_seconds(),
        cycle.took.total_seconds(),
        cycle.behind,
    )


def tell_saturation(runtime: Runtime, saturation: Saturation | None) -> None:
    """Record, log and tell that due refreshes wait for room, or that none does any more."""
    facts = None if saturation is None else asdict(saturation)
    with runtime.connection() as connection, connection.transaction():
        note_saturation(connection, runtime.owner, facts)
    if saturation is None:
        logger.info("there is room for every refresh that is due again")
    else:
        logger.warning(
            "%s: %s refreshes wait for %s at a time, those of hot stream tables go first",
            *(saturation.reason, saturation.waiting, saturation.limit),
            extra=facts,
        )
