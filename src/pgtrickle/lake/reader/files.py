"""Read the rows that a data file has in a snapshot: not those that are deleted or came later."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pgtrickle.errors import LakeReadError
from pgtrickle.lake.columns import SNAPSHOT_ID
from pgtrickle.lake.reader.columns import ReadColumn
from pgtrickle.lake.reader.conform import conform, fields_of, fill
from pgtrickle.lake.reader.scan import ReadFile
from pgtrickle.lake.storage import lake_path, open_input

_BATCH_ROWS = 32_768


def read_file(
    file: ReadFile, columns: Sequence[ReadColumn], snapshot_id: int
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of a file as the columns of its table."""
    try:
        yield from _read(file, columns, snapshot_id)
    except (OSError, pa.ArrowException) as error:
        raise LakeReadError(
            f'could not read the file "{file.path}" of the lake: {error}',
            hint="See that this machine reaches the storage of the lake.",
        ) from error


def _read(
    file: ReadFile, columns: Sequence[ReadColumn], snapshot_id: int
) -> Iterator[pa.RecordBatch]:
    dead = _dead_positions(file, snapshot_id)
    target = pa.schema([pa.field(column.name, column.arrow) for column in columns])
    with open_input(lake_path(file.path)) as opened, pq.ParquetFile(opened) as parquet:
        schema = parquet.schema_arrow
        by_id = {field.id: field for field in fields_of(schema, file.mapping)}
        if set(by_id) <= {None}:
            raise LakeReadError(
                f'the file "{file.path}" of the lake does not say which columns it has',
                hint="Register it with DuckDB's ducklake_add_data_files, which maps the names.",
            )
        wanted = [by_id[column.id].index for column in columns if column.id in by_id]
        names = [schema.names[index] for index in wanted]
        if file.checks_snapshots:
            names.append(SNAPSHOT_ID)
        position = 0
        # By whole columns: with parts of nested ones, their indexes would be others.
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=names or schema.names[:1]):
            arrays = []
            for column in columns:
                field = by_id.get(column.id)
                if field is None:
                    arrays.append(fill(column, batch.num_rows))
                else:
                    arrays.append(conform(batch.column(schema.names[field.index]), field, column))
            rows = pa.RecordBatch.from_arrays(arrays, schema=target)
            keep = _live(dead, position, batch.num_rows)
            if file.checks_snapshots:
                came = pc.less_equal(batch.column(SNAPSHOT_ID), snapshot_id)
                keep = came if keep is None else pc.and_(keep, came)
            position += batch.num_rows
            yield rows if keep is None else rows.filter(keep)


def _dead_positions(file: ReadFile, snapshot_id: int) -> list[int]:
    dead = set(file.dead)
    if file.deletes is not None:
        with open_input(lake_path(file.deletes)) as opened:
            table = pq.read_table(opened)
        if SNAPSHOT_ID in table.column_names:
            table = table.filter(pc.less_equal(table.column(SNAPSHOT_ID), snapshot_id))
        dead.update(table.column("pos").to_pylist())
    return sorted(dead)


def _live(dead: Sequence[int], start: int, count: int) -> pa.Array | None:
    """Return which rows of a batch live; None: all of them.

    >>> _live([1, 7], 5, 4).to_pylist(), _live([1, 7], 2, 5)
    ([True, True, False, True], None)
    """
    gone = dead[bisect_left(dead, start) : bisect_left(dead, start + count)]
    if not gone:
        return None
    positions = pa.array(range(start, start + count), pa.int64())
    return pc.invert(pc.is_in(positions, value_set=pa.array(gone, pa.int64())))
