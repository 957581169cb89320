"""Copies in the lake of stream tables that their writers maintain; nothing here commits.

No refresh writes the rows of such a stream table, so none can tell the copy which rows are new.
Every statement that is followed counts up a sequence; when the count has moved, the copy is made
anew by a delivery.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted

_COUNT = """
    COALESCE(pg_catalog.pg_sequence_last_value(pg_catalog.to_regclass(
        pg_catalog.format('pgtrickle_state.st_%%s_statements', s.pgt_id))) + 1, 0)::pg_catalog.text
"""
_LIST_LAGGING = f"""
    SELECT s.pgt_id, s.pgt_schema, s.pgt_name
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pgtrickle.pgt_ducklake_sinks AS k USING (pgt_id)
     WHERE s.refresh_mode = 'IMMEDIATE' AND s.is_populated AND s.status <> 'SUSPENDED'
       AND s.plan ->> 'copied' IS DISTINCT FROM {_COUNT}
       AND NOT EXISTS (
               SELECT FROM pgtrickle.pgt_ducklake_sink_delivery AS d
                WHERE d.stream_table_id = s.pgt_id
                  AND (d.status <> 'DELIVERED'
                       OR d.started_at > pg_catalog.clock_timestamp() - %(every)s))
     ORDER BY s.pgt_id
"""
_WAIT_FOR_WRITERS = "SELECT pgtrickle.take_turns(%(id)s, '{0}')"
_NOTE = f"""
    UPDATE pgtrickle.pgt_stream_tables AS s
       SET plan = COALESCE(s.plan, '{{}}') || pg_catalog.jsonb_build_object('copied', {_COUNT})
     WHERE s.pgt_id = %(id)s
"""
_LOAD_ANEW = "UPDATE pgtrickle.pgt_ducklake_sinks SET needs_load = true WHERE pgt_id = %(id)s"


def list_lagging_copies(
    connection: Connection[TupleRow], every: timedelta
) -> Sequence[tuple[int, QualifiedName]]:
    """Return the stream tables whose copies lag, and whose last delivery is long enough ago."""
    rows = connection.execute(_LIST_LAGGING, {"every": every}).fetchall()
    return [(number, QualifiedName(schema, name)) for number, schema, name in rows]


def wait_for_writers(
    connection: Connection[TupleRow], stream_table_id: int, name: QualifiedName
) -> None:
    """Wait until every statement that has been counted is committed; none begins until the end."""
    connection.execute(_WAIT_FOR_WRITERS, {"id": stream_table_id})
    connection.execute(trusted(f"LOCK TABLE ONLY {name.sql} IN SHARE ROW EXCLUSIVE MODE"))


def note_copied(connection: Connection[TupleRow], stream_table_id: int) -> None:
    """Note that the next delivery brings all rows of now; no writer may be following."""
    connection.execute(_NOTE, {"id": stream_table_id})
    connection.execute(_LOAD_ANEW, {"id": stream_table_id})
