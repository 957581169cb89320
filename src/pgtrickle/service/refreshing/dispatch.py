"""``refresh_stream_table``: bring a stream table up to date, never from a mixture of versions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pgtrickle.catalog.circles import list_members
from pgtrickle.catalog.graph import list_companions, may_have_companions
from pgtrickle.catalog.stream_tables import find_stream_table
from pgtrickle.errors import (
    DataError,
    LeaseHeldError,
    ServerBusyError,
    ValueOutOfRangeError,
)
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import InitiatedBy
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.lease_waits import when_free
from pgtrickle.service.lock_waits import is_lock_timeout
from pgtrickle.service.refreshing.failures import tell_resumed
from pgtrickle.service.refreshing.groups.together import refresh_together
from pgtrickle.service.refreshing.run import refresh_alone
from pgtrickle.service.runtime import Runtime

_LOCK_LOOKED_AT = 1.0  # seconds


def refresh_stream_table(
    runtime: Runtime,
    name: QualifiedName,
    *,
    full: bool = False,
    initiated_by: InitiatedBy = InitiatedBy.MANUAL,
    trial: bool = False,
) -> RefreshReport:
    """Bring one stream table up to date and return the report.

    Below a diamond, the stream tables that it reads there are refreshed with it (docs/adr/0017); in
    a circle, all its members (docs/adr/0023). A ``trial`` may refresh a suspended one.
    """
    with runtime.connection() as connection:
        together = may_have_companions(connection, name)
        names = list_companions(connection, name) if together else [name]
        alone = not together or (len(names) == 1 and not list_members(connection, name))
    if alone:
        return refresh_alone(runtime, name, full=full, initiated_by=initiated_by, trial=trial)
    initial = initiated_by is InitiatedBy.INITIAL
    reports = refresh_together(
        runtime,
        names,
        initiated_by=InitiatedBy.MANUAL if initial else initiated_by,
        full=name if full else None,
        initial=name if initial else None,
        trial=name if trial else None,
    )
    return reports[-1]


def refresh_when_free(
    runtime: Runtime,
    name: QualifiedName,
    *,
    full: bool = False,
    initiated_by: InitiatedBy = InitiatedBy.MANUAL,
    waiting: Callable[[LeaseHeldError], object] = lambda _: None,
    seconds: float | None = None,
) -> RefreshReport:
    """Do the same, but first wait for a running refresh, whose snapshot may be older than the call.

    ``waiting`` gets the reason once. Without ``seconds`` the wait has no limit; the user may
    interrupt it. Locked tables are tried again for ``lock_wait_seconds``.
    """
    end = time.monotonic() + runtime.settings.lock_wait_seconds

    def refresh() -> RefreshReport:
        while True:
            try:
                return refresh_stream_table(runtime, name, full=full, initiated_by=initiated_by)
            except ServerBusyError as error:
                if not is_lock_timeout(error) or time.monotonic() > end:
                    raise
            time.sleep(_LOCK_LOOKED_AT)

    return when_free(refresh, waiting, seconds)


def refresh_unit(runtime: Runtime, names: Sequence[QualifiedName]) -> list[RefreshReport]:
    """Refresh one unit of the scheduler: a stream table, or a group in dependency order."""
    by = InitiatedBy.SCHEDULER
    with runtime.connection() as connection:
        alone = len(names) == 1 and not list_members(connection, names[0])
    if not alone:
        return refresh_together(runtime, names, initiated_by=by)
    return [refresh_alone(runtime, name, initiated_by=by) for name in names]


def try_suspended(runtime: Runtime, name: QualifiedName) -> list[RefreshReport]:
    """Try to refresh a stream table that errors have suspended: success resumes it, with an alert.

    Does nothing if somebody has resumed or suspended it meanwhile.
    """
    with runtime.connection() as connection:
        found = find_stream_table(connection, name)
    if found is None or found.suspended_by is None:
        return []
    # A change that could not be evaluated stays in the window, even if it was undone.
    full = found.suspended_by in {DataError.code, ValueOutOfRangeError.code}
    by = InitiatedBy.SCHEDULER
    report = refresh_stream_table(runtime, name, full=full, initiated_by=by, trial=True)
    with runtime.connection() as connection:
        tell_resumed(connection, name)
    return [report]
