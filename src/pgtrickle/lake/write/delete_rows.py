"""Delete rows of the lake by position: in the catalog if they are few, otherwise by files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.lake.files.roots import LakePath
from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.tables import LakeTable
from pgtrickle.lake.write.commit import Commit
from pgtrickle.lake.write.parquet import read_deletes, write_deletes
from pgtrickle.lake.write.write_rows import Written
from pgtrickle.model.text.trusted import trusted

# Every scan of the table reads them from the catalog, but a delete file only with its data file.
INLINE_LIMIT = 1000


def gone_is_live(connection: Connection, catalog: LakeCatalog, table_id: int, gone: str) -> bool:
    """Tell whether all files with rows to delete still belong to the lake table.

    ``gone`` is a table of (file id, position), here and below.
    """
    [(lost,)] = connection.execute(
        trusted(
            f"SELECT EXISTS (SELECT FROM {gone} AS g WHERE NOT EXISTS ("
            f" SELECT FROM {catalog.table('data_file')} AS f WHERE f.data_file_id = g.file_id"
            f" AND f.table_id = %s AND f.end_snapshot IS NULL))"
        ),
        [table_id],
    ).fetchall()
    return not lost


def delete_gone(commit: Commit, table: LakeTable, gone: str, written: Written) -> int:
    """Delete the rows that are gone, and return their number."""
    [(count,)] = commit.connection.execute(trusted(f"SELECT count(*) FROM {gone}")).fetchall()
    if 0 < count <= INLINE_LIMIT:
        ended = f"ARRAY{_end_emptied(commit, table, gone)}::bigint[]"
        commit.inline_deletes(
            table.id, f"SELECT file_id, position FROM {gone} WHERE file_id <> ALL ({ended})"
        )
    elif count:
        _delete_by_files(commit, table, gone, written)
    return int(count)


def _end_emptied(commit: Commit, table: LakeTable, gone: str) -> list[int]:
    """End the files that lose all their rows, so that no reader opens them any more."""
    emptied = [
        file_id
        for (file_id,) in commit.connection.execute(
            trusted(
                f"SELECT g.file_id FROM {gone} AS g"
                f" JOIN {commit.catalog.table('data_file')} AS f ON f.data_file_id = g.file_id"
                " GROUP BY g.file_id, f.record_count HAVING count(*) = f.record_count"
            )
        )
    ]
    if emptied:
        commit.end_data_files(table.id, emptied)
    return emptied


def flush_deletes(
    commit: Commit, table: LakeTable, written: Written, file_ids: Sequence[int] | None = None
) -> int:
    """Move deletes from the catalog into files: for the given files, or for all live ones.

    No snapshot changes.  It must be done before a file ends: for an ended file,
    DuckDB's ``table_changes`` reports rows again that were deleted in the catalog before.
    """
    listed = _take_inlined(commit, table.id, file_ids)
    dead: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for file_id, position, snapshot_id in listed:
        dead[file_id].append((position, snapshot_id))
    known = _find_files(commit.connection, commit.catalog, table, list(dead))
    for file_id, positions in dead.items():
        _put_deletes(commit, table, written, known[file_id], positions + known[file_id].dead())
    return len(listed)


def take_deletes(
    commit: Commit, table: LakeTable, file_ids: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Take the deletes of data files out of the catalog: file, position, snapshot."""
    dead = find_deletes(commit.connection, commit.catalog, table, file_ids)
    commit.take_delete_files(table.id, file_ids)
    _take_inlined(commit, table.id, file_ids)
    return dead


def find_deletes(
    connection: Connection, catalog: LakeCatalog, table: LakeTable, file_ids: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Return all deletes of data files, from files and catalog: file, position, snapshot."""
    files = _find_files(connection, catalog, table, file_ids)
    dead = [
        (file.id, position, snapshot_id)
        for file in files.values()
        for position, snapshot_id in file.dead()
    ]
    inlined = catalog.table(f"inlined_delete_{table.id}")
    if _exists(connection, inlined):
        dead += connection.execute(
            trusted(
                f"SELECT file_id, row_id, begin_snapshot FROM {inlined} WHERE file_id = ANY(%s)"
            ),
            [list(file_ids)],
        ).fetchall()
    return dead


def _take_inlined(
    commit: Commit, table_id: int, file_ids: Sequence[int] | None
) -> list[tuple[int, int, int]]:
    inlined = commit.catalog.table(f"inlined_delete_{table_id}")
    if not _exists(commit.connection, inlined):
        return []
    return commit.connection.execute(
        trusted(
            f"DELETE FROM {inlined} AS i USING {commit.catalog.table('data_file')} AS f"
            " WHERE f.data_file_id = i.file_id AND f.end_snapshot IS NULL"
            " AND (%(files)s::bigint[] IS NULL OR i.file_id = ANY(%(files)s))"
            " RETURNING i.file_id, i.row_id, i.begin_snapshot"
        ),
        {"files": None if file_ids is None else list(file_ids)},
    ).fetchall()


@dataclass(frozen=True, slots=True)
class _File:
    """A data file, and the file of its deleted positions if there is one."""

    id: int
    path: str
    rows: int
    deletes: LakePath | None
    begin: int | None

    def dead(self) -> list[tuple[int, int]]:
        """Return the positions that the file deletes, each with its snapshot."""
        if self.deletes is None or self.begin is None:
            return []
        return read_deletes(self.deletes, self.begin)


def _find_files(
    connection: Connection, catalog: LakeCatalog, table: LakeTable, file_ids: Sequence[int]
) -> dict[int, _File]:
    found = connection.execute(
        trusted(
            f"SELECT f.data_file_id, f.path, f.record_count, d.path, d.path_is_relative,"
            f" d.begin_snapshot FROM {catalog.table('data_file')} AS f"
            f" LEFT JOIN {catalog.table('delete_file')} AS d"
            f" ON d.data_file_id = f.data_file_id AND d.end_snapshot IS NULL"
            f" WHERE f.data_file_id = ANY(%s)"
        ),
        [list(file_ids)],
    )
    files = {}
    for file_id, path, rows, deletes, relative, begin in found:
        place = None
        if deletes is not None:
            place = catalog.place(table.directory + deletes if relative else deletes)
        files[file_id] = _File(file_id, path, rows, place, begin)
    return files


def _put_deletes(
    commit: Commit, table: LakeTable, written: Written, file: _File, dead: list[tuple[int, int]]
) -> None:
    deletes = write_deletes(written.directory, file.id, file.path, dead)
    written.paths.append(written.directory / deletes.name)
    commit.put_delete_file(table.id, deletes)


def _delete_by_files(commit: Commit, table: LakeTable, gone: str, written: Written) -> None:
    by_file: dict[int, list[int]] = defaultdict(list)
    for file_id, position in commit.connection.execute(
        trusted(f"SELECT file_id, position FROM {gone}")
    ):
        by_file[file_id].append(position)
    known = _find_files(commit.connection, commit.catalog, table, list(by_file))
    inlined = _count_by_file(commit, table.id, list(by_file))
    emptied = []
    for file_id, positions in by_file.items():
        file = known[file_id]
        dead = [(position, commit.snapshot_id) for position in positions] + file.dead()
        if len(dead) + inlined.get(file_id, 0) == file.rows:
            emptied.append(file_id)
        else:
            _put_deletes(commit, table, written, file, dead)
    if emptied:
        flush_deletes(commit, table, written, emptied)
        commit.end_data_files(table.id, emptied)


def count_inlined(connection: Connection, catalog: LakeCatalog, table_id: int) -> int:
    """Return how many rows of live files are deleted in the catalog itself."""
    inlined = catalog.table(f"inlined_delete_{table_id}")
    if not _exists(connection, inlined):
        return 0
    [(count,)] = connection.execute(
        trusted(
            f"SELECT count(*) FROM {inlined} AS i JOIN {catalog.table('data_file')} AS f"
            " ON f.data_file_id = i.file_id AND f.end_snapshot IS NULL"
        )
    ).fetchall()
    return int(count)


def _count_by_file(commit: Commit, table_id: int, file_ids: list[int]) -> dict[int, int]:
    """Return how many rows of each file are deleted in the catalog itself."""
    table = commit.catalog.table(f"inlined_delete_{table_id}")
    if not _exists(commit.connection, table):
        return {}
    return dict(
        commit.connection.execute(
            trusted(
                f"SELECT file_id, count(*) FROM {table} WHERE file_id = ANY(%s) GROUP BY file_id"
            ),
            [file_ids],
        ).fetchall()
    )


def _exists(connection: Connection, table: str) -> bool:
    [(there,)] = connection.execute("SELECT pg_catalog.to_regclass(%s)", [table]).fetchall()
    return there is not None
