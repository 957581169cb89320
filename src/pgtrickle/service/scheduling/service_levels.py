"""Service levels: agree on one, and watch whether they are kept."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager

from psycopg import Connection

from pgtrickle.catalog.scheduling.service_levels import (
    measure_longest,
    send_sla_alerts,
    set_service_level,
)
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import SettingError
from pgtrickle.model.scheduling.service_level import AgreedLevel, schedule_for, tier_for
from pgtrickle.model.stream_table import RefreshMode
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.changes import Changes
from pgtrickle.service.lifecycle.alter import alter_stream_table
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.periodic import repeated
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_FIRST_WATCH, _WATCH_SECONDS = 1.0, 10.0


def set_stream_table_sla(
    runtime: Runtime, name: QualifiedName, seconds: float | None
) -> AgreedLevel:
    """Record the age that contents must not exceed, and choose tier and schedule by it.

    None takes it away again; tier and schedule stay.  Raises ST505 if refreshes were measured to
    take too long for it; then nothing is changed.
    """
    with runtime.connection() as connection:
        table = get_stream_table(connection, name)
        check_owner(connection, table)
        took = measure_longest(connection, table.id)
    if seconds is not None:
        if table.refresh_mode is RefreshMode.IMMEDIATE:
            raise SettingError(
                f'"{table.name}" is IMMEDIATE: no service level applies to it',
                hint="Its contents change in the statements that change its sources.",
            )
        kept = {
            "schedule": schedule_for(seconds, table.schedule, took),
            "tier": tier_for(seconds).value,
        }
        table = alter_stream_table(runtime, table.name, Changes.read(kept))
    with runtime.connection() as connection:
        set_service_level(connection, table.id, seconds)
    return AgreedLevel(str(table.name), seconds, table.tier, table.schedule)


def watch_service_levels(runtime: Runtime, connection: Connection) -> None:
    """Send the alerts on service levels that are due."""
    settings = runtime.settings
    for alert in send_sla_alerts(
        connection, settings.sla_window_hours, settings.schedule_alert_cooldown_seconds
    ):
        name = str(alert.stream_table)
        logger.warning("%s: %s", name, alert.event, extra={"stream_table": name, **alert.facts})


def watching_service_levels(runtime: Runtime) -> AbstractContextManager[None]:
    """Watch the service levels from a thread, for the length of a block."""
    return repeated(
        runtime,
        "watch service levels",
        _WATCH_SECONDS,
        lambda connection: watch_service_levels(runtime, connection),
        first=_FIRST_WATCH,
    )
