"""Lake tables as the catalog describes them at its head."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.partition import Spec
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A live column of a lake table, with the type of its elements if it is a list."""

    id: int
    name: str
    type: str
    element_id: int | None
    element_type: str | None


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A live table: its id, its directory, its columns in order."""

    id: int
    schema_id: int
    directory: str
    columns: tuple[StoredColumn, ...]
    last_column_id: int  # ever used; ids are never reused
    partition_id: int | None = None
    partition: Spec = ()


# The path of a file f of a table t in a schema s, and whether it is below the data path.
FULL_PATH = """
    CASE WHEN NOT f.path_is_relative THEN f.path
         WHEN NOT t.path_is_relative THEN t.path || f.path
         ELSE s.path || t.path || f.path END,
    f.path_is_relative AND t.path_is_relative AND s.path_is_relative
"""
_FLUSHES = frozenset({"flushed_inlined", "inline_flush"})  # DuckDB knows both words
_FIND_SCHEMA = """
    SELECT schema_id, path, path_is_relative FROM {schema}
     WHERE schema_name = %(schema)s AND end_snapshot IS NULL
"""
_FIND_TABLE = """
    SELECT table_id, schema_id, path, path_is_relative FROM {table}
     WHERE schema_id = %(schema_id)s AND table_name = %(name)s AND end_snapshot IS NULL
"""
_LIST_COLUMNS = """
    SELECT c.column_id, c.column_name, c.column_type, e.column_id, e.column_type
      FROM {column} AS c
      LEFT JOIN {column} AS e
        ON e.table_id = c.table_id AND e.parent_column = c.column_id AND e.end_snapshot IS NULL
     WHERE c.table_id = %(id)s AND c.end_snapshot IS NULL AND c.parent_column IS NULL
     ORDER BY c.column_order
"""
_FIND_PARTITION = """
    SELECT i.partition_id, c.column_id, c.transform
      FROM {partition_info} AS i JOIN {partition_column} AS c USING (partition_id, table_id)
     WHERE i.table_id = %s AND i.end_snapshot IS NULL
     ORDER BY c.partition_key_index
"""


_HAS_FILES = """
    SELECT EXISTS (
        SELECT FROM {data_file} AS f JOIN {table} AS t USING (table_id)
         WHERE f.end_snapshot IS NULL AND t.end_snapshot IS NULL AND f.path_is_relative
           AND CASE WHEN %(id)s::bigint IS NULL THEN t.path_is_relative ELSE table_id = %(id)s END)
"""


def has_files(connection: Connection, catalog: LakeCatalog, table_id: int | None = None) -> bool:
    """Tell whether a table has data files in its directory; None: any below the data path."""
    statement = _HAS_FILES.format(
        data_file=catalog.table("data_file"), table=catalog.table("table")
    )
    [(there,)] = connection.execute(trusted(statement), {"id": table_id}).fetchall()
    return bool(there)


def find_schema(
    connection: Connection, catalog: LakeCatalog, schema: str
) -> tuple[int, str] | None:
    """Return the id and the directory of a schema of the lake."""
    statement = _FIND_SCHEMA.format(schema=catalog.table("schema"))
    row = connection.execute(trusted(statement), {"schema": schema}).fetchone()
    return None if row is None else (row[0], _join(catalog.data_path, row[1], relative=row[2]))


def find_table(
    connection: Connection, catalog: LakeCatalog, name: QualifiedName
) -> LakeTable | None:
    """Return a live table of the lake by its name."""
    found = find_schema(connection, catalog, name.schema)
    if found is None:
        return None
    schema_id, directory = found
    statement = _FIND_TABLE.format(table=catalog.table("table"))
    values = {"schema_id": schema_id, "name": name.name}
    row = connection.execute(trusted(statement), values).fetchone()
    if row is None:
        return None
    listed = connection.execute(
        trusted(_LIST_COLUMNS.format(column=catalog.table("column"))), {"id": row[0]}
    ).fetchall()
    last = connection.execute(
        trusted(f"SELECT max(column_id) FROM {catalog.table('column')} WHERE table_id = %s"),
        [row[0]],
    ).fetchone()
    return LakeTable(
        row[0],
        row[1],
        _join(directory, row[2], relative=row[3]),
        tuple(StoredColumn(*one) for one in listed),
        last[0] if last is not None and last[0] is not None else 0,
        *_find_partition(connection, catalog, row[0]),
    )


def _find_partition(
    connection: Connection, catalog: LakeCatalog, table_id: int
) -> tuple[int | None, Spec]:
    """Return the partition keys of a table; none if it is not partitioned."""
    names = {name: catalog.table(name) for name in ("partition_info", "partition_column")}
    rows = connection.execute(trusted(_FIND_PARTITION.format(**names)), [table_id]).fetchall()
    if not rows:
        return None, ()
    return rows[0][0], tuple((column_id, transform) for _, column_id, transform in rows)


def find_tag(connection: Connection, catalog: LakeCatalog, object_id: int, key: str) -> str | None:
    """Return the value of a table's tag."""
    row = connection.execute(
        trusted(
            f"SELECT value FROM {catalog.table('tag')}"
            " WHERE object_id = %s AND key = %s AND end_snapshot IS NULL"
        ),
        [object_id, key],
    ).fetchone()
    return None if row is None else str(row[0])


def next_row_id(connection: Connection, catalog: LakeCatalog, table_id: int) -> int:
    """Return the id that the next new row of a table gets."""
    row = connection.execute(
        trusted(f"SELECT next_row_id FROM {catalog.table('table_stats')} WHERE table_id = %s"),
        [table_id],
    ).fetchone()
    return 0 if row is None else int(row[0])


def find_head(connection: Connection, catalog: LakeCatalog) -> int:
    """Return the newest snapshot."""
    [(head,)] = connection.execute(
        trusted(f"SELECT max(snapshot_id) FROM {catalog.table('snapshot')}")
    ).fetchall()
    return int(head)


def foreign_changes(
    connection: Connection,
    catalog: LakeCatalog,
    table_id: int,
    *,
    after: int,
    author: str,
) -> list[str]:
    """Return the operations of writers other than ``author`` on a table after a snapshot.

    Flushing inlined rows is omitted: it only moves deletes into files.
    Snapshots that have expired meanwhile may contain any operation.
    """
    [(expired,)] = connection.execute(
        trusted(
            f"SELECT max(snapshot_id) - %(after)s"
            f" - count(*) FILTER (WHERE snapshot_id > %(after)s) FROM {catalog.table('snapshot')}"
            ""
        ),
        {"after": after},
    ).fetchall()
    if expired:
        return [f"{expired} snapshots have expired"]
    found = connection.execute(
        trusted(
            f"SELECT changes_made FROM {catalog.table('snapshot_changes')}"
            " WHERE snapshot_id > %s AND author IS DISTINCT FROM %s"
            " AND changes_made ~ ('(^|,)[a-z_]+:' || %s::text || '(,|$)')"
        ),
        [after, author, table_id],
    )
    return [changes for (changes,) in found if verbs_of(changes, table_id) - _FLUSHES]


def verbs_of(changes: str, table_id: int) -> set[str]:
    """Return the operations of a snapshot on one table.

    >>> sorted(verbs_of("inserted_into_table:12,deleted_from_table:1,altered_table:1", 1))
    ['altered_table', 'deleted_from_table']
    """
    parts = (part.partition(":") for part in changes.split(","))
    return {verb for verb, _, object_id in parts if object_id == str(table_id)}


def _join(directory: str, path: str | None, *, relative: bool) -> str:
    joined = directory + (path or "") if relative else path or ""
    return joined if joined.endswith("/") else joined + "/"
