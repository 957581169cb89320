"""Capture the sources of a compiled query, and end captures without a consumer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from psycopg import Connection

from pgtrickle.binding.bound_objects import record_bound_objects
from pgtrickle.binding.functions.recorded import record_functions
from pgtrickle.capture.fingerprint import list_fingerprints
from pgtrickle.capture.triggers import drop_capture, renew_capture
from pgtrickle.catalog.capture.change_tracking import (
    delete_change_tracking,
    insert_change_tracking,
    list_outdated_layouts,
    list_unused_change_tracking,
    update_layout,
)
from pgtrickle.catalog.circles import list_unknown_circles, path_of, record_circles
from pgtrickle.catalog.dependencies import (
    Dependency,
    SourceType,
    delete_dependencies,
    insert_dependencies,
)
from pgtrickle.catalog.graph import GraphNode
from pgtrickle.catalog.stream_tables import find_stream_table_by_relid
from pgtrickle.errors import CircularDependencyError, TrickleError
from pgtrickle.service.capturing.wal_hand_over import install_source, lock_sources, release_table
from pgtrickle.service.compile import Compiled
from pgtrickle.service.lock_waits import impatient
from pgtrickle.service.runtime import Runtime


def capture_sources(
    connection: Connection, stream_table_id: int, compiled: Compiled, *, immediate: bool = False
) -> None:
    """Record the sources of a stream table and install the triggers; commit at once afterwards.

    The first snapshot may be taken only after that commit (see ``capture.triggers``).  Where
    writers follow their changes (``immediate``), there is nothing to capture.
    """
    columns = {} if immediate else compiled.captured_columns()
    record_dependencies(connection, stream_table_id, compiled)
    record_functions(connection, stream_table_id, compiled.binding.functions)
    binding = compiled.binding
    record_bound_objects(
        connection, stream_table_id, binding.query.sql, binding.objects, binding.pinned
    )
    lock_sources(connection, columns)
    # In the order of oids, so that two concurrent creations cannot deadlock.
    for relid in sorted(columns):
        capture = install_source(connection, relid, columns[relid])
        insert_change_tracking(
            connection,
            source_relid=relid,
            source=capture.source,
            buffer_name=capture.buffer.name,
            captured_columns=capture.columns,
        )


def record_dependencies(connection: Connection, stream_table_id: int, compiled: Compiled) -> None:
    """Record the sources of a stream table, unless that would close a circle."""
    note_dependencies(connection, stream_table_id, compiled)
    _check_circles(connection)
    record_circles(connection)


def note_dependencies(connection: Connection, stream_table_id: int, compiled: Compiled) -> None:
    """Record the sources of a stream table, also if they close a circle."""
    delete_dependencies(connection, stream_table_id)
    insert_dependencies(
        connection,
        stream_table_id,
        [*_tables(connection, compiled), *_views(connection, compiled)],
    )


def _check_circles(connection: Connection) -> None:
    """Refuse a stream table that reads itself, as after a view was replaced."""
    for circle in list_unknown_circles(connection):
        raise refused_circle(circle)


def refused_circle(circle: Sequence[GraphNode]) -> CircularDependencyError:
    """Return the error that shows the path through a circle."""
    path = path_of(circle)
    return CircularDependencyError(
        f'the stream table "{path[0]}" would read itself: ' + " -> ".join(map(str, path)),
        hint="Let one of them, or the view between them, read something else. With allow_circular"
        " a new query may close a circle of monotone queries.",
    )


_POLLED = {"m": SourceType.MATVIEW, "f": SourceType.FOREIGN_TABLE}


def _tables(connection: Connection, compiled: Compiled) -> list[Dependency]:
    relations = {one.relid: one for one in compiled.binding.query.relations.values()}
    columns = compiled.columns_used()
    prints = list_fingerprints(connection, columns)
    return [
        Dependency(
            relid,
            relations[relid].name,
            _POLLED.get(relations[relid].kind) or _type_of_table(connection, relid),
            used,
            prints[relid],
        )
        for relid, used in columns.items()
    ]


def _type_of_table(connection: Connection, relid: int) -> SourceType:
    found = find_stream_table_by_relid(connection, relid)
    return SourceType.TABLE if found is None else SourceType.STREAM_TABLE


def _views(connection: Connection, compiled: Compiled) -> list[Dependency]:
    """Return the views that were inlined: replacing one changes the query."""
    names = {
        one.relid: one.name
        for one in compiled.binding.query.relations.values()
        if one.definition is not None
    }
    prints = list_fingerprints(connection, dict.fromkeys(names, ()))
    return [
        Dependency(relid, name, SourceType.VIEW, (), prints[relid]) for relid, name in names.items()
    ]


def renew_captures(runtime: Runtime, relids: Sequence[int]) -> None:
    """Rewrite the capture functions of altered sources, which are slower until then.

    The caller must not be reading the buffers: those of an earlier version are altered.
    """
    with suppress(TrickleError), runtime.connection() as connection:
        outdated = list_outdated_layouts(connection, relids)
        if not outdated:
            return
        # A session that waits to alter a buffer blocks the writers of its source.
        with impatient(connection):
            for relid in outdated:
                if renew_capture(connection, relid):
                    update_layout(connection, relid)


def release_sources(connection: Connection) -> None:
    """Drop triggers and buffers of sources without a consumer."""
    unused = list_unused_change_tracking(connection)
    from_log = lock_sources(connection, [one.source_relid for one in unused])
    for tracking in unused:
        if tracking.source_relid in from_log:
            release_table(connection, from_log[tracking.source_relid])
        drop_capture(connection, tracking.source_relid)
        delete_change_tracking(connection, tracking.source_relid)
