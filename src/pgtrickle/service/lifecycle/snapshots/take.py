"""``snapshot_stream_table``: copy the rows, the state and the frontier of a stream table.

All of it in one transaction, under the lease: nobody else changes any of it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import psycopg
from psycopg import Connection

from pgtrickle.catalog.capture.snapshot_gaps import inherit_gaps
from pgtrickle.catalog.refreshes.leases import check_lease
from pgtrickle.catalog.snapshots.entries import insert_snapshot
from pgtrickle.catalog.stream_tables import find_plan
from pgtrickle.errors import (
    NameNotUsableError,
    PrivilegeError,
    SnapshotExistsError,
    StatusForbidsError,
)
from pgtrickle.model.stream_table import InitiatedBy, RefreshMode, StreamTable
from pgtrickle.model.table_snapshot import default_snapshot_name
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.service.claim import claimed
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.lifecycle.rename import OUR_SCHEMAS
from pgtrickle.service.lifecycle.snapshots.drop import forget_lost_snapshots
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.snapshot_copies import copy_rows, copy_state

_NAMES_TRIED = 100  # in milliseconds after now: others may have taken some
_NOW = (
    "SELECT pg_catalog.floor("
    "pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000)::pg_catalog.int8"
)


def snapshot_stream_table(
    runtime: Runtime, name: QualifiedName, target: str | None = None
) -> QualifiedName:
    """Take a snapshot; return the name of its table, which stands beside the stream table."""
    # Suspended or not: that changes nothing of its contents.
    with claimed(runtime, name, InitiatedBy.INITIAL) as (stream_table, lease):
        if not stream_table.populated or stream_table.frontier is None:
            raise StatusForbidsError(
                f'the stream table "{stream_table.name}" has no contents yet',
                hint=f"Load it first with: pgtrickle refresh {stream_table.name}.",
            )
        wanted = None if target is None else _read_target(target, stream_table)
        with keep_lease(runtime, lease), runtime.connection() as connection:

            def transaction() -> QualifiedName:
                forget_lost_snapshots(connection)
                taken = _take(connection, stream_table, wanted)
                check_lease(connection, stream_table.id, lease.token)
                return taken

            return until_free(runtime, connection, transaction)


def _read_target(text: str, stream_table: StreamTable) -> QualifiedName:
    target = QualifiedName.parse(text, stream_table.name.schema)
    if target.schema in OUR_SCHEMAS or target.schema.startswith("pg_"):
        raise NameNotUsableError(
            f'a snapshot cannot be in the schema "{target.schema}"',
            hint="Choose a schema of your own.",
        )
    return target


def _take(
    connection: Connection, stream_table: StreamTable, wanted: QualifiedName | None
) -> QualifiedName:
    table, rows = _copy_contents(connection, stream_table, wanted)
    # Writers change the state of theirs at any moment; after a restore it is built anew.
    immediate = stream_table.refresh_mode is RefreshMode.IMMEDIATE
    stateless = stream_table.needs_reinit or immediate
    snapshot_id = insert_snapshot(
        connection,
        stream_table,
        table,
        plan=find_plan(connection, stream_table.id),
        needs_reinit=stateless,
        rows=rows,
    )
    inherit_gaps(connection, snapshot_id)
    if not stateless:
        copy_state(connection, stream_table.id, snapshot_id)
    return table


def _copy_contents(
    connection: Connection, stream_table: StreamTable, wanted: QualifiedName | None
) -> tuple[QualifiedName, int]:
    """Copy the rows into a new table: of the wanted name, or of the first that is free."""
    if wanted is not None:
        return wanted, _copy_into(connection, stream_table, wanted)
    names = islice(_default_names(connection, stream_table.name), _NAMES_TRIED)
    for one in names:
        try:
            return one, _copy_into(connection, stream_table, one)
        except SnapshotExistsError as error:
            taken = error
    raise taken


def _default_names(connection: Connection, name: QualifiedName) -> Iterator[QualifiedName]:
    [(now,)] = connection.execute(_NOW).fetchall()
    while True:
        yield default_snapshot_name(name, now)
        now += 1


def _copy_into(connection: Connection, stream_table: StreamTable, target: QualifiedName) -> int:
    try:
        with connection.transaction():
            return copy_rows(connection, stream_table.name, target)
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject) as error:
        raise SnapshotExistsError(
            f'"{target}" already exists',
            hint=f"Choose another name, or drop it with: pgtrickle snapshot drop {target}.",
        ) from error
    except psycopg.errors.InvalidSchemaName as error:
        raise NameNotUsableError(
            f'the schema "{target.schema}" does not exist',
            hint=f'Create it with: CREATE SCHEMA "{target.schema}".',
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise PrivilegeError(
            f'may not copy "{stream_table.name}" to "{target}": {error.diag.message_primary}',
            hint=f"This role needs USAGE and CREATE on {quote_identifier(target.schema)}.",
        ) from error
