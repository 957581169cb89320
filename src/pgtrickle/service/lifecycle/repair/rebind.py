"""Bind the query of a stream table to the current meaning of its text, as its owner asks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.binding.bound_objects import (
    get_bound_text,
    list_meaning_changes,
    record_bound_again,
)
from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.binding.renamed_sources import follow_renamed_sources, list_moved
from pgtrickle.catalog.stream_tables import get_query_search_path, get_stream_table_by_id
from pgtrickle.errors import MeaningChangedError, SourceSchemaChangedError, TrickleError
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.search_path import OWN_PATH
from pgtrickle.service.compile import Compiled, compile_query
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.apply import stored_columns


@dataclass(frozen=True, slots=True)
class Mended:
    """A repair of one source or stream table."""

    source: str
    what: str


def bind_again(runtime: Runtime, stream_table: StreamTable) -> list[Mended]:
    """Bind a query by its names and record their meaning; return the changes.

    If the user's text would now need other columns (because of a ``*``, for example), the text that
    PostgreSQL printed at creation is bound.
    """
    name = str(stream_table.name)
    with runtime.connection() as connection:
        # A renamed object means the same; one that cannot be followed is bound by its name.
        with suppress(MeaningChangedError, SourceSchemaChangedError):
            follow_renamed_sources(connection, stream_table)
        stream_table = get_stream_table_by_id(connection, stream_table.id)
        moved = list_moved(connection, stream_table.id)
        before = get_bound_text(connection, stream_table.id)
        try:
            bounds = Bounds.of(runtime.settings)
            compiled = _compile(connection, stream_table, before.sql, bounds)
        except TrickleError as error:
            if error.code[:3] not in {"ST1", "ST3"}:
                raise  # not caused by the query: the server is gone, for example
            return [Mended(name, f"its query cannot be bound: {error}")]
        binding = compiled.binding
        changes = list_meaning_changes(connection, before.objects or (), binding.objects)
        changes += [one.words for one in moved]
        if before.objects is not None and not changes and binding.query.sql == before.sql:
            return []
        record_bound_again(
            connection, stream_table.id, binding.query.sql, binding.objects, binding.pinned
        )
    if before.objects is None:
        changes = []
    elif not changes:
        changes = ["its names are found elsewhere"]
    return [Mended(name, f"its query was bound again: {one}") for one in changes]


def _compile(
    connection: Connection, stream_table: StreamTable, recorded: str, bounds: Bounds
) -> Compiled:
    stored = stored_columns(connection, stream_table.name)
    path = get_query_search_path(connection, stream_table.id)
    try:
        compiled = compile_query(connection, stream_table.original_query, path, bounds)
    except TrickleError as error:
        if not error.code.startswith("ST1"):
            raise
    else:
        if [(one.name, one.type.display) for one in compiled.columns] == stored:
            return compiled
    return compile_query(connection, recorded, OWN_PATH, bounds)
