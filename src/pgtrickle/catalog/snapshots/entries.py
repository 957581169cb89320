"""Queries over ``pgt_snapshots`` and ``pgt_snapshot_gaps``."""

from __future__ import annotations

from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from pgtrickle.model.frontier import Frontier
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.table_snapshot import SNAPSHOT_VERSION, ListedSnapshot, TableSnapshot
from pgtrickle.model.text.names import QualifiedName

_INSERT = """
    INSERT INTO pgtrickle.pgt_snapshots
        (pgt_id, snapshot_relid, snapshot_schema, snapshot_table, snapshot_version, defining_query,
         frontier, data_timestamp, plan, needs_reinit, row_count)
    VALUES
        (%(stream_table_id)s, pg_catalog.to_regclass(%(relation)s)::pg_catalog.oid, %(schema)s,
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
) -> int:
    """Record a snapshot whose table exists; return its id."""
    frontier = stream_table.frontier
    values = {
        "stream_table_id": stream_table.id,
        "relation": table.sql,
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
    n.data_timestamp, n.plan, n.needs_reinit
"""
# A table that was renamed has its new name; the entry of one that is gone keeps the old.
_FIND = f"""
    SELECT {_COLUMNS}
      FROM pgtrickle.pgt_snapshots AS n
      LEFT JOIN pgtrickle.locate_snapshots() AS t ON t.snapshot_id = n.snapshot_id
     WHERE COALESCE(t.schema_name, n.snapshot_schema) = %(schema)s
       AND COALESCE(t.table_name, n.snapshot_table) = %(name)s
     ORDER BY t.relid IS NULL, n.snapshot_id DESC
     LIMIT 1
"""
_FIND_BY_ID = f"""
    SELECT {_COLUMNS}
      FROM pgtrickle.pgt_snapshots AS n
      LEFT JOIN pgtrickle.locate_snapshots() AS t ON t.snapshot_id = n.snapshot_id
     WHERE n.snapshot_id = %(id)s
"""
_LOCK = "SELECT FROM pgtrickle.pgt_snapshots WHERE snapshot_id = %(id)s FOR UPDATE"


def _read(row: TupleRow) -> TableSnapshot:
    return TableSnapshot(
        row[0],
        row[1],
        None if row[2] is None else int(row[2]),
        QualifiedName(row[3], row[4]),
        row[5],
        row[6],
        Frontier.from_json(row[7]),
        *row[8:],
    )


def find_snapshot(connection: Connection[TupleRow], name: QualifiedName) -> TableSnapshot | None:
    """Look a snapshot up by the name of its table."""
    values = {"schema": name.schema, "name": name.name}
    row = connection.execute(_FIND, values).fetchone()
    return None if row is None else _read(row)


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
