"""What the catalog tells about stream tables: lists, history, dependencies."""

from __future__ import annotations

from pgtrickle.catalog.dependencies import list_parents
from pgtrickle.catalog.refresh_history import Refresh, list_refreshes
from pgtrickle.catalog.stream_tables import get_stream_table, list_stream_tables
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.runtime import Runtime


def show_stream_tables(runtime: Runtime) -> list[StreamTable]:
    """Return every stream table, by name."""
    with runtime.connection() as connection:
        return list_stream_tables(connection)


def show_stream_table(runtime: Runtime, name: QualifiedName) -> StreamTable:
    """Return one stream table."""
    with runtime.connection() as connection:
        return get_stream_table(connection, name)


def show_history(runtime: Runtime, name: QualifiedName | None, *, limit: int) -> list[Refresh]:
    """Return the latest refreshes of one stream table, or of all, the newest first."""
    with runtime.connection() as connection:
        if name is not None:
            get_stream_table(connection, name)
        return list_refreshes(connection, name, limit=limit)


def show_dependencies(runtime: Runtime) -> dict[str, list[str]]:
    """Return, for each stream table, the stream tables it reads."""
    with runtime.connection() as connection:
        return list_parents(connection)
