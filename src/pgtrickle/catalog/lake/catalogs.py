"""Where the catalogs of lakes are on record, and where they were before; none of this commits."""

from __future__ import annotations

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.settings_table import set_setting
from pgtrickle.errors import LakeCatalogError
from pgtrickle.model.lake.catalog import RecordedCatalog, ShownCatalog
from pgtrickle.settings import CATALOG_SCHEMA

_LIST = """
    SELECT c.catalog_dsn, c.catalog_schema, pg_catalog.min(c.data_path),
           pg_catalog.sum(c.sinks)::bigint, pg_catalog.sum(c.sources)::bigint
      FROM (SELECT s.catalog_dsn, s.catalog_schema, s.data_path, 1 AS sinks, 0 AS sources
              FROM pgtrickle.pgt_ducklake_sinks AS s
             UNION ALL
            SELECT '', l.catalog_schema, l.data_path, 0, 1
              FROM pgtrickle.pgt_ducklake_sources AS l) AS c
     GROUP BY 1, 2
     ORDER BY 1, 2
"""


def list_recorded_catalogs(connection: Connection[TupleRow]) -> list[RecordedCatalog]:
    """Return the catalogs that sinks and attached tables name."""
    return [RecordedCatalog(*row) for row in connection.execute(_LIST).fetchall()]


_TELL = """
    SELECT catalog_schema, data_path, sinks, sources, attach FROM pgtrickle.ducklake_catalogs()
"""


def list_told_catalogs(connection: Connection[TupleRow]) -> list[ShownCatalog]:
    """Return the catalogs as readers see them, who may look at no table of a lake."""
    return [ShownCatalog(*row) for row in connection.execute(_TELL).fetchall()]


_FOLLOW = """
    SELECT to_schema FROM pgtrickle.pgt_ducklake_moves WHERE catalog_dsn = %s AND from_schema = %s
"""


def find_moved(connection: Connection[TupleRow], dsn: str, schema: str) -> str | None:
    """Return to which schema a catalog was moved from another."""
    row = connection.execute(_FOLLOW, [dsn, schema]).fetchone()
    return None if row is None else str(row[0])


_LOCK_SINKS = """
    SELECT FROM pgtrickle.pgt_ducklake_sinks
     WHERE catalog_dsn = %(dsn)s AND catalog_schema = %(old)s ORDER BY pgt_id FOR UPDATE
"""
_LOCK_SOURCES = """
    SELECT FROM pgtrickle.pgt_ducklake_sources
     WHERE %(dsn)s = '' AND catalog_schema = %(old)s ORDER BY source_id FOR UPDATE
"""


def lock_records(connection: Connection[TupleRow], dsn: str, old: str) -> None:
    """Keep deliveries from beginning, and wait for those that have begun."""
    for statement in (_LOCK_SINKS, _LOCK_SOURCES):
        connection.execute(statement, {"dsn": dsn, "old": old})


_MOVE_SINKS = """
    UPDATE pgtrickle.pgt_ducklake_sinks SET catalog_schema = %(new)s
     WHERE catalog_dsn = %(dsn)s AND catalog_schema = %(old)s
"""
_MOVE_SOURCES = """
    UPDATE pgtrickle.pgt_ducklake_sources SET catalog_schema = %(new)s
     WHERE %(dsn)s = '' AND catalog_schema = %(old)s
"""
_MOVE_SNAPSHOTS = """
    UPDATE pgtrickle.pgt_lake_snapshots SET catalog_schema = %(new)s
     WHERE %(dsn)s = '' AND catalog_schema = %(old)s
"""
# Where a catalog is, none was moved away from; and whoever was sent to the old place goes on.
_FORGET_MOVES = """
    DELETE FROM pgtrickle.pgt_ducklake_moves WHERE catalog_dsn = %(dsn)s AND from_schema = %(new)s
"""
_SEND_ON = """
    UPDATE pgtrickle.pgt_ducklake_moves SET to_schema = %(new)s
     WHERE catalog_dsn = %(dsn)s AND to_schema = %(old)s
"""
_NOTE_MOVE = """
    INSERT INTO pgtrickle.pgt_ducklake_moves (catalog_dsn, from_schema, to_schema)
    VALUES (%(dsn)s, %(old)s, %(new)s)
        ON CONFLICT (catalog_dsn, from_schema) DO UPDATE SET to_schema = excluded.to_schema
"""
_FIND_SETTING = "SELECT value FROM pgtrickle.pgt_settings WHERE name = 'ducklake_catalog_schema'"


def move_records(connection: Connection[TupleRow], dsn: str, old: str, new: str) -> tuple[int, int]:
    """Let sinks, attached tables and the setting name another schema; return how many they are."""
    values = {"dsn": dsn, "old": old, "new": new}
    try:
        with connection.transaction():
            sinks = connection.execute(_MOVE_SINKS, values).rowcount
    except psycopg.errors.UniqueViolation as error:
        raise LakeCatalogError(
            f'sinks are on record in the schema "{new}" that write to the same lake tables',
            hint="Turn those off first: pgtrickle sink status lists them.",
        ) from error
    sources = connection.execute(_MOVE_SOURCES, values).rowcount
    for statement in (_MOVE_SNAPSHOTS, _FORGET_MOVES, _SEND_ON, _NOTE_MOVE):
        connection.execute(statement, values)
    row = connection.execute(_FIND_SETTING).fetchone()
    if row is not None and (row[0] or CATALOG_SCHEMA) == old:
        set_setting(connection, "ducklake_catalog_schema", None if new == CATALOG_SCHEMA else new)
    return sinks, sources
