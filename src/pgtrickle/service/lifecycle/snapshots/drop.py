"""``drop_snapshot``, and forgetting what is left of snapshots whose tables are gone."""

from __future__ import annotations

import psycopg
from psycopg import Connection

from pgtrickle.catalog.snapshots.entries import (
    delete_snapshot,
    find_snapshot,
    list_lost_snapshots,
    list_snapshot_ids,
    lock_snapshot,
)
from pgtrickle.catalog.stream_tables import get_stream_table_by_id
from pgtrickle.errors import DependentsExistError, SnapshotNotFoundError
from pgtrickle.model.table_snapshot import TableSnapshot
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.snapshot_copies import drop_state_copies

_SECONDS = 5.0  # for which a sweep waits for locks


def drop_snapshot(runtime: Runtime, table: QualifiedName) -> QualifiedName:
    """Drop a snapshot: its table, its copies of the state, its entry; return the table's name."""
    with runtime.connection() as connection:

        def transaction() -> QualifiedName:
            found = get_snapshot(connection, table)
            check_owner(connection, get_stream_table_by_id(connection, found.stream_table_id))
            locked = lock_snapshot(connection, found.id)
            if locked is None or locked.table != table:
                raise not_found(table)
            _forget(connection, locked.id)
            if locked.relid is not None:
                _drop_table(connection, locked)
            return locked.table

        return until_free(runtime, connection, transaction)


def get_snapshot(connection: Connection, table: QualifiedName) -> TableSnapshot:
    """Look a snapshot up by the name of its table, or raise ST218."""
    found = find_snapshot(connection, table)
    if found is None:
        raise not_found(table)
    return found


def not_found(table: QualifiedName, of: QualifiedName | None = None) -> SnapshotNotFoundError:
    """Return the error that there is no such snapshot, of any stream table or of this one."""
    owner = "" if of is None else f' of "{of}"'
    return SnapshotNotFoundError(
        f'there is no snapshot "{table}"{owner}', hint="List them with: pgtrickle snapshot list."
    )


def sweep_lost_snapshots(runtime: Runtime) -> None:
    """Forget, in a transaction of its own, the snapshots whose tables somebody dropped."""
    with runtime.connection() as connection:
        if list_lost_snapshots(connection):
            until_free(runtime, connection, lambda: forget_lost_snapshots(connection), _SECONDS)


def forget_lost_snapshots(connection: Connection) -> None:
    """Forget the snapshots whose tables somebody dropped, with their copies of the state."""
    for snapshot_id in list_lost_snapshots(connection):
        _forget(connection, snapshot_id)


def forget_snapshots(connection: Connection, stream_table_id: int) -> None:
    """Forget the snapshots of a stream table; their tables stay as ordinary tables."""
    for snapshot_id in list_snapshot_ids(connection, stream_table_id):
        _forget(connection, snapshot_id)


def _forget(connection: Connection, snapshot_id: int) -> None:
    delete_snapshot(connection, snapshot_id)
    drop_state_copies(connection, snapshot_id)


def _drop_table(connection: Connection, snapshot: TableSnapshot) -> None:
    try:
        with connection.transaction():
            connection.execute(trusted(f"DROP TABLE {snapshot.table.sql}"))
    except psycopg.errors.DependentObjectsStillExist as error:
        raise DependentsExistError(
            f'other objects depend on "{snapshot.table}"',
            detail=error.diag.message_detail or "",
            hint="Drop them first.",
        ) from error
