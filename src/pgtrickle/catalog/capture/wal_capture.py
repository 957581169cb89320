"""Queries over what the catalog knows of capture from the write-ahead log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.capture.gaps import insert_gap
from pgtrickle.model.capture.cdc_mode import CdcMode
from pgtrickle.model.capture.lsn import Lsn, format_lsn, parse_lsn
from pgtrickle.model.text.names import QualifiedName


@dataclass(frozen=True, slots=True)
class WalSlot:
    """The logical slot of this database, as it is on record."""

    name: str
    publication: str
    position: Lsn  # transactions that committed before it are in the buffers


# On the table and not on its row, which would give the transaction an id: a slot that is made
# meanwhile waits for all that have one.  Others may read it and write to it, by this right.
_LOCK = "LOCK TABLE pgtrickle.pgt_wal_slots IN SHARE UPDATE EXCLUSIVE MODE"
_TRY_LOCK = f"{_LOCK} NOWAIT"


def lock_wal(connection: Connection[TupleRow]) -> None:
    """Wait for the right to read the slot or to change who captures a source, until the commit."""
    connection.execute(_LOCK)


def try_lock_wal(connection: Connection[TupleRow]) -> bool:
    """Take the same right if nobody has it."""
    try:
        with connection.transaction():
            connection.execute(_TRY_LOCK)
    except psycopg.errors.LockNotAvailable:
        return False
    return True


_FIND_SLOT = """
    SELECT slot_name, publication_name, position::pg_catalog.text FROM pgtrickle.pgt_wal_slots
"""


def find_wal_slot(connection: Connection[TupleRow]) -> WalSlot | None:
    """Return the slot on record, if there is one."""
    row = connection.execute(_FIND_SLOT).fetchone()
    return None if row is None else WalSlot(row[0], row[1], parse_lsn(row[2]))


_INSERT_SLOT = """
    INSERT INTO pgtrickle.pgt_wal_slots (slot_name, publication_name, position)
    VALUES (%(name)s, %(publication)s, %(position)s)
"""


def insert_wal_slot(connection: Connection[TupleRow], slot: WalSlot) -> None:
    """Record a slot that was created."""
    connection.execute(
        _INSERT_SLOT,
        {
            "name": slot.name,
            "publication": slot.publication,
            "position": format_lsn(slot.position),
        },
    )


_UPDATE_POSITION = """
    UPDATE pgtrickle.pgt_wal_slots
       SET position = %(position)s, updated_at = pg_catalog.clock_timestamp()
"""


def update_wal_position(connection: Connection[TupleRow], position: Lsn) -> None:
    """Record how far the log is in the buffers: in the transaction that writes them."""
    connection.execute(_UPDATE_POSITION, {"position": format_lsn(position)})


_DELETE_SLOT = "DELETE FROM pgtrickle.pgt_wal_slots"


def delete_wal_slot(connection: Connection[TupleRow]) -> None:
    """Forget the slot."""
    connection.execute(_DELETE_SLOT)


@dataclass(frozen=True, slots=True)
class WalSource:
    """A source that is captured from the log."""

    relid: int
    name: QualifiedName
    since: Lsn  # triggers captured what committed before
    publication_member: int
    former_replica_identity: str | None


_LIST_SOURCES = """
    SELECT source_relid, source_schema, source_name, wal_from::pg_catalog.text,
           publication_member, former_replica_identity
      FROM pgtrickle.pgt_change_tracking
     WHERE cdc_mode = 'WAL'
     ORDER BY source_relid
"""


def list_wal_sources(connection: Connection[TupleRow]) -> list[WalSource]:
    """Return the sources that are captured from the log, as the connection's snapshot sees it."""
    return [
        WalSource(relid, QualifiedName(schema, name), parse_lsn(since), member, former)
        for relid, schema, name, since, member, former in connection.execute(_LIST_SOURCES)
    ]


_UPDATE_TO_WAL = """
    UPDATE pgtrickle.pgt_change_tracking
       SET cdc_mode = 'WAL', wal_from = %(since)s, publication_member = %(member)s,
           former_replica_identity = %(former)s, cdc_note = NULL
     WHERE source_relid = %(relid)s
"""


def update_to_wal(
    connection: Connection[TupleRow],
    source_relid: int,
    *,
    since: Lsn,
    publication_member: int,
    former_replica_identity: str | None,
) -> None:
    """Record that a source is captured from the log from now on."""
    connection.execute(
        _UPDATE_TO_WAL,
        {
            "relid": source_relid,
            "since": format_lsn(since),
            "member": publication_member,
            "former": former_replica_identity,
        },
    )


_UPDATE_TO_TRIGGERS = """
    UPDATE pgtrickle.pgt_change_tracking
       SET cdc_mode = 'TRIGGER', wal_from = NULL, publication_member = NULL,
           former_replica_identity = NULL,
           wal_lost_at = CASE WHEN %(lost)s THEN pg_catalog.clock_timestamp() ELSE wal_lost_at END
     WHERE source_relid = %(relid)s
"""


def update_to_triggers(
    connection: Connection[TupleRow], source_relid: int, *, gap: str | None
) -> None:
    """Record that triggers capture a source from now on; ``gap`` tells why changes are missing."""
    connection.execute(_UPDATE_TO_TRIGGERS, {"relid": source_relid, "lost": gap is not None})
    if gap is not None:
        # By this transaction's id: whoever sees the triggers sees it, and nobody else.
        insert_gap(connection, source_relid, gap)


_UPDATE_NOTE = """
    UPDATE pgtrickle.pgt_change_tracking SET cdc_note = %(note)s
     WHERE source_relid = %(relid)s AND cdc_note IS DISTINCT FROM %(note)s
"""


def update_cdc_note(connection: Connection[TupleRow], source_relid: int, note: str | None) -> bool:
    """Record why a source is not captured as asked for; tell whether that is news."""
    return bool(connection.execute(_UPDATE_NOTE, {"relid": source_relid, "note": note}).rowcount)


@dataclass(frozen=True, slots=True)
class CaptureWish:
    """How a source is captured, and how its stream tables want it to be."""

    relid: int
    name: QualifiedName
    mode: CdcMode  # TRIGGER or WAL
    requested: tuple[CdcMode | None, ...]
    note: str | None
    lost_ago: timedelta | None  # since the log lost changes of it


_LIST_WISHES = """
    SELECT t.source_relid, t.source_schema, t.source_name, t.cdc_mode,
           pg_catalog.array_agg(s.requested_cdc_mode), t.cdc_note,
           pg_catalog.clock_timestamp() - t.wal_lost_at
      FROM pgtrickle.pgt_change_tracking AS t
      JOIN pgtrickle.pgt_dependencies AS d ON d.source_relid = t.source_relid
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = d.pgt_id
     WHERE t.paused_at IS NULL
     GROUP BY t.source_relid
     ORDER BY t.source_relid
"""


def list_capture_wishes(connection: Connection[TupleRow]) -> list[CaptureWish]:
    """Return every source that some stream table reads and nobody paused, with what is asked."""
    return [
        CaptureWish(
            relid,
            QualifiedName(schema, name),
            CdcMode(mode),
            tuple(None if one is None else CdcMode(one) for one in requested),
            note,
            lost_ago,
        )
        for relid, schema, name, mode, requested, note, lost_ago in connection.execute(_LIST_WISHES)
    ]


_UPDATE_REQUESTED = """
    UPDATE pgtrickle.pgt_stream_tables
       SET requested_cdc_mode = %(mode)s, updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""


def update_requested_cdc_mode(
    connection: Connection[TupleRow], stream_table_id: int, mode: CdcMode | None
) -> None:
    """Say how a stream table wants its sources to be captured; None leaves it to the setting."""
    value = None if mode is None else mode.value
    connection.execute(_UPDATE_REQUESTED, {"id": stream_table_id, "mode": value})
