"""Capture each source as its stream tables ask: by triggers or from the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from datetime import timedelta
from typing import Final

from psycopg import Connection

from pgtrickle.capture.wal.eligible import list_obstacles
from pgtrickle.capture.wal.slot import get_log_end
from pgtrickle.catalog.capture.change_tracking import find_change_tracking
from pgtrickle.catalog.capture.wal_capture import (
    CaptureWish,
    WalSource,
    find_wal_slot,
    list_capture_wishes,
    list_wal_sources,
    update_cdc_note,
)
from pgtrickle.catalog.stream_tables import find_stream_table_by_relid
from pgtrickle.errors import (
    ConnectionLostError,
    ServerBusyError,
    SlotLostError,
    TrickleError,
    WalGapError,
    WalMessageError,
    WalUnavailableError,
)
from pgtrickle.model.capture.cdc_mode import CdcMode, combine_modes, parse_cdc_mode
from pgtrickle.service.capturing.drain_wal import drain_wal
from pgtrickle.service.capturing.wal_hand_over import hand_over_to_triggers, hand_over_to_wal
from pgtrickle.service.capturing.wal_slot import drop_unused_slot, ensure_slot, warn_of_lag
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_FAR_BEHIND_BYTES = 2**20
_ATTEMPTS = 5
_SHORT = timedelta(seconds=5)

# The log does not hold, or does not deliver, the changes that capture needs.
LOSSES: Final = (SlotLostError, WalGapError, WalMessageError)


def settle_capture(
    runtime: Runtime, relids: Collection[int] | None = None, *, strict: bool = False
) -> None:
    """Hand over every source, or those given, whose capture mode is not the wanted one.

    If that is impossible, the capture stays as it is and the reason is recorded; with ``strict`` it
    is raised too: ST320 if the log cannot be read, ST408 if the table is in use.
    """
    default = parse_cdc_mode(runtime.settings.cdc_mode)
    with runtime.connection() as connection:
        wishes = list_capture_wishes(connection)
    for wish in wishes:
        if relids is None or wish.relid in relids:
            _settle(runtime, wish, combine_modes(wish.requested, default), strict=strict)
    drop_unused_slot(runtime)


def _settle(runtime: Runtime, wish: CaptureWish, wanted: CdcMode, *, strict: bool) -> None:
    if wanted is not CdcMode.TRIGGER and _is_stream_table(runtime, wish):
        wanted = CdcMode.TRIGGER  # our own writes are few, and their refreshes follow at once
    if wanted is wish.mode is CdcMode.TRIGGER and wish.note is None:
        return
    if not strict and _must_wait(runtime, wish):
        return
    obstacles = [] if wanted is CdcMode.TRIGGER else _list_obstacles(runtime, wish, wanted)
    target = CdcMode.TRIGGER if wanted is CdcMode.TRIGGER or obstacles else CdcMode.WAL
    note = None
    try:
        if target is not wish.mode:
            _hand_over(runtime, wish, target, insist=strict and wanted is not CdcMode.AUTO)
    except (WalUnavailableError, ServerBusyError) as error:
        if strict:
            raise
        obstacles = [str(error)]
        runtime.next_hand_over[wish.relid] = time.monotonic() + _pause(runtime).total_seconds()
    if obstacles:
        note = "; ".join(obstacles)
        if strict and wanted is CdcMode.WAL:
            raise WalUnavailableError(
                f'cannot capture "{wish.name}" from the log: {obstacles[0]}',
                detail=note,
                hint="Remove the obstacle, or choose cdc_mode trigger or auto.",
            )
    with runtime.connection() as connection:
        news = update_cdc_note(connection, wish.relid, note)
    if news and note and wanted is CdcMode.WAL:
        logger.warning("not captured from the log: %s", note, extra={"source": str(wish.name)})


def _must_wait(runtime: Runtime, wish: CaptureWish) -> bool:
    """Return whether the cause that broke the capture, or kept the table in use, may persist.

    A hand-over that waits for the table blocks all later sessions behind it.
    """
    if time.monotonic() < runtime.next_hand_over.get(wish.relid, 0.0):
        return True
    lost = wish.lost_ago
    return wish.mode is CdcMode.TRIGGER and lost is not None and lost < _pause(runtime)


def _pause(runtime: Runtime) -> timedelta:
    return timedelta(seconds=runtime.settings.wal_transition_timeout_seconds)


def _hand_over(runtime: Runtime, wish: CaptureWish, target: CdcMode, *, insist: bool) -> None:
    """Hand a source over; without ``insist`` only if that can be done at once."""
    attempts = _ATTEMPTS if insist else 1
    if target is CdcMode.WAL:
        ensure_slot(runtime, _pause(runtime) if insist else _SHORT)
        hand_over_to_wal(runtime, wish.relid, attempts=attempts)
    else:
        leave_wal(runtime, wish.relid, attempts)


def _is_stream_table(runtime: Runtime, wish: CaptureWish) -> bool:
    with runtime.connection() as connection:
        return find_stream_table_by_relid(connection, wish.relid) is not None


def _list_obstacles(runtime: Runtime, wish: CaptureWish, wanted: CdcMode) -> list[str]:
    with runtime.connection() as connection:
        tracking = find_change_tracking(connection, wish.relid)
        columns = tracking.captured_columns if tracking else ()
        # The hand-over to the log set the identity: a different one now is somebody's choice.
        may_alter = wanted is CdcMode.WAL and wish.mode is CdcMode.TRIGGER
        return list_obstacles(connection, wish.relid, columns, may_alter=may_alter)


def leave_wal(runtime: Runtime, relid: int, attempts: int = _ATTEMPTS) -> None:
    """Let triggers capture a source that is captured from the log."""
    with runtime.connection() as connection:
        sources = [one for one in list_wal_sources(connection) if one.relid == relid]
    for source in sources:
        try:
            hand_over_to_triggers(runtime, source, attempts=attempts)
        except LOSSES as error:
            hand_back(runtime, error)


def hand_back(runtime: Runtime, error: TrickleError) -> None:
    """Let triggers take over the sources whose changes the log has lost, and record the gap.

    A gap in one source concerns only that source; a lost or unreadable slot concerns them all.
    """
    with runtime.connection() as connection:
        sources = list_wal_sources(connection)
    for source in sources:
        if _concerns(error, source):
            hand_over_to_triggers(runtime, source, gap=str(error))
    drop_unused_slot(runtime)


def _concerns(error: TrickleError, source: WalSource) -> bool:
    one = error.source_relid if isinstance(error, WalGapError) else None
    return one is None or one == source.relid


def tend_capture(runtime: Runtime) -> None:
    """Read the log, watch the slot and hand sources over; a daemon calls it again and again.

    A failure here loses nothing: it is logged, and the next refresh meets it again. A lost server
    is raised.
    """
    now = time.monotonic()
    if now - runtime.capture_tended < runtime.settings.wal_heartbeat_seconds:
        return
    runtime.capture_tended = now
    try:
        drain_or_hand_back(runtime)
        settle_capture(runtime)
        warn_of_lag(runtime)
    except ConnectionLostError:
        raise
    except TrickleError as error:
        logger.warning("could not tend the capture", extra={"code": error.code})


def drain_or_hand_back(runtime: Runtime) -> None:
    """Read the log to its end; sources whose changes it lacks go back to triggers."""
    with runtime.connection() as connection:
        sources = list_wal_sources(connection)
    for _ in range(len(sources) + 1):
        try:
            drain_wal(runtime)
        except LOSSES as error:
            hand_back(runtime, error)
        else:
            break


def drain_if_behind(runtime: Runtime, connection: Connection, relids: Collection[int]) -> None:
    """Read most of the log before the snapshot, which holds back vacuum while it is open."""
    slot = find_wal_slot(connection)
    if slot is None or {one.relid for one in list_wal_sources(connection)}.isdisjoint(relids):
        return
    if get_log_end(connection) - slot.position > _FAR_BEHIND_BYTES:
        drain_wal(runtime)
