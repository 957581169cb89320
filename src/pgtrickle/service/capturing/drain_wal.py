"""Bring the change buffers up to a position of the write-ahead log.

One transaction takes changes from the slot, writes them to the buffers and records the position
that it reached; only then is the slot moved. After a crash in between, the slot delivers again, and
transactions that committed before the recorded position are skipped. So each change is written
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from psycopg import Connection

from pgtrickle.capture.wal.collect import Collector
from pgtrickle.capture.wal.publication import list_members
from pgtrickle.capture.wal.slot import (
    advance_slot,
    check_slot,
    find_slot,
    flush_log,
    get_log_end,
    peek,
    use_plain_values,
)
from pgtrickle.capture.wal.transactions import read_transactions
from pgtrickle.capture.wal.write import BufferWriter
from pgtrickle.catalog.capture.wal_capture import (
    WalSlot,
    WalSource,
    find_wal_slot,
    list_wal_sources,
    lock_wal,
    try_lock_wal,
    update_wal_position,
)
from pgtrickle.errors import ServerBusyError, WalGapError
from pgtrickle.model.capture.lsn import Lsn
from pgtrickle.service.lock_waits import impatient
from pgtrickle.service.runtime import Runtime

# Few enough to fit between two processes: the server stores them while we decode the next ones.
_WRITE_LINES = 1000


@dataclass(slots=True)
class Drained:
    """The result of a drain."""

    changes: int = 0
    reached: bool = False  # all changes up to the requested position are in the buffers


def drain_wal(runtime: Runtime, upto: Lsn | None = None) -> Drained:
    """Write everything that committed before ``upto``, or before now, to the buffers.

    Raises ST322 if the slot cannot deliver it, and ST323 if the log lacks columns that a source
    needs; then nothing is written that a later call would write again.
    """
    total = Drained()
    end = upto
    while not total.reached:
        with runtime.connection() as writer, runtime.connection() as reader:
            end = get_log_end(writer) if end is None else end
            # Only another process of ours can hold it, and it may be reading a long transaction.
            with impatient(writer, f"{runtime.settings.lock_wait_seconds:.0f}s"):
                lock_wal(writer)
                drained = drain_step(writer, reader, end, runtime.settings.wal_max_changes_per_poll)
            total.changes += drained.changes
            total.reached = drained.reached
            if drained.changes or upto is None:
                _release_log(writer)
    return total


def drain_step(writer: Connection, reader: Connection, upto: Lsn, limit: int) -> Drained:
    """Take some transactions from the log, inside the writer's transaction.

    The writer holds the lock of ``lock_wal``; the reader is outside a transaction.
    """
    slot = find_wal_slot(writer)
    if slot is None or slot.position >= upto:
        return Drained(reached=True)
    state = check_slot(find_slot(writer, slot.name), slot.name, slot.position)
    sources = list_wal_sources(writer)
    _check_members(writer, slot, sources)
    if state.confirmed < slot.position:
        advance_slot(writer, slot.name, slot.position)
    if not sources:
        update_wal_position(writer, upto)
        return Drained(reached=True)
    flush_log(reader, upto)
    return _take(writer, reader, slot, sources, upto, limit)


def _take(
    writer: Connection,
    reader: Connection,
    slot: WalSlot,
    sources: Sequence[WalSource],
    upto: Lsn,
    limit: int,
) -> Drained:
    recent_xid = _recent_xid(writer)
    use_plain_values(writer)
    messages = 0

    def counted() -> Iterator[list[bytes]]:
        nonlocal messages
        for lot in peek(reader, slot.name, slot.publication, upto=upto, limit=limit):
            messages += len(lot)
            yield lot

    since = {one.relid: one.since for one in sources}
    with reader.transaction(), BufferWriter(writer) as buffers:
        use_plain_values(reader)
        collector = Collector(since, buffers.find_fit, slot.position, recent_xid)
        for step in read_transactions(chain.from_iterable(counted())):
            collector.take(step)
            if collector.pending_lines >= _WRITE_LINES:
                buffers.write(collector.give())
        buffers.write(collector.give())
    reached = messages < limit
    position = max(collector.end, upto) if reached else collector.end
    update_wal_position(writer, max(position, slot.position))
    return Drained(collector.changes, reached)


_GET_RECENT_XID = """
    SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.text
"""


def _recent_xid(connection: Connection) -> int:
    [(xid,)] = connection.execute(_GET_RECENT_XID).fetchall()
    return int(xid)


def _check_members(connection: Connection, slot: WalSlot, sources: Sequence[WalSource]) -> None:
    """Check that each source was always published: otherwise changes were not decoded."""
    members = list_members(connection, slot.publication, [one.relid for one in sources])
    for one in sources:
        if members.get(one.relid) != one.publication_member:
            raise WalGapError(
                f'the publication "{slot.publication}" has not held "{one.name}" all the time',
                source_relid=one.relid,
                hint="Leave the publication to pgtrickle.",
            )


def _release_log(connection: Connection) -> None:
    """Let the server discard the drained log, unless another process reads it now."""
    with suppress(ServerBusyError), connection.transaction():
        slot = find_wal_slot(connection) if try_lock_wal(connection) else None
        state = find_slot(connection, slot.name) if slot else None
        if slot and state and state.confirmed < slot.position:
            advance_slot(connection, slot.name, slot.position)
