"""The successor of a stream table: rehearsed, declared beside it, and discarded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from psycopg import Connection

from pgtrickle.catalog.dependencies import list_dependencies, list_dependents
from pgtrickle.catalog.lake.sinks import find_sink
from pgtrickle.catalog.shadows.builds import find_active_build
from pgtrickle.catalog.stream_tables import find_stream_table
from pgtrickle.catalog.successors import list_abandoned, successor_name
from pgtrickle.errors import (
    ColumnsDifferError,
    DependentsExistError,
    LeaseHeldError,
    ShadowRefusedError,
    TrickleError,
)
from pgtrickle.model.engine import EngineMode
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.stream_table import StreamTableOptions
from pgtrickle.service.capturing.pause_and_repair import decide_durability
from pgtrickle.service.capturing.polled_sources import check_polled
from pgtrickle.service.capturing.sources import note_dependencies
from pgtrickle.service.compile import Compiled, check_refresh_mode
from pgtrickle.service.lifecycle.create import check_columns, declare
from pgtrickle.service.lifecycle.drop import drop_stream_table
from pgtrickle.service.lifecycle.replacing.close_circle import find_closed
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.storage.alter_columns import ColumnChange, alter_columns, compare_columns
from pgtrickle.storage.apply import stored_columns
from pgtrickle.storage.breaking.alter import break_columns
from pgtrickle.storage.breaking.plan import plan_breaking_change

AlsoDone = Callable[[Connection, StreamTable], None]


def check_query(runtime: Runtime, compiled: Compiled, refresh_mode: RefreshMode) -> None:
    """Raise unless a stream table can have a query and a refresh mode."""
    check_columns(compiled)
    check_polled(runtime.settings, compiled)
    check_refresh_mode(compiled, refresh_mode)


def check_alone(runtime: Runtime, connection: Connection, stream_table: StreamTable) -> None:
    """Raise if another query for a stream table is being loaded already."""
    name = stream_table.name
    discard_abandoned(runtime)
    if find_active_build(connection, stream_table.id) is not None:
        raise ShadowRefusedError(
            f'"{name}" is in a shadow build: another query is being loaded for it',
            hint=f"Put that in force with: pgtrickle shadow promote {name}; or end it with:"
            f" pgtrickle shadow cancel {name}.",
        )
    if find_stream_table(connection, successor_name(stream_table.id)) is not None:
        raise LeaseHeldError(
            f'the query of "{name}" is being replaced already',
            hint="Wait for that; what a process left that died is cleared away within a minute.",
        )


def rehearse(
    runtime: Runtime,
    connection: Connection,
    stream_table: StreamTable,
    compiled: Compiled,
    refresh_mode: RefreshMode,
    *,
    allow_breaking: bool = False,
) -> list[QualifiedName]:
    """Find out before the load whether anything stands against the new query.

    Returns the stream tables with which it would read itself, if it would and may.
    """

    def rehearsal() -> list[QualifiedName]:
        with translated_errors(), connection.transaction(force_rollback=True):
            note_dependencies(connection, stream_table.id, compiled)
            circle = find_closed(connection, runtime.settings, stream_table, compiled, refresh_mode)
            breaking = allow_breaking and not circle
            change_columns(connection, stream_table, compiled, allow_breaking=breaking)
        return circle

    return until_free(runtime, connection, rehearsal)


def change_columns(
    connection: Connection, stream_table: StreamTable, compiled: Compiled, *, allow_breaking: bool
) -> bool:
    """Give the table of a stream table the columns of a query; return whether it had others.

    Where that is impossible in place, and allowed, columns are made anew: see ``break_columns``.
    """
    try:
        change = compare(connection, stream_table, compiled)
    except ColumnsDifferError:
        if not allow_breaking:
            raise
        _break_columns(connection, stream_table, compiled)
        return True
    alter_columns(connection, stream_table.name, change)
    return bool(change)


def _break_columns(connection: Connection, stream_table: StreamTable, compiled: Compiled) -> None:
    if find_sink(connection, stream_table.id) is not None:
        raise ColumnsDifferError(
            f'"{stream_table.name}" has a copy in the lake, whose columns cannot change like this',
            hint=f"End the copy first, with: pgtrickle alter {stream_table.name} --sink none; and"
            " make another one afterwards.",
        )
    stored = stored_columns(connection, stream_table.name)
    change = plan_breaking_change(stored, compiled.columns)
    _check_readers(connection, stream_table, change.dropped, "does not have")
    # Their own columns would get other types.
    _check_readers(connection, stream_table, change.retyped, "gives another type")
    break_columns(connection, stream_table.name, change)


def compare(connection: Connection, stream_table: StreamTable, compiled: Compiled) -> ColumnChange:
    """Return how the columns change, unless stream tables read what is to go."""
    stored = stored_columns(connection, stream_table.name)
    change = compare_columns(stream_table.name, stored, compiled.columns)
    _check_readers(connection, stream_table, change.dropped, "does not have")
    return change


def _check_readers(
    connection: Connection, stream_table: StreamTable, columns: Sequence[str], how: str
) -> None:
    """Raise ST207 if stream tables read some columns."""
    for dependent in list_dependents(connection, stream_table.relid):
        [read] = [
            one.columns_used
            for one in list_dependencies(connection, dependent.id)
            if one.source_relid == stream_table.relid
        ]
        missed = ", ".join(column for column in columns if column in read)
        if missed:
            raise DependentsExistError(
                f'the stream table "{dependent.name}" reads columns of "{stream_table.name}"'
                f" that the new query {how}: {missed}",
                hint="Keep the columns, or replace the query of the reader first.",
            )


def declare_successor(
    runtime: Runtime,
    connection: Connection,
    stream_table: StreamTable,
    name: QualifiedName,
    query: str,
    compiled: Compiled,
    refresh_mode: RefreshMode,
    also: AlsoDone,
) -> StreamTable:
    """Create a successor and its capture; ``also`` is called in the same transaction."""
    immediate = refresh_mode is RefreshMode.IMMEDIATE

    def transaction() -> StreamTable:
        options = StreamTableOptions(
            schedule=stream_table.schedule,
            refresh_mode=RefreshMode.DIFFERENTIAL if immediate else refresh_mode,
            cdc_mode=stream_table.cdc_mode,
            max_delta_fraction=stream_table.max_delta_fraction,
            engine=EngineMode.POSTGRES if immediate else stream_table.engine,
        )
        successor = declare(connection, name, query, compiled, options)
        decide_durability(runtime, connection)
        also(connection, successor)
        return successor

    return until_free(runtime, connection, transaction)


def discard_abandoned(runtime: Runtime) -> None:
    """Drop the successors whose makers died before they took effect."""
    with runtime.connection() as connection:
        abandoned = list_abandoned(connection)
    for one in abandoned:
        discard(runtime, one)


def discard(runtime: Runtime, successor: StreamTable) -> None:
    """Drop a successor that takes no effect; if that is impossible now, it is done later."""
    runtime.remembered.forget(successor)
    with suppress(TrickleError):
        drop_stream_table(runtime, successor.name, cascade=False)
