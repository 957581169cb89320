"""The rows of a snapshot as a relation.

It is the table of the snapshot, or a temporary one that is filled from the lake.
"""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.errors import SnapshotMismatchError
from pgtrickle.model.table_snapshot import LakePlace, TableSnapshot
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.entry import load_kept
from pgtrickle.storage.snapshot_copies import list_stored_columns


def find_rows(
    runtime: Runtime, connection: Connection, stream_table: QualifiedName, snapshot: TableSnapshot
) -> str:
    """Return the rows of a snapshot as SQL; they may be gone with the transaction."""
    if snapshot.lake is None:
        return f"ONLY {snapshot.table.sql}"
    return load_rows(runtime, connection, stream_table, snapshot.lake, snapshot.id).sql


def load_rows(
    runtime: Runtime,
    connection: Connection,
    stream_table: QualifiedName,
    place: LakePlace,
    snapshot_id: int,
) -> QualifiedName:
    """Read the rows of a snapshot from the lake into a temporary table, and return that."""
    if tuple(list_stored_columns(connection, stream_table)) != place.columns:
        raise SnapshotMismatchError(
            f'the columns of "{stream_table}" are not those of the snapshot',
            hint=f"Its rows can still be read in the lake, in version {place.snapshot_id}.",
        )
    name = f"snapshot_{snapshot_id}_rows"
    listed = ", ".join(quote_identifier(column) for column, _ in place.columns)
    connection.execute(
        trusted(
            f"CREATE TEMPORARY TABLE {name} ON COMMIT DROP AS"
            f" SELECT {listed} FROM ONLY {stream_table.sql} WITH NO DATA"
        )
    )
    loaded = QualifiedName("pg_temp", name)
    load_kept(runtime, connection, place, loaded.sql)
    connection.execute(trusted(f"ANALYZE {loaded.sql}"))
    return loaded
