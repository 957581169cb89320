"""Prepare a stream table for a rebuild after its sources changed shape."""

from __future__ import annotations

from pgtrickle.catalog.stream_tables import update_refresh_mode
from pgtrickle.errors import SourceSchemaChangedError
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.refresh.stages import looked_up_columns
from pgtrickle.service.capture_sources import capture_sources
from pgtrickle.service.compile import compile_stream_table, effective_mode
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.apply import stored_columns
from pgtrickle.storage.state_tables import create_state_tables, drop_state_tables


def prepare_reinitialize(runtime: Runtime, stream_table: StreamTable) -> None:
    """Compile the query anew, renew its capture and empty its state, in one transaction.

    The rows of the table stay until the refresh that follows replaces them by the difference.
    """
    runtime.compiled.pop((stream_table.id, stream_table.original_query), None)
    with runtime.connection() as connection, connection.transaction():
        compiled = compile_stream_table(connection, stream_table)
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
        drop_state_tables(connection, stream_table.id)
        create_state_tables(
            connection, stream_table.id, compiled.staged, looked_up_columns(compiled.staged)
        )
        capture_sources(connection, stream_table.id, compiled)
