"""Attach lake tables, so that stream tables can read them, and detach them again.

PostgreSQL holds the rows of an attached table with their ids, in a table of ``pgtrickle_state``;
queries read them through a view that has the lake's columns and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa
from psycopg import Connection

from pgtrickle.catalog.dependencies import list_dependents
from pgtrickle.catalog.lake.sources import (
    delete_source,
    find_source,
    get_source,
    insert_source,
    list_sources,
)
from pgtrickle.errors import (
    DependentsExistError,
    LakeCatalogError,
    LakeSourceError,
    NameNotUsableError,
    NameTakenError,
)
from pgtrickle.lake.feed.apply import ROW_ID, Landing, landing_columns
from pgtrickle.lake.files.roots import Roots
from pgtrickle.lake.format.catalog import LakeCatalog, find_catalog
from pgtrickle.lake.format.catalog_schema import where_else
from pgtrickle.lake.format.tables import find_head
from pgtrickle.lake.reader.columns import ReadColumn, choose, list_columns
from pgtrickle.lake.reader.files import read_versions
from pgtrickle.lake.reader.inlined_rows import read_inlined_versions
from pgtrickle.lake.reader.scan import FoundTable, find_table_at, plan_scan
from pgtrickle.lake.write.endpoints import Ends
from pgtrickle.lake.write.text_settings import fixed_settings
from pgtrickle.model.lake.source import LakeSource, SourceColumn, parse_policy, rows_table
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.ducklake.catalog_schema import usual_schema
from pgtrickle.settings import Settings

_OUR_SCHEMAS = frozenset({"pgtrickle", "pgtrickle_changes", "pgtrickle_state"})
_LAKE_SCHEMA = "main"  # the default of DuckLake itself
_SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid", ROW_ID})
_MAX_NAME_BYTES = 63


def attach_ducklake_table(
    runtime: Runtime,
    landing: QualifiedName,
    lake_table: str,
    *,
    columns: Sequence[str] | None = None,
    catalog_schema: str | None = None,
    compaction_policy: str | None = None,
) -> LakeSource:
    """Follow a table of the lake under the name ``landing``, and read all its rows once.

    Everything becomes visible in one transaction.
    """
    policy = parse_policy(compaction_policy or runtime.settings.ducklake_compaction_policy)
    if catalog_schema is None:
        _check_here(runtime)
    name = QualifiedName.parse(lake_table, _LAKE_SCHEMA)
    if landing.schema in _OUR_SCHEMAS:
        raise NameNotUsableError(
            f'the schema "{landing.schema}" belongs to pgtrickle',
            hint="Attach the table under a name in a schema of your own.",
        )
    with runtime.connection() as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        _check_free(connection, landing)
        here = Ends(connection, connection)
        schema = catalog_schema or usual_schema(here, runtime.settings, "")
        with fixed_settings(connection):
            catalog = open_catalog(connection, schema, runtime.settings)
            head = find_head(connection, catalog)
            table = find_table_at(connection, catalog, name, head)
            listed = choose(list_columns(connection, catalog, table.id, head), columns)
            _check_columns(listed)
            known = tuple(SourceColumn(one.id, one.name, one.kind) for one in listed)
            source = LakeSource(
                0,
                landing,
                schema,
                name,
                table.id,
                table.uuid,
                known,
                policy,
                head,
                data_path=catalog.data_path,
            )
            source_id = insert_source(connection, source)
            rows = Landing(
                connection,
                rows_table(source_id),
                landing_columns([one.name for one in known], listed),
            )
            rows.create()
            rows.fill(read_all(connection, catalog, table, listed, head))
            _guard(connection, rows.rows)
            _create_view(connection, landing, rows.rows, known)
        found = find_source(connection, source_id)
    assert found is not None  # noqa: S101 - inserted above
    return found


def _check_here(runtime: Runtime) -> None:
    if runtime.settings.ducklake_catalog_dsn:
        raise LakeSourceError(
            "a lake table can be followed only where the catalog is in this database",
            hint="ducklake_catalog_dsn names another. If there is a catalog here too, name its"
            " schema with catalog_schema.",
        )


def detach_ducklake_table(runtime: Runtime, landing: QualifiedName) -> LakeSource:
    """Follow a lake table no longer, and drop its rows; ST207 if a stream table reads it."""
    with runtime.connection() as connection, connection.transaction():
        source = get_source(connection, landing)
        _check_unused(connection, source)
        connection.execute(trusted(f"DROP VIEW IF EXISTS {landing.sql}"))
        connection.execute(trusted(f"DROP TABLE IF EXISTS {source.rows.sql}"))
        delete_source(connection, source.id)
    return source


def show_ducklake_sources(runtime: Runtime) -> list[LakeSource]:
    """Return every attached lake table, and how far it has been read."""
    with runtime.connection() as connection:
        return list_sources(connection)


def open_catalog(
    connection: Connection, schema: str, settings: Settings, recorded: str | None = None
) -> LakeCatalog:
    """Return the catalog in a schema, or raise ST701; ST708 if its data path is not the recorded.

    Without a record the catalog is taken at its word, once.
    """
    catalog = find_catalog(connection, schema, recorded=recorded)
    if catalog is None:
        raise LakeCatalogError(
            f'the schema "{schema}" holds no DuckLake catalog',
            hint=where_else(
                connection, "name it with catalog_schema, or set ducklake_catalog_schema to it"
            )
            or "Make one: a stream table with a sink and ducklake_sink_path does.",
        )
    further = (one.strip() for one in settings.ducklake_read_paths.split(","))
    return replace(catalog, roots=Roots((catalog.data_path, *(one for one in further if one))))


def read_all(
    connection: Connection,
    catalog: LakeCatalog,
    table: FoundTable,
    columns: Sequence[ReadColumn],
    snapshot_id: int,
) -> Iterator[pa.RecordBatch]:
    """Return all rows of a snapshot with their ids, file by file."""
    scan = plan_scan(connection, catalog, table, (), snapshot_id)
    inlined = read_inlined_versions(connection, catalog, table.id, columns, snapshot_id)
    files = (batch for file in scan.files for batch in read_versions(file, columns, snapshot_id))
    return chain(inlined, files)


_FIND_RELATION = "SELECT pg_catalog.to_regclass(%s)"


def _check_free(connection: Connection, landing: QualifiedName) -> None:
    [(taken,)] = connection.execute(_FIND_RELATION, [landing.sql]).fetchall()
    if taken is not None:
        raise NameTakenError(
            f'the relation "{landing}" already exists', hint="Choose another name."
        )


def _check_columns(columns: Sequence[ReadColumn]) -> None:
    if not columns or len({one.id for one in columns}) < len(columns):
        raise LakeSourceError(
            "no column is to be followed, or one of them twice", hint="Name at least one, once."
        )
    for one in columns:
        if one.name.lower() in _SYSTEM_COLUMNS or len(one.name.encode()) > _MAX_NAME_BYTES:
            raise LakeSourceError(
                f'PostgreSQL cannot have a column of the name "{one.name}"',
                hint="Name the columns to follow, without it, or rename it in the lake.",
            )


def _check_unused(connection: Connection, source: LakeSource) -> None:
    [(relid,)] = connection.execute(
        "SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid", [source.rows.sql]
    ).fetchall()
    readers = [] if relid is None else list_dependents(connection, relid)
    if readers:
        names = ", ".join(str(one.name) for one in readers)
        raise DependentsExistError(
            f'stream tables read "{source.landing}": {names}', hint="Drop them first."
        )


def _guard(connection: Connection, rows: QualifiedName) -> None:
    connection.execute(
        trusted(
            "CREATE TRIGGER pgtrickle_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE"
            f" ON {rows.sql} FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle.refuse_lake_write()"
        )
    )


def _create_view(
    connection: Connection,
    landing: QualifiedName,
    rows: QualifiedName,
    columns: Sequence[SourceColumn],
) -> None:
    listed = ", ".join(quote_identifier(one.name) for one in columns)
    connection.execute(trusted(f"CREATE VIEW {landing.sql} AS SELECT {listed} FROM {rows.sql}"))
