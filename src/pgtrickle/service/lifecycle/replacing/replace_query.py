"""Replace the query of a stream table, which stays the same table: see docs/adr/0022.

The new query is first loaded beside the old contents, as a *successor*: a stream table like any
other, with capture and state of its own, which nobody sees.  The stream table goes on meanwhile.
Then one transaction turns the contents into those of the successor, by the difference, and hands
its state, frontier and definition over.  Whatever fails before that commit leaves the stream table
as it was.

Where writers are to maintain the stream table, the successor is maintained by refreshes all the
same: nobody pays for it while it is loaded.  The caller lets writers follow after that commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.catalog.successors import insert_successor, keep_successor, successor_name
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.compile import compile_query
from pgtrickle.service.immediate.plans import check_immediate
from pgtrickle.service.lifecycle.replacing.replacement import Replacement, end_unused
from pgtrickle.service.lifecycle.replacing.successors import (
    AlsoDone,
    check_alone,
    check_query,
    declare_successor,
    discard,
    rehearse,
)
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.periodic import repeated
from pgtrickle.service.runtime import Runtime


def replace_query(
    runtime: Runtime,
    name: QualifiedName,
    query: str,
    *,
    search_path: str | None = None,
    refresh_mode: RefreshMode | None = None,
    allow_breaking: bool = False,
    also: AlsoDone | None = None,
) -> RefreshReport:
    """Let a stream table show another query: all at once, or not at all.

    ``search_path`` is where the query's names are looked for; None: on the user's path.
    ``also`` is called in the transaction in which the new query takes effect.
    """
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        check_owner(connection, stream_table)
        bounds = Bounds.of(runtime.settings)
        compiled = compile_query(connection, query, runtime.users_path(search_path), bounds)
        mode = refresh_mode or stream_table.refresh_mode
        check_query(runtime, compiled, mode)
        if mode is RefreshMode.IMMEDIATE:
            check_immediate(connection, compiled, cdc_mode=stream_table.cdc_mode)
        circle = rehearse(
            runtime, connection, stream_table, compiled, mode, allow_breaking=allow_breaking
        )
        check_alone(runtime, connection, stream_table)
        successor = declare_successor(
            runtime,
            connection,
            stream_table,
            successor_name(stream_table.id),
            query,
            compiled,
            mode,
            lambda writer, one: insert_successor(writer, one.id, runtime.settings.lease),
        )
    try:
        breaking = allow_breaking and not circle
        replacement = Replacement(
            runtime, stream_table, successor, compiled, allow_breaking=breaking
        )
        if circle:
            report = replacement.close(circle, lambda: _kept(runtime, successor), also)
        else:
            with _kept(runtime, successor):
                report = replacement.run(also)
    except BaseException:
        # Whatever stopped it, also Ctrl-C: the stream table is as it was.
        discard(runtime, successor)
        raise
    end_unused(runtime, stream_table, successor)
    return report


def is_another_query(
    runtime: Runtime, stream_table: StreamTable, query: str, search_path: str | None = None
) -> bool:
    """Tell a query from the one that a stream table has, however that is written."""
    with runtime.connection() as connection:
        bounds = Bounds.of(runtime.settings)
        compiled = compile_query(connection, query, runtime.users_path(search_path), bounds)
    return compiled.binding.query.sql != stream_table.defining_query


@contextmanager
def _kept(runtime: Runtime, successor: StreamTable) -> Iterator[None]:
    """Show for the length of a block that the maker of a successor is alive."""

    def keep(connection: Connection) -> None:
        keep_successor(connection, successor.id, runtime.settings.lease)

    with repeated(runtime, "keep a successor", runtime.settings.lease_seconds / 3, keep):
        yield
