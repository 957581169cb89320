"""Lake tables written by the recipe, one step at a time, and read by DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.lake.files.roots import LakePath
from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.columns import LakeColumn, number_columns
from pgtrickle.lake.format.types import LakeType, lake_type
from pgtrickle.lake.write.commit import begin_commit
from pgtrickle.lake.write.parquet import DataFile, DataFileWriter, read_deletes, write_deletes
from pgtrickle.model.sql_type import BIGINT, TEXT, SqlType
from pgtrickle.model.text.names import QualifiedName
from tests.fixtures.ducklake import lake_client

FLOAT = SqlType("double precision", "float8", "N")
INTEGERS = SqlType("integer[]", "_int4", "A")


def types(*named: tuple[str, SqlType]) -> list[tuple[str, LakeType]]:
    """Return columns as the lake keeps them."""
    return [(name, lake_type(type_)) for name, type_ in named]


@dataclass(slots=True)
class Workshop:
    """A catalog, and the tables made in it so far."""

    connection: Connection[TupleRow]
    catalog: LakeCatalog
    client: duckdb.DuckDBPyConnection
    path: Path
    tables: dict[str, tuple[int, tuple[LakeColumn, ...]]] = field(default_factory=dict)
    clients: ExitStack = field(default_factory=ExitStack)  # those that took the place of the first

    def create(self, name: str, *columns: tuple[str, SqlType]) -> int:
        """Create a table in a snapshot of its own."""
        listed = number_columns(types(*(columns or (("id", BIGINT), ("v", TEXT)))))
        with self.connection.transaction():
            commit = begin_commit(self.connection, self.catalog)
            table_id = commit.create_table(
                0, QualifiedName("main", name), listed, f"{name}/", relative=True
            )
            commit.finish(author="test", message="create")
        self.tables[name] = table_id, listed
        return table_id

    def directory(self, name: str) -> Path:
        """Return where the files of a table lie."""
        return self.path / "main" / name

    def place(self, name: str) -> LakePath:
        """Return the same as a path of the lake."""
        return self.catalog.place(str(self.directory(name)))

    def write(self, name: str, *columns: Sequence[Any], row_ids: Sequence[int] = ()) -> DataFile:
        """Write a file of rows that the catalog does not know yet."""
        listed = self.tables[name][1]
        writer = DataFileWriter(self.place(name), listed, has_row_ids=bool(row_ids))
        values = [pa.array(v, f.type) for v, f in zip(columns, writer.schema, strict=False)]
        writer.write([*values, *([pa.array(row_ids, pa.int64())] if row_ids else [])])
        return writer.close()

    def append(self, name: str, *columns: Sequence[Any]) -> int:
        """Write a file of rows and commit it; return its id."""
        file = self.write(name, *columns)
        with self.connection.transaction():
            commit = begin_commit(self.connection, self.catalog)
            [(file_id, _)] = commit.add_data_files(self.tables[name][0], [file])
            commit.finish(author="test", message="append")
        return file_id

    def delete(self, name: str, file_id: int, *positions: int) -> None:
        """Delete positions of a file in a snapshot of their own, merged with earlier ones."""
        table_id, _ = self.tables[name]
        with self.connection.transaction():
            commit = begin_commit(self.connection, self.catalog)
            earlier = self.connection.execute(
                f"SELECT path, begin_snapshot FROM {self.catalog.table('delete_file')}"
                " WHERE data_file_id = %s AND end_snapshot IS NULL".encode(),
                [file_id],
            ).fetchall()
            dead = [(position, commit.snapshot_id) for position in positions]
            for path, begin in earlier:
                dead += read_deletes(self.place(name) / path, begin)
            file = write_deletes(self.place(name), file_id, "data", dead)
            commit.put_delete_file(table_id, file)
            commit.finish(author="test", message="delete")

    def renew_client(self) -> None:
        """Attach DuckDB anew, after a failure that its session does not survive."""
        renewed = lake_client(self.connection.info.dsn, self.catalog.schema)
        self.client = self.clients.enter_context(renewed)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Ask DuckDB."""
        return self.client.execute(query).fetchall()
