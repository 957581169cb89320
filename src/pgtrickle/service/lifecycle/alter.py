"""``alter_stream_table``: change how a stream table is maintained, or what it shows."""

from __future__ import annotations

from functools import partial

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.catalog.requests import is_served
from pgtrickle.catalog.restored import adopt_stream_tables
from pgtrickle.catalog.shadows.builds import find_active_build
from pgtrickle.catalog.stream_tables import (
    get_stream_table,
    get_stream_table_by_id,
    update_refresh_mode,
)
from pgtrickle.errors import ShadowRefusedError, StatusForbidsError
from pgtrickle.model.capture.cdc_mode import CdcMode
from pgtrickle.model.stream_table import RefreshMode, Status, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.changes import Changes
from pgtrickle.service.capturing.mode import settle_capture
from pgtrickle.service.compile import check_refresh_mode, compile_stream_table, effective_mode
from pgtrickle.service.immediate.plans import check_immediate, no_log
from pgtrickle.service.immediate.switch import enter_immediate, leave_immediate
from pgtrickle.service.lifecycle.describe import describe
from pgtrickle.service.lifecycle.record_options import record_options
from pgtrickle.service.lifecycle.replacing.close_circle import check_mode
from pgtrickle.service.lifecycle.replacing.replace_query import is_another_query, replace_query
from pgtrickle.service.lifecycle.shadows.run import run_to_the_end
from pgtrickle.service.lifecycle.shadows.start import start_shadow_build
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
    _check_words(changes, query)
    check_sink(options.sink)
    if options.status is not None and options.status not in _SETTABLE:
        raise StatusForbidsError(
            f'the status of a stream table cannot be set to "{options.status.value}"',
            hint="Set it to ACTIVE or SUSPENDED.",
        )
    endings: list[Ending] = []
    with runtime.connection() as connection:
        adopt_stream_tables(connection)  # of a restored database that was not refreshed yet
        before = stream_table = get_stream_table(connection, name)
        check_owner(connection, stream_table)
    mode = options.refresh_mode if "refresh_mode" in changes else before.refresh_mode
    _check_changes(mode, changes)
    replaced = query is not None and is_another_query(runtime, before, query, search_path)
    if query is not None and replaced and options.shadow_build:
        return _build_shadow(runtime, before, query, changes, search_path)
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
        replace_query(
            runtime,
            name,
            query,
            search_path=search_path,
            refresh_mode=mode,
            allow_breaking=options.allow_breaking,
            also=change,
        )
    end_copies(endings)
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        sources = [one.source_relid for one in list_dependencies(connection, stream_table.id)]
        if "schedule" in changes or query is not None:
            describe(runtime, connection, stream_table)
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


def _check_words(changes: Changes, query: str | None) -> None:
    """Refuse words about a new query, or about a shadow, where there is none."""
    options = changes.options
    if query is None and (options.shadow_build or options.allow_breaking):
        raise ShadowRefusedError(
            "shadow_build and allow_breaking are about a new query, and none is given",
            hint="Give the query, too.",
        )
    if options.hold and not options.shadow_build:
        raise ShadowRefusedError(
            "hold is about a shadow build, and shadow_build is not given",
            hint="Give shadow_build, too; a query without it takes effect at once.",
        )


def _build_shadow(
    runtime: Runtime,
    stream_table: StreamTable,
    query: str,
    changes: Changes,
    search_path: str | None,
) -> StreamTable:
    """Begin a shadow build; a daemon goes on with it or, without one, this process."""
    start_shadow_build(runtime, stream_table.name, query, changes, search_path)
    with runtime.connection() as connection:
        served = is_served(connection)
    if not served:
        run_to_the_end(runtime, stream_table)
    with runtime.connection() as connection:
        return get_stream_table_by_id(connection, stream_table.id)


def _check_changes(mode: RefreshMode, changes: Changes) -> None:
    """Refuse what does not go together with a stream table that its writers maintain."""
    if mode is RefreshMode.IMMEDIATE and changes.options.cdc_mode is CdcMode.WAL:
        raise no_log()


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
        _check_no_shadow(connection, stream_table)
        _change_mode(runtime, connection, stream_table, changes.options.refresh_mode)
    if "sink" in changes and sink.kind is None:
        endings[:] = disable_sinks(connection, stream_table, drop=False)
    enable_sink(runtime, connection, stream_table, sink)
    record_options(connection, stream_table.id, changes)


def _check_no_shadow(connection: Connection, stream_table: StreamTable) -> None:
    if find_active_build(connection, stream_table.id) is not None:
        name = stream_table.name
        raise ShadowRefusedError(
            f'"{name}" is in a shadow build, which brings its own refresh mode with it',
            hint=f"Wait for its end, or end it with: pgtrickle shadow cancel {name}.",
        )


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
        check_immediate(connection, compiled, cdc_mode=stream_table.cdc_mode)
    if before is immediate and mode is not immediate:
        leave_immediate(connection, stream_table, compiled)
    update_refresh_mode(
        connection,
        stream_table.id,
        refresh_mode=mode,
        effective_refresh_mode=effective,
        downgrade_reason=reason,
    )
