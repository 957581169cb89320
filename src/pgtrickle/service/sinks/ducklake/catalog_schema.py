"""Where the catalog of the lake is: which schema is meant, show it, move it to another.

A catalog in this database moves in one transaction, with all that names it.  One in another
database moves there first; if this process dies before the records here follow, or where further
databases use the lake, the same command finds it moved and lets the records follow.
"""

from __future__ import annotations

import os

from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgtrickle.catalog.lake.catalogs import (
    find_moved,
    list_recorded_catalogs,
    lock_records,
    move_records,
)
from pgtrickle.errors import LakeCatalogError, SettingError
from pgtrickle.lake.format.catalog import find_catalog
from pgtrickle.lake.format.catalog_schema import list_catalog_schemas, relocate, where_else
from pgtrickle.lake.write.endpoints import Ends
from pgtrickle.lake.write.other_database import transaction
from pgtrickle.model.lake.catalog import MovedCatalog, RecordedCatalog, ShownCatalog, attach_line
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.ducklake.errors import lake_errors
from pgtrickle.service.sinks.ducklake.other_database import opened
from pgtrickle.settings import CATALOG_SCHEMA, Settings, expand_secrets

# What DuckDB needs to find the server; the rest is a secret, or concerns this process alone.
_SHOWN = ("host", "hostaddr", "port", "dbname", "user", "service", "sslmode", "sslrootcert")


def usual_schema(ends: Ends, settings: Settings, dsn: str) -> str:
    """Return the schema that new sinks and attached tables mean.

    The setting of this process may be older than a move.
    """
    wanted = settings.ducklake_catalog_schema
    moved = find_moved(ends.local, dsn, wanted)
    if moved is None or find_catalog(ends.lake, wanted) is not None:
        return wanted
    return moved


def show_catalogs(runtime: Runtime) -> list[ShownCatalog]:
    """Return the catalogs in use, the one that new sinks mean first, if there is any in it."""
    settings = runtime.settings
    dsn = settings.ducklake_catalog_dsn.strip()
    with runtime.connection() as connection:
        found = list_recorded_catalogs(connection)
        if not dsn:
            wanted = usual_schema(Ends(connection, connection), settings, dsn)
            there = find_catalog(connection, wanted)
            if there is not None and all((one.dsn, one.schema) != ("", wanted) for one in found):
                found.append(RecordedCatalog("", wanted, there.data_path))
        here = connection.info.dsn
    return [
        ShownCatalog(
            one.schema,
            one.data_path,
            one.sinks,
            one.sources,
            attach_line(_address(one.dsn or here), one.schema),
        )
        for one in found
    ]


def _address(dsn: str) -> str:
    """Return a connection string without its secrets, as DuckDB takes it."""
    try:
        given = conninfo_to_dict(expand_secrets(dsn, os.environ))
    except SettingError:  # known where deliveries are made, not here
        return dsn
    return make_conninfo(**{name: str(given[name]) for name in _SHOWN if given.get(name)})


def move_catalog(
    runtime: Runtime, to_schema: str | None = None, from_schema: str | None = None
) -> MovedCatalog:
    """Move the tables of a lake's catalog to another schema, with everything that names them.

    By default from where it is to the schema that is the default.  Raises ST408 if a client keeps
    them locked, and ST701 or ST303 if they cannot be moved at all; then nothing has changed.
    """
    new = to_schema or CATALOG_SCHEMA
    dsn = runtime.settings.ducklake_catalog_dsn.strip()
    with runtime.connection() as connection, lake_errors(), opened(dsn, connection) as ends:
        old = from_schema or _find_old(runtime, ends, dsn, new)
        address = attach_line(_address(dsn or connection.info.dsn), new)
        if old == new:
            return MovedCatalog(old, new, 0, 0, 0, address)
        tables = 0
        if ends.apart:
            with transaction(ends.lake):
                tables = _relocate(ends.lake, old, new)

        def move() -> tuple[int, int, int]:
            lock_records(connection, dsn, old)
            moved = tables if ends.apart else _relocate(connection, old, new)
            return moved, *move_records(connection, dsn, old, new)

        tables, sinks, sources = until_free(runtime, connection, move)
    return MovedCatalog(old, new, tables, sinks, sources, address)


def _relocate(lake: Connection, old: str, new: str) -> int:
    """Move the tables, unless somebody has; 0 then."""
    if find_catalog(lake, old) is not None:
        return relocate(lake, old, new)
    if find_catalog(lake, new) is not None:
        return 0
    raise LakeCatalogError(
        f'the schema "{old}" holds no DuckLake catalog',
        hint=where_else(lake, "name it with --from") or "There is none to move.",
    )


def _find_old(runtime: Runtime, ends: Ends, dsn: str, new: str) -> str:
    """Return where the catalog is that is to be moved, if nobody says so."""
    recorded = {one.schema for one in list_recorded_catalogs(ends.local) if one.dsn == dsn}
    usual = usual_schema(ends, runtime.settings, dsn)
    there = {usual} if find_catalog(ends.lake, usual) is not None else set()
    found = (recorded | there | set(list_catalog_schemas(ends.lake))) - {new}
    for likely in (recorded - {new}, there - {new}, found):
        if len(likely) == 1:
            return likely.pop()
    if found:
        raise LakeCatalogError(
            f"there are several DuckLake catalogs: in {', '.join(sorted(found))}",
            hint="Name the one to move, with --from.",
        )
    return new if find_catalog(ends.lake, new) is not None else usual
