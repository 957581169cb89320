"""``create_stream_table``: declare a stream table and load it for the first time."""

from __future__ import annotations

from contextlib import suppress

import psycopg
from psycopg import Connection

from pgtrickle.catalog.graph import update_diamond
from pgtrickle.catalog.stream_tables import (
    find_stream_table,
    get_stream_table,
    insert_stream_table,
)
from pgtrickle.catalog.wal_capture import update_requested_cdc_mode
from pgtrickle.errors import (
    NameNotUsableError,
    NameTakenError,
    PrivilegeError,
    ReservedColumnError,
    TrickleError,
)
from pgtrickle.model.cdc_mode import CdcMode, parse_cdc_mode
from pgtrickle.model.delta_fraction import check_fraction
from pgtrickle.model.diamonds import Diamond
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.schedule import parse_schedule
from pgtrickle.model.stream_table import InitiatedBy, RefreshMode
from pgtrickle.refresh.stages import looked_up_columns
from pgtrickle.service.capture_mode import settle_capture
from pgtrickle.service.capture_sources import capture_sources
from pgtrickle.service.compile import Compiled, compile_query, effective_mode
from pgtrickle.service.control import decide_durability
from pgtrickle.service.drop import drop_stream_table
from pgtrickle.service.lake_control import DUCKLAKE, check_sink, enable_sink
from pgtrickle.service.patience import until_free
from pgtrickle.service.polled_sources import check_polled
from pgtrickle.service.refresh_stream_table import refresh_when_free
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.storage.apply import create_table
from pgtrickle.storage.state_tables import create_state_tables

_OUR_SCHEMAS = frozenset({"pgtrickle", "pgtrickle_changes", "pgtrickle_state"})
_AS_EVER = Diamond()
_RESERVED_COLUMNS = frozenset({"__weight", "__number"})


def create_stream_table(
    runtime: Runtime,
    name: QualifiedName,
    query: str,
    *,
    schedule: str,
    refresh_mode: RefreshMode,
    initialize: bool,
    max_delta_fraction: float | None = None,
    cdc_mode: CdcMode | None = None,
    search_path: str | None = None,
    diamond: Diamond = _AS_EVER,
    sink: str | None = None,
    ducklake_sink_path: str | None = None,
    ducklake_table: str | None = None,
    ducklake_partition_by: str | None = None,
) -> RefreshReport | None:
    """Create the table, its state and its capture in one transaction, then load it.

    ``search_path`` is where the query's names are looked for; None: on the user's path.
    A first load that fails takes everything back, so the next attempt starts from nothing.
    """
    parse_schedule(schedule)
    check_sink(sink)
    fraction = None if max_delta_fraction is None else check_fraction(max_delta_fraction)
    if name.schema in _OUR_SCHEMAS:
        raise NameNotUsableError(
            f'the schema "{name.schema}" belongs to pgtrickle',
            hint="Create the stream table in a schema of your own.",
        )
    with runtime.connection() as connection:
        seconds = runtime.settings.planning_timeout_seconds
        compiled = compile_query(connection, query, runtime.users_path(search_path), seconds)
        check_columns(compiled)
        check_polled(runtime.settings, compiled)
        if compiled.refusal is not None and refresh_mode is RefreshMode.DIFFERENTIAL:
            raise compiled.refusal

        def transaction() -> None:
            declare(connection, name, query, compiled, schedule, refresh_mode, fraction)
            if cdc_mode is not None:
                stream_table = get_stream_table(connection, name)
                update_requested_cdc_mode(connection, stream_table.id, cdc_mode)
            if diamond:
                update_diamond(connection, get_stream_table(connection, name).id, diamond)
            if sink == DUCKLAKE:
                stream_table = get_stream_table(connection, name)
                enable_sink(
                    runtime,
                    connection,
                    stream_table,
                    path=ducklake_sink_path,
                    lake_table=ducklake_table,
                    partition_by=ducklake_partition_by,
                )
            decide_durability(runtime, connection)

        until_free(runtime, connection, transaction)
    try:
        wanted = cdc_mode or parse_cdc_mode(runtime.settings.cdc_mode)
        strict = wanted is CdcMode.WAL
        settle_capture(runtime, compiled.captured_columns().keys(), strict=strict)
        if not initialize:
            return None
        # What it reads may have to be refreshed with it, and be busy now.
        return refresh_when_free(runtime, name, initiated_by=InitiatedBy.INITIAL)
    except BaseException:
        # Whatever stopped the capture or the first load, also Ctrl-C: leave nothing behind.
        with suppress(TrickleError):
            drop_stream_table(runtime, name, cascade=False)
        raise


def check_columns(compiled: Compiled) -> None:
    """Refuse a result whose columns a table cannot have."""
    for column in compiled.columns:
        if column.name in _RESERVED_COLUMNS:
            raise ReservedColumnError(
                f'the column name "{column.name}" is reserved', hint="Choose another with AS."
            )
    if not compiled.columns:
        raise NameNotUsableError("the query has no columns", hint="Select at least one column.")


def declare(
    connection: Connection,
    name: QualifiedName,
    query: str,
    compiled: Compiled,
    schedule: str,
    refresh_mode: RefreshMode,
    max_delta_fraction: float | None,
) -> None:
    """Create a stream table without rows, with its state and its capture; commit at once."""
    _check_name(connection, name)
    effective, reason = effective_mode(compiled, refresh_mode)
    with translated_errors():
        try:
            create_table(connection, name, compiled.columns)
        except psycopg.errors.DuplicateTable as error:
            raise _taken(name) from error
        except psycopg.errors.InvalidSchemaName as error:
            raise NameNotUsableError(
                f'the schema "{name.schema}" does not exist',
                hint=f'Create it with: CREATE SCHEMA "{name.schema}".',
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise PrivilegeError(
                f'may not create a table in the schema "{name.schema}"',
                hint=f'GRANT CREATE ON SCHEMA "{name.schema}" to this role.',
            ) from error
    [(relid,)] = connection.execute("SELECT pg_catalog.to_regclass(%s)::oid", [name.sql]).fetchall()
    stream_table = insert_stream_table(
        connection,
        relid=relid,
        name=name,
        defining_query=compiled.binding.query.sql,
        original_query=query,
        query_search_path=compiled.binding.query.search_path,
        schedule=schedule,
        refresh_mode=refresh_mode,
        effective_refresh_mode=effective,
        downgrade_reason=reason,
        max_delta_fraction=max_delta_fraction,
    )
    create_state_tables(
        connection, stream_table.id, compiled.staged, looked_up_columns(compiled.staged)
    )
    # Last, because it locks the sources until the commit.
    capture_sources(connection, stream_table.id, compiled)


def _check_name(connection: Connection, name: QualifiedName) -> None:
    if find_stream_table(connection, name) is not None:
        raise NameTakenError(
            f'the stream table "{name}" already exists',
            hint=f"Drop it first with: pgtrickle drop {name}.",
        )
    row = connection.execute("SELECT pg_catalog.to_regclass(%s)", [name.sql]).fetchone()
    if row is not None and row[0] is not None:
        raise _taken(name)


def _taken(name: QualifiedName) -> NameTakenError:
    return NameTakenError(
        f'a relation "{name}" already exists', hint="Choose another name for the stream table."
    )
