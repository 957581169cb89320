"""Pause and resume capture, choose the durability of buffers, and repair damage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from psycopg import Connection

from pgtrickle.capture.durability import store_buffer
from pgtrickle.capture.function_head import get_options
from pgtrickle.capture.locks import lock_capture
from pgtrickle.capture.triggers import pause_capture, renew_capture
from pgtrickle.catalog.capture.change_tracking import (
    ChangeTracking,
    insert_change_tracking,
    list_change_tracking,
)
from pgtrickle.catalog.capture.gaps import insert_gap, note_crashes
from pgtrickle.catalog.capture.health import (
    CaptureHealth,
    check_cdc_health,
    list_undecided_durability,
    reset_errors,
    set_durability,
    set_paused,
)
from pgtrickle.catalog.capture.switched_pauses import forget_switched, note_switched
from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import SettingError, SourceNotFoundError
from pgtrickle.immediate.pauses import (
    Followed,
    list_immediate_sources,
    pause_immediate,
    resume_immediate,
)
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.capturing.mode import leave_wal
from pgtrickle.service.capturing.wal_hand_over import install_source
from pgtrickle.service.lifecycle.repair.rebind import Mended, bind_again
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.apply import ensure_guard

T = TypeVar("T")

# Damage that may have let changes pass uncaptured; the other alerts have their own gap.
_DAMAGES = frozenset({"triggers_missing", "triggers_disabled", "buffer_missing"})
_DURABILITIES = ("unlogged", "logged", "sync")


def show_cdc_health(runtime: Runtime) -> list[CaptureHealth]:
    """Return every captured source, with one row per problem."""
    with runtime.connection() as connection:
        return check_cdc_health(connection)


def pause_cdc(
    runtime: Runtime,
    sources: Sequence[QualifiedName] = (),
    *,
    by_setting: bool = False,
    seconds: float | None = None,
) -> list[str]:
    """Stop capturing these sources, or all, for every session, until ``resume_cdc``.

    Those that ``cdc_paused`` has paused stay so when it goes off; with ``by_setting`` they do not.

    Takes no lock on the sources, unless they are captured from the log: that ends, and a daemon
    starts it again after the pause. It waits for writers that are following a change in a stream
    table with refresh_mode IMMEDIATE. Return those that were not paused before.
    """
    followed = _followed(runtime, sources)
    paused = []
    for tracking in _tracked(runtime, sources, {one.source for one in followed}):
        leave_wal(runtime, tracking.source_relid)
        pause = partial(_pause, tracking=tracking, by_setting=by_setting)
        if _in_transaction(runtime, pause, seconds):
            paused.append(str(tracking.source))
    paused += [
        str(one.source)
        for one in followed
        if _in_transaction(
            runtime, partial(_pause_followed, followed=one, by_setting=by_setting), seconds
        )
    ]
    return list(dict.fromkeys(paused))


def _pause_followed(connection: Connection, followed: Followed, *, by_setting: bool) -> bool:
    paused = pause_immediate(connection, followed)
    _note_pause(connection, followed.source_relid, new=paused, by_setting=by_setting)
    return paused


def _note_pause(connection: Connection, relid: int, *, new: bool, by_setting: bool) -> None:
    """Record whether the setting or somebody has paused a source, in the same transaction."""
    if not by_setting:
        forget_switched(connection, [relid])
    elif new:
        note_switched(connection, relid)


def _pause(connection: Connection, tracking: ChangeTracking, *, by_setting: bool) -> bool:
    lock_capture(connection, tracking.source_relid)
    # In one transaction: an uncaptured writer commits after the pause is recorded.
    paused = set_paused(connection, tracking.source_relid, paused=True)
    _note_pause(connection, tracking.source_relid, new=paused, by_setting=by_setting)
    if not paused:
        return False
    pause_capture(connection, tracking.source_relid)
    return True


def resume_cdc(
    runtime: Runtime, sources: Sequence[QualifiedName] = (), *, seconds: float | None = None
) -> list[str]:
    """Capture these sources, or all, again; return those that were paused.

    Waits for writers in flight. Each consumer reinitializes with its next refresh.
    """
    followed = _followed(runtime, sources)
    resumed = [
        str(tracking.source)
        for tracking in _tracked(runtime, sources, {one.source for one in followed})
        if _in_transaction(runtime, partial(_resume, tracking=tracking), seconds)
    ]
    resumed += [
        str(one.source)
        for one in followed
        if _in_transaction(runtime, partial(_resume_followed, followed=one), seconds)
    ]
    return list(dict.fromkeys(resumed))


def _resume_followed(connection: Connection, followed: Followed) -> bool:
    forget_switched(connection, [followed.source_relid])
    return resume_immediate(connection, followed)


def _resume(connection: Connection, tracking: ChangeTracking) -> bool:
    lock_capture(connection, tracking.source_relid)
    forget_switched(connection, [tracking.source_relid])
    if not set_paused(connection, tracking.source_relid, paused=False):
        return False
    _install(connection, tracking)
    insert_gap(connection, tracking.source_relid, "its capture was paused")
    return True


def _in_transaction(
    runtime: Runtime, change: Callable[[Connection], T], seconds: float | None = None
) -> T:
    """Change a capture in a transaction that does not block writers for long."""
    with runtime.connection() as connection:
        return until_free(runtime, connection, lambda: change(connection), seconds)


def rebuild_cdc_triggers(runtime: Runtime) -> list[Mended]:
    """Recreate the triggers and functions of every capture, and missing buffers.

    If some were missing or disabled, consumers reinitialize. A paused source stays paused, and a
    dropped one is left to the refreshes of its consumers.
    """
    mended = []
    for tracking in _tracked(runtime, ()):
        try:
            mended += _rebuild(runtime, tracking)
        except SourceNotFoundError:
            mended.append(Mended(str(tracking.source), "is gone"))
    return mended


def repair_stream_table(runtime: Runtime, name: QualifiedName) -> list[Mended]:
    """Repair the captures, the guard and the status of a stream table; it then reinitializes.

    Its query is bound again, to the objects that its names mean now. Return the repairs. Running it
    twice does no harm.
    """
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        check_owner(connection, stream_table)
        read = {one.source_relid for one in list_dependencies(connection, stream_table.id)}
        note_crashes(connection)
    mended = bind_again(runtime, stream_table)
    for tracking in _tracked(runtime, ()):
        if tracking.source_relid in read:
            try:
                mended += _rebuild(runtime, tracking)
            except SourceNotFoundError:
                # If another relation has its name now, the next refresh captures that one.
                mended.append(Mended(str(tracking.source), "is gone"))
    with runtime.connection() as connection, connection.transaction():
        if ensure_guard(connection, name):
            mended.append(Mended(str(name), "guard created again"))
        if stream_table.consecutive_errors or stream_table.status.value in {"SUSPENDED", "ERROR"}:
            mended.append(Mended(str(name), "errors forgotten, active again"))
        reset_errors(connection, stream_table.id)
        mended.append(Mended(str(name), "is reloaded by its next refresh"))
    return mended


def change_durability(runtime: Runtime, durability: str) -> list[str]:
    """Give every change buffer this durability; return the sources. Writers wait meanwhile."""
    if durability not in _DURABILITIES:
        raise SettingError(
            f'the durability "{durability}" does not exist',
            hint=f"Choose one of {', '.join(_DURABILITIES)}.",
        )
    changed = []
    for tracking in _tracked(runtime, ()):
        store = partial(_store, relid=tracking.source_relid, durability=durability)
        _in_transaction(runtime, store)
        changed.append(str(tracking.source))
    return changed


def decide_durability(runtime: Runtime, connection: Connection) -> None:
    """Give new buffers the durability of the settings."""
    for relid in list_undecided_durability(connection):
        _store(connection, relid, runtime.settings.change_buffer_durability)


def _store(connection: Connection, relid: int, durability: str) -> None:
    lock_capture(connection, relid)
    before = get_options(connection, relid)
    store_buffer(connection, relid, unlogged=durability == "unlogged")
    set_durability(connection, relid, durability)
    if get_options(connection, relid) != before:  # otherwise the functions are already right
        renew_capture(connection, relid)


def _rebuild(runtime: Runtime, tracking: ChangeTracking) -> list[Mended]:
    return _in_transaction(runtime, partial(_make_anew, tracking=tracking))


def _make_anew(connection: Connection, tracking: ChangeTracking) -> list[Mended]:
    health = [
        one for one in check_cdc_health(connection) if one.source_relid == tracking.source_relid
    ]
    alerts = {one.alert for one in health}
    if "paused" in alerts:
        return [Mended(str(tracking.source), "is paused")]
    _install(connection, tracking)
    from_log = any(one.cdc_mode == "WAL" for one in health)
    done = "is captured from the log" if from_log else "triggers created again"
    damages = sorted(one for one in alerts if one in _DAMAGES)
    if not damages:
        return [Mended(str(tracking.source), done)]
    found = ", ".join(damages).replace("_", " ")
    insert_gap(connection, tracking.source_relid, f"of its capture, {found}")
    return [Mended(str(tracking.source), f"{done}: {found}")]


def _install(connection: Connection, tracking: ChangeTracking) -> None:
    capture = install_source(connection, tracking.source_relid, tracking.captured_columns)
    insert_change_tracking(
        connection,
        source_relid=tracking.source_relid,
        source=capture.source,
        buffer_name=capture.buffer.name,
        captured_columns=capture.columns,
    )


def _followed(runtime: Runtime, sources: Sequence[QualifiedName]) -> list[Followed]:
    """Return those sources, or all, whose writers maintain stream tables."""
    with runtime.connection() as connection:
        found = list_immediate_sources(connection)
    return [one for one in found if not sources or one.source in sources]


def _tracked(
    runtime: Runtime,
    sources: Sequence[QualifiedName],
    others: Collection[QualifiedName] = (),
) -> list[ChangeTracking]:
    """Return the captures of those sources, or all; ``others`` may be without one."""
    with runtime.connection() as connection:
        tracked = list_change_tracking(connection)
    known = {one.source: one for one in tracked}
    for source in sources:
        if source not in known and source not in others:
            raise SourceNotFoundError(
                f'no stream table reads "{source}"',
                hint="List the captured sources with: pgtrickle cdc health.",
            )
    found = [known[source] for source in sources if source in known] if sources else tracked
    # In the order of oids, as at installation, to avoid deadlocks.
    return sorted(found, key=lambda one: one.source_relid)
