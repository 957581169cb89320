"""One snapshot of the lake, as rows of its catalog, inside the caller's transaction.

Snapshot ids, file ids and catalog ids are counted for the whole catalog, so a commit blocks all
other writers from the moment it reads the head.  DuckDB takes no lock, but its first statement of a
commit inserts into ``ducklake_snapshot``: SHARE ROW EXCLUSIVE makes it wait, read the new head and
go on, while readers notice nothing.  Write files before the lock, not under it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog, directory_name
from pgtrickle.lake.format.column_stats import ColumnStats
from pgtrickle.lake.format.columns import LakeColumn
from pgtrickle.lake.format.inlined_deletes import ensure_inlined_deletes
from pgtrickle.lake.format.partition import Spec
from pgtrickle.lake.format.table_stats import widen_table_stats
from pgtrickle.lake.format.tables import FULL_PATH, next_row_id
from pgtrickle.lake.format.trust import check_inlined_name
from pgtrickle.lake.write.commit_turns import end_turn, take_turn
from pgtrickle.lake.write.parquet import DataFile, DeleteFile
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted


@dataclass(slots=True)
class Commit:
    """A snapshot under construction; the methods add to it, ``finish`` makes it the head."""

    connection: Connection
    catalog: LakeCatalog
    snapshot_id: int
    schema_version: int
    next_catalog_id: int
    next_file_id: int
    changes: list[str] = field(default_factory=list)
    _reshaped: bool = False
    _versioned: set[int] = field(default_factory=set)  # tables whose shape changed

    # Definitions

    def create_schema(self, name: str) -> int:
        """Create a schema of the lake and return its id."""
        schema_id = self._catalog_id()
        self._insert(
            "schema",
            [schema_id, _NEW_UUID, self.snapshot_id, None, name, directory_name(name), True],
        )
        self._reshape(f"created_schema:{quote_identifier(name)}")
        return schema_id

    def create_table(
        self,
        schema_id: int,
        name: QualifiedName,
        columns: Sequence[LakeColumn],
        path: str,
        *,
        relative: bool,
    ) -> int:
        """Create a table without rows and return its id."""
        table_id = self._catalog_id()
        self._insert(
            "table",
            [table_id, _NEW_UUID, self.snapshot_id, None, schema_id, name.name, path, relative],
        )
        self._reshape(f"created_table:{_quoted(name)}", table_id)
        self._add_columns(table_id, columns)
        # Without this row DuckDB would count row ids from zero again.
        self._insert("table_stats", [table_id, 0, 0, 0])
        return table_id

    def partition_table(self, table_id: int, spec: Spec) -> int:
        """Set the partition keys of a table, and return their id.

        Existing files keep their keys.
        """
        partition_id = self._catalog_id()
        self._end("partition_info", "table_id = %s", [table_id])
        self._insert("partition_info", [partition_id, table_id, self.snapshot_id, None])
        for index, (column_id, transform) in enumerate(spec):
            row = [partition_id, table_id, index, column_id, transform]
            self._insert("partition_column", row)
        self._reshape(f"altered_table:{table_id}", table_id)
        return partition_id

    def tag(self, object_id: int, key: str, value: str) -> None:
        """Tag a table; clients ignore tags."""
        self._insert("tag", [object_id, self.snapshot_id, None, key, value])

    def replace_columns(self, table_id: int, columns: Sequence[LakeColumn]) -> None:
        """Replace the columns of a table; files keep the values of both."""
        self._end("column", "table_id = %s", [table_id])
        self._reshape(f"altered_table:{table_id}", table_id)
        self._add_columns(table_id, columns)

    def drop_table(self, table_id: int) -> None:
        """End a table with its columns and files; earlier snapshots still show it."""
        for name in ("table", "column", "partition_info", "data_file", "delete_file"):
            self._end(name, "table_id = %s", [table_id])
        self._reshape(f"dropped_table:{table_id}")

    def put_view(
        self, schema_id: int, name: QualifiedName, sql: str, *, replaces: int | None = None
    ) -> int:
        """Create a view in DuckDB's SQL, or replace an older one."""
        if replaces is not None:
            self.drop_view(replaces)
        view_id = self._catalog_id()
        self._insert(
            "view",
            [view_id, _NEW_UUID, self.snapshot_id, None, schema_id, name.name, "duckdb", sql, ""],
        )
        self._reshape(f"created_view:{_quoted(name)}")
        return view_id

    def drop_view(self, view_id: int) -> None:
        """End a view."""
        self._end("view", "view_id = %s", [view_id])
        self._reshape(f"dropped_view:{view_id}")

    # Rows

    def add_data_files(
        self, table_id: int, files: Sequence[DataFile], partition_id: int | None = None
    ) -> list[tuple[int, int]]:
        """Register files of rows; return the id of each and the id of its first row."""
        placed = []
        row_id = next_row_id(self.connection, self.catalog, table_id)
        for file in files:
            file_id = self._file_id()
            self._insert(
                "data_file",
                [file_id, table_id, self.snapshot_id, None, None, file.name, True, "parquet",
                 file.rows, file.size, file.footer_size, row_id, partition_id, None, None, None],
            )  # fmt: skip
            self._describe(file_id, table_id, file)
            widen_table_stats(self.connection, self.catalog, table_id, file)
            placed.append((file_id, row_id))
            row_id += file.rows
        if files:
            self._note(f"inserted_into_table:{table_id}")
        return placed

    def take_data_files(self, table_id: int, file_ids: Sequence[int]) -> None:
        """Remove data files from all snapshots, since their rows are in other files now."""
        gone = self.connection.execute(
            trusted(
                f"DELETE FROM {self.catalog.table('data_file')} WHERE data_file_id = ANY(%s)"
                " RETURNING data_file_id, path, path_is_relative"
            ),
            [list(file_ids)],
        ).fetchall()
        for name in ("file_column_stats", "file_partition_value"):
            self.connection.execute(
                trusted(f"DELETE FROM {self.catalog.table(name)} WHERE data_file_id = ANY(%s)"),
                [list(file_ids)],
            )
        for file_id, path, relative in gone:
            self._schedule_removal(table_id, file_id, path, relative=relative)
        self._note(f"merge_adjacent:{table_id}")

    def add_merged_file(
        self,
        table_id: int,
        file: DataFile,
        begin: int,
        last: int,
        partition_id: int | None = None,
    ) -> int:
        """Register a file whose rows came from removed files; return its id.

        The file records the id and the first snapshot of each row, from ``begin``
        to ``last``.
        """
        file_id = self._file_id()
        self._insert(
            "data_file",
            [file_id, table_id, begin, None, None, file.name, True, "parquet", file.rows, file.size,
             file.footer_size, None, partition_id, None, None, last],
        )  # fmt: skip
        self._describe(file_id, table_id, file)
        return file_id

    def take_delete_files(self, table_id: int, file_ids: Sequence[int]) -> None:
        """Remove the delete files of removed data files."""
        gone = self.connection.execute(
            trusted(
                f"DELETE FROM {self.catalog.table('delete_file')} WHERE data_file_id = ANY(%s)"
                " RETURNING delete_file_id, path, path_is_relative"
            ),
            [list(file_ids)],
        ).fetchall()
        for file_id, path, relative in gone:
            self._schedule_removal(table_id, file_id, path, relative=relative)

    def put_delete_file(self, table_id: int, file: DeleteFile) -> None:
        """Register a delete file; it includes the positions of its predecessor.

        As DuckDB does: one live row per data file, or rows would appear twice; it begins with
        the first delete, since the file itself records when each position died.
        """
        delete_file = self.catalog.table("delete_file")
        before = self.connection.execute(
            trusted(
                f"DELETE FROM {delete_file} WHERE data_file_id = %s AND end_snapshot IS NULL"
                " RETURNING delete_file_id, path, path_is_relative"
            ),
            [file.data_file_id],
        ).fetchall()
        last = None if file.first == file.last else file.last
        self._insert(
            "delete_file",
            [self._file_id(), table_id, file.first, None, file.data_file_id, file.name, True,
             "parquet", file.positions, file.size, file.footer_size, None, last],
        )  # fmt: skip
        for file_id, path, relative in before:
            self._schedule_removal(table_id, file_id, path, relative=relative)
        self._note(f"deleted_from_table:{table_id}")

    def inline_deletes(self, table_id: int, positions: str) -> int:
        """Delete positions without a file; ``positions`` is a query of (file id, position)."""
        table = ensure_inlined_deletes(self.connection, self.catalog, table_id)
        deleted = self.connection.execute(
            trusted(f"INSERT INTO {table} SELECT p.*, {self.snapshot_id} FROM ({positions}) AS p")
        ).rowcount
        if deleted:
            self._note(f"inlined_delete:{table_id}")
        return deleted

    def end_data_files(self, table_id: int, file_ids: Sequence[int] | None = None) -> None:
        """End files with all their rows: the given ones, or all files of the table."""
        where = "table_id = %s"
        values: list[Any] = [table_id]
        if file_ids is not None:
            where, values = where + " AND data_file_id = ANY(%s)", [table_id, list(file_ids)]
        ended = self._end("data_file", where, values)
        self._end("delete_file", where, values)
        if ended:
            self._note(f"deleted_from_table:{table_id}")

    def end_inlined_rows(self, table_id: int) -> None:
        """End the rows that other clients have put into the catalog itself."""
        tables = self.connection.execute(
            trusted(
                f"SELECT table_name FROM {self.catalog.table('inlined_data_tables')}"
                " WHERE table_id = %s"
            ),
            [table_id],
        ).fetchall()
        for (name,) in tables:
            if self._end(check_inlined_name(table_id, name), "true", []):
                self._note(f"inlined_delete:{table_id}")

    def finish(self, *, author: str, message: str, extra_info: str | None = None) -> int:
        """Make the snapshot the head of the catalog; the caller's commit publishes it."""
        self._insert(
            "snapshot",
            [self.snapshot_id, _NOW, self.schema_version, self.next_catalog_id, self.next_file_id],
        )
        self._insert(
            "snapshot_changes",
            [self.snapshot_id, ",".join(self.changes), author, message, extra_info],
        )
        end_turn(self.connection, self.catalog)
        return self.snapshot_id

    # Steps

    def _describe(self, file_id: int, table_id: int, file: DataFile) -> None:
        """Write the statistics of a file."""
        stats = [_stats_row(file_id, table_id, *column) for column in file.stats.items()]
        self._insert("file_column_stats", *stats)
        values = [[file_id, table_id, *numbered] for numbered in enumerate(file.partition)]
        self._insert("file_partition_value", *values)

    def _add_columns(self, table_id: int, columns: Sequence[LakeColumn]) -> None:
        for order, column in enumerate(columns, start=1):
            own = column.type.name if column.element_id is None else "list"
            kind = "literal" if column.element_id is None else ""
            self._insert(
                "column",
                [column.id, self.snapshot_id, None, table_id, order, column.name, own, None,
                 "NULL", True, None, kind, "duckdb"],
            )  # fmt: skip
            if column.element_id is not None:
                self._insert(
                    "column",
                    [column.element_id, self.snapshot_id, None, table_id, order, "element",
                     column.type.name, None, "NULL", True, column.id, "literal", "duckdb"],
                )  # fmt: skip

    def _reshape(self, change: str, table_id: int | None = None) -> None:
        """Record a change of definitions: attached clients cache a schema version."""
        if not self._reshaped:
            self.schema_version += 1
            self._reshaped = True
        self._note(change)
        if table_id is not None and table_id not in self._versioned:
            self._versioned.add(table_id)
            self._insert("schema_versions", [self.snapshot_id, self.schema_version, table_id])

    def _note(self, change: str) -> None:
        if change not in self.changes:
            self.changes.append(change)

    def _catalog_id(self) -> int:
        self.next_catalog_id += 1
        return self.next_catalog_id - 1

    def _file_id(self) -> int:
        self.next_file_id += 1
        return self.next_file_id - 1

    def _end(self, table: str, where: str, values: Sequence[Any]) -> int:
        return self.connection.execute(
            trusted(
                f"UPDATE {self.catalog.table(table)} SET end_snapshot = {self.snapshot_id}"
                f" WHERE end_snapshot IS NULL AND {where}"
            ),
            values,
        ).rowcount

    def _schedule_removal(self, table_id: int, file_id: int, path: str, *, relative: bool) -> None:
        """Leave a file that no snapshot needs to housekeeping, by DuckDB or pgtrickle."""
        [(full, below)] = self.connection.execute(
            trusted(
                f"SELECT {FULL_PATH} FROM {self.catalog.table('table')} AS t"
                f" JOIN {self.catalog.table('schema')} AS s USING (schema_id),"
                " (VALUES (%s, %s)) AS f (path, path_is_relative)"
                " WHERE t.table_id = %s AND t.end_snapshot IS NULL AND s.end_snapshot IS NULL"
            ),
            [path, relative, table_id],
        ).fetchall()
        self._insert("files_scheduled_for_deletion", [file_id, full, below, _NOW])

    def _insert(self, table: str, *rows: Sequence[Any]) -> None:
        """Insert rows in one statement: other writers wait for each statement."""
        if not rows:
            return
        shown = ", ".join(f"({', '.join(map(_shown, row))})" for row in rows)
        self.connection.execute(
            trusted(f"INSERT INTO {self.catalog.table(table)} VALUES {shown}"),
            [one for row in rows for one in row if not isinstance(one, _Call)],
        )


@dataclass(frozen=True, slots=True)
class _Call:
    sql: str


def _shown(value: object) -> str:
    return value.sql if isinstance(value, _Call) else "%s"


_NEW_UUID = _Call("pg_catalog.gen_random_uuid()")
_NOW = _Call("pg_catalog.clock_timestamp()")


def begin_commit(connection: Connection, catalog: LakeCatalog) -> Commit:
    """Block other writers until the transaction ends, and start the snapshot after the head."""
    head = take_turn(connection, catalog)
    return Commit(
        connection,
        catalog,
        head.snapshot_id + 1,
        head.schema_version,
        head.next_catalog_id,
        head.next_file_id,
    )


def _quoted(name: QualifiedName) -> str:
    return f"{quote_identifier(name.schema)}.{quote_identifier(name.name)}"


def _stats_row(file_id: int, table_id: int, column_id: int, stats: ColumnStats) -> list[Any]:
    return [
        file_id,
        table_id,
        column_id,
        stats.size,
        stats.values,
        stats.nulls,
        stats.least,
        stats.greatest,
        stats.nan,
        None,
    ]
