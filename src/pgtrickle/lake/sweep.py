"""Remove files of the lake that nobody needs: left by a killed writer, or replaced by others.

A file is written before the catalog knows it, so one that the catalog does not know may be about
to be committed.  Our own writers are kept away by the caller, who holds the lease of the stream
table; against all others, DuckDB included, only the age of a file helps.
"""

from __future__ import annotations

from datetime import timedelta

from psycopg import Connection

from pgtrickle.lake.catalog import LakeCatalog
from pgtrickle.lake.storage import LakePath, lake_path, list_files, remove

_PATTERN = "ducklake-*.parquet"


def sweep_orphans(
    connection: Connection, catalog: LakeCatalog, directory: LakePath, older_than: timedelta
) -> list[LakePath]:
    """Remove the files below a directory that no row of the catalog names; return them."""
    # The directory first: what is committed after that is known, and what is not known is old.
    least = older_than.total_seconds()
    found = [path for path, age in list_files(directory, _PATTERN) if age >= least]
    known = _list_known(connection, catalog)
    orphans = [path for path in found if path.name not in known]
    for path in orphans:
        remove(path)
    return orphans


def take_replaced(
    connection: Connection, catalog: LakeCatalog, older_than: timedelta
) -> list[LakePath]:
    """Strike off the files that were replaced and that no reader can need any more.

    Returns them for the caller to remove once that is committed: a file that is struck off and
    stays is found as an orphan, one that is removed and stays on the list is looked for in vain.
    """
    rows = connection.execute(
        f"DELETE FROM {catalog.table('files_scheduled_for_deletion')}"
        " WHERE schedule_start <= pg_catalog.clock_timestamp() - %s::interval"
        " AND (path_is_relative OR path ~ '^(/|s3://)')"
        " RETURNING path, path_is_relative".encode(),
        [older_than],
    ).fetchall()
    return [lake_path(catalog.data_path + path if relative else path) for path, relative in rows]


def _list_known(connection: Connection, catalog: LakeCatalog) -> set[str]:
    """Return the names of all files that any snapshot needs; a name is never given twice."""
    tables = ("data_file", "delete_file", "files_scheduled_for_deletion")
    listed = " UNION ALL ".join(f"SELECT path FROM {catalog.table(name)}" for name in tables)
    return {lake_path(path).name for (path,) in connection.execute(listed.encode())}
