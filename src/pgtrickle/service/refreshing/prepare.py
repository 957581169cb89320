"""Prepare a refresh: compile its query and capture its sources as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.binding.renamed_sources import follow_renamed_sources
from pgtrickle.binding.untrusted_types import check_types
from pgtrickle.catalog.dependencies import Dependency, list_dependencies
from pgtrickle.catalog.stream_tables import get_stream_table_by_id
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.compile import Compiled, compile_stream_table
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.lifecycle.repair.reinitialize import prepare_reinitialize
from pgtrickle.service.refreshing.findings import look_at_ground
from pgtrickle.service.refreshing.foreign_frontier import settle_in
from pgtrickle.service.refreshing.refresh import Prepared, Refresh
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sources.entry import follow_sources
from pgtrickle.storage.state_tables import has_other_form, lacks_state_tables


def prepare(refresh: Refresh) -> Prepared:
    """Make sure that the query is compiled and captured for the current sources.

    Whether a compiled query still fits is checked once, under the snapshot; it is checked here only
    if an earlier attempt found that it does not.
    """
    runtime = refresh.runtime
    with refresh.account.timed("prepare"), runtime.connection() as connection:
        if refresh.lessons.again:  # it may have been renamed, or names in its query
            now = get_stream_table_by_id(connection, refresh.stream_table.id)
            refresh = replace(refresh, stream_table=now)
        refresh, restored = _settled(connection, refresh)
        refresh, dependencies = _on_firm_ground(connection, refresh, restored)
        known = runtime.remembered.find_compiled(refresh.stream_table) is not None
        stream_table, compiled = _compile(runtime, connection, refresh.stream_table)
        check_types(connection, compiled.binding.types)
        runtime.remembered.keep_shape(stream_table, _shape(dependencies))
        refresh = replace(refresh, stream_table=stream_table)
        missing = find_missing_state(connection, refresh, compiled, new=not known)
        if missing := missing or find_missing_sources(compiled, dependencies):
            refresh = _reshaped(refresh, missing)
            prepare_reinitialize(runtime, stream_table, refresh.lessons.reshaped)
    with refresh.account.timed("lake_sources"):
        positions = follow_sources(
            runtime,
            [one.source_relid for one in dependencies],
            lambda: keep_lease(runtime, refresh.lease),
        )
    return Prepared(refresh, compiled, dependencies, positions)


def _settled(connection: Connection, refresh: Refresh) -> tuple[Refresh, tuple[str, ...]]:
    """Adapt the catalog to a foreign frontier; return what has to be renewed."""
    if not refresh.lessons.foreign or refresh.lessons.settled:
        return refresh, ()
    dependencies = list_dependencies(connection, refresh.stream_table.id)
    stream_table, restored = settle_in(connection, refresh.stream_table, dependencies)
    refresh = replace(refresh, stream_table=stream_table).learned(settled=True, reshaped=())
    return refresh, restored


def _on_firm_ground(
    connection: Connection, refresh: Refresh, restored: tuple[str, ...]
) -> tuple[Refresh, list[Dependency]]:
    """Capture sources again whose shape has changed, and discard the compiled query."""
    runtime, stream_table = refresh.runtime, refresh.stream_table
    remembered = runtime.remembered
    found = list_dependencies(connection, stream_table.id)
    if remembered.find_shape(stream_table) != _shape(found):
        remembered.forget_compiled(stream_table)  # another process may have reinitialized it
    if not (refresh.lessons.again or restored) and remembered.find_compiled(stream_table):
        return refresh, found
    ground = look_at_ground(connection, stream_table, found)
    if ground.rivals:
        remembered.forget_compiled(stream_table)
    if reshaped := restored or ground.reshaped:
        prepare_reinitialize(runtime, stream_table, reshaped)
        refresh = _reshaped(refresh, *reshaped)
        found = list_dependencies(connection, stream_table.id)
    return refresh, found


def _compile(
    runtime: Runtime, connection: Connection, stream_table: StreamTable
) -> tuple[StreamTable, Compiled]:
    """Return the compiled query, and the stream table with its current names."""
    compiled = runtime.remembered.use_compiled(stream_table)
    if compiled is None:
        follow_renamed_sources(connection, stream_table)
        now = get_stream_table_by_id(connection, stream_table.id)
        stream_table = replace(
            stream_table,
            name=now.name,
            defining_query=now.defining_query,
            original_query=now.original_query,
        )
        bounds = Bounds.of(runtime.settings)
        made = runtime.remembered.take_made(stream_table)
        compiled = compile_stream_table(connection, stream_table, bounds, made)
        runtime.remembered.keep_compiled(stream_table, compiled)
    return stream_table, compiled


def find_missing_state(
    connection: Connection, refresh: Refresh, compiled: Compiled, *, new: bool
) -> str:
    """Return why state that the compiled query needs is missing; empty if it exists.

    The form of the state follows from the query and our version; a ``new`` compilation tells it.
    """
    stream_table = refresh.stream_table
    if compiled.refusal is None and stream_table.downgrade_reason is not None:
        return "a later version can follow the changes of this query"
    if stream_table.needs_reinit and lacks_state_tables(
        connection, stream_table.id, compiled.staged
    ):
        return "a table that holds its state was dropped"
    if new and has_other_form(connection, stream_table.id, compiled.staged):
        return "another version kept its state in another form"
    return ""


def find_missing_sources(compiled: Compiled, dependencies: Sequence[Dependency]) -> str:
    """Return what functions read that is not on record as a source; empty if all of it is."""
    known = {one.source_relid for one in dependencies}
    functions = (name for relid, name in compiled.binding.watchers.items() if relid not in known)
    return next((f"the function {name} reads a table that was not captured" for name in functions),
                "")  # fmt: skip


def _reshaped(refresh: Refresh, *reshaped: str) -> Refresh:
    known = refresh.lessons.reshaped
    return refresh.learned(reshaped=(*known, *(one for one in reshaped if one not in known)))


def _shape(dependencies: Sequence[Dependency]) -> tuple[tuple[int, str], ...]:
    return tuple((one.source_relid, one.schema_fingerprint) for one in dependencies)
