"""``enable_outbox`` and ``disable_outbox``: begin to record what refreshes change, and end it.

Under the lease, so that every later refresh appends its changes and no earlier one does.
"""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.outboxes.config import add_schema, disable_outbox, enable_outbox
from pgtrickle.catalog.refreshes.leases import Lease, check_lease
from pgtrickle.catalog.stream_tables import get_stream_table_by_id
from pgtrickle.errors import OutboxMissingError
from pgtrickle.model.stream_table import InitiatedBy, RefreshMode, StreamTable
from pgtrickle.model.streams.outbox import INLINE_THRESHOLD_ROWS, RETENTION_HOURS, check_outbox
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.outboxes.unique_key import find_unique_key
from pgtrickle.service.refreshing.refresh import Refresh
from pgtrickle.service.refreshing.run import run_refresh
from pgtrickle.service.runtime import Runtime


def enable(
    runtime: Runtime,
    name: QualifiedName,
    *,
    retention_hours: float = RETENTION_HOURS,
    inline_threshold_rows: int = INLINE_THRESHOLD_ROWS,
) -> QualifiedName:
    """Give a stream table an outbox, or change what its outbox keeps; return its name."""
    check_outbox(retention_hours=retention_hours, inline_threshold_rows=inline_threshold_rows)
    with claimed(runtime, name, InitiatedBy.INITIAL) as (stream_table, lease):
        with runtime.connection() as connection, connection.transaction():
            again = stream_table.has_outbox
            # Writers that are under way would not append: it begins while they are locked out.
            immediate = stream_table.refresh_mode is RefreshMode.IMMEDIATE
            enable_outbox(
                connection,
                stream_table.id,
                retention_hours=retention_hours,
                inline_threshold_rows=inline_threshold_rows,
                started=not immediate,
                again=again,
            )
            if not again:
                _record_schema(runtime, connection, stream_table)
            check_lease(connection, stream_table.id, lease.token)
        if immediate and not again:
            _renew(runtime, stream_table, lease)
        return stream_table.name


def _renew(runtime: Runtime, stream_table: StreamTable, lease: Lease) -> None:
    """Create the functions of writers anew, which append their changes or do so no more."""
    with runtime.connection() as connection:
        now = get_stream_table_by_id(connection, stream_table.id)
    if now.populated:
        run_refresh(Refresh.begin(runtime, now, lease, InitiatedBy.MANUAL))


def _record_schema(runtime: Runtime, connection: Connection, stream_table: StreamTable) -> None:
    bounds = Bounds.of(runtime.settings)
    compiled = compile_stream_table(connection, stream_table, bounds)
    key = find_unique_key(connection, compiled)
    add_schema(connection, stream_table.id, compiled.columns, key)


def disable(runtime: Runtime, name: QualifiedName, *, if_exists: bool = False) -> bool:
    """Take the outbox of a stream table away, with its entries; return whether it had one."""
    with claimed(runtime, name, InitiatedBy.INITIAL) as (stream_table, lease):
        if not stream_table.has_outbox:
            if if_exists:
                return False
            raise OutboxMissingError(
                f'the stream table "{stream_table.name}" has no outbox',
                hint="Those that have one: pgtrickle outbox status.",
            )
        with runtime.connection() as connection, connection.transaction():
            disable_outbox(connection, stream_table.id)
            check_lease(connection, stream_table.id, lease.token)
        if stream_table.refresh_mode is RefreshMode.IMMEDIATE:
            _renew(runtime, stream_table, lease)
        return True
