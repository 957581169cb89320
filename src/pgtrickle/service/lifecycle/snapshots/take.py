"""``snapshot_stream_table``: copy the rows, the state and the frontier of a stream table.

All of it in one transaction, under the lease: nobody else changes any of it meanwhile.  The copy in
a lake may stand in for the rows: then they are not copied again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import psycopg
from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.capture.snapshot_gaps import inherit_gaps
from pgtrickle.catalog.refreshes.leases import Lease, check_lease
from pgtrickle.catalog.snapshots.copied import find_horizon, insert_copied
from pgtrickle.catalog.snapshots.entries import find_snapshot, insert_lake_place, insert_snapshot
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
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.lifecycle.rename import OUR_SCHEMAS
from pgtrickle.service.lifecycle.snapshots.drop import forget_lost_snapshots
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.entry import get_keepable_copy
from pgtrickle.service.sinks.kind import Delivery
from pgtrickle.storage.snapshot_copies import copy_rows, copy_state

_NAMES_TRIED = 100  # in milliseconds after now: others may have taken some
_NOW = (
    "SELECT pg_catalog.floor("
    "pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000)::pg_catalog.int8"
)


def snapshot_stream_table(
    runtime: Runtime, name: QualifiedName, target: str | None = None, *, to_lake: bool = False
) -> QualifiedName:
    """Take a snapshot; return its name, that of a table unless the lake has the rows."""
    # Suspended or not: that changes nothing of its contents.
    with claimed(runtime, name, InitiatedBy.INITIAL) as (stream_table, lease):
        if not stream_table.populated or stream_table.frontier is None:
            raise StatusForbidsError(
                f'the stream table "{stream_table.name}" has no contents yet',
                hint=f"Load it first with: pgtrickle refresh {stream_table.name}.",
            )
        wanted = None if target is None else _read_target(target, stream_table)
        delivery = _bring_up_to_date(runtime, lease, stream_table) if to_lake else None
        with keep_lease(runtime, lease), runtime.connection() as connection:

            def transaction() -> QualifiedName:
                forget_lost_snapshots(connection)
                if delivery is None:
                    taken = _take(connection, stream_table, wanted)
                else:
                    taken = _take_to_lake(connection, delivery, wanted)
                check_lease(connection, stream_table.id, lease.token)
                return taken

            return until_free(runtime, connection, transaction)


def _bring_up_to_date(runtime: Runtime, lease: Lease, stream_table: StreamTable) -> Delivery:
    """Let the lake have every row of a stream table."""
    with runtime.connection() as connection:
        copy = get_keepable_copy(connection, stream_table)
        bounds = Bounds.of(runtime.settings)
        columns = compile_stream_table(connection, stream_table, bounds).columns
    delivery = Delivery(stream_table, tuple(columns), stream_table.frontier)
    copy.bring_up_to_date(runtime, lease, delivery)
    return delivery


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
    horizon = find_horizon(connection)
    table, rows = _copy_contents(connection, stream_table, wanted)
    snapshot_id = _record(connection, stream_table, table, rows)
    insert_copied(connection, snapshot_id, stream_table, table, horizon)
    return table


def _take_to_lake(
    connection: Connection, delivery: Delivery, wanted: QualifiedName | None
) -> QualifiedName:
    """Let the copy in the lake have the rows; other writers of the lake wait for the last part."""
    stream_table = delivery.stream_table
    name = wanted or next(_default_names(connection, stream_table.name))
    _check_free(connection, name)
    kept = get_keepable_copy(connection, stream_table).keep(connection, delivery)
    snapshot_id = _record(connection, stream_table, name, kept.rows, in_lake=True)
    insert_lake_place(connection, snapshot_id, kept.place())
    return name


def _record(
    connection: Connection,
    stream_table: StreamTable,
    table: QualifiedName,
    rows: int,
    *,
    in_lake: bool = False,
) -> int:
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
        in_lake=in_lake,
    )
    inherit_gaps(connection, snapshot_id)
    if not stateless:
        copy_state(connection, stream_table.id, snapshot_id)
    return snapshot_id


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
    found = find_snapshot(connection, target)
    if found is not None and found.lake is not None:
        raise _taken(target)
    try:
        with connection.transaction():
            return copy_rows(connection, stream_table.name, target)
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject) as error:
        raise _taken(target) from error
    except psycopg.errors.InvalidSchemaName as error:
        raise _no_schema(target) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise PrivilegeError(
            f'may not copy "{stream_table.name}" to "{target}": {error.diag.message_primary}',
            hint=f"This role needs USAGE and CREATE on {quote_identifier(target.schema)}.",
        ) from error


_IS_THERE = """
    SELECT pg_catalog.to_regnamespace(%(schema)s) IS NOT NULL,
           pg_catalog.to_regclass(%(table)s) IS NOT NULL
"""


def _check_free(connection: Connection, target: QualifiedName) -> None:
    """Raise unless a snapshot in a lake can have a name, which no table then has."""
    values = {"schema": quote_identifier(target.schema), "table": target.sql}
    [(schema, table)] = connection.execute(_IS_THERE, values).fetchall()
    if not schema:
        raise _no_schema(target)
    if table or find_snapshot(connection, target) is not None:
        raise _taken(target)


def _taken(target: QualifiedName) -> SnapshotExistsError:
    return SnapshotExistsError(
        f'"{target}" already exists',
        hint=f"Choose another name, or drop it with: pgtrickle snapshot drop {target}.",
    )


def _no_schema(target: QualifiedName) -> NameNotUsableError:
    return NameNotUsableError(
        f'the schema "{target.schema}" does not exist',
        hint=f'Create it with: CREATE SCHEMA "{target.schema}".',
    )
