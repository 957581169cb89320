"""Prepare a stream table for a rebuild after its sources changed shape."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.binding.renamed_sources import follow_renamed_sources
from pgtrickle.catalog.stream_tables import update_needs_reinit, update_refresh_mode
from pgtrickle.errors import (
    QueryRejectedError,
    SourceNotFoundError,
    SourceSchemaChangedError,
    UndefinedObjectError,
)
from pgtrickle.immediate.install import mark_not_ready
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.plan.stages import looked_up_columns
from pgtrickle.service.capturing.pause_and_repair import decide_durability
from pgtrickle.service.capturing.sources import capture_sources, release_sources
from pgtrickle.service.compile import Compiled, compile_stream_table, effective_mode
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.apply import stored_columns
from pgtrickle.storage.state_tables import create_state_tables, drop_state_tables

_PATIENCE_SECONDS = 2.0


def prepare_reinitialize(
    runtime: Runtime, stream_table: StreamTable, reshaped: Sequence[str]
) -> None:
    """Compile the query again, renew its capture and empty its state, in one transaction.

    The rows of the table stay until the following refresh replaces them by the difference. If that
    refresh fails, the mark that is set here makes the next one reinitialize as well.
    """
    runtime.remembered.forget_compiled(stream_table)
    bounds = Bounds.of(runtime.settings)
    with runtime.connection() as connection:
        follow_renamed_sources(connection, stream_table)

        def transaction() -> None:
            compiled = _compile(connection, stream_table, reshaped, bounds)
            stored = stored_columns(connection, stream_table.name)
            wanted = [(column.name, column.type.display) for column in compiled.columns]
            if stored != wanted:
                raise SourceSchemaChangedError(
                    f'the query of "{stream_table.name}" has other columns than its table',
                    detail=f"stored: {stored}; now: {wanted}",
                    hint=f"Drop and create it again: pgtrickle drop {stream_table.name}.",
                )
            effective, reason = effective_mode(compiled, stream_table.refresh_mode)
            update_refresh_mode(
                connection,
                stream_table.id,
                refresh_mode=stream_table.refresh_mode,
                effective_refresh_mode=effective,
                downgrade_reason=reason,
            )
            immediate = stream_table.refresh_mode is RefreshMode.IMMEDIATE
            if immediate:
                why = "; ".join(reshaped)
                mark_not_ready(connection, stream_table.id, stream_table.name, why)
            drop_state_tables(connection, stream_table.id)
            create_state_tables(
                connection, stream_table.id, compiled.staged, looked_up_columns(compiled.staged)
            )
            update_needs_reinit(connection, stream_table.id, needs_reinit=True)
            capture_sources(connection, stream_table.id, compiled, immediate=immediate)
            release_sources(connection)
            decide_durability(runtime, connection)

        # The caller continues with other work meanwhile.
        until_free(runtime, connection, transaction, _PATIENCE_SECONDS)


def _compile(
    connection: Connection, stream_table: StreamTable, reshaped: Sequence[str], bounds: Bounds
) -> Compiled:
    try:
        return compile_stream_table(connection, stream_table, bounds)
    except (UndefinedObjectError, QueryRejectedError) as error:
        changes = "; ".join(reshaped)
        drop = f"drop the stream table with: pgtrickle drop {stream_table.name}."
        if any(one.endswith(" was dropped") for one in reshaped):
            raise SourceNotFoundError(
                f'"{stream_table.name}" has lost what it reads: {changes}',
                detail=str(error),
                hint=f"Create it again under the same name, or {drop}",
            ) from error
        raise SourceSchemaChangedError(
            f'the query of "{stream_table.name}" no longer fits: {error} ({changes})',
            detail=error.detail,
            hint="Undo the change, or give it a query that fits: pgtrickle alter"
            f" {stream_table.name} --query; or {drop}",
        ) from error
