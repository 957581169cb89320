"""Reasons why a stream table cannot be restored from a snapshot, or not from this one."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.catalog.circles import list_members
from pgtrickle.catalog.graph import groups_of, list_nodes
from pgtrickle.catalog.scheduling.refresh_groups import list_refresh_groups
from pgtrickle.catalog.stream_tables import find_stream_table
from pgtrickle.catalog.successors import list_abandoned, successor_name
from pgtrickle.errors import (
    LeaseHeldError,
    RestoreRefusedError,
    SnapshotMismatchError,
    TableNotSafeError,
)
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.model.table_snapshot import SNAPSHOT_VERSION, TableSnapshot
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.compile import Compiled
from pgtrickle.storage.snapshot_copies import fits_state, list_stored_columns


def check_restorable(connection: Connection, stream_table: StreamTable) -> None:
    """Raise ST220 if a stream table cannot be restored alone, ST209 if its query is replaced."""
    name = stream_table.name
    if stream_table.refresh_mode is RefreshMode.IMMEDIATE:
        raise RestoreRefusedError(
            f'writers maintain "{name}": what they change next would be added to old rows',
            hint=f"Change that first: pgtrickle alter {name} --refresh-mode DIFFERENTIAL.",
        )
    if circle := [str(one) for one in list_members(connection, name) if one != name]:
        raise RestoreRefusedError(
            f'"{name}" forms a circle with other stream tables, which read one another\'s rows',
            detail=", ".join(circle),
            hint="Refresh it in full instead; the rows of the snapshot can still be read.",
        )
    if group := _list_others(connection, stream_table):
        raise RestoreRefusedError(
            f'"{name}" is refreshed together with others, at one moment',
            detail=", ".join(group),
            hint="Drop the refresh group, or give the stream table in which they meet"
            " --diamond-consistency none; restore; and undo that.",
        )
    successor = find_stream_table(connection, successor_name(stream_table.id))
    if successor is not None and successor.id not in {one.id for one in list_abandoned(connection)}:
        raise LeaseHeldError(
            f'the query of "{name}" is being replaced', hint="Wait for that, then try again."
        )


def _list_others(connection: Connection, stream_table: StreamTable) -> list[str]:
    nodes = list_nodes(connection)
    names = {one.relid: str(one.name) for one in nodes}
    for group in groups_of(nodes, list_refresh_groups(connection)):
        if stream_table.relid in group:
            return [names[relid] for relid in group if relid != stream_table.relid]
    return []


def check_fits(
    connection: Connection, stream_table: StreamTable, snapshot: TableSnapshot, compiled: Compiled
) -> None:
    """Raise ST219 unless a snapshot has the query, the columns and the form of state of today."""
    if snapshot.version != SNAPSHOT_VERSION:
        version = "no version" if snapshot.version is None else f"version {snapshot.version}"
        raise _mismatch(snapshot, f"it has {version}, and this package reads {SNAPSHOT_VERSION}")
    if snapshot.defining_query != stream_table.defining_query:
        raise _mismatch(snapshot, f'"{stream_table.name}" has another query by now')
    present = dict(list_stored_columns(connection, stream_table.name))
    kept = dict(
        list_stored_columns(connection, snapshot.table)
        if snapshot.lake is None
        else snapshot.lake.columns
    )
    for column in compiled.columns:
        if kept.get(column.name) != present.get(column.name):
            raise _mismatch(snapshot, f'the column "{column.name}" had another type')
    if not snapshot.needs_reinit and not fits_state(connection, stream_table.id, snapshot.id):
        raise _mismatch(snapshot, "its state has another form")


def _mismatch(snapshot: TableSnapshot, why: str) -> SnapshotMismatchError:
    return SnapshotMismatchError(
        f'the snapshot "{snapshot.table}" does not fit: {why}',
        hint="Its rows can still be read. Load the table anew with: pgtrickle refresh --full.",
    )


# Who owns it could have changed its rows, or gives it columns that are computed when they are read.
_IS_SAFE = """
    SELECT pgtrickle.trusts(%(stream_table)s::pg_catalog.oid, c.relowner)
           AND NOT c.relrowsecurity AND NOT c.relhasrules,
           pg_catalog.pg_get_userbyid(c.relowner)
      FROM pg_catalog.pg_class AS c
     WHERE c.oid = %(relid)s AND c.oid = pg_catalog.to_regclass(%(table)s)
"""


def hold_safe_table(
    connection: Connection, stream_table: StreamTable, snapshot: TableSnapshot
) -> None:
    """Keep the table of a snapshot as it is until the commit; raise ST309 if others control it."""
    _check_safe(connection, stream_table, snapshot)
    lock = f"LOCK TABLE ONLY {snapshot.table.sql} IN ACCESS SHARE MODE"
    connection.execute(trusted(lock))
    _check_safe(connection, stream_table, snapshot)  # now it stays so


def _check_safe(connection: Connection, stream_table: StreamTable, snapshot: TableSnapshot) -> None:
    values = {
        "stream_table": stream_table.relid,
        "relid": snapshot.relid,
        "table": snapshot.table.sql,
    }
    [(safe, owner)] = connection.execute(_IS_SAFE, values).fetchall() or [(False, "nobody")]
    if not safe:
        raise TableNotSafeError(
            f'the snapshot "{snapshot.table}" belongs to "{owner}", or has rules or row security',
            hint=f"Look at it; give it back with: ALTER TABLE {snapshot.table.sql} OWNER TO"
            f' "{stream_table.owner}"; without rules and row security.',
        )
