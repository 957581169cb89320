"""The first look at a database: daemons, requests, refreshes, and what needs attention."""

from __future__ import annotations

from pgtrickle.catalog.lake.sinks import list_sink_status
from pgtrickle.catalog.overview import (
    count_tables,
    get_queue,
    list_checks,
    list_daemons,
    list_hold_reasons,
    list_running,
    list_troubled,
)
from pgtrickle.model.status_report import StatusReport, worst
from pgtrickle.service.runtime import Runtime


def show_overview(runtime: Runtime) -> StatusReport:
    """Return the daemons, the queue, the running refreshes, and what needs attention."""
    with runtime.connection() as connection:
        checks = list_checks(connection)
        behind, failing, suspended = list_troubled(connection)
        return StatusReport(
            severity=worst(checks),
            checks=checks,
            daemons=list_daemons(connection),
            queue=get_queue(connection),
            stream_tables=count_tables(connection),
            running=list_running(connection),
            behind=behind,
            failing=failing,
            suspended=suspended,
            sinks=list_sink_status(connection),
            holds=list_hold_reasons(connection),
        )
