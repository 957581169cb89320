"""Write the comment of a stream table's table anew, after a change of what it says."""

from __future__ import annotations

from contextlib import suppress

from psycopg import Connection

from pgtrickle.catalog.stream_tables import describe_stream_table
from pgtrickle.errors import ServerBusyError
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.runtime import Runtime

_PATIENCE_SECONDS = 5.0


def describe(runtime: Runtime, connection: Connection, stream_table: StreamTable) -> None:
    """Write the comment of the table anew, in a transaction that holds nothing else."""
    # The change is made; a comment that is out of date meanwhile is written by the next one.
    with suppress(ServerBusyError):
        until_free(
            runtime,
            connection,
            lambda: describe_stream_table(connection, stream_table.id),
            _PATIENCE_SECONDS,
        )
