"""Put a compiled query's sources under capture, and end captures that nobody needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from psycopg import Connection

from pgtrickle.capture.fingerprint import list_fingerprints, list_view_fingerprints
from pgtrickle.capture.triggers import drop_capture
from pgtrickle.catalog.change_tracking import (
    delete_change_tracking,
    insert_change_tracking,
    list_change_tracking,
    list_unused_change_tracking,
)
from pgtrickle.catalog.dependencies import (
    Dependency,
    SourceType,
    delete_dependencies,
    insert_dependencies,
)
from pgtrickle.catalog.stream_tables import find_stream_table_by_relid
from pgtrickle.catalog.wal_capture import list_wal_sources, lock_wal
from pgtrickle.errors import SourceNotFoundError
from pgtrickle.service.compile import Compiled
from pgtrickle.service.hand_over import install_source, release_table


def capture_sources(connection: Connection, stream_table_id: int, compiled: Compiled) -> None:
    """Record what a stream table reads and install the triggers; commit at once afterwards.

    The first snapshot may be taken only after that commit (see ``capture.triggers``).
    """
    columns = compiled.captured_columns()
    delete_dependencies(connection, stream_table_id)
    insert_dependencies(
        connection,
        stream_table_id,
        [*_tables(connection, compiled, columns), *_views(connection, compiled)],
    )
    # In the order of oids, so that two creations at once cannot deadlock.
    for relid in sorted(columns):
        capture = install_source(connection, relid, columns[relid])
        insert_change_tracking(
            connection,
            source_relid=relid,
            source=capture.source,
            buffer_name=capture.buffer.name,
            captured_columns=capture.columns,
        )


def _tables(
    connection: Connection, compiled: Compiled, columns: Mapping[int, tuple[str, ...]]
) -> list[Dependency]:
    names = {one.relid: one.name for one in compiled.binding.query.relations.values()}
    prints = list_fingerprints(connection, columns)
    return [
        Dependency(
            relid,
            names[relid],
            SourceType.STREAM_TABLE
            if find_stream_table_by_relid(connection, relid)
            else SourceType.TABLE,
            used,
            prints[relid],
        )
        for relid, used in columns.items()
    ]


def _views(connection: Connection, compiled: Compiled) -> list[Dependency]:
    """Return the views that were inlined: replacing one changes the query."""
    names = {
        one.relid: one.name
        for one in compiled.binding.query.relations.values()
        if one.definition is not None
    }
    prints = list_view_fingerprints(connection, list(names))
    return [
        Dependency(relid, name, SourceType.VIEW, (), prints[relid]) for relid, name in names.items()
    ]


def release_sources(connection: Connection, relids: Collection[int]) -> None:
    """Drop triggers and buffers of sources that no stream table reads any more.

    The others are installed anew: a column that was dropped from its table would make writes to
    it fail for as long as the triggers name it.
    """
    from_log = {one.relid: one for one in list_wal_sources(connection)}
    if from_log:
        lock_wal(connection)
    unused = {one.source_relid for one in list_unused_change_tracking(connection)}
    for tracking in list_change_tracking(connection):
        relid = tracking.source_relid
        if relid in unused:
            if relid in from_log:
                release_table(connection, from_log[relid])
            drop_capture(connection, relid)
            delete_change_tracking(connection, relid)
        elif relid in relids:
            with suppress(SourceNotFoundError):
                install_source(connection, relid, ())
