"""Write the Parquet files of the lake: rows, and positions of deleted rows.

The footer's own statistics of floats are left out: Arrow's ignore NaN, and DuckDB, for which NaN is
the greatest value, would skip it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from pgtrickle.errors import LakeReadError
from pgtrickle.lake.files.roots import LakePath, LocalPath
from pgtrickle.lake.files.stores import make_directory, open_input, open_output
from pgtrickle.lake.format.column_stats import ColumnStats, Gathering
from pgtrickle.lake.format.columns import ROW_ID, SNAPSHOT_ID, LakeColumn, reserved_field

_MAGIC_BYTES = 8  # the length of the footer, and PAR1
_COMPRESSION = "zstd"
_GROUP_ROWS = 122_880  # as in DuckDB, which reads a group with a thread
_GROUP_BYTES = 64 * 2**20
# Larger than any real footer; a file that claims more would only use up memory.
_LARGEST_FOOTER = 256 * 2**20
_MOST_POSITIONS = 100_000_000


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows that the catalog does not know yet."""

    name: str  # below the table's directory
    rows: int
    size: int
    footer_size: int
    stats: dict[int, ColumnStats] = field(default_factory=dict)  # by the id of the leaf
    has_row_ids: bool = False  # stored with each row; otherwise they are counted up
    partition: tuple[str | None, ...] = ()  # the values of the partition keys that its rows share


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file of positions in one data file."""

    name: str
    data_file_id: int
    positions: int
    size: int
    footer_size: int
    first: int  # the snapshots in which the first and the last of them died
    last: int


class DataFileWriter:
    """One file of rows that is being written."""

    def __init__(
        self,
        directory: LakePath,
        columns: Sequence[LakeColumn],
        *,
        has_row_ids: bool = False,
        has_snapshot_ids: bool = False,
        mark: str = "",
    ) -> None:
        make_directory(directory)
        self._columns = columns
        self._has_row_ids = has_row_ids
        fields = [column.field for column in columns]
        if has_row_ids:
            fields.append(reserved_field(ROW_ID, pa.int64()))
        if has_snapshot_ids:
            fields.append(reserved_field(SNAPSHOT_ID, pa.int64()))
        self.schema = pa.schema(fields)
        self.path = directory / f"ducklake-{mark}{uuid.uuid4()}.parquet"
        self.rows = 0
        self._waiting: list[pa.RecordBatch] = []
        self._stats = {column.leaf_id: Gathering(column.type) for column in columns}
        plain = [
            column.name
            for column in columns
            if not column.type.repeated and not pa.types.is_floating(column.type.arrow)
        ]
        self._file = open_output(self.path)
        self._writer = pq.ParquetWriter(
            self._file, self.schema, compression=_COMPRESSION, write_statistics=plain
        )

    def write(self, arrays: Sequence[pa.Array]) -> None:
        """Write a batch: an array for each column, then row ids and snapshots if it has them."""
        batch = pa.record_batch(arrays, schema=self.schema)
        self.rows += batch.num_rows
        for column, values in zip(self._columns, arrays, strict=False):
            self._stats[column.leaf_id].add(values)
        self._waiting.append(batch)
        if (
            sum(one.num_rows for one in self._waiting) >= _GROUP_ROWS
            or sum(one.nbytes for one in self._waiting) >= _GROUP_BYTES
        ):
            self._write_group()

    def _write_group(self) -> None:
        """Write the buffered rows as one row group of useful size."""
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
            self._waiting.clear()

    @property
    def size(self) -> int:
        """The number of bytes written to the file so far."""
        return int(self._file.tell())

    def abandon(self) -> None:
        """Abandon an unfinished file; the caller removes it.

        A file in a store is not closed, since closing would create it.
        """
        if isinstance(self.path, LocalPath):
            with suppress(OSError, ValueError, pa.ArrowException):
                self._writer.close()
            with suppress(OSError, ValueError):
                self._file.close()

    def close(self, partition: tuple[str | None, ...] = ()) -> DataFile:
        """Finish the file and return its description for the catalog."""
        self._write_group()
        self._writer.close()
        self._file.close()
        size, footer_size = _measure(self.path)
        stats = {id_: gathering.result() for id_, gathering in self._stats.items()}
        return DataFile(
            self.path.name, self.rows, size, footer_size, stats, self._has_row_ids, partition
        )


def write_deletes(
    directory: LakePath, data_file_id: int, data_file: str, dead: Iterable[tuple[int, int]]
) -> DeleteFile:
    """Write the deleted positions of a data file, each with its snapshot."""
    make_directory(directory)
    listed = sorted(dead)  # DuckDB refuses positions that are out of order
    schema = pa.schema(
        [
            reserved_field("file_path", pa.string()),
            reserved_field("pos", pa.int64()),
            reserved_field(SNAPSHOT_ID, pa.int64()),
        ]
    )
    columns = [
        pa.array([data_file] * len(listed), pa.string()),
        pa.array([position for position, _ in listed], pa.int64()),
        pa.array([snapshot for _, snapshot in listed], pa.int64()),
    ]
    path = directory / f"ducklake-{uuid.uuid4()}-delete.parquet"
    with open_output(path) as file:
        pq.write_table(pa.table(columns, schema=schema), file, compression=_COMPRESSION)
    died = [snapshot for _, snapshot in listed]
    return DeleteFile(path.name, data_file_id, len(listed), *_measure(path), min(died), max(died))


def read_deletes(path: LakePath, begin_snapshot: int) -> list[tuple[int, int]]:
    """Return the positions of a delete file with the snapshots in which they died.

    All positions of a file without snapshots died in the snapshot that added it.
    """
    table = read_positions(path)
    positions = table.column("pos").to_pylist()
    if SNAPSHOT_ID in table.column_names:
        return list(zip(positions, table.column(SNAPSHOT_ID).to_pylist(), strict=True))
    return [(position, begin_snapshot) for position in positions]


def read_positions(path: LakePath) -> pa.Table:
    """Return the positions of a delete file, and the snapshots if it names them."""
    with open_parquet(path) as parquet:
        if parquet.metadata.num_rows > _MOST_POSITIONS:
            raise LakeReadError(
                f'the file "{path}" of the lake deletes too many rows of another',
                hint="Rewrite the files with DuckDB's ducklake_rewrite_data_files.",
            )
        # Only these columns: the name of the data file is repeated in each row.
        named = set(parquet.schema_arrow.names)
        return parquet.read([one for one in ("pos", SNAPSHOT_ID) if one in named])


@contextmanager
def open_parquet(path: LakePath) -> Iterator[pq.ParquetFile]:
    """Open a file for reading, unless its footer alone would fill the memory."""
    with open_input(path) as file:
        size = int(file.size())
        # No footer is longer than its file, so for most files this needs no read.
        if size > _LARGEST_FOOTER and _footer_size(file, size) > _LARGEST_FOOTER:
            raise LakeReadError(
                f'the file "{path}" of the lake says that its footer is of more than'
                f" {_LARGEST_FOOTER} bytes",
                hint="See who wrote it.",
            )
        with pq.ParquetFile(file) as parquet:
            yield parquet


def _measure(path: LakePath) -> tuple[int, int]:
    with open_input(path) as file:
        size = int(file.size())
        return size, _footer_size(file, size)


def _footer_size(file: pa.NativeFile, size: int) -> int:
    file.seek(size - _MAGIC_BYTES)
    return int.from_bytes(file.read(4), "little")
