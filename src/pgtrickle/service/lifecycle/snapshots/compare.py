"""``diff_snapshots``: PostgreSQL compares the rows of two snapshots.

Rows in a lake are read into temporary tables first.
"""

from __future__ import annotations

from contextlib import nullcontext

from psycopg import Connection

from pgtrickle.catalog.snapshots.differences import diff_tables, find_compared
from pgtrickle.catalog.snapshots.entries import find_snapshot
from pgtrickle.catalog.stream_tables import get_stream_table_by_id
from pgtrickle.errors import SettingError
from pgtrickle.model.table_snapshot import SnapshotDiff
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.lifecycle.snapshots.drop import not_found
from pgtrickle.service.lifecycle.snapshots.rows import load_rows
from pgtrickle.service.runtime import Runtime


def diff_snapshots(
    runtime: Runtime, before: QualifiedName, after: QualifiedName | None, max_rows: int
) -> SnapshotDiff:
    """Return how two snapshots differ, or one and the present rows, with some of the rows."""
    if max_rows < 0:
        raise SettingError(
            f"max_rows is {max_rows}, which is negative", hint="Give a number from 0 on."
        )
    with runtime.connection() as connection:
        found = find_compared(connection, before, after)
        in_lake = None in found
        with connection.transaction() if in_lake else nullcontext():
            one = _find_relation(runtime, connection, before, found.before)
            # Only a snapshot lacks a relation, and what is compared with it is one as well.
            other = _find_relation(runtime, connection, after or before, found.after)
            return diff_tables(connection, before, after, (one, other), max_rows)


def _find_relation(
    runtime: Runtime, connection: Connection, name: QualifiedName, relation: int | None
) -> int:
    """Return the relation with the rows of a snapshot."""
    if relation is not None:
        return relation
    snapshot = find_snapshot(connection, name)
    if snapshot is None or snapshot.lake is None:
        raise not_found(name)
    stream_table = get_stream_table_by_id(connection, snapshot.stream_table_id)
    loaded = load_rows(runtime, connection, stream_table.name, snapshot.lake, snapshot.id)
    [(relid,)] = connection.execute(
        "SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid::pg_catalog.int8", [loaded.sql]
    ).fetchall()
    return int(relid)
