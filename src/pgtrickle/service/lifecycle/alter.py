"""``alter_stream_table``: change how a stream table is maintained, or what it shows."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.catalog.lake.sinks import find_sink
from pgtrickle.catalog.stream_tables import (
    describe_stream_table,
    get_stream_table,
    update_refresh_mode,
)
from pgtrickle.errors import ServerBusyError, StatusForbidsError
from pgtrickle.model.capture.cdc_mode import CdcMode
from pgtrickle.model.stream_table import RefreshMode, Status, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.changes import Changes
from pgtrickle.service.capturing.mode import settle_capture
from pgtrickle.service.compile import check_refresh_mode, compile_stream_table, effective_mode
from pgtrickle.service.immediate.plans import check_immediate, no_log, no_sink
from pgtrickle.service.immediate.switch import enter_immediate, leave_immediate
from pgtrickle.service.lifecycle.record_options import record_options
from pgtrickle.service.lifecycle.replacing.close_circle import check_mode
from pgtrickle.service.lifecycle.replacing.replace_query import is_another_query, replace_query
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.entry import (
    check_sink,
    disable_sinks,
    enable_sink,
    end_copies,
    retry_delivery,
)
from pgtrickle.service.sinks.kind import Ending

_PATIENCE_SECONDS = 5.0
_SETTABLE = (Status.ACTIVE, Status.SUSPENDED)


def alter_stream_table(
    runtime: Runtime,
    name: QualifiedName,
    changes: Changes,
    *,
    query: str | None = None,
    search_path: str | None = None,
) -> StreamTable:
    """Apply the changes that are given, all or none of them.

    ``search_path`` is where the names of a new ``query`` are looked for; None: on the user's
    path.  Another ``cdc_mode`` or a new ``sink`` is acted upon afterwards: if that fails, it is on
    record all the same.
    """
    options = changes.options
    check_sink(options.sink)
    if options.status is not None and options.status not in _SETTABLE:
        raise StatusForbidsError(
            f'the status of a stream table cannot be set to "{options.status.value}"',
            hint="Set it to ACTIVE or SUSPENDED.",
        )
    endings: list[Ending] = []
    with runtime.connection() as connection:
        before = stream_table = get_stream_table(connection, name)
        check_owner(connection, stream_table)
    mode = options.refresh_mode if "refresh_mode" in changes else before.refresh_mode
    _check_changes(mode, changes)
    replaced = query is not None and is_another_query(runtime, before, query, search_path)
    if replaced and mode is RefreshMode.IMMEDIATE:
        changes = changes.having(refresh_mode=mode)  # the successor has another
    change = partial(_change, runtime, changes=changes, endings=endings)
    if query is None or not replaced:
        with runtime.connection() as connection:
            # Another mode may lock the sources against writers.
            until_free(
                runtime, connection, lambda: change(connection, get_stream_table(connection, name))
            )
    else:
        replace_query(runtime, name, query, search_path=search_path, refresh_mode=mode, also=change)
    end_copies(endings)
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        sources = [one.source_relid for one in list_dependencies(connection, stream_table.id)]
        if "schedule" in changes or query is not None:
            _describe(runtime, connection, stream_table)
    becomes_immediate = stream_table.refresh_mode is RefreshMode.IMMEDIATE and (
        replaced or before.refresh_mode is not RefreshMode.IMMEDIATE
    )
    if becomes_immediate:
        enter_immediate(runtime, stream_table)
    elif "cdc_mode" in changes and stream_table.refresh_mode is not RefreshMode.IMMEDIATE:
        settle_capture(runtime, sources, strict=True)
    suspended = stream_table.status is Status.SUSPENDED
    if stream_table.populated and not suspended:
        retry_delivery(runtime, name, options.sink)
    with runtime.connection() as connection:
        return get_stream_table(connection, name)


def _check_changes(mode: RefreshMode, changes: Changes) -> None:
    """Refuse what does not go together with a stream table that its writers maintain."""
    immediate = RefreshMode.IMMEDIATE
    if mode is immediate and changes.options.sink.kind is not None:
        raise no_sink()
    if mode is immediate and changes.options.cdc_mode is CdcMode.WAL:
        raise no_log()


def _describe(runtime: Runtime, connection: Connection, stream_table: StreamTable) -> None:
    """Write the comment of the table anew, in a transaction that holds nothing else."""
    # The change is made; a comment that is out of date meanwhile is written by the next one.
    with suppress(ServerBusyError):
        until_free(
            runtime,
            connection,
            lambda: describe_stream_table(connection, stream_table.id),
            _PATIENCE_SECONDS,
        )


def _change(
    runtime: Runtime,
    connection: Connection,
    stream_table: StreamTable,
    *,
    changes: Changes,
    endings: list[Ending],
) -> None:
    """Record the changes; commits nothing.  What is to end elsewhere goes into ``endings``."""
    check_owner(connection, stream_table)
    sink = changes.options.sink
    if "refresh_mode" in changes:
        _change_mode(runtime, connection, stream_table, changes.options.refresh_mode)
    if "sink" in changes and sink.kind is None:
        endings[:] = disable_sinks(connection, stream_table, drop=False)
    enable_sink(runtime, connection, stream_table, sink)
    record_options(connection, stream_table.id, changes)


def _change_mode(
    runtime: Runtime, connection: Connection, stream_table: StreamTable, mode: RefreshMode
) -> None:
    """Record another refresh mode, if the query allows it."""
    if stream_table.circle is not None:
        check_mode(stream_table, mode)
    bounds = Bounds.of(runtime.settings)
    compiled = compile_stream_table(connection, stream_table, bounds)
    check_refresh_mode(compiled, mode)
    effective, reason = effective_mode(compiled, mode)
    before, immediate = stream_table.refresh_mode, RefreshMode.IMMEDIATE
    if mode is immediate and before is not immediate:
        sink = find_sink(connection, stream_table.id) is not None
        check_immediate(connection, compiled, sink=sink, cdc_mode=stream_table.cdc_mode)
    if before is immediate and mode is not immediate:
        leave_immediate(connection, stream_table, compiled)
    update_refresh_mode(
        connection,
        stream_table.id,
        refresh_mode=mode,
        effective_refresh_mode=effective,
        downgrade_reason=reason,
    )
