"""Queries over ``pgt_outbox_config`` and ``pgt_outbox_schemas``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.model.sql_type import Column

_ENABLE = """
    INSERT INTO pgtrickle.pgt_outbox_config AS c
        (pgt_id, started, retention_hours, inline_threshold_rows)
    VALUES (%(id)s, %(started)s, %(hours)s, %(threshold)s)
        ON CONFLICT (pgt_id) DO UPDATE
       SET retention_hours = excluded.retention_hours,
           inline_threshold_rows = excluded.inline_threshold_rows,
           started = CASE WHEN %(again)s THEN c.started ELSE excluded.started END,
           enabled_at = CASE WHEN %(again)s THEN c.enabled_at ELSE excluded.enabled_at END
"""
# What writers have left before an outbox begins belongs to none.
_FORGET_PENDING = "DELETE FROM pgtrickle.pgt_outbox_pending WHERE pgt_id = %(id)s"
_MARK = """
    UPDATE pgtrickle.pgt_stream_tables
       SET has_outbox = %(enabled)s, updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
"""


def enable_outbox(
    connection: Connection[TupleRow],
    stream_table_id: int,
    *,
    retention_hours: float,
    inline_threshold_rows: int,
    started: bool,
    again: bool,
) -> None:
    """Record an outbox, or what one keeps that exists; ``again``: it is enabled already."""
    values = {
        "id": stream_table_id,
        "hours": retention_hours,
        "threshold": inline_threshold_rows,
        "started": started,
        "again": again,
    }
    if not again:
        connection.execute(_FORGET_PENDING, {"id": stream_table_id})
    connection.execute(_ENABLE, values)
    connection.execute(_MARK, {"id": stream_table_id, "enabled": True})


# The number that is skipped stands for what is not in the outbox: whoever asks for it is told.
_STOP = """
    UPDATE pgtrickle.pgt_outbox_config
       SET started = false, last_id = last_id + 1, floor_id = last_id + 1
     WHERE pgt_id = %(id)s
"""
_FORGET_GROUPS = "DELETE FROM pgtrickle.pgt_consumer_groups WHERE pgt_id = %(id)s"


def disable_outbox(connection: Connection[TupleRow], stream_table_id: int) -> None:
    """End an outbox and its consumer groups; pruning deletes its entries (see ``prune.py``)."""
    values = {"id": stream_table_id}
    connection.execute(_MARK, {**values, "enabled": False})
    connection.execute(_STOP, values)
    connection.execute(_FORGET_GROUPS, values)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An outbox to which an entry may be appended, and the schema of its last one."""

    inline_threshold_rows: int
    started: bool
    schema_version: int
    columns: list[dict[str, str]] | None
    key_columns: list[str] | None
    pending: bool  # writers have left changes without a number


_FIND = """
    SELECT c.inline_threshold_rows, c.started, c.schema_version, s.columns, s.key_columns,
           EXISTS (SELECT FROM pgtrickle.pgt_outbox_pending AS p WHERE p.pgt_id = c.pgt_id)
      FROM pgtrickle.pgt_outbox_config AS c
      LEFT JOIN pgtrickle.pgt_outbox_schemas AS s
        ON s.pgt_id = c.pgt_id AND s.schema_version = c.schema_version
     WHERE c.pgt_id = %(id)s
"""


def find_outbox(connection: Connection[TupleRow], stream_table_id: int) -> Recorded | None:
    """Return the outbox of a stream table."""
    row = connection.execute(_FIND, {"id": stream_table_id}).fetchone()
    return None if row is None else Recorded(*row)


_SEAL = "SELECT pgtrickle.seal_outbox(%(id)s)"


def seal_outbox(connection: Connection[TupleRow], stream_table_id: int) -> None:
    """Give numbers to what writers have left, before the transaction appends its own."""
    connection.execute(_SEAL, {"id": stream_table_id})


_START = "UPDATE pgtrickle.pgt_outbox_config SET started = true WHERE pgt_id = %(id)s"


def start_outbox(connection: Connection[TupleRow], stream_table_id: int) -> None:
    """Let an outbox begin after the changes of this transaction."""
    connection.execute(_START, {"id": stream_table_id})


_ADD_SCHEMA = """
    WITH changed AS (
        UPDATE pgtrickle.pgt_outbox_config SET schema_version = schema_version + 1
         WHERE pgt_id = %(id)s
        RETURNING schema_version
    )
    INSERT INTO pgtrickle.pgt_outbox_schemas (pgt_id, schema_version, columns, key_columns)
    SELECT %(id)s, c.schema_version, %(columns)s, %(key)s::pg_catalog.text[] FROM changed AS c
    RETURNING schema_version
"""


def describe_columns(columns: Sequence[Column]) -> list[dict[str, str]]:
    """Return the columns as they are recorded."""
    return [{"name": one.name, "type": one.type.display} for one in columns]


def add_schema(
    connection: Connection[TupleRow],
    stream_table_id: int,
    columns: Sequence[Column],
    key: Sequence[str] | None,
) -> int:
    """Record other columns, or another key, than those of the last entry; return the version."""
    values = {
        "id": stream_table_id,
        "columns": Jsonb(describe_columns(columns)),
        "key": None if key is None else list(key),
    }
    return int(connection.execute(_ADD_SCHEMA, values).fetchall()[0][0])
