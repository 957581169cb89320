"""Select the small files of a lake table that may be merged."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from psycopg import Connection

from pgtrickle.lake.files.roots import LakePath
from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.columns import ROW_ID
from pgtrickle.lake.format.tables import LakeTable
from pgtrickle.lake.write.parquet import open_parquet
from pgtrickle.model.text.trusted import trusted

SMALL_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A live data file that will be merged into another."""

    id: int
    path: LakePath
    rows: int
    first_row_id: int | None
    begin: int
    last: int
    partition_id: int | None = None
    partition: tuple[str | None, ...] = ()


def find_small_files(
    connection: Connection, catalog: LakeCatalog, table: LakeTable
) -> tuple[SmallFile, ...]:
    """Return the small files of a table, oldest first."""
    found = connection.execute(
        trusted(
            "SELECT data_file_id, path, path_is_relative, record_count, row_id_start,"
            " begin_snapshot, COALESCE(partial_max, begin_snapshot), partition_id,"
            " ARRAY(SELECT partition_value::text"
            f" FROM {catalog.table('file_partition_value')} AS v"
            " WHERE v.data_file_id = f.data_file_id ORDER BY partition_key_index)"
            f" FROM {catalog.table('data_file')} AS f"
            " WHERE table_id = %s AND end_snapshot IS NULL AND file_size_bytes < %s"
            " AND mapping_id IS NULL AND encryption_key IS NULL"
            " ORDER BY data_file_id"
        ),
        [table.id, SMALL_BYTES],
    )
    files = []
    for id_, path, relative, rows, first, begin, last, partition_id, partition in found:
        place = catalog.place(table.directory + (path or "") if relative else path or "")
        files.append(
            SmallFile(id_, place, rows, first, begin, last, partition_id, tuple(partition))
        )
    return tuple(files)


def by_partition(files: Sequence[SmallFile]) -> list[list[SmallFile]]:
    """Group files that may be merged: all their rows belong to one partition.

    >>> from pgtrickle.lake.files.roots import LocalPath
    >>> f = LocalPath("/lake", "f")
    >>> files = [SmallFile(n, f, 1, 0, 1, 1, 9, (key,)) for n, key in enumerate("aba")]
    >>> [[file.id for file in group] for group in by_partition(files)]
    [[0, 2], [1]]
    """
    groups: dict[tuple[object, ...], list[SmallFile]] = defaultdict(list)
    for file in files:
        groups[file.partition_id, *file.partition].append(file)
    return list(groups.values())


def leave_out_twins(
    files: Sequence[SmallFile], forgotten: Mapping[int, set[int]]
) -> list[SmallFile]:
    """Leave out files that hold an older version of a row in a newer file.

    If both were in one file, DuckDB's ``table_changes`` would report each change of the row as
    often as there are versions.  Positions that are ``forgotten`` do not count.
    """
    own = {file.id: _read_row_ids(file, forgotten.get(file.id, set())) for file in files}
    versions = _find_versions(files, own, forgotten)
    taken: set[int] = set()
    chosen = []
    for file in reversed(files):
        ids = own[file.id]
        ids = versions[file.id] if ids is None else ids
        if taken.isdisjoint(ids):
            chosen.append(file)
            taken |= ids
    return chosen[::-1]


def _read_row_ids(file: SmallFile, forgotten: set[int]) -> set[int] | None:
    """Return the ids stored with the rows of a file; None if they are counted up."""
    with open_parquet(file.path) as parquet:
        if ROW_ID not in parquet.schema_arrow.names:
            return None
        listed = parquet.read([ROW_ID]).column(ROW_ID).to_pylist()
    return {row_id for position, row_id in enumerate(listed) if position not in forgotten}


def _find_versions(
    files: Sequence[SmallFile],
    own: Mapping[int, set[int] | None],
    forgotten: Mapping[int, set[int]],
) -> dict[int, set[int]]:
    """Return, for each file whose ids are counted up, its rows that are in other files too."""
    counted = sorted(
        ((file.first_row_id or 0, file) for file in files if own[file.id] is None),
        key=itemgetter(0),
    )
    firsts = [first for first, _ in counted]
    versions: dict[int, set[int]] = defaultdict(set)
    for row_id in {one for ids in own.values() if ids is not None for one in ids}:
        index = bisect_right(firsts, row_id) - 1
        if index >= 0:
            first, file = counted[index]
            position = row_id - first
            if position < file.rows and position not in forgotten.get(file.id, set()):
                versions[file.id].add(row_id)
    return versions
