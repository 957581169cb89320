"""``refresh_stream_table``: bring a stream table up to date, never from a mixture of versions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from pgtrickle.catalog.circles import list_members
from pgtrickle.catalog.graph import list_companions
from pgtrickle.errors import LeaseHeldError, ServerBusyError
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import InitiatedBy
from pgtrickle.service.patience import is_lock_timeout
from pgtrickle.service.refresh import refresh_alone
from pgtrickle.service.refresh_together import refresh_together
from pgtrickle.service.runtime import Runtime

_LOOK_AGAIN_SECONDS = 0.05
_LOCK_LOOKED_AT = 1.0  # likewise

T = TypeVar("T")


def refresh_stream_table(
    runtime: Runtime,
    name: QualifiedName,
    *,
    full: bool = False,
    initiated_by: InitiatedBy = InitiatedBy.MANUAL,
) -> RefreshReport:
    """Bring one stream table up to date and report what that took.

    One below a diamond takes along the stream tables that it reads there (docs/adr/0017), one in a
    circle all of that (docs/adr/0023).
    """
    with runtime.connection() as connection:
        names = list_companions(connection, name)
        alone = len(names) == 1 and not list_members(connection, name)
    if alone:
        return refresh_alone(runtime, name, full=full, initiated_by=initiated_by)
    initial = initiated_by is InitiatedBy.INITIAL
    reports = refresh_together(
        runtime,
        names,
        initiated_by=InitiatedBy.MANUAL if initial else initiated_by,
        full=name if full else None,
        initial=name if initial else None,
    )
    return reports[-1]


def refresh_when_free(
    runtime: Runtime,
    name: QualifiedName,
    *,
    full: bool = False,
    initiated_by: InitiatedBy = InitiatedBy.MANUAL,
    waiting: Callable[[LeaseHeldError], object] = lambda _: None,
) -> RefreshReport:
    """Do the same, and wait while another does it: what that one read may be older than the call.

    ``waiting`` is told once why.  Without end: whoever loses patience interrupts it.  What somebody
    has locked is asked for again, for ``lock_wait_seconds``.
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

    return when_free(refresh, waiting)


def when_free(
    act: Callable[[], T], waiting: Callable[[LeaseHeldError], object] = lambda _: None
) -> T:
    """Do what needs leases, again until nobody else has them."""
    told = False
    while True:
        try:
            return act()
        except LeaseHeldError as error:
            if not told:
                waiting(error)
            told = True
            time.sleep(_LOOK_AGAIN_SECONDS)


def refresh_unit(runtime: Runtime, names: Sequence[QualifiedName]) -> list[RefreshReport]:
    """Refresh what the scheduler hands to one worker: a stream table, or a group in order."""
    by = InitiatedBy.SCHEDULER
    with runtime.connection() as connection:
        alone = len(names) == 1 and not list_members(connection, names[0])
    if not alone:
        return refresh_together(runtime, names, initiated_by=by)
    return [refresh_alone(runtime, name, initiated_by=by) for name in names]
