"""Read the rows of a data file in a snapshot: without deleted rows and later ones."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from pgtrickle.errors import LakeFilesUnreachableError, LakeReadError
from pgtrickle.lake.format.columns import ROW_ID, SNAPSHOT_ID
from pgtrickle.lake.reader.columns import ReadColumn
from pgtrickle.lake.reader.conform import conform, fields_of, fill
from pgtrickle.lake.reader.scan import ReadFile
from pgtrickle.lake.write.parquet import open_parquet, read_positions

_BATCH_ROWS = 32_768


def read_file(
    file: ReadFile, columns: Sequence[ReadColumn], snapshot_id: int
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of a file as the columns of its table."""
    with _coded(file):
        yield from _read(file, columns, snapshot_id)


def read_versions(
    file: ReadFile, columns: Sequence[ReadColumn], snapshot_id: int, after: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of a file with their row ids, as the first column.

    With ``after``, only rows inserted after that snapshot; the file must record when.
    """
    with _coded(file):
        yield from _read(file, columns, snapshot_id, after=after, row_ids=True)


def read_row_ids(
    file: ReadFile, snapshot_id: int, chosen: frozenset[int] | None = None
) -> Iterator[int]:
    """Yield the ids of the live rows of a file, or of those at the positions ``chosen``."""
    with _coded(file):
        dead = frozenset(dead_positions(file, snapshot_id)) if chosen is None else frozenset()
        with open_parquet(file.path) as parquet:
            held = [one for one in (ROW_ID, SNAPSHOT_ID) if one in parquet.schema_arrow.names]
            position = 0
            for batch in parquet.iter_batches(
                _BATCH_ROWS, columns=held or parquet.schema_arrow.names[:1]
            ):
                ids = _row_ids(file, batch, position).to_pylist()
                came = [0] * len(ids)
                if chosen is None and file.checks_snapshots:
                    came = batch.column(SNAPSHOT_ID).to_pylist()
                for place, (row_id, since) in enumerate(zip(ids, came, strict=True), position):
                    wanted = place not in dead if chosen is None else place in chosen
                    if wanted and since <= snapshot_id:
                        yield row_id
                position += batch.num_rows


def _row_ids(file: ReadFile, batch: pa.RecordBatch, position: int) -> pa.Array:
    own = batch.column(ROW_ID) if ROW_ID in batch.schema.names else None
    if file.first_row_id is None:
        if own is None or own.null_count:
            raise LakeReadError(
                f'the file "{file.path}" of the lake does not say which rows it holds',
                hint="Rewrite the file with DuckDB's ducklake_rewrite_data_files.",
            )
        return own
    first = file.first_row_id + position
    counted = pa.array(range(first, first + batch.num_rows), pa.int64())
    return counted if own is None else pc.coalesce(own, counted)


@contextmanager
def _coded(file: ReadFile) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LakeFilesUnreachableError(
            f'could not read the file "{file.path}" of the lake: {error}',
            hint="See that this machine reaches the storage of the lake.",
        ) from error
    # This includes positions in the catalog or a file that belong to no row.
    except (OverflowError, KeyError, pa.ArrowException) as error:
        raise LakeReadError(
            f'could not read the file "{file.path}" of the lake: {error}',
            hint="See that this machine reaches the storage of the lake.",
        ) from error


def _read(
    file: ReadFile,
    columns: Sequence[ReadColumn],
    snapshot_id: int,
    *,
    after: int | None = None,
    row_ids: bool = False,
) -> Iterator[pa.RecordBatch]:
    dead = dead_positions(file, snapshot_id)
    fields = [pa.field(column.name, column.arrow) for column in columns]
    target = pa.schema([*([pa.field(ROW_ID, pa.int64())] if row_ids else []), *fields])
    with open_parquet(file.path) as parquet:
        schema = parquet.schema_arrow
        by_id = {field.id: field for field in fields_of(schema, file.mapping)}
        if set(by_id) <= {None}:
            raise LakeReadError(
                f'the file "{file.path}" of the lake does not say which columns it has',
                hint="Register it with DuckDB's ducklake_add_data_files, which maps the names.",
            )
        wanted = [by_id[column.id].index for column in columns if column.id in by_id]
        names = [schema.names[index] for index in wanted]
        if file.checks_snapshots or after is not None:
            names.append(SNAPSHOT_ID)
        if row_ids and ROW_ID in schema.names:
            names.append(ROW_ID)
        position = 0
        # By whole columns: with parts of nested ones, their indexes would be others.
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=names or schema.names[:1]):
            arrays = [_row_ids(file, batch, position)] if row_ids else []
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
            if after is not None:
                came = pc.greater(batch.column(SNAPSHOT_ID), after)
                keep = came if keep is None else pc.and_(keep, came)
            position += batch.num_rows
            yield rows if keep is None else rows.filter(keep)


def dead_positions(file: ReadFile, snapshot_id: int) -> list[int]:
    """Return the positions of a file whose rows are deleted in a snapshot."""
    dead = set(file.dead)
    for path in file.deletes:
        table = read_positions(path)
        if SNAPSHOT_ID in table.column_names:
            table = table.filter(pc.less_equal(table.column(SNAPSHOT_ID), snapshot_id))
        dead.update(table.column("pos").to_pylist())
    return sorted(dead)


def _live(dead: Sequence[int], start: int, count: int) -> pa.Array | None:
    """Return which rows of a batch are live; None: all of them.

    >>> _live([1, 7], 5, 4).to_pylist(), _live([1, 7], 2, 5)
    ([True, True, False, True], None)
    """
    gone = dead[bisect_left(dead, start) : bisect_left(dead, start + count)]
    if not gone:
        return None
    positions = pa.array(range(start, start + count), pa.int64())
    return pc.invert(pc.is_in(positions, value_set=pa.array(gone, pa.int64())))
