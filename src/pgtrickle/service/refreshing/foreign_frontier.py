"""Stream tables whose frontier belongs to another database or to an undone history."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.capture.buffers import list_buffer_columns
from pgtrickle.capture.windows import delete_future, get_frontier
from pgtrickle.catalog.dependencies import Dependency
from pgtrickle.catalog.restored import adopt_stream_tables, delete_future_gaps
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.stream_table import StreamTable

_RESTORED = "the database was restored or cloned elsewhere"


def is_foreign(frontier: Frontier | None, now: Frontier) -> bool:
    """Return whether a frontier refers to other transactions than those of the server now."""
    if frontier is None:
        return False
    return not frontier.same_database(now) or frontier.snapshot.xmax > now.snapshot.xmax


def settle_in(
    connection: Connection, stream_table: StreamTable, dependencies: Sequence[Dependency]
) -> tuple[StreamTable, tuple[str, ...]]:
    """Adapt the catalog and the buffers to the server if the frontier is foreign.

    Return the updated stream table, and the reasons why its captures must be recreated, if any.
    """
    frontier, now = stream_table.frontier, get_frontier(connection)
    if not is_foreign(frontier, now):
        return stream_table, ()
    with connection.transaction():
        captured = [
            one.source_relid
            for one in dependencies
            if list_buffer_columns(connection, one.source_relid) is not None
        ]
        delete_future(connection, captured)
        delete_future_gaps(connection)
        if frontier is None or frontier.same_database(now):
            return stream_table, ()
        adopt_stream_tables(connection)
    return get_stream_table(connection, stream_table.name), (_RESTORED,)
