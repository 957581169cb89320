"""The reads that find the changes of a lake table from one snapshot to a later one.

The present catalog describes both snapshots: rows that were flushed or merged since are in other
files, which record when each row was inserted and deleted.  Only files are read that are newer
than the first snapshot, that ended since, or that lost rows since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog
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
from pgtrickle.model.text.trusted import trusted


@dataclass(frozen=True, slots=True)
class Feed:
    """The files and rows that hold the changes of a table."""

    since: int
    until: int
    columns: tuple[ReadColumn, ...]
    new: tuple[tuple[ReadFile, int | None], ...]  # only rows inserted after a snapshot, if given
    ended: tuple[ReadFile, ...]  # as they were
    dying: tuple[tuple[ReadFile, ReadFile], ...]  # as they were, and as they are
    inlined: tuple[pa.RecordBatch, ...]
    inlined_ends: tuple[int, ...]


# A flushed delete file claims to have begun with the oldest of its deletes, so only its id
# shows that it is new: ids are never reused, and each snapshot records the next one.
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
    """Return the necessary reads; both snapshots must still exist."""
    was_dead, is_dead = (
        find_inlined_deletes(connection, catalog, {"table": table.id, "snapshot": snapshot})
        for snapshot in (since, until)
    )
    touched = [id_ for id_, dead in is_dead.items() if len(dead) != len(was_dead.get(id_, ()))]
    names = {name: catalog.table(name) for name in ("data_file", "delete_file", "snapshot")}
    found = connection.execute(
        trusted(_LIST_FILES.format(**names)),
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

    A file with several delete files has several rows: a flush may leave one for deletes that
    are older than the existing one, and a position is dead if any of them names it.
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
