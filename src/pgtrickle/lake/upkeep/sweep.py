"""Remove unneeded files of the lake: left by a killed writer, or replaced by others.

A file is written before the catalog knows it, so an unknown file may be about
to be committed.  The caller keeps pgtrickle's writers away by holding the lease of the stream
table; for all others, including DuckDB, only the age of a file helps.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from fnmatch import fnmatch

from psycopg import Connection

from pgtrickle.errors import LakePathError
from pgtrickle.lake.files.roots import LakePath
from pgtrickle.lake.files.stores import list_files, remove
from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.model.text.trusted import trusted

logger = logging.getLogger(__name__)

_PATTERN = "ducklake-*.parquet"


def sweep_orphans(
    connection: Connection, catalog: LakeCatalog, directory: LakePath, older_than: timedelta
) -> list[LakePath]:
    """Remove the files below a directory that no row of the catalog names; return them."""
    # The directory first: files committed later are known to the catalog, unknown ones are old.
    least = older_than.total_seconds()
    found = [path for path, age in list_files(directory, _PATTERN) if age >= least]
    known = _list_known(
        connection, catalog, "data_file", "delete_file", "files_scheduled_for_deletion"
    )
    orphans = [path for path in found if path.name not in known]
    for path in orphans:
        remove(path)
    return orphans


_LIST_REPLACED = """
    SELECT data_file_id, path, path_is_relative FROM {scheduled}
     WHERE schedule_start <= pg_catalog.clock_timestamp() - %s::interval AND path IS NOT NULL
     ORDER BY schedule_start LIMIT {limit}
"""
_STRIKE_OFF = """
    DELETE FROM {scheduled} AS s
     USING ROWS FROM (pg_catalog.unnest(%s::bigint[]), pg_catalog.unnest(%s::text[]))
           AS g (id, path)
     WHERE s.data_file_id = g.id AND s.path = g.path
"""
_AT_ONCE = 100_000


def take_replaced(
    connection: Connection, catalog: LakeCatalog, older_than: timedelta
) -> list[LakePath]:
    """Remove from the list the replaced files that no reader can need any more.

    Returns them for the caller to remove after the commit: a file that is off the list and
    still exists is found as an orphan; a removed file on the list would be searched for in vain.

    Every role that may write to the catalog can put a name on the list.  Only names that lakes give
    their files count, below the directories on record; others are ignored.  A file that a
    snapshot needs is taken off the list and not removed.
    """
    scheduled = catalog.table("files_scheduled_for_deletion")
    rows = connection.execute(
        trusted(_LIST_REPLACED.format(scheduled=scheduled, limit=_AT_ONCE)), [older_than]
    ).fetchall()
    taken: list[tuple[int, str]] = []
    found: list[LakePath] = []
    for file_id, path, relative in rows:
        place = _find_place(catalog, catalog.data_path + path if relative else path)
        if place is not None:
            taken.append((file_id, path))
            found.append(place)
    if len(taken) < len(rows):
        logger.warning(
            "the lake lists files to be removed that are none of its own: they stay",
            extra={"code": LakePathError.code, "count": len(rows) - len(taken)},
        )
    if taken:
        ids, paths = zip(*taken, strict=True)
        connection.execute(
            trusted(_STRIKE_OFF.format(scheduled=scheduled)), [list(ids), list(paths)]
        )
    known = _list_known(connection, catalog, "data_file", "delete_file") if found else set()
    return [path for path in found if path.name not in known]


def _find_place(catalog: LakeCatalog, path: str) -> LakePath | None:
    try:
        found = catalog.place(path)
    except LakePathError:
        return None
    return found if fnmatch(found.name, _PATTERN) else None


def _list_known(connection: Connection, catalog: LakeCatalog, *tables: str) -> set[str]:
    """Return the names of all files in tables of the catalog; names are never reused."""
    listed = " UNION ALL ".join(f"SELECT path FROM {catalog.table(name)}" for name in tables)
    found = connection.execute(trusted(listed))
    return {path.rpartition("/")[2] for (path,) in found if path is not None}
