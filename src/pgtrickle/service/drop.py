"""``drop_stream_table``: remove a stream table with everything that served it."""

from __future__ import annotations

import psycopg
from psycopg import Connection

from pgtrickle.catalog.dependencies import list_dependents
from pgtrickle.catalog.stream_tables import delete_stream_table, get_stream_table
from pgtrickle.errors import DependentsExistError
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.capture_sources import release_sources
from pgtrickle.service.lake_control import disable_sink, end_copies
from pgtrickle.service.lake_elsewhere import Ending
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.patience import until_free
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.wal_slot import drop_unused_slot
from pgtrickle.storage.state_tables import drop_state_tables


def drop_stream_table(runtime: Runtime, name: QualifiedName, *, cascade: bool) -> list[str]:
    """Drop a stream table, with ``cascade`` also those that read it; return their names."""
    with runtime.connection() as connection:

        def transaction() -> tuple[list[str], list[Ending]]:
            stream_table = get_stream_table(connection, name)
            endings: list[Ending] = []
            dropped = _drop(connection, stream_table, endings, cascade=cascade, seen=set())
            release_sources(connection)
            return dropped, endings

        dropped, endings = until_free(runtime, connection, transaction)
    end_copies(endings)
    drop_unused_slot(runtime)
    return dropped


def _drop(
    connection: Connection,
    stream_table: StreamTable,
    endings: list[Ending],
    *,
    cascade: bool,
    seen: set[int],
) -> list[str]:
    check_owner(connection, stream_table)
    # A diamond reaches a table twice, and a circle comes back to where it began.
    seen.add(stream_table.id)
    dependents = [
        one for one in list_dependents(connection, stream_table.relid) if one.id not in seen
    ]
    if dependents and not cascade:
        names = ", ".join(str(one.name) for one in dependents)
        raise DependentsExistError(
            f'other stream tables read "{stream_table.name}"',
            detail=names,
            hint=f"Drop them first, or all with: pgtrickle drop {stream_table.name} --cascade.",
        )
    dropped = []
    for dependent in dependents:
        if dependent.id not in seen:
            dropped += _drop(connection, dependent, endings, cascade=True, seen=seen)
    endings += disable_sink(connection, stream_table, drop=True)
    delete_stream_table(connection, stream_table.id)
    drop_state_tables(connection, stream_table.id)
    _drop_relation(connection, stream_table, cascade=cascade)
    return [*dropped, str(stream_table.name)]


def _drop_relation(connection: Connection, stream_table: StreamTable, *, cascade: bool) -> None:
    how = "CASCADE" if cascade else "RESTRICT"
    try:
        with connection.transaction():
            connection.execute(f"DROP TABLE IF EXISTS {stream_table.name.sql} {how}".encode())
    except psycopg.errors.DependentObjectsStillExist as error:
        raise DependentsExistError(
            f'other objects depend on "{stream_table.name}"',
            detail=error.diag.message_detail or "",
            hint=f"Drop them first, or all with: pgtrickle drop {stream_table.name} --cascade.",
        ) from error
