"""``show_as_of``: the rows of a stream table as they were, from its copy in the lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice
from typing import Any

from psycopg import Connection

from pgtrickle.catalog.lake.sinks import find_sink
from pgtrickle.catalog.snapshots.entries import find_snapshot as find_taken
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import LakeCatalogError, LakeReadError, NameNotUsableError, SettingError
from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.reader.columns import choose, list_columns
from pgtrickle.lake.reader.files import read_file
from pgtrickle.lake.reader.open import LakeRead, find_snapshot
from pgtrickle.lake.reader.scan import Scan, find_table_at, plan_scan
from pgtrickle.lake.write.deliver import find_sink_catalog
from pgtrickle.lake.write.text_settings import fix_settings_sql
from pgtrickle.model.lake.past_rows import PastRows
from pgtrickle.model.lake.sink import LakeSink
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.ducklake.copies import no_sink
from pgtrickle.service.sinks.ducklake.other_database import opened

MOST_ROWS = 10_000  # for people; Spark and DuckDB read as many as there are
_LARGEST_ID = 2**63 - 1


def show_as_of(
    runtime: Runtime,
    name: QualifiedName,
    as_of: str | int | datetime,
    columns: Sequence[str] | None = None,
    max_rows: int = 100,
) -> PastRows:
    """Return rows of a stream table in a snapshot of the lake, or the newest up to a moment."""
    if not 1 <= max_rows <= MOST_ROWS:
        raise SettingError(
            f"max_rows is {max_rows}, which is not from 1 to {MOST_ROWS}",
            hint="Read more rows in Spark or DuckDB: see docs/lake.md.",
        )
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        sink = find_sink(connection, stream_table.id)
        if sink is None:
            raise no_sink(stream_table.name)
        with catalog_of(sink, connection) as (lake, catalog):
            kept = _find_kept(connection, stream_table, as_of)
            read = _describe(sink, as_of if kept is None else kept, columns)
            snapshot_id = find_snapshot(lake, catalog, read)
            scan = _plan(lake, catalog, sink, read, snapshot_id)
            [(moment,)] = lake.execute(
                trusted(
                    f"SELECT snapshot_time FROM {catalog.table('snapshot')} WHERE snapshot_id = %s"
                ),
                [snapshot_id],
            ).fetchall()
            rows = list(islice(_rows(scan), max_rows + 1))
    return PastRows(
        str(stream_table.name),
        snapshot_id,
        moment,
        tuple(one.name for one in scan.columns),
        tuple(rows[:max_rows]),
        complete=len(rows) <= max_rows,
    )


def _find_kept(
    connection: Connection, stream_table: StreamTable, as_of: str | int | datetime
) -> int | None:
    """Return the snapshot of the lake that a snapshot of the stream table keeps, by its name."""
    if not isinstance(as_of, str) or not as_of.strip():
        return None
    with suppress(NameNotUsableError):
        name = QualifiedName.parse(as_of.strip(), stream_table.name.schema)
        found = find_taken(connection, name)
        if found is not None and found.stream_table_id == stream_table.id and found.lake:
            return found.lake.snapshot_id
    return None


@contextmanager
def catalog_of(sink: LakeSink, connection: Connection) -> Iterator[tuple[Connection, LakeCatalog]]:
    """Open the catalog of a sink at one moment, so that housekeeping cannot move rows meanwhile."""
    with opened(sink.catalog_dsn, connection) as ends, ends.lake.transaction():
        ends.lake.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        ends.lake.execute(trusted(fix_settings_sql()))
        catalog = find_sink_catalog(ends.lake, sink)
        if catalog is None:
            raise LakeCatalogError(
                f'the schema "{sink.catalog_schema}" holds no DuckLake catalog',
                hint="See where it is: pgtrickle lake show.",
            )
        yield ends.lake, catalog


def _describe(
    sink: LakeSink, as_of: str | int | datetime, columns: Sequence[str] | None
) -> LakeRead:
    chosen = None if columns is None else tuple(columns)
    read = LakeRead(sink.catalog_dsn, sink.catalog_schema, sink.lake_table, chosen)
    if isinstance(as_of, datetime):
        return replace(read, timestamp=as_of.isoformat())
    text = str(as_of).strip()
    if not text.isdecimal():
        return replace(read, timestamp=text)
    return replace(read, version=min(int(text), _LARGEST_ID))


def _plan(
    lake: Connection, catalog: LakeCatalog, sink: LakeSink, read: LakeRead, snapshot_id: int
) -> Scan:
    table = find_table_at(lake, catalog, read.table, snapshot_id)
    if table.id != sink.table_id:
        raise LakeReadError(
            f'the lake table "{read.table}" of snapshot {snapshot_id} is another table than the'
            " copy of today: it was dropped and made again since",
            hint="Read it in Spark or DuckDB: see docs/lake.md.",
        )
    listed = list_columns(lake, catalog, table.id, snapshot_id)
    return plan_scan(lake, catalog, table, choose(listed, read.columns), snapshot_id)


def _rows(scan: Scan) -> Iterator[dict[str, Any]]:
    files = (read_file(one, scan.columns, scan.snapshot_id) for one in scan.files)
    for batch in chain(scan.inlined, chain.from_iterable(files)):
        yield from batch.to_pylist()
