"""A copy in the lake in place of the rows of a snapshot: keep it, and read it back.

The lake shows the rows of the stream table in a snapshot of its own.  That it shows them exactly is
checked before it is kept: nobody else wrote to the copy, nothing is left to be delivered, and each
value comes back as it was.  A checksum of the rows is kept with it.  See docs/adr/0052.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import psycopg
from psycopg import Connection

from pgtrickle.catalog.lake.sinks import (
    find_open_delivery,
    find_sink,
    forgive_delivery,
    open_delivery,
    update_sink,
)
from pgtrickle.catalog.refreshes.leases import Lease
from pgtrickle.errors import LakeSnapshotLostError, LakeSnapshotRefusedError, TrickleError
from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.columns import LakeColumn
from pgtrickle.lake.format.coming_back import comes_back
from pgtrickle.lake.format.table_layout import find_columns
from pgtrickle.lake.format.tables import LakeTable, find_table, foreign_changes
from pgtrickle.lake.reader.into_postgres import copy_into
from pgtrickle.lake.reader.scan import find_same_table, find_table_at
from pgtrickle.lake.write.commit_turns import AUTHOR, take_turn
from pgtrickle.lake.write.deliver import find_sink_catalog, nothing_new
from pgtrickle.lake.write.row_map import RowMap
from pgtrickle.lake.write.text_settings import fixed_settings
from pgtrickle.model.lake.sink import LakeSink
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.table_snapshot import LakePlace
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.ducklake.copies import no_sink
from pgtrickle.service.sinks.ducklake.delivery import deliver_apart
from pgtrickle.service.sinks.ducklake.errors import lake_errors
from pgtrickle.service.sinks.ducklake.show_as_of import catalog_of
from pgtrickle.service.sinks.kind import Delivery
from pgtrickle.storage.restoring.checksums import Summed, sum_up
from pgtrickle.storage.snapshot_copies import list_stored_columns


def bring_up_to_date(
    runtime: Runtime, lease: Lease, stream_table: StreamTable, columns: Sequence[Column]
) -> None:
    """Deliver what the copy lacks; raises ST221 if there is none that could be kept."""
    with lake_errors(), runtime.connection() as connection:
        sink = _find_sink(connection, stream_table)
        state = _look(connection, sink, columns)
        if state.behind is None:
            return
        if state.foreign:
            sink = replace(sink, needs_load=True)
            update_sink(connection, sink)
        forgive_delivery(connection, stream_table.id)
        record = find_open_delivery(connection, stream_table.id)
        record = record or open_delivery(connection, stream_table.id)
    delivery = Delivery(stream_table, tuple(columns), stream_table.frontier)
    deliver_apart(runtime, lease, sink, record, delivery)


def _find_sink(connection: Connection, stream_table: StreamTable) -> LakeSink:
    sink = find_sink(connection, stream_table.id)
    if sink is None:
        raise no_sink(stream_table.name)
    if sink.elsewhere:
        raise LakeSnapshotRefusedError(
            f'the catalog of the lake in which the copy of "{stream_table.name}" is lies in another'
            " database, where its snapshots can expire unnoticed",
            hint="Take the snapshot without --to-lake.",
        )
    return sink


@dataclass(frozen=True, slots=True)
class _State:
    """How far a copy is."""

    catalog: LakeCatalog | None
    known: tuple[LakeColumn, ...]
    behind: str | None  # why it does not show the rows of the stream table
    foreign: bool = False


def _look(connection: Connection, sink: LakeSink, columns: Sequence[Column]) -> _State:
    catalog = find_sink_catalog(connection, sink)
    stored = None if catalog is None else find_table(connection, catalog, sink.lake_table)
    known = None if stored is None else find_columns(stored, columns)
    if catalog is None or stored is None or known is None or stored.id != sink.table_id:
        return _State(catalog, (), "the lake has no table of this form")
    behind = _find_rest(connection, sink)
    foreign = behind is None and _others_wrote(connection, catalog, stored, sink)
    if foreign:
        behind = "another client has written to it, or has expired the snapshots since"
    return _State(catalog, known, behind, foreign)


def _find_rest(connection: Connection, sink: LakeSink) -> str | None:
    if sink.needs_load or find_open_delivery(connection, sink.stream_table_id) is not None:
        return "a delivery to it is pending"
    if not nothing_new(connection, RowMap(sink.stream_table_id)):
        return "rows are left to be delivered"
    return None


def _others_wrote(
    connection: Connection, catalog: LakeCatalog, stored: LakeTable, sink: LakeSink
) -> bool:
    after = sink.snapshot_id or 0
    return bool(foreign_changes(connection, catalog, stored.id, after=after, author=AUTHOR))


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """A copy that shows the rows of its stream table, which nobody changes meanwhile."""

    connection: Connection
    sink: LakeSink
    name: QualifiedName
    columns: tuple[Column, ...]
    summed: Summed

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return self.summed.rows

    def place(self) -> LakePlace:
        """Return where the rows are, in a snapshot that does not expire before the commit.

        Other writers of the lake wait from here to the commit.
        """
        connection, sink = self.connection, self.sink
        with lake_errors():
            state = _look(connection, sink, self.columns)
            if state.catalog is not None:
                head = take_turn(connection, state.catalog)
                state = _look(connection, sink, self.columns)
            if state.catalog is None or state.behind is not None:
                raise _behind(self.name, state)
            catalog, head_id = state.catalog, head.snapshot_id
            table = find_table_at(connection, catalog, sink.lake_table, head_id)
            return LakePlace(
                catalog.schema,
                catalog.data_path,
                sink.sink_path,
                sink.lake_table,
                table.id,
                table.uuid,
                head_id,
                tuple(list_stored_columns(connection, self.name)),
                self.summed.rows,
                self.summed.checksum,
            )


def keep_copy(
    connection: Connection, stream_table: StreamTable, columns: Sequence[Column]
) -> KeptCopy:
    """Check that the copy in the lake gives back each row as it is; raises ST221."""
    with lake_errors(), fixed_settings(connection):
        sink = _find_sink(connection, stream_table)
        state = _look(connection, sink, columns)
        if state.behind is not None:
            raise _behind(stream_table.name, state)
        pairs = zip(state.known, columns, strict=True)
        checks = {
            column.name: condition
            for known, column in pairs
            if (condition := comes_back(known, column.type)) is not None
        }
        names = [name for name, _ in list_stored_columns(connection, stream_table.name)]
        summed = sum_up(connection, f"ONLY {stream_table.name.sql}", names, tuple(checks.values()))
        _check_holds(stream_table, checks, summed)
    return KeptCopy(connection, sink, stream_table.name, tuple(columns), summed)


def _check_holds(stream_table: StreamTable, checks: dict[str, str], summed: Summed) -> None:
    wrong = [name for name, holds in zip(checks, summed.holds, strict=True) if not holds]
    if wrong:
        raise LakeSnapshotRefusedError(
            f"the lake does not keep every value of the columns {', '.join(wrong)} of"
            f' "{stream_table.name}" as PostgreSQL shows it',
            detail="numeric without declared digits has the same number of digits in every row of"
            " the lake; of other types the text may have lost something",
            hint="Take the snapshot without --to-lake; or declare the digits in the query, as in"
            " avg(price)::numeric(12, 4).",
        )


def _behind(name: QualifiedName, state: _State) -> TrickleError:
    return LakeSnapshotRefusedError(
        f'the copy of "{name}" in the lake is not up to date: {state.behind}',
        hint=f"See why with: pgtrickle sink status; then run: pgtrickle sink retry {name}.",
    )


def load_kept(runtime: Runtime, connection: Connection, place: LakePlace, target: str) -> None:
    """Copy the rows of a snapshot into an empty table; raises ST222 if they are not the same."""
    sink = LakeSink(
        0, place.catalog_schema, place.table, place.sink_path, data_path=place.data_path
    )
    with lake_errors(), runtime.connection() as other, catalog_of(sink, other) as (lake, catalog):
        query = f"SELECT FROM {catalog.table('snapshot')} WHERE snapshot_id = %s"
        if lake.execute(trusted(query), [place.snapshot_id]).fetchone() is None:
            raise _lost(place, f"snapshot {place.snapshot_id} of the lake has expired")
        table = find_same_table(lake, catalog, place.table_id, place.table_uuid, place.snapshot_id)
        if table is None:
            raise _lost(place, f'the lake has another table "{place.table}" now')
        with fixed_settings(connection):
            try:
                copy_into(
                    connection, target, lake, catalog, table, place.snapshot_id, place.columns
                )
            except psycopg.DataError as error:
                raise _lost(place, f"the files hold other values: {error}") from error
            summed = sum_up(connection, target, [name for name, _ in place.columns])
    if (summed.rows, summed.checksum) != (place.rows, place.checksum):
        raise _lost(place, f"it holds other rows: {summed.rows} of {place.rows}, or other values")


def _lost(place: LakePlace, why: str) -> LakeSnapshotLostError:
    return LakeSnapshotLostError(
        f'the rows are no longer in the lake table "{place.table}": {why}',
        hint="Drop the snapshot; the stream table is loaded anew with: pgtrickle refresh --full.",
    )
