"""Write rows of a stream table into files of the lake, and note where each of them went."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from psycopg import Connection

from pgtrickle.lake.columns import LakeColumn
from pgtrickle.lake.parquet import DataFile, DataFileWriter
from pgtrickle.lake.read_rows import read_rows, texts
from pgtrickle.lake.row_map import RowMap, Runs, place
from pgtrickle.model.names import QualifiedName

_FILE_BYTES = 128 * 2**20


@dataclass(slots=True)
class Written:
    """Files that are written and not yet in the catalog, each with where its rows came from."""

    directory: Path
    files: list[tuple[DataFile, Runs]] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)

    def remove(self) -> None:
        """Take the files away again, since no snapshot will know them."""
        for path in self.paths:
            path.unlink(missing_ok=True)

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file, _ in self.files)

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(file.rows for file, _ in self.files)


def write_all(
    connection: Connection, table: QualifiedName, columns: Sequence[LakeColumn], into: Written
) -> None:
    """Write every row of a stream table."""
    block, number = place("t.ctid")
    listed = ", ".join([*texts(columns, "t"), block, number])
    _write(connection, columns, f"SELECT {listed} FROM {table.sql} AS t", into, updates=False)


def write_new(
    connection: Connection,
    table: QualifiedName,
    columns: Sequence[LakeColumn],
    rows: RowMap,
    into: Written,
) -> None:
    """Write the rows that the lake lacks: those that take over a row id apart from the others."""
    block, number = place("t.ctid")
    listed = ", ".join([*texts(columns, "t"), block, number])
    source = f"FROM {rows.new} AS n JOIN {table.sql} AS t ON t.ctid = n.tid"
    fresh = f"SELECT {listed} {source} WHERE n.row_id IS NULL ORDER BY n.tid"
    updated = f"SELECT {listed}, n.row_id {source} WHERE n.row_id IS NOT NULL ORDER BY n.tid"
    _write(connection, columns, fresh, into, updates=False)
    _write(connection, columns, updated, into, updates=True)


def _write(
    connection: Connection,
    columns: Sequence[LakeColumn],
    query: str,
    into: Written,
    *,
    updates: bool,
) -> None:
    writer: DataFileWriter | None = None
    runs = Runs()
    # Closed at once if a file cannot be written: until then the connection is good for nothing.
    with closing(read_rows(connection, columns, query, extra=3 if updates else 2)) as batches:
        for batch in batches:
            if writer is None:
                writer, runs = DataFileWriter(into.directory, columns, has_row_ids=updates), Runs()
                into.paths.append(writer.path)
            values: list[pa.Array] = batch[: len(columns)]
            block, number, *row_ids = batch[len(columns) :]
            writer.write([*values, *row_ids])
            runs.add(block, number, row_ids[0] if row_ids else None)
            if writer.size > _FILE_BYTES:
                into.files.append((writer.close(), runs))
                writer = None
    if writer is not None:
        into.files.append((writer.close(), runs))
