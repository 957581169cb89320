"""Merge small files of a lake table into one, without changing any snapshot.

Like DuckDB's ``merge_adjacent_files``: the new file replaces the others in every snapshot, since it
records the id and the first snapshot of each row.  Files with deleted rows are merged too: the
positions, with their last snapshots, move with the rows.  Only rows that no snapshot shows any more
are dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.columns import ROW_ID, SNAPSHOT_ID, LakeColumn
from pgtrickle.lake.format.tables import LakeTable
from pgtrickle.lake.upkeep.small_files import SmallFile, leave_out_twins
from pgtrickle.lake.write.commit import Commit
from pgtrickle.lake.write.delete_rows import find_deletes, take_deletes
from pgtrickle.lake.write.parquet import DataFile, DataFileWriter, open_parquet, write_deletes
from pgtrickle.lake.write.row_map import RowMap, Segment, move_rows
from pgtrickle.lake.write.write_rows import Written
from pgtrickle.model.text.trusted import trusted

FEWEST = 8  # files; fewer are not worth a snapshot
_MOST_ROWS = 10_000_000  # of a small file, and bytes without compression
_MOST_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Merging:
    """A merged file that the catalog does not know yet, and the files it is made of."""

    files: tuple[SmallFile, ...]
    segments: tuple[Segment, ...]
    merged: DataFile


def write_merged(
    connection: Connection,
    catalog: LakeCatalog,
    table: LakeTable,
    files: Sequence[SmallFile],
    columns: Sequence[LakeColumn],
    written: Written,
) -> Merging | None:
    """Write the rows of small files of one shape into one file; None if there are too few.

    All files are of one partition.
    """
    alike = files if len(files) < FEWEST else [one for one in files if _has_shape(one, columns)]
    if len(alike) < FEWEST:
        return None
    forgotten = _find_forgotten(connection, catalog, table, [file.id for file in alike])
    alike = leave_out_twins(alike, forgotten)
    if len(alike) < FEWEST:
        return None
    writer = DataFileWriter(written.directory, columns, has_row_ids=True, has_snapshot_ids=True)
    written.paths.append(writer.path)
    segments: list[Segment] = []
    try:
        for file in alike:
            kept = list(_cut(file, forgotten.get(file.id, set()), writer.rows))
            arrays = _read(file, columns)
            for one in kept:
                writer.write([array.slice(one.first, one.count) for array in arrays])
            segments += kept
        return Merging(tuple(alike), tuple(segments), writer.close(alike[0].partition))
    except BaseException:
        writer.abandon()
        raise


def commit_merged(
    commit: Commit,
    table: LakeTable,
    merging: Merging,
    local: Connection,
    rows: RowMap,
    written: Written,
) -> None:
    """Replace the other files by the merged one, with their deletes."""
    old = [file.id for file in merging.files]
    dead = list(_move(take_deletes(commit, table, old), merging.segments))
    begin = min(file.begin for file in merging.files)
    last = max(file.last for file in merging.files)
    commit.take_data_files(table.id, old)
    file_id = None
    if merging.merged.rows:
        partition_id = merging.files[0].partition_id
        file_id = commit.add_merged_file(table.id, merging.merged, begin, last, partition_id)
    else:
        written.discard(merging.merged.name)
    if dead and file_id is not None:
        deletes = write_deletes(written.directory, file_id, merging.merged.name, dead)
        written.paths.append(written.directory / deletes.name)
        commit.put_delete_file(table.id, deletes)
    move_rows(local, rows, old, merging.segments, file_id)


def _find_forgotten(
    connection: Connection, catalog: LakeCatalog, table: LakeTable, file_ids: Sequence[int]
) -> dict[int, set[int]]:
    """Return the positions that died before the oldest snapshot, so that no snapshot shows them."""
    [(oldest,)] = connection.execute(
        trusted(f"SELECT min(snapshot_id) FROM {catalog.table('snapshot')}")
    ).fetchall()
    forgotten: dict[int, set[int]] = defaultdict(set)
    for file_id, position, snapshot_id in find_deletes(connection, catalog, table, file_ids):
        if snapshot_id < oldest:
            forgotten[file_id].add(position)
    return forgotten


def _cut(file: SmallFile, forgotten: set[int], position: int) -> Iterator[Segment]:
    """Cut a file at the rows that no snapshot shows; the rest begins at a position of the new file.

    >>> from pgtrickle.lake.files.roots import LocalPath
    >>> file = SmallFile(7, LocalPath("/lake", "x"), 5, 0, 1, 1)
    >>> [(one.first, one.count, one.position) for one in _cut(file, {0, 3}, 100)]
    [(1, 2, 100), (4, 1, 102)]
    """
    inside = sorted(one for one in forgotten if 0 <= one < file.rows)
    for first, end in pairwise([-1, *inside, file.rows]):
        if end > first + 1:
            yield Segment(file.id, first + 1, end - first - 1, position)
            position += end - first - 1


def _move(
    dead: Sequence[tuple[int, int, int]], segments: Sequence[Segment]
) -> Iterator[tuple[int, int]]:
    """Return the new places of deleted positions, and the snapshot in which each died."""
    firsts = [(one.file_id, one.first) for one in segments]
    for file_id, position, snapshot_id in dead:
        index = bisect_right(firsts, (file_id, position)) - 1
        if index < 0:
            continue
        one = segments[index]
        if one.file_id == file_id and position < one.first + one.count:
            yield one.position + position - one.first, snapshot_id


def _has_shape(file: SmallFile, columns: Sequence[LakeColumn]) -> bool:
    """Tell whether a file has these columns: older files may have other types.

    A file that is larger than the catalog says is not merged: it is read as a whole.
    """
    with open_parquet(file.path) as parquet:
        schema, said = parquet.schema_arrow, parquet.metadata
        groups = [said.row_group(number).total_byte_size for number in range(said.num_row_groups)]
    if said.num_rows != file.rows or said.num_rows > _MOST_ROWS or sum(groups) > _MOST_BYTES:
        return False
    found = [field for field in schema if field.name not in _RESERVED]
    return len(found) == len(columns) and all(
        field.equals(column.field, check_metadata=True)
        for field, column in zip(found, columns, strict=True)
    )


_RESERVED = {ROW_ID, SNAPSHOT_ID}


def _read(file: SmallFile, columns: Sequence[LakeColumn]) -> list[pa.Array]:
    with open_parquet(file.path) as parquet:
        table = parquet.read().combine_chunks()
    arrays = [_column(table, column.name) for column in columns]
    if ROW_ID in table.column_names:
        arrays.append(_column(table, ROW_ID))
    else:
        first = file.first_row_id or 0
        arrays.append(pa.array(range(first, first + table.num_rows), pa.int64()))
    if SNAPSHOT_ID in table.column_names:
        arrays.append(_column(table, SNAPSHOT_ID))
    else:
        arrays.append(pa.repeat(pa.scalar(file.begin, pa.int64()), table.num_rows))
    return arrays


def _column(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()
