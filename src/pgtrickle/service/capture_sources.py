"""Put a compiled query's sources under capture, and end captures that nobody needs."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.capture.fingerprint import list_fingerprints
from pgtrickle.capture.triggers import drop_capture, install_capture
from pgtrickle.catalog.change_tracking import (
    delete_change_tracking,
    insert_change_tracking,
    list_unused_change_tracking,
)
from pgtrickle.catalog.dependencies import (
    Dependency,
    SourceType,
    delete_dependencies,
    insert_dependencies,
)
from pgtrickle.catalog.stream_tables import find_stream_table_by_relid
from pgtrickle.service.compile import Compiled


def capture_sources(connection: Connection, stream_table_id: int, compiled: Compiled) -> None:
    """Record what a stream table reads and install the triggers; commit at once afterwards.

    The first snapshot may be taken only after that commit (see ``capture.triggers``).
    """
    columns = compiled.captured_columns()
    names = {one.relid: one.name for one in compiled.binding.query.relations.values()}
    prints = list_fingerprints(connection, columns)
    delete_dependencies(connection, stream_table_id)
    insert_dependencies(
        connection,
        stream_table_id,
        [
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
        ],
    )
    # In the order of oids, so that two creations at once cannot deadlock.
    for relid in sorted(columns):
        capture = install_capture(connection, relid, columns[relid])
        insert_change_tracking(
            connection,
            source_relid=relid,
            source=capture.source,
            buffer_name=capture.buffer.name,
            captured_columns=capture.columns,
        )


def release_sources(connection: Connection) -> None:
    """Drop triggers and buffers of sources that no stream table reads any more."""
    for tracking in list_unused_change_tracking(connection):
        drop_capture(connection, tracking.source_relid)
        delete_change_tracking(connection, tracking.source_relid)
