"""Open a lake table for reading: which catalog, which table, which snapshot."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import psycopg
from psycopg import Connection, IsolationLevel

from pgtrickle.errors import LakeReadError
from pgtrickle.lake.files.roots import Roots
from pgtrickle.lake.format.catalog import LakeCatalog, find_catalog
from pgtrickle.lake.format.catalog_schema import where_else
from pgtrickle.lake.reader.columns import ReadColumn, choose, list_columns
from pgtrickle.lake.reader.prune import Condition, find_pruned
from pgtrickle.lake.reader.scan import Scan, find_table_at, plan_scan
from pgtrickle.model.text.connection_string import HINT, may_be_misread
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.session import FIX_PATH
from pgtrickle.settings import CATALOG_SCHEMA, expand_secrets
from pgtrickle.transit.source_options import without_password

OPTIONS = ("dsn", "catalog_schema", "table", "version", "timestamp", "columns", "data_path")


@dataclass(frozen=True, slots=True)
class LakeRead:
    """A read as its options describe it."""

    dsn: str
    catalog_schema: str
    table: QualifiedName
    columns: tuple[str, ...] | None = None
    version: int | None = None
    timestamp: str | None = None
    data_paths: tuple[str, ...] = ()  # directories of files; none: the data path of the catalog

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> LakeRead:
        """Read the options of ``spark.read``, or raise ST704.

        >>> LakeRead.from_options({"dsn": "dbname=shop", "table": "marts.revenue"}).table.name
        'revenue'
        """
        if unknown := [name for name in options if name not in OPTIONS]:
            raise LakeReadError(
                f'there is no option "{unknown[0]}"', hint=f"Options are: {', '.join(OPTIONS)}."
            )
        if not options.get("dsn") or not options.get("table"):
            raise LakeReadError(
                "a lake table is read by the options dsn and table",
                hint='As in spark.read.format("ducklake").option("dsn", "dbname=shop").',
            )
        if "version" in options and "timestamp" in options:
            raise LakeReadError(
                "version and timestamp exclude one another", hint="Give one of the two."
            )
        columns = options.get("columns")
        return cls(
            without_password(options["dsn"], LakeReadError),
            options.get("catalog_schema", CATALOG_SCHEMA),
            QualifiedName.parse(options["table"], "main"),
            None if columns is None else tuple(name.strip() for name in columns.split(",")),
            _number(options["version"]) if "version" in options else None,
            options.get("timestamp"),
            tuple(one.strip() for one in options.get("data_path", "").split(",") if one.strip()),
        )


def _number(text: str) -> int:
    if not text.isdecimal():
        raise LakeReadError(f'"{text}" is no version', hint="Give the number of a snapshot.")
    return int(text)


@contextmanager
def opened(read: LakeRead) -> Iterator[tuple[Connection, LakeCatalog]]:
    """Connect to the catalog, in one read-only transaction."""
    address = expand_secrets(read.dsn, os.environ)
    try:
        connection = psycopg.connect(address)
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        if not error.sqlstate and may_be_misread(address):
            raise LakeReadError("could not connect to the catalog of the lake", hint=HINT) from None
        raise LakeReadError(
            f"could not connect to the catalog of the lake: {error}",
            hint="The option dsn is used where Spark's driver runs.",
        ) from error
    with connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute(FIX_PATH)
        roots = Roots(read.data_paths) if read.data_paths else None
        catalog = find_catalog(connection, read.catalog_schema, roots)
        if catalog is None:
            raise LakeReadError(
                f'the schema "{read.catalog_schema}" holds no DuckLake catalog',
                hint=where_else(connection, "name it with the option catalog_schema")
                or "Name its schema with the option catalog_schema.",
            )
        yield connection, catalog


def find_snapshot(connection: Connection, catalog: LakeCatalog, read: LakeRead) -> int:
    """Return the snapshot to read: the requested one, that of a moment, or the newest."""
    snapshot = catalog.table("snapshot")
    if read.version is not None:
        where, value = "snapshot_id = %s", [str(read.version)]
    elif read.timestamp is not None:
        try:
            moment = datetime.fromisoformat(read.timestamp)
        except ValueError as error:
            raise LakeReadError(
                f'"{read.timestamp}" is no moment', hint="Write it as 2026-01-31 12:00:00+00."
            ) from error
        where = "snapshot_time <= %s::timestamptz"
        value = [moment.isoformat() if moment.tzinfo else f"{moment.isoformat()}+00"]
    else:
        where, value = "true", []
    [(found,)] = connection.execute(
        trusted(f"SELECT max(snapshot_id) FROM {snapshot} WHERE {where}"), value
    ).fetchall()
    if found is None:
        asked = read.timestamp if read.version is None else read.version
        raise LakeReadError(
            f"the lake has no snapshot {asked}",
            hint="It may have expired. DuckDB lists them: SELECT * FROM lake.snapshots().",
        )
    return int(found)


def describe(read: LakeRead) -> tuple[int, tuple[ReadColumn, ...]]:
    """Return the snapshot to read, and its requested columns."""
    with opened(read) as (connection, catalog):
        snapshot_id = find_snapshot(connection, catalog, read)
        table = find_table_at(connection, catalog, read.table, snapshot_id)
        listed = list_columns(connection, catalog, table.id, snapshot_id)
        return snapshot_id, choose(listed, read.columns)


def plan(
    read: LakeRead,
    snapshot_id: int,
    columns: Sequence[ReadColumn],
    conditions: Sequence[Condition] = (),
) -> Scan:
    """Return the necessary reads for the rows of a snapshot that may meet all conditions."""
    with opened(read) as (connection, catalog):
        # The catalog would show only a part of a snapshot that has expired meanwhile.
        find_snapshot(connection, catalog, replace(read, version=snapshot_id, timestamp=None))
        table = find_table_at(connection, catalog, read.table, snapshot_id)
        pruned = find_pruned(connection, catalog, table.id, columns, conditions)
        return plan_scan(connection, catalog, table, columns, snapshot_id, pruned)
