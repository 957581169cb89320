"""Remove files of the lake that nobody needs: left by a killed writer, or replaced by others.

A file is written before the catalog knows it, so one that the catalog does not know may be about
to be committed.  Our own writers are kept away by the caller, who holds the lease of the stream
table; against all others, DuckDB included, only the age of a file helps.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from fnmatch import fnmatch

from psycopg import Connection

from pgtrickle.errors import LakePathError
from pgtrickle.lake.catalog import LakeCatalog
from pgtrickle.lake.roots import LakePath
from pgtrickle.lake.storage import list_files, remove

logger = logging.getLogger(__name__)

_PATTERN = "ducklake-*.parquet"


def sweep_orphans(
    connection: Connection, catalog: LakeCatalog, directory: LakePath, older_than: timedelta
) -> list[LakePath]:
    """Remove the files below a directory that no row of the catalog names; return them."""
    # The directory first: what is committed after that is known, and what is not known is old.
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
    """Strike off the files that were replaced and that no reader can need any more.

    Returns them for the caller to remove once that is committed: a file that is struck off and
    stays is found as an orphan, one that is removed and stays on the list is looked for in vain.

    Anybody who may write to the catalog can put a name on the list.  Only names that lakes give
    their files count, below the directories on record; others stay where they are.  A file that a
    snapshot needs is struck off and not removed.
    """
    scheduled = catalog.table("files_scheduled_for_deletion")
    rows = connection.execute(
        _LIST_REPLACED.format(scheduled=scheduled, limit=_AT_ONCE).encode(), [older_than]
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
            _STRIKE_OFF.format(scheduled=scheduled).encode(), [list(ids), list(paths)]
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
    """Return the names of all files in tables of the catalog; a name is never given twice."""
    listed = " UNION ALL ".join(f"SELECT path FROM {catalog.table(name)}" for name in tables)
    found = connection.execute(listed.encode())
    return {path.rpartition("/")[2] for (path,) in found if path is not None}
