"""``create_stream_table``: declare a stream table and load it for the first time."""

from __future__ import annotations

from contextlib import suppress

import psycopg
from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.stream_tables import (
    describe_stream_table,
    find_stream_table,
    insert_stream_table,
)
from pgtrickle.errors import (
    CapturePausedError,
    NameNotUsableError,
    NameTakenError,
    PrivilegeError,
    ReservedColumnError,
    TrickleError,
)
from pgtrickle.model.capture.cdc_mode import CdcMode, parse_cdc_mode
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import InitiatedBy, RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.options.changes import Changes
from pgtrickle.options.stream_table import StreamTableOptions
from pgtrickle.plan.stages import looked_up_columns
from pgtrickle.service.capturing.mode import settle_capture
from pgtrickle.service.capturing.pause_and_repair import decide_durability
from pgtrickle.service.capturing.polled_sources import check_polled
from pgtrickle.service.capturing.sources import capture_sources
from pgtrickle.service.compile import Compiled, check_refresh_mode, compile_query, effective_mode
from pgtrickle.service.immediate.plans import check_immediate
from pgtrickle.service.lifecycle.drop import drop_stream_table
from pgtrickle.service.lifecycle.record_options import record_options
from pgtrickle.service.lifecycle.repair.sweep_lost import sweep_lost
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.refreshing.dispatch import refresh_when_free
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.sinks.entry import check_sink, enable_sink
from pgtrickle.storage.apply import create_table
from pgtrickle.storage.state_tables import create_state_tables

_OUR_SCHEMAS = frozenset({"pgtrickle", "pgtrickle_changes", "pgtrickle_state"})
_RESERVED_COLUMNS = frozenset({"__weight", "__number"})


def create_stream_table(
    runtime: Runtime,
    name: QualifiedName,
    query: str,
    options: StreamTableOptions,
    *,
    search_path: str | None = None,
) -> RefreshReport | None:
    """Create the table, its state and its capture in one transaction, then load it.

    ``search_path`` is where the query's names are looked for; None: on the user's path.
    A first load that fails takes everything back, so the next attempt starts from nothing.
    """
    check_sink(options.sink)
    if name.schema in _OUR_SCHEMAS:
        raise NameNotUsableError(
            f'the schema "{name.schema}" belongs to pgtrickle',
            hint="Create the stream table in a schema of your own.",
        )
    sweep_lost(runtime, name)
    with runtime.connection() as connection:
        _check_capture_is_on(runtime)
        bounds = Bounds.of(runtime.settings)
        compiled = compile_query(connection, query, runtime.users_path(search_path), bounds)
        check_columns(compiled)
        check_polled(runtime.settings, compiled)
        check_refresh_mode(compiled, options.refresh_mode)
        immediate = options.refresh_mode is RefreshMode.IMMEDIATE
        if immediate:
            check_immediate(connection, compiled, cdc_mode=options.cdc_mode)

        def transaction() -> None:
            stream_table = declare(connection, name, query, compiled, options)
            if options.initialize:
                runtime.remembered.hand_on(stream_table, compiled)
            enable_sink(runtime, connection, stream_table, options.sink)
            decide_durability(runtime, connection)

        until_free(runtime, connection, transaction)
    try:
        wanted = options.cdc_mode or parse_cdc_mode(runtime.settings.cdc_mode)
        strict = wanted is CdcMode.WAL
        if not immediate:
            settle_capture(runtime, compiled.captured_columns().keys(), strict=strict)
        if not options.initialize:
            return None
        # What it reads may have to be refreshed with it, and be busy now.
        return refresh_when_free(runtime, name, initiated_by=InitiatedBy.INITIAL)
    except BaseException:
        # Whatever stopped the capture or the first load, also Ctrl-C: leave nothing behind.
        with suppress(TrickleError):
            drop_stream_table(runtime, name, cascade=False)
        raise


def _check_capture_is_on(runtime: Runtime) -> None:
    """Refuse a stream table whose sources would be captured against the setting."""
    if runtime.settings.cdc_paused:
        raise CapturePausedError(
            "the capture of all sources is paused by the setting cdc_paused",
            hint="Take it back with: pgtrickle config cdc_paused --reset.",
        )


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
    options: StreamTableOptions,
) -> StreamTable:
    """Create a stream table without rows, with its state and its capture; commit at once."""
    _check_name(connection, name)
    effective, reason = effective_mode(compiled, options.refresh_mode)
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
                hint=f"Let its owner run: GRANT USAGE, CREATE ON SCHEMA"
                f" {quote_identifier(name.schema)} TO {quote_identifier(connection.info.user)};",
            ) from error
    [(relid,)] = connection.execute("SELECT pg_catalog.to_regclass(%s)::oid", [name.sql]).fetchall()
    stream_table = insert_stream_table(
        connection,
        relid=relid,
        name=name,
        defining_query=compiled.binding.query.sql,
        original_query=query,
        query_search_path=compiled.binding.query.search_path,
        schedule=options.schedule,
        refresh_mode=options.refresh_mode,
        effective_refresh_mode=effective,
        downgrade_reason=reason,
    )
    record_options(connection, stream_table.id, Changes.to(options).without("schedule"))
    describe_stream_table(connection, stream_table.id)
    create_state_tables(
        connection, stream_table.id, compiled.staged, looked_up_columns(compiled.staged)
    )
    # Last, because it locks the sources until the commit.
    immediate = options.refresh_mode is RefreshMode.IMMEDIATE
    capture_sources(connection, stream_table.id, compiled, immediate=immediate)
    return stream_table


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
