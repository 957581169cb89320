"""``promote_shadow``: put the query of a shadow in force, with its contents."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.shadows.builds import end_build, find_active_build, record_failure
from pgtrickle.catalog.stream_tables import (
    find_stream_table_by_id,
    get_stream_table,
    get_stream_table_by_id,
)
from pgtrickle.errors import ShadowNotFoundError, TrickleError
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.shadows.build import ShadowBuild, ShadowState
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.lifecycle.describe import describe
from pgtrickle.service.lifecycle.replacing.replacement import Replacement, end_unused
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.runtime import Runtime

_REASON = "its query was replaced by that of its shadow"


def get_active_build(
    connection: Connection, stream_table: StreamTable
) -> tuple[ShadowBuild, StreamTable]:
    """Return the shadow build of a stream table and its shadow, or raise ST225."""
    build = find_active_build(connection, stream_table.id)
    if build is None:
        raise _not_found(stream_table)
    shadow = None
    if build.shadow_id is not None:
        shadow = find_stream_table_by_id(connection, build.shadow_id)
    if shadow is None:
        raise ShadowNotFoundError(
            f'the shadow of "{stream_table.name}" was dropped',
            hint=f"End its build with: pgtrickle shadow cancel {stream_table.name}.",
        )
    return build, shadow


def promote_shadow(runtime: Runtime, name: QualifiedName) -> RefreshReport:
    """Bring the shadow of a stream table up to date, and put it in its place.

    If that fails, the build goes on, and the stream table is as it was.
    """
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        check_owner(connection, stream_table)
        build, shadow = get_active_build(connection, stream_table)
    try:
        return switch(runtime, stream_table, build, shadow)
    except TrickleError as error:
        with runtime.connection() as connection:
            if find_active_build(connection, stream_table.id) is None:
                raise _not_found(stream_table) from error
            record_failure(connection, build, error)
        raise


def switch(
    runtime: Runtime, stream_table: StreamTable, build: ShadowBuild, shadow: StreamTable
) -> RefreshReport:
    """Put a shadow in the place of its stream table: all at once, or not at all."""
    with runtime.connection() as connection:
        compiled = compile_stream_table(connection, shadow, Bounds.of(runtime.settings))
    replacement = Replacement(
        runtime, stream_table, shadow, compiled, _REASON, build.allow_breaking
    )

    def end(writer: Connection, switched: StreamTable) -> None:
        if not end_build(writer, switched.id, ShadowState.PROMOTED):
            raise _not_found(stream_table)

    report = replacement.run(end)
    end_unused(runtime, stream_table, shadow)
    with runtime.connection() as connection:
        describe(runtime, connection, get_stream_table_by_id(connection, stream_table.id))
    return report


def _not_found(stream_table: StreamTable) -> ShadowNotFoundError:
    name = stream_table.name
    return ShadowNotFoundError(
        f'"{name}" has no shadow build that goes on',
        hint=f"Look at the last one with: pgtrickle shadow status {name}.",
    )
