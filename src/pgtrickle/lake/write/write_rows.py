"""Write rows of a stream table into files of the lake, and record the position of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import Connection

from pgtrickle.lake.files.roots import LakePath
from pgtrickle.lake.files.stores import list_files, remove
from pgtrickle.lake.format.columns import LakeColumn
from pgtrickle.lake.format.partition import Spec, partition_texts
from pgtrickle.lake.write.parquet import DataFile, DataFileWriter
from pgtrickle.lake.write.read_rows import read_rows, texts
from pgtrickle.lake.write.row_map import RowMap, Runs, parse_places
from pgtrickle.model.text.names import QualifiedName

_FILE_BYTES = 128 * 2**20
_PLACE = "(t.ctid)::text"


@dataclass(slots=True)
class Written:
    """Files that are written and not yet in the catalog, each with the places of its rows."""

    directory: LakePath
    files: list[tuple[DataFile, Runs]] = field(default_factory=list)
    paths: list[LakePath] = field(default_factory=list)
    mark: str = ""  # in the names of the files, to find them

    def remove(self) -> None:
        """Remove the files, since no snapshot will contain them.

        A file that cannot be reached now stays behind as an orphan.
        """
        for path in self.paths:
            with suppress(OSError):
                remove(path)
        self.paths.clear()
        self.files.clear()

    def remove_strays(self) -> None:
        """Remove the files with the mark that are not among these.

        An executor left them: it died, or its task was run twice.
        """
        if not self.mark:
            return
        known = {path.name for path in self.paths}
        with suppress(OSError):
            for path, _ in list(list_files(self.directory, f"ducklake-{self.mark}*")):
                if path.name not in known:
                    remove(path)

    def discard(self, name: str) -> None:
        """Remove one file."""
        for path in [path for path in self.paths if path.name == name]:
            remove(path)
            self.paths.remove(path)

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file, _ in self.files)

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(file.rows for file, _ in self.files)


def write_all(
    connection: Connection,
    table: QualifiedName,
    columns: Sequence[LakeColumn],
    into: Written,
    spec: Spec = (),
) -> None:
    """Write every row of a stream table, with separate files for each partition."""
    query = all_rows(table, columns, spec, texts(columns, "t"))
    _copy(connection, columns, query, into, updates=False, keys=len(spec))


def all_rows(
    table: QualifiedName,
    columns: Sequence[LakeColumn],
    spec: Spec,
    values: Sequence[str],
    where: str = "",
) -> str:
    """Return the query of all rows as ``write_batches`` takes them, or of those in a condition."""
    keys = partition_texts(spec, columns, "t")
    listed = ", ".join([*values, _PLACE, *keys])
    order = _order(keys, "t.ctid") if keys else ""
    condition = f" WHERE {where}" if where else ""
    return f"SELECT {listed} FROM {table.sql} AS t{condition}{order}"


def write_new(
    connection: Connection,
    table: QualifiedName,
    columns: Sequence[LakeColumn],
    rows: RowMap,
    into: Written,
    spec: Spec = (),
) -> None:
    """Write the rows that the lake lacks: rows that reuse a row id separately from the others."""
    for updates in (False, True):
        query = new_rows(table, columns, rows, spec, texts(columns, "t"), updates=updates)
        _copy(connection, columns, query, into, updates=updates, keys=len(spec))


def new_rows(
    table: QualifiedName,
    columns: Sequence[LakeColumn],
    rows: RowMap,
    spec: Spec,
    values: Sequence[str],
    *,
    updates: bool,
    where: str = "true",
) -> str:
    """Return the query of new rows as ``write_batches`` takes them: updates, or all others."""
    keys = partition_texts(spec, columns, "t")
    listed = ", ".join([*values, _PLACE, *(["n.row_id"] if updates else []), *keys])
    return (
        f"SELECT {listed} FROM {rows.new} AS n JOIN {table.sql} AS t ON t.ctid = n.tid"
        f" WHERE n.row_id IS {'NOT ' if updates else ''}NULL AND {where}{_order(keys, 'n.tid')}"
    )


def _order(keys: Sequence[str], place: str) -> str:
    sorted_by = [f'{key} COLLATE "C"' for key in keys]
    return f" ORDER BY {', '.join([*sorted_by, place])}"


def _copy(
    connection: Connection,
    columns: Sequence[LakeColumn],
    query: str,
    into: Written,
    *,
    updates: bool,
    keys: int,
) -> None:
    extra = [pa.string(), *([pa.int64()] if updates else []), *([pa.string()] * keys)]
    # Closed at once if a file cannot be written: until then the connection is unusable.
    with closing(read_rows(connection, columns, query, extra)) as batches:
        write_batches(batches, columns, into, updates=updates)


def write_batches(
    batches: Iterable[Sequence[pa.Array]],
    columns: Sequence[LakeColumn],
    into: Written,
    *,
    updates: bool = False,
) -> None:
    """Write rows: their columns, places, row ids if they are updates, and partition keys.

    Rows of a partition follow one another.
    """
    files = _Files(into, columns, updates=updates)
    width = len(columns) + (2 if updates else 1)
    try:
        for batch in batches:
            arrays, partition = batch[:width], batch[width:]
            for first, end in pairwise([*_starts(partition), len(arrays[0])]):
                shared = tuple(key[first].as_py() for key in partition)
                files.write([array.slice(first, end - first) for array in arrays], shared)
        files.close()
    except BaseException:
        files.abandon()
        raise


def _starts(keys: Sequence[pa.Array]) -> list[int]:
    """Return the rows whose keys differ from the row before, including the first row.

    >>> _starts([pa.array(["a", "a", None, None, "b"])]), _starts([])
    ([0, 2, 4], [0])
    """
    starts = {0}
    for key in keys:
        ends = pc.run_end_encode(key).run_ends.to_pylist()
        starts.update(ends[:-1])
    return sorted(starts)


class _Files:
    """The files that are written, one after another: a new one for each partition, or when full."""

    def __init__(self, into: Written, columns: Sequence[LakeColumn], *, updates: bool) -> None:
        self._into = into
        self._columns = columns
        self._updates = updates
        self._writer: DataFileWriter | None = None
        self._runs = Runs()
        self._partition: tuple[str | None, ...] = ()

    def write(self, arrays: Sequence[pa.Array], partition: tuple[str | None, ...]) -> None:
        """Write rows of one partition: columns, places, and row ids if they have any."""
        if partition != self._partition:
            self.close()
        if self._writer is None:
            self._writer = DataFileWriter(
                self._into.directory,
                self._columns,
                has_row_ids=self._updates,
                mark=self._into.mark,
            )
            self._into.paths.append(self._writer.path)
            self._runs, self._partition = Runs(), partition
        values = arrays[: len(self._columns)]
        places, *row_ids = arrays[len(self._columns) :]
        self._writer.write([*values, *row_ids])
        self._runs.add(*parse_places(places), *row_ids)
        if self._writer.size > _FILE_BYTES:
            self.close()

    def abandon(self) -> None:
        """Abandon the file that is being written, if there is one."""
        if self._writer is not None:
            self._writer.abandon()

    def close(self) -> None:
        """Finish the file that is being written, if there is one."""
        if self._writer is not None:
            self._into.files.append((self._writer.close(self._partition), self._runs))
            self._writer = None
