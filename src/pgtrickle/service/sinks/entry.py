"""The entry to sinks: everything that the verbs and a refresh ask of copies, of whichever kind.

A new kind of sink is a package beside this module, and a line of ``KINDS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from psycopg import Connection

from pgtrickle.errors import LakeSinkError, LakeSnapshotRefusedError
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.table_snapshot import LakePlace
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.stream_table import DUCKLAKE, NO_SINK, SinkOptions
from pgtrickle.service.compile import Compiled
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.ducklake.kind import DuckLake
from pgtrickle.service.sinks.kind import Copy, Ending, SinkKind
from pgtrickle.storage.tracking import Tracking

KINDS: Final[Mapping[str, SinkKind]] = {DUCKLAKE: DuckLake()}


def check_sink(options: SinkOptions) -> None:
    """Raise ST703 for a kind of sink that does not exist."""
    if options.kind is not None and options.kind not in KINDS:
        raise LakeSinkError(
            f'the sink "{options.kind}" does not exist',
            hint=f"Choose {' or '.join([*KINDS, NO_SINK])}.",
        )


def enable_sink(
    runtime: Runtime, connection: Connection, stream_table: StreamTable, options: SinkOptions
) -> None:
    """Give a stream table the sink of its options, if they name one; see ``SinkKind.enable``."""
    if options.kind is not None:
        KINDS[options.kind].enable(runtime, connection, stream_table, options)


def disable_sinks(connection: Connection, stream_table: StreamTable, *, drop: bool) -> list[Ending]:
    """Take every sink of a stream table away; the caller ends copies elsewhere afterwards."""
    return [
        ending
        for kind in KINDS.values()
        for ending in kind.disable(connection, stream_table, drop=drop)
    ]


def end_copies(endings: Iterable[Ending]) -> None:
    """End copies outside this database, whose sinks are gone here."""
    for end in endings:
        end()


def retry_delivery(runtime: Runtime, name: QualifiedName, options: SinkOptions) -> None:
    """Deliver now what the sink of these options lacks, if they name one."""
    if options.kind is not None:
        KINDS[options.kind].retry(runtime, name)


def find_copy(connection: Connection, stream_table: StreamTable) -> Copy | None:
    """Return the copy of a stream table; it has at most one."""
    found = (kind.find(connection, stream_table) for kind in KINDS.values())
    return next((copy for copy in found if copy is not None), None)


def get_keepable_copy(connection: Connection, stream_table: StreamTable) -> Copy:
    """Return the copy that can stand in for the rows of a snapshot, or raise ST221."""
    copy = find_copy(connection, stream_table)
    if copy is None:
        raise LakeSnapshotRefusedError(
            f'the stream table "{stream_table.name}" has no copy in a lake',
            hint=f"Give it one with: pgtrickle alter {stream_table.name} --sink {DUCKLAKE}; or take"
            " the snapshot without --to-lake.",
        )
    return copy


def load_kept(runtime: Runtime, connection: Connection, place: LakePlace, target: str) -> None:
    """Copy the rows of a snapshot from the lake into an empty table, or raise ST222."""
    # As for deliveries: Arrow is imported with the first lake.
    from pgtrickle.service.sinks.ducklake.snapshots import (  # noqa: PLC0415
        load_kept as load_from_lake,
    )

    load_from_lake(runtime, connection, place, target)


def track(writer: Connection, stream_table: StreamTable, compiled: Compiled) -> Tracking | None:
    """Record the rows that a refresh is about to write, if a copy follows them."""
    copy = find_copy(writer, stream_table)
    return None if copy is None else copy.track(writer, compiled)
