"""Queries over ``pgt_snapshots`` and ``pgt_snapshot_gaps``."""

from __future__ import annotations

from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from pgtrickle.model.frontier import Frontier
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.table_snapshot import (
    SNAPSHOT_VERSION,
    LakePlace,
    ListedSnapshot,
    TableSnapshot,
)
from pgtrickle.model.text.names import QualifiedName

_INSERT = """
    INSERT INTO pgtrickle.pgt_snapshots
        (pgt_id, snapshot_relid, snapshot_schema, snapshot_table, snapshot_version, defining_query,
         frontier, data_timestamp, plan, needs_reinit, row_count)
    VALUES
        (%(stream_table_id)s, %(relation)s::pg_catalog.regclass::pg_catalog.oid, %(schema)s,
         %(name)s, %(version)s, %(query)s, %(frontier)s, %(data_timestamp)s, %(plan)s,
         %(needs_reinit)s, %(rows)s)
    RETURNING snapshot_id
"""


def insert_snapshot(
    connection: Connection[TupleRow],
    stream_table: StreamTable,
    table: QualifiedName,
    *,
    plan: dict[str, Any] | None,
    needs_reinit: bool,
    rows: int,
    in_lake: bool = False,
) -> int:
    """Record a snapshot whose table exists, or whose rows a lake has; return its id."""
    frontier = stream_table.frontier
    values = {
        "stream_table_id": stream_table.id,
        "relation": None if in_lake else table.sql,
        "schema": table.schema,
        "name": table.name,
        "version": SNAPSHOT_VERSION,
        "query": stream_table.defining_query,
        "frontier": None if frontier is None else Jsonb(frontier.to_json()),
        "data_timestamp": stream_table.data_timestamp,
        "plan": None if plan is None else Jsonb(plan),
        "needs_reinit": needs_reinit,
        "rows": rows,
    }
    return int(connection.execute(_INSERT, values).fetchall()[0][0])


_COLUMNS = """
    n.snapshot_id, n.pgt_id, t.relid, COALESCE(t.schema_name, n.snapshot_schema),
    COALESCE(t.table_name, n.snapshot_table), n.snapshot_version, n.defining_query, n.frontier,
    n.data_timestamp, n.plan, n.needs_reinit, n.row_count, l.snapshot_id, l.catalog_schema,
    l.data_path, l.sink_path, l.lake_schema, l.lake_table, l.lake_table_id, l.lake_table_uuid,
    l.lake_snapshot_id, l.columns, l.checksum
"""
# A table that was renamed has its new name; the entry of one that is gone keeps the old.
_FIND = f"""
    SELECT {_COLUMNS}
      FROM pgtrickle.pgt_snapshots AS n
      LEFT JOIN pgtrickle.locate_snapshots() AS t ON t.snapshot_id = n.snapshot_id
      LEFT JOIN pgtrickle.pgt_lake_snapshots AS l ON l.snapshot_id = n.snapshot_id
     WHERE COALESCE(t.schema_name, n.snapshot_schema) = %(schema)s
       AND COALESCE(t.table_name, n.snapshot_table) = %(name)s
     ORDER BY t.snapshot_id IS NULL, n.snapshot_id DESC
     LIMIT 1
"""
_FIND_BY_ID = f"""
    SELECT {_COLUMNS}
      FROM pgtrickle.pgt_snapshots AS n
      LEFT JOIN pgtrickle.locate_snapshots() AS t ON t.snapshot_id = n.snapshot_id
      LEFT JOIN pgtrickle.pgt_lake_snapshots AS l ON l.snapshot_id = n.snapshot_id
     WHERE n.snapshot_id = %(id)s
"""
_LOCK = "SELECT FROM pgtrickle.pgt_snapshots WHERE snapshot_id = %(id)s FOR UPDATE"


def _read(row: TupleRow) -> TableSnapshot:
    _, _, relid, schema, name, version, query, frontier, moment, plan, needs_reinit, rows, *lake = (
        row
    )
    return TableSnapshot(
        row[0],
        row[1],
        None if relid is None else int(relid),
        QualifiedName(schema, name),
        version,
        query,
        Frontier.from_json(frontier),
        moment,
        plan,
        needs_reinit,
        rows,
        _read_place(rows, *lake),
    )


def _read_place(rows: int, snapshot_id: int | None, *found: Any) -> LakePlace | None:
    if snapshot_id is None:
        return None
    schema, data_path, sink_path, lake_schema, lake_table, id_, uuid, at, columns, checksum = found
    return LakePlace(
        schema,
        data_path,
        sink_path,
        QualifiedName(lake_schema, lake_table),
        id_,
        uuid,
        at,
        tuple((name, form) for name, form in columns),
        rows,
        checksum,
    )


def find_snapshot(connection: Connection[TupleRow], name: QualifiedName) -> TableSnapshot | None:
    """Look a snapshot up by the name of its table."""
    values = {"schema": name.schema, "name": name.name}
    row = connection.execute(_FIND, values).fetchone()
    return None if row is None else _read(row)


_INSERT_PLACE = """
    INSERT INTO pgtrickle.pgt_lake_snapshots
        (snapshot_id, catalog_schema, data_path, sink_path, lake_schema, lake_table, lake_table_id,
         lake_table_uuid, lake_snapshot_id, columns, checksum)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


def insert_lake_place(connection: Connection[TupleRow], snapshot_id: int, place: LakePlace) -> None:
    """Record where a lake has the rows of a snapshot; from the commit on they stay there."""
    values = [
        snapshot_id,
        place.catalog_schema,
        place.data_path,
        place.sink_path,
        place.table.schema,
        place.table.name,
        place.table_id,
        place.table_uuid,
        place.snapshot_id,
        Jsonb([list(one) for one in place.columns]),
        place.checksum,
    ]
    connection.execute(_INSERT_PLACE, values)


_LIST_KEPT = """
    SELECT DISTINCT lake_snapshot_id FROM pgtrickle.pgt_lake_snapshots WHERE catalog_schema = %s
"""


def list_kept_in_lake(connection: Connection[TupleRow], catalog_schema: str) -> list[int]:
    """Return the snapshots of a lake that must not expire, since they hold rows of snapshots."""
    return [number for (number,) in connection.execute(_LIST_KEPT, [catalog_schema])]


def lock_snapshot(connection: Connection[TupleRow], snapshot_id: int) -> TableSnapshot | None:
    """Keep a snapshot from being dropped until the commit; return it as it is then."""
    if connection.execute(_LOCK, {"id": snapshot_id}).fetchone() is None:
        return None
    row = connection.execute(_FIND_BY_ID, {"id": snapshot_id}).fetchone()
    return None if row is None else _read(row)


_LIST = "SELECT * FROM pgtrickle.list_snapshots(%(name)s)"


def list_snapshots(
    connection: Connection[TupleRow], name: QualifiedName | None = None
) -> list[ListedSnapshot]:
    """Return the snapshots of one stream table or of all, the oldest first."""
    values = {"name": None if name is None else name.sql}
    with connection.cursor(row_factory=class_row(ListedSnapshot)) as cursor:
        return cursor.execute(_LIST, values).fetchall()


_LIST_IDS = """
    SELECT n.snapshot_id FROM pgtrickle.pgt_snapshots AS n WHERE n.pgt_id = %(id)s
"""
_LIST_LOST = """
    SELECT n.snapshot_id FROM pgtrickle.pgt_snapshots AS n
     WHERE n.snapshot_id NOT IN (SELECT t.snapshot_id FROM pgtrickle.locate_snapshots() AS t)
"""
_DELETE = "DELETE FROM pgtrickle.pgt_snapshots WHERE snapshot_id = %(id)s"


def list_snapshot_ids(connection: Connection[TupleRow], stream_table_id: int) -> list[int]:
    """Return the snapshots of a stream table."""
    cursor = connection.execute(_LIST_IDS, {"id": stream_table_id})
    return [number for (number,) in cursor]


def list_lost_snapshots(connection: Connection[TupleRow]) -> list[int]:
    """Return the snapshots whose tables somebody dropped."""
    return [number for (number,) in connection.execute(_LIST_LOST)]


def delete_snapshot(connection: Connection[TupleRow], snapshot_id: int) -> None:
    """Forget a snapshot; its tables stay."""
    connection.execute(_DELETE, {"id": snapshot_id})
