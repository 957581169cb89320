"""Bring the copies in the lake of IMMEDIATE stream tables up to date, now and then."""

from __future__ import annotations

from datetime import timedelta

from pgtrickle.catalog.lake.followed import list_lagging_copies, note_copied, wait_for_writers
from pgtrickle.catalog.lake.sinks import open_delivery
from pgtrickle.errors import ServerBusyError
from pgtrickle.service.lock_waits import impatient
from pgtrickle.service.runtime import Runtime, translated_errors

# A delivery writes all rows: not after every statement.
_EVERY = timedelta(minutes=1)


def request_lagging_copies(runtime: Runtime, every: timedelta = _EVERY) -> None:
    """Put on record which copies lag, as deliveries that are due.

    Writers are held up for no longer than those take that are at work now; where these take their
    time, the next call tries again.
    """
    with runtime.connection() as connection:
        for number, name in list_lagging_copies(connection, every):
            try:
                with (
                    translated_errors(),
                    connection.transaction(),
                    impatient(connection),
                ):
                    wait_for_writers(connection, number, name)
                    note_copied(connection, number)
                    open_delivery(connection, number)
            except ServerBusyError:
                continue
