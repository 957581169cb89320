"""Delete rows of the lake by their positions: in the catalog where they are few, by files else."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from psycopg import Connection

from pgtrickle.lake.catalog import LakeCatalog
from pgtrickle.lake.commit import Commit
from pgtrickle.lake.parquet import read_deletes, write_deletes
from pgtrickle.lake.row_map import RowMap
from pgtrickle.lake.tables import LakeTable
from pgtrickle.lake.write_rows import Written

# Every scan of the table reads them from the catalog, a file only where it is touched.
INLINE_LIMIT = 1000


def gone_is_live(connection: Connection, catalog: LakeCatalog, table_id: int, rows: RowMap) -> bool:
    """Tell whether all files from which rows are to go are files of the lake table still."""
    [(lost,)] = connection.execute(
        f"SELECT EXISTS (SELECT FROM {rows.gone} AS g WHERE NOT EXISTS ("
        f" SELECT FROM {catalog.table('data_file')} AS f WHERE f.data_file_id = g.file_id"
        f" AND f.table_id = %s AND f.end_snapshot IS NULL))".encode(),
        [table_id],
    ).fetchall()
    return not lost


def delete_gone(commit: Commit, table: LakeTable, rows: RowMap, written: Written) -> int:
    """Delete what is gone, and return how many rows that were."""
    [(count,)] = commit.connection.execute(f"SELECT count(*) FROM {rows.gone}".encode()).fetchall()
    if 0 < count <= INLINE_LIMIT:
        commit.inline_deletes(table.id, f"SELECT file_id, position FROM {rows.gone}")
    elif count:
        _delete_by_files(commit, table, rows, written)
    return int(count)


def _delete_by_files(commit: Commit, table: LakeTable, rows: RowMap, written: Written) -> None:
    by_file: dict[int, list[int]] = defaultdict(list)
    for file_id, position in commit.connection.execute(
        f"SELECT file_id, position FROM {rows.gone}".encode()
    ):
        by_file[file_id].append(position)
    known = {
        file_id: (path, total, begin, deletes, relative)
        for file_id, path, total, begin, deletes, relative in commit.connection.execute(
            f"SELECT f.data_file_id, f.path, f.record_count, d.begin_snapshot, d.path,"
            f" d.path_is_relative FROM {commit.catalog.table('data_file')} AS f"
            f" LEFT JOIN {commit.catalog.table('delete_file')} AS d"
            f" ON d.data_file_id = f.data_file_id AND d.end_snapshot IS NULL"
            f" WHERE f.data_file_id = ANY(%s)".encode(),
            [list(by_file)],
        )
    }
    inlined = _count_inlined(commit, table.id, list(by_file))
    emptied = []
    for file_id, positions in by_file.items():
        path, total, begin, deletes, relative = known[file_id]
        dead = [(position, commit.snapshot_id) for position in positions]
        if deletes is not None:
            earlier = Path(table.directory) / deletes if relative else Path(deletes)
            dead += read_deletes(earlier, begin)
        if len(dead) + inlined.get(file_id, 0) == total:
            emptied.append(file_id)
            continue
        file = write_deletes(written.directory, file_id, path, dead)
        written.paths.append(written.directory / file.name)
        if deletes is None:
            commit.add_delete_file(table.id, file)
        else:
            commit.replace_delete_file(table.id, file)
    if emptied:
        commit.end_data_files(table.id, emptied)


def _count_inlined(commit: Commit, table_id: int, file_ids: list[int]) -> dict[int, int]:
    """Return how many rows of each file are deleted in the catalog itself."""
    table = commit.catalog.table(f"inlined_delete_{table_id}")
    [(there,)] = commit.connection.execute("SELECT pg_catalog.to_regclass(%s)", [table]).fetchall()
    if there is None:
        return {}
    return dict(
        commit.connection.execute(
            f"SELECT file_id, count(*) FROM {table} WHERE file_id = ANY(%s)"
            " GROUP BY file_id".encode(),
            [file_ids],
        ).fetchall()
    )
