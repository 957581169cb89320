"""Queries over ``pgt_ducklake_sources``, the lake tables that are followed; none commits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.errors import LakeSourceError
from pgtrickle.model.lake.source import CompactionPolicy, LakeSource, SourceColumn
from pgtrickle.model.text.names import QualifiedName

_COLUMNS = """
    source_id, landing_schema, landing_name, catalog_schema, lake_schema, lake_table, table_id,
    table_uuid, columns, compaction_policy, snapshot_id, followed_at, last_error, data_path
"""


def _read(row: Sequence[Any]) -> LakeSource:
    return LakeSource(
        row[0],
        QualifiedName(row[1], row[2]),
        row[3],
        QualifiedName(row[4], row[5]),
        row[6],
        row[7],
        tuple(SourceColumn(one["id"], one["name"], one["kind"]) for one in row[8]),
        CompactionPolicy(row[9]),
        *row[10:],
    )


_INSERT = """
    INSERT INTO pgtrickle.pgt_ducklake_sources
        (landing_schema, landing_name, catalog_schema, lake_schema, lake_table, table_id,
         table_uuid, columns, compaction_policy, snapshot_id, data_path)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    RETURNING source_id
"""


def insert_source(connection: Connection[TupleRow], source: LakeSource) -> int:
    """Record a lake table that is followed; return its id."""
    [(id_,)] = connection.execute(
        _INSERT,
        [
            source.landing.schema,
            source.landing.name,
            source.catalog_schema,
            source.lake_table.schema,
            source.lake_table.name,
            source.table_id,
            source.table_uuid,
            Jsonb([one.to_json() for one in source.columns]),
            source.policy.value,
            source.snapshot_id,
            source.data_path,
        ],
    ).fetchall()
    return int(id_)


_LIST = f"""
    SELECT {_COLUMNS} FROM pgtrickle.pgt_ducklake_sources
     WHERE failed_at IS NULL
        OR failed_at < pg_catalog.clock_timestamp() - %(quiet)s::pg_catalog.interval
     ORDER BY landing_schema, landing_name
"""


def list_sources(
    connection: Connection[TupleRow], quiet: timedelta = timedelta()
) -> list[LakeSource]:
    """Return the lake tables that are followed, without those that failed a moment ago."""
    return [_read(row) for row in connection.execute(_LIST, {"quiet": quiet}).fetchall()]


_LIST_READ = f"""
    SELECT {_COLUMNS} FROM pgtrickle.pgt_ducklake_sources
     WHERE pg_catalog.to_regclass(pg_catalog.format('pgtrickle_state.landed_%%s', source_id))::oid
           = ANY(%s::pg_catalog.oid[])
     ORDER BY source_id
"""


def list_sources_among(
    connection: Connection[TupleRow], relids: Collection[int]
) -> list[LakeSource]:
    """Return the lake tables whose rows are in one of these relations."""
    return [_read(row) for row in connection.execute(_LIST_READ, [list(relids)]).fetchall()]


_GET = f"SELECT {_COLUMNS} FROM pgtrickle.pgt_ducklake_sources WHERE source_id = %s"


def find_source(connection: Connection[TupleRow], source_id: int) -> LakeSource | None:
    """Return a followed lake table by its id."""
    row = connection.execute(_GET, [source_id]).fetchone()
    return None if row is None else _read(row)


_GET_BY_NAME = f"""
    SELECT {_COLUMNS} FROM pgtrickle.pgt_ducklake_sources
     WHERE landing_schema = %s AND landing_name = %s
"""


def get_source(connection: Connection[TupleRow], landing: QualifiedName) -> LakeSource:
    """Return a followed lake table by its name here, or raise ST705."""
    row = connection.execute(_GET_BY_NAME, [landing.schema, landing.name]).fetchone()
    if row is None:
        raise LakeSourceError(
            f'"{landing}" is not an attached lake table',
            hint="List them with: pgtrickle lake list.",
        )
    return _read(row)


_UPDATE = """
    UPDATE pgtrickle.pgt_ducklake_sources
       SET snapshot_id = %(snapshot)s, table_id = %(table)s, table_uuid = %(uuid)s,
           columns = %(columns)s, followed_at = pg_catalog.clock_timestamp(), failed_at = NULL,
           last_error = NULL, data_path = COALESCE(data_path, %(data_path)s)
     WHERE source_id = %(id)s
"""


def update_source(connection: Connection[TupleRow], source: LakeSource) -> None:
    """Record up to which snapshot the rows are; in the transaction that changed them."""
    connection.execute(
        _UPDATE,
        {
            "id": source.id,
            "snapshot": source.snapshot_id,
            "table": source.table_id,
            "uuid": source.table_uuid,
            "columns": Jsonb([one.to_json() for one in source.columns]),
            "data_path": source.data_path,
        },
    )


_NOTE = """
    UPDATE pgtrickle.pgt_ducklake_sources AS s
       SET failed_at = pg_catalog.clock_timestamp(), last_error = %(error)s
      FROM pgtrickle.pgt_ducklake_sources AS was
     WHERE s.source_id = %(id)s AND was.source_id = s.source_id
    RETURNING was.last_error IS DISTINCT FROM s.last_error
"""


def note_source_failure(connection: Connection[TupleRow], source_id: int, error: str) -> bool:
    """Record that a lake table could not be followed; tell whether that is news."""
    row = connection.execute(_NOTE, {"id": source_id, "error": error}).fetchone()
    return row is not None and bool(row[0])


_ALERT = """
    SELECT pgtrickle.notify('pg_trickle_alert', pg_catalog.json_build_object(
        'event', %(event)s::pg_catalog.text, 'name', %(name)s::pg_catalog.text,
        'reason', %(reason)s::pg_catalog.text)::pg_catalog.text)
"""


def alert_source(
    connection: Connection[TupleRow], event: str, landing: QualifiedName, reason: str
) -> None:
    """Tell the channel of alerts something about a followed lake table."""
    connection.execute(_ALERT, {"event": event, "name": str(landing), "reason": reason[:1000]})


def delete_source(connection: Connection[TupleRow], source_id: int) -> None:
    """Forget a lake table that is followed no longer."""
    connection.execute(
        "DELETE FROM pgtrickle.pgt_ducklake_sources WHERE source_id = %s", [source_id]
    )
