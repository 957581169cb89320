"""Let the query of a stream table mean what its text means now, because its owner says so."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.catalog.bound_objects import (
    get_bound_text,
    list_meaning_changes,
    record_bound_again,
)
from pgtrickle.catalog.stream_tables import get_query_search_path
from pgtrickle.errors import TrickleError
from pgtrickle.model.search_path import OWN_PATH
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.compile import Compiled, compile_query
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.apply import stored_columns


@dataclass(frozen=True, slots=True)
class Mended:
    """What was done about one source or stream table."""

    source: str
    what: str


def bind_again(runtime: Runtime, stream_table: StreamTable) -> list[Mended]:
    """Bind a query by its names and put on record what they mean; return what that changes.

    Where the text of the user would need other columns by now (of a ``*``, say), the text that
    PostgreSQL made of it at creation is bound.
    """
    name = str(stream_table.name)
    with runtime.connection() as connection:
        before = get_bound_text(connection, stream_table.id)
        try:
            seconds = runtime.settings.planning_timeout_seconds
            compiled = _compile(connection, stream_table, before.sql, seconds)
        except TrickleError as error:
            if error.code[:3] not in {"ST1", "ST3"}:
                raise  # not a property of the query: the server is away, say
            return [Mended(name, f"its query cannot be bound: {error}")]
        binding = compiled.binding
        changes = list_meaning_changes(connection, before.objects or (), binding.objects)
        if before.objects is not None and not changes and binding.query.sql == before.sql:
            return []
        record_bound_again(connection, stream_table.id, binding.query.sql, binding.objects)
    if before.objects is None:
        changes = []
    elif not changes:
        changes = ["its names are found elsewhere"]
    return [Mended(name, f"its query was bound again: {one}") for one in changes]


def _compile(
    connection: Connection, stream_table: StreamTable, recorded: str, seconds: float
) -> Compiled:
    stored = stored_columns(connection, stream_table.name)
    path = get_query_search_path(connection, stream_table.id)
    try:
        compiled = compile_query(connection, stream_table.original_query, path, seconds)
    except TrickleError as error:
        if not error.code.startswith("ST1"):
            raise
    else:
        if [(one.name, one.type.display) for one in compiled.columns] == stored:
            return compiled
    return compile_query(connection, recorded, OWN_PATH, seconds)
