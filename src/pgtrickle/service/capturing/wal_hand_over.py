"""Hand a source over from triggers to the log and back: no change is lost or captured twice.

Either way is one transaction that first waits until nobody uses the table. A writer holds its lock
until it is visible to everybody, so earlier writes have committed before, and the next writer finds
the result of this transaction. Under that lock the position of the log divides the two captures:
triggers on one side, the log on the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from psycopg import Connection

from pgtrickle.capture.locks import lock_capture
from pgtrickle.capture.triggers import Capture, install_capture
from pgtrickle.capture.wal.eligible import list_obstacles
from pgtrickle.capture.wal.identity import restore_identity, set_full_identity
from pgtrickle.capture.wal.publication import publish, unpublish
from pgtrickle.capture.wal.slot import get_log_end
from pgtrickle.capture.wal.tables import drop_triggers, find_table, lock_table, may_lock_table
from pgtrickle.catalog.capture.change_tracking import find_change_tracking
from pgtrickle.catalog.capture.wal_capture import (
    WalSource,
    find_wal_slot,
    list_wal_sources,
    lock_wal,
    update_cdc_note,
    update_to_triggers,
    update_to_wal,
)
from pgtrickle.errors import SourceNotFoundError, WalUnavailableError
from pgtrickle.service.capturing.drain_wal import drain_step, drain_wal
from pgtrickle.service.lock_waits import ATTEMPTS, try_again
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_PATIENCE = timedelta(seconds=0.1)  # later writers have to wait as long, too


def hand_over_to_wal(runtime: Runtime, relid: int, *, attempts: int = ATTEMPTS) -> None:
    """Let the log take over from triggers; the slot exists."""

    def change(connection: Connection) -> None:
        table = find_table(connection, relid)
        slot = find_wal_slot(connection)
        if table is None or slot is None:
            raise SourceNotFoundError(
                f"the source table with oid {relid} or the slot does not exist any more",
                hint="Drop the stream table with: pgtrickle drop.",
            )
        _lock(connection, relid)
        tracking = find_change_tracking(connection, relid)
        columns = tracking.captured_columns if tracking else ()
        if obstacles := list_obstacles(connection, relid, columns, may_alter=True):
            raise WalUnavailableError(
                f'cannot capture "{table}" from the log: {obstacles[0]}',
                hint="Remove the obstacle, or choose cdc_mode trigger or auto.",
            )
        since = get_log_end(connection)
        former = set_full_identity(connection, relid, table)
        member = publish(connection, slot.publication, relid, table)
        drop_triggers(connection, relid)
        update_to_wal(
            connection,
            relid,
            since=since,
            publication_member=member,
            former_replica_identity=former,
        )

    _attempt(runtime, change, attempts)
    logger.info("captured from the log", extra={"source_relid": relid})


def hand_over_to_triggers(
    runtime: Runtime,
    source: WalSource,
    *,
    gap: str | None = None,
    attempts: int = ATTEMPTS,
) -> None:
    """Let triggers take over from the log.

    ``gap`` is the reason why the log cannot be read to the end: then changes are missing, and the
    gap is recorded for every consumer of the source.
    """
    if gap is None:
        drain_wal(runtime)  # most of it without the lock

    def change(connection: Connection) -> None:
        table = find_table(connection, source.relid)
        _lock(connection, source.relid)
        if not _is_from_log(connection, source.relid):
            return  # another process was faster
        if table is not None:
            if gap is None:
                _drain_rest(runtime, connection)
            install_capture(connection, source.relid, ())
            release_table(connection, source)
        update_to_triggers(connection, source.relid, gap=gap)

    _attempt(runtime, change, attempts)
    level = logging.INFO if gap is None else logging.WARNING
    logger.log(
        level,
        "captured by triggers",
        extra={"source": str(source.name), "reason": gap or "asked for"},
    )


def release_table(connection: Connection, source: WalSource) -> None:
    """Remove a table from the publication and restore its replica identity."""
    table = find_table(connection, source.relid)
    slot = find_wal_slot(connection)
    if table is None:
        return
    if slot is not None:
        unpublish(connection, slot.publication, source.relid, table)
    restore_identity(connection, source.relid, table, source.former_replica_identity)


def lock_sources(connection: Connection, relids: Iterable[int]) -> dict[int, WalSource]:
    """Lock sources until the commit if any is captured from the log; return those.

    The transaction is one of ``until_free``, which gives up soon. All these locks come before the
    lock of the drain, as everywhere: a session that waits for a table while it holds the drain's
    lock would block every refresh, and could deadlock with a hand-over. Sources with triggers are
    locked too, in the order of oids: writers that use the tables in the same order never block for
    long.
    """
    wanted = sorted(relids)
    from_log = {one.relid: one for one in list_wal_sources(connection) if one.relid in wanted}
    if not from_log:
        return {}
    for relid in wanted:
        lock_capture(connection, relid)
    for relid in wanted:
        if relid in from_log or may_lock_table(connection, relid):
            _lock_if_there(connection, relid, None)
    lock_wal(connection)
    return {one.relid: one for one in list_wal_sources(connection) if one.relid in wanted}


def install_source(connection: Connection, relid: int, columns: Sequence[str]) -> Capture:
    """Capture columns of a source, in its current capture mode.

    The table is locked until the commit, also in WAL mode: the buffer has its new columns before
    the first change that contains them.
    """
    capture = install_capture(connection, relid, columns)
    # Checked under the lock on the table: no hand-over can come before the commit.
    source = next((one for one in list_wal_sources(connection) if one.relid == relid), None)
    if source is None:
        return capture
    obstacles = list_obstacles(connection, relid, capture.columns, may_alter=True)
    if obstacles:
        # It has got child tables, for example. Its changes in the log are no longer read.
        lock_wal(connection)
        release_table(connection, source)
        update_to_triggers(connection, relid, gap=obstacles[0])
        update_cdc_note(connection, relid, "; ".join(obstacles))
    else:
        drop_triggers(connection, relid)
    return capture


def _lock(connection: Connection, relid: int) -> None:
    """Take the locks of a hand-over, in the common order."""
    lock_capture(connection, relid)
    _lock_if_there(connection, relid)
    lock_wal(connection)


def _lock_if_there(
    connection: Connection, relid: int, patience: timedelta | None = _PATIENCE
) -> None:
    table = find_table(connection, relid)
    if table is not None:
        lock_table(connection, table, patience)


def _is_from_log(connection: Connection, relid: int) -> bool:
    return relid in {one.relid for one in list_wal_sources(connection)}


def _drain_rest(runtime: Runtime, connection: Connection) -> None:
    """Drain the rest of the log, under the lock and in the same transaction."""
    end = get_log_end(connection)
    with runtime.connection() as reader:
        while not drain_step(
            connection, reader, end, runtime.settings.wal_max_changes_per_poll
        ).reached:
            pass


def _attempt(runtime: Runtime, change: Callable[[Connection], None], attempts: int) -> None:
    """Run a change in a transaction; if the table is in use, try again ``attempts`` times."""

    def transaction() -> None:
        with runtime.connection() as connection, connection.transaction():
            change(connection)

    try_again(transaction, 2 * attempts)  # each is short
