"""The logical slot: created for the first source that needs it, dropped after the last."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from psycopg import Connection

from pgtrickle.capture.wal.publication import create_publication, drop_publication
from pgtrickle.capture.wal.slot import check_slot, create_slot, drop_slot, find_slot
from pgtrickle.catalog.capture.wal_capture import (
    WalSlot,
    delete_wal_slot,
    find_wal_slot,
    insert_wal_slot,
    list_wal_sources,
    lock_wal,
)
from pgtrickle.errors import PrivilegeError, SlotLostError
from pgtrickle.model.text.shown import Shown
from pgtrickle.service.runtime import Runtime
from pgtrickle.settings import Settings

logger = logging.getLogger(__name__)

_PUBLICATION = "pgtrickle_capture"
_GET_DATABASE = (
    "SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
)
_NOTIFY = """
    SELECT pgtrickle.notify('pg_trickle_alert', pg_catalog.json_build_object(
               'event', %(event)s::pg_catalog.text, 'slot', %(slot)s::pg_catalog.text,
               'lag_bytes', %(lag)s::pg_catalog.int8)::pg_catalog.text)
"""
_MEGABYTE = 2**20


def ensure_slot(runtime: Runtime, patience: timedelta) -> None:
    """Create publication and slot unless they exist.

    The slot is not created inside a transaction that has written, and it outlives a failed
    transaction: an unrecorded slot remains from such a failure and is replaced.
    """
    with runtime.connection() as keeper, keeper.transaction():
        # Without a transaction id, so that creating the slot does not wait for it.
        lock_wal(keeper)
        known = find_wal_slot(keeper)
        if known and (list_wal_sources(keeper) or find_slot(keeper, known.name)):
            return
        with runtime.connection() as connection:
            delete_wal_slot(connection)  # left by an interrupted drop; nobody needs it
            [(database,)] = connection.execute(_GET_DATABASE).fetchall()
            name = f"pgtrickle_{database}"
            with connection.transaction():
                create_publication(connection, _PUBLICATION)
            drop_slot(connection, name)
            position = create_slot(connection, name, patience)
        insert_wal_slot(keeper, WalSlot(name, _PUBLICATION, position))


def drop_unused_slot(runtime: Runtime) -> None:
    """Drop the slot and the publication when no source is captured from the log any more.

    If the role lost that privilege, they stay recorded, and ``doctor`` shows the log that they hold
    back.
    """
    try:
        _drop_unused_slot(runtime)
    except PrivilegeError as error:
        logger.warning("could not drop the logical slot", extra={"code": error.code})


def _drop_unused_slot(runtime: Runtime) -> None:
    with runtime.connection() as connection, connection.transaction():
        if find_wal_slot(connection) is None:
            return
        lock_wal(connection)
        slot = find_wal_slot(connection)
        if slot is None or list_wal_sources(connection):
            return
        delete_wal_slot(connection)
        drop_publication(connection, slot.publication)
        drop_slot(connection, slot.name)


class Severity(Enum):
    """The severity of a slot's lag."""

    OK = "OK"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"


@dataclass(frozen=True, slots=True)
class SlotHealth(Shown):
    """The slot, and the size of the log that the server keeps for it."""

    slot: str
    severity: Severity
    lag_bytes: int
    detail: str


def find_slot_health(connection: Connection, settings: Settings) -> SlotHealth | None:
    """Return the health of the slot; None if nothing is captured from the log."""
    slot = find_wal_slot(connection)
    if slot is None:
        return None
    state = find_slot(connection, slot.name)
    try:
        lag = check_slot(state, slot.name, slot.position).lag_bytes
    except SlotLostError as error:
        return SlotHealth(slot.name, Severity.CRITICAL, 0, str(error))
    severity = Severity.OK
    if lag >= settings.slot_lag_critical_threshold_mb * _MEGABYTE:
        severity = Severity.CRITICAL
    elif lag >= settings.slot_lag_warning_threshold_mb * _MEGABYTE:
        severity = Severity.WARNING
    return SlotHealth(
        slot.name, severity, lag, f"the server keeps {lag / _MEGABYTE:.1f} MB of log for it"
    )


def warn_of_lag(runtime: Runtime) -> SlotHealth | None:
    """Log and announce a slot for which the server keeps too much log."""
    with runtime.connection() as connection:
        health = find_slot_health(connection, runtime.settings)
        if health is not None and health.severity is not Severity.OK:
            critical = health.severity is Severity.CRITICAL
            logger.log(
                logging.ERROR if critical else logging.WARNING,
                "the logical slot holds back the log",
                extra={"slot": health.slot, "bytes": health.lag_bytes},
            )
            event = "slot_lag_critical" if critical else "slot_lag_warning"
            values = {"event": event, "slot": health.slot, "lag": health.lag_bytes}
            connection.execute(_NOTIFY, values)
    return health
