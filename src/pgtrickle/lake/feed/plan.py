"""What must be read to learn how a lake table changed from one snapshot to a later one.

Both snapshots are asked of the catalog as it is now: what was flushed or merged since lies in other
files, which say of each row when it came and when it went.  Only files are looked at that are newer
than the first snapshot, that ended since, or of which rows were deleted since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
from psycopg import Connection

from pgtrickle.lake.catalog import LakeCatalog
from pgtrickle.lake.reader.columns import ReadColumn
from pgtrickle.lake.reader.inlined_rows import read_inlined_ends, read_inlined_versions
from pgtrickle.lake.reader.scan import (
    FoundTable,
    NameMapping,
    ReadFile,
    check_readable,
    delete_files,
    find_inlined_deletes,
    find_mappings,
)


@dataclass(frozen=True, slots=True)
class Feed:
    """Where the changes of a table lie."""

    since: int
    until: int
    columns: tuple[ReadColumn, ...]
    new: tuple[tuple[ReadFile, int | None], ...]  # read only what came after a snapshot, if given
    ended: tuple[ReadFile, ...]  # as they were
    dying: tuple[tuple[ReadFile, ReadFile], ...]  # as they were, and as they are
    inlined: tuple[pa.RecordBatch, ...]
    inlined_ends: tuple[int, ...]


# A delete file that was flushed says that it began with the oldest of its deletes, so only its id
# tells that it is new: ids are never given twice, and each snapshot says which comes next.
_LIST_FILES = """
    SELECT f.data_file_id, f.path, f.path_is_relative, f.file_format, f.encryption_key,
           f.file_size_bytes, f.mapping_id, f.row_id_start, f.begin_snapshot, f.end_snapshot,
           f.partial_max,
           was.path, was.path_is_relative, was.format, was.encryption_key,
           now.path, now.path_is_relative, now.format, now.encryption_key
      FROM {data_file} AS f
     CROSS JOIN (SELECT next_file_id FROM {snapshot} WHERE snapshot_id = %(since)s) AS s
      LEFT JOIN {delete_file} AS was
        ON was.data_file_id = f.data_file_id AND was.begin_snapshot <= %(since)s
           AND (was.end_snapshot IS NULL OR was.end_snapshot > %(since)s)
      LEFT JOIN {delete_file} AS now
        ON now.data_file_id = f.data_file_id AND now.begin_snapshot <= %(until)s
           AND (now.end_snapshot IS NULL OR now.end_snapshot > %(until)s)
     WHERE f.table_id = %(table)s AND f.begin_snapshot <= %(until)s
       AND (f.end_snapshot IS NULL OR f.end_snapshot > %(since)s)
       AND (f.end_snapshot IS NULL OR f.end_snapshot > %(until)s OR f.begin_snapshot <= %(since)s)
       AND (f.data_file_id >= s.next_file_id OR f.end_snapshot <= %(until)s
            OR now.delete_file_id >= s.next_file_id
            OR now.delete_file_id IS DISTINCT FROM was.delete_file_id
            OR f.data_file_id = ANY(%(touched)s))
     ORDER BY f.data_file_id
"""


def plan_feed(
    connection: Connection,
    catalog: LakeCatalog,
    table: FoundTable,
    columns: Sequence[ReadColumn],
    since: int,
    until: int,
) -> Feed:
    """Return what must be read; both snapshots must still be there."""
    was_dead, is_dead = (
        find_inlined_deletes(connection, catalog, {"table": table.id, "snapshot": snapshot})
        for snapshot in (since, until)
    )
    touched = [id_ for id_, dead in is_dead.items() if len(dead) != len(was_dead.get(id_, ()))]
    names = {name: catalog.table(name) for name in ("data_file", "delete_file", "snapshot")}
    found = connection.execute(
        _LIST_FILES.format(**names).encode(),
        {"table": table.id, "since": since, "until": until, "touched": touched},
    ).fetchall()
    mappings = find_mappings(connection, catalog, table.id) if found else {}
    new: list[tuple[ReadFile, int | None]] = []
    ended: list[ReadFile] = []
    dying: list[tuple[ReadFile, ReadFile]] = []
    for id_, rows in groupby(found, key=lambda row: row[0]):
        was, now, begin, end, newest = _files(table, list(rows), mappings, since, until)
        was = replace(was, dead=tuple(sorted(was_dead.get(id_, ()))))
        now = replace(now, dead=tuple(sorted(is_dead.get(id_, ()))))
        if begin > since:
            new.append((now, None))
        elif end is not None and end <= until:
            ended.append(was)
        else:
            dying.append((was, now))
            if newest is not None and newest > since:
                new.append((now, since))
    return Feed(
        since,
        until,
        tuple(columns),
        tuple(new),
        tuple(ended),
        tuple(dying),
        read_inlined_versions(connection, catalog, table.id, columns, until, since),
        tuple(read_inlined_ends(connection, catalog, table.id, since, until)),
    )


def _files(
    table: FoundTable,
    rows: Sequence[tuple[Any, ...]],
    mappings: dict[int, tuple[NameMapping, ...]],
    since: int,
    until: int,
) -> tuple[ReadFile, ReadFile, int, int | None, int | None]:
    """Return a file as it was in the one snapshot and as it is in the other, and its snapshots.

    It comes in several rows if it has several delete files: a flush may leave one for deletes that
    are older than the one that is there, and a position is dead that any of them names.
    """
    id_, path, relative, format_, key, size, mapping, first, begin, end, newest, *_ = rows[0]
    check_readable(path, format_, key)
    file = ReadFile(
        id_,
        table.place(path, relative=relative),
        size,
        checks_snapshots=False,
        mapping=mappings[mapping] if mapping is not None else (),
        first_row_id=first,
    )
    was, now = (
        replace(
            file,
            checks_snapshots=newest is not None and newest > snapshot,
            deletes=tuple(
                sorted({one for row in rows for one in delete_files(table, row[at:][:4])}, key=str)
            ),
        )
        for at, snapshot in ((11, since), (15, until))
    )
    return was, now, begin, end, newest
