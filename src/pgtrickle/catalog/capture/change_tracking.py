"""Queries over ``pgt_change_tracking``: which sources are captured, and where to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.text.names import QualifiedName


@dataclass(frozen=True, slots=True)
class ChangeTracking:
    """One captured source, shared by all stream tables that read it."""

    source_relid: int
    source: QualifiedName
    buffer_name: str
    captured_columns: tuple[str, ...]
    created_at: datetime


_INSERT = """
    INSERT INTO pgtrickle.pgt_change_tracking
        (source_relid, source_schema, source_name, buffer_name, captured_columns, layout)
    VALUES (%(relid)s, %(schema)s, %(name)s, %(buffer)s, %(columns)s,
            pgtrickle.describe_layout(%(relid)s))
        ON CONFLICT (source_relid) DO UPDATE
       SET source_schema = excluded.source_schema,
           source_name = excluded.source_name,
           buffer_name = excluded.buffer_name,
           captured_columns = excluded.captured_columns,
           layout = excluded.layout
"""


def insert_change_tracking(
    connection: Connection[TupleRow],
    *,
    source_relid: int,
    source: QualifiedName,
    buffer_name: str,
    captured_columns: Sequence[str],
) -> None:
    """Record a captured source, or its present name and columns if it is on record already."""
    connection.execute(
        _INSERT,
        {
            "relid": source_relid,
            "schema": source.schema,
            "name": source.name,
            "buffer": buffer_name,
            "columns": list(captured_columns),
        },
    )


_FIND = """
    SELECT source_relid, source_schema, source_name, buffer_name, captured_columns, created_at
      FROM pgtrickle.pgt_change_tracking
     WHERE source_relid = %(relid)s
"""


def find_change_tracking(
    connection: Connection[TupleRow], source_relid: int
) -> ChangeTracking | None:
    """Look a captured source up by its relation."""
    row = connection.execute(_FIND, {"relid": source_relid}).fetchone()
    return None if row is None else _read(row)


_LIST = """
    SELECT source_relid, source_schema, source_name, buffer_name, captured_columns, created_at
      FROM pgtrickle.pgt_change_tracking
     ORDER BY source_schema, source_name
"""


def list_change_tracking(connection: Connection[TupleRow]) -> list[ChangeTracking]:
    """Return every captured source."""
    return [_read(row) for row in connection.execute(_LIST)]


_LIST_UNUSED = """
    SELECT t.source_relid, t.source_schema, t.source_name, t.buffer_name, t.captured_columns,
           t.created_at
      FROM pgtrickle.pgt_change_tracking AS t
     WHERE NOT EXISTS (
               SELECT FROM pgtrickle.pgt_dependencies AS d
                 JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = d.pgt_id
                WHERE d.source_relid = t.source_relid AND s.refresh_mode <> 'IMMEDIATE'
           )
     ORDER BY t.source_schema, t.source_name
"""


def list_unused_change_tracking(connection: Connection[TupleRow]) -> list[ChangeTracking]:
    """Return the captured sources that no stream table reads any more."""
    return [_read(row) for row in connection.execute(_LIST_UNUSED)]


_LIST_OUTDATED = """
    SELECT t.source_relid
      FROM pgtrickle.pgt_change_tracking AS t
     WHERE t.source_relid = ANY(%(relids)s::pg_catalog.oid[])
       AND t.layout IS DISTINCT FROM pgtrickle.describe_layout(t.source_relid)
     ORDER BY t.source_relid
"""


def list_outdated_layouts(connection: Connection[TupleRow], relids: Sequence[int]) -> list[int]:
    """Return those sources that were altered since their capture functions were written."""
    cursor = connection.execute(_LIST_OUTDATED, {"relids": list(relids)})
    return [relid for (relid,) in cursor]


_UPDATE_LAYOUT = """
    UPDATE pgtrickle.pgt_change_tracking
       SET layout = pgtrickle.describe_layout(source_relid)
     WHERE source_relid = %(relid)s
"""


def update_layout(connection: Connection[TupleRow], source_relid: int) -> None:
    """Record that the capture functions of a source were written for it as it is now."""
    connection.execute(_UPDATE_LAYOUT, {"relid": source_relid})


_DELETE = "DELETE FROM pgtrickle.pgt_change_tracking WHERE source_relid = %(relid)s"


def delete_change_tracking(connection: Connection[TupleRow], source_relid: int) -> None:
    """Forget a captured source; its triggers and buffer are dropped elsewhere."""
    connection.execute(_DELETE, {"relid": source_relid})


def _read(row: TupleRow) -> ChangeTracking:
    relid, schema, name, buffer_name, columns, created_at = row
    return ChangeTracking(
        relid, QualifiedName(schema, name), buffer_name, tuple(columns), created_at
    )
