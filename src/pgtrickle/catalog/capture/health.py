"""Queries over ``pgt_change_tracking`` that concern pauses, durability and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import TupleRow


@dataclass(frozen=True, slots=True)
class CaptureHealth:
    """A captured source, with one thing that is wrong with its capture, if anything is."""

    source_relid: int
    source: str
    cdc_mode: str
    durability: str
    buffer_bytes: int
    consumers: int
    alert: str | None


_CHECK_HEALTH = """
    SELECT source_relid, source_table, cdc_mode, durability, buffer_bytes, consumers, alert
      FROM pgtrickle.check_cdc_health()
"""


def check_cdc_health(connection: Connection[TupleRow]) -> list[CaptureHealth]:
    """Return every captured source, with a row for each thing that is wrong."""
    return [CaptureHealth(*row) for row in connection.execute(_CHECK_HEALTH)]


_SET_PAUSED = """
    UPDATE pgtrickle.pgt_change_tracking
       SET paused_at = CASE WHEN %(paused)s THEN pg_catalog.clock_timestamp() END
     WHERE source_relid = %(relid)s AND (paused_at IS NOT NULL) <> %(paused)s
"""


def set_paused(connection: Connection[TupleRow], source_relid: int, *, paused: bool) -> bool:
    """Record a pause or its end; return False if that is the state already."""
    cursor = connection.execute(_SET_PAUSED, {"relid": source_relid, "paused": paused})
    return cursor.rowcount == 1


_LIST_UNDECIDED = """
    SELECT source_relid FROM pgtrickle.pgt_change_tracking
     WHERE durability IS NULL ORDER BY source_relid
"""


def list_undecided_durability(connection: Connection[TupleRow]) -> list[int]:
    """Return the sources whose buffers nobody has chosen a durability for."""
    return [relid for (relid,) in connection.execute(_LIST_UNDECIDED)]


_SET_DURABILITY = """
    UPDATE pgtrickle.pgt_change_tracking
       SET durability = %(durability)s WHERE source_relid = %(relid)s
"""
_VOUCH = """
    INSERT INTO pgtrickle.pgt_unlogged_buffers VALUES (%(relid)s) ON CONFLICT DO NOTHING
"""
_VOUCH_NO_MORE = "DELETE FROM pgtrickle.pgt_unlogged_buffers WHERE source_relid = %(relid)s"


def set_durability(connection: Connection[TupleRow], source_relid: int, durability: str) -> None:
    """Record what a crash leaves of a buffer, and vouch for what an unlogged one holds now."""
    connection.execute(_SET_DURABILITY, {"relid": source_relid, "durability": durability})
    unlogged = durability == "unlogged"
    connection.execute(_VOUCH if unlogged else _VOUCH_NO_MORE, {"relid": source_relid})


# Those that read a source whose capture is paused, or all while pgtrickle is off.  A setting of the
# database holds for new sessions only, so it is looked up.
_LIST_HELD_BACK = """
    SELECT s.pgt_id
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE (SELECT pg_catalog.current_setting('pg_trickle.enabled', true)
                   IN ('off', 'false', 'no', '0'))
        OR (SELECT EXISTS (
                SELECT FROM pg_catalog.pg_db_role_setting AS r, pg_catalog.unnest(r.setconfig) AS c
                 WHERE r.setdatabase IN (0, (SELECT b.oid FROM pg_catalog.pg_database AS b
                                              WHERE b.datname = pg_catalog.current_database()))
                   AND r.setrole IN (0, (SELECT o.oid FROM pg_catalog.pg_roles AS o
                                          WHERE o.rolname = current_user))
                   AND pg_catalog.lower(c) IN (
                       'pg_trickle.enabled=off', 'pg_trickle.enabled=false',
                       'pg_trickle.enabled=no', 'pg_trickle.enabled=0')))
        OR s.pgt_id IN (
               SELECT d.pgt_id FROM pgtrickle.pgt_dependencies AS d
                 JOIN pgtrickle.pgt_change_tracking AS t USING (source_relid)
                WHERE t.paused_at IS NOT NULL)
        OR s.pgt_id IN (
               SELECT i.pgt_id FROM pgtrickle.pgt_immediate_sources AS i
                 JOIN pgtrickle.pgt_immediate_pauses AS p USING (source_relid))
"""


def list_held_back(connection: Connection[TupleRow]) -> frozenset[int]:
    """Return the stream tables that are not refreshed on a schedule for now."""
    return frozenset(number for (number,) in connection.execute(_LIST_HELD_BACK))


@dataclass(frozen=True, slots=True)
class BufferWatch:
    """The recorded size of a buffer, and the alerts about it."""

    source_relid: int
    source: str
    alerted: bool
    overfull: int
    delay_ms: int
    compacted_rows: int
    bytes: int


_LIST_WATCHED = """
    SELECT t.source_relid, t.source_schema || '.' || t.source_name, t.alerted_at IS NOT NULL,
           t.overfull, t.delay_ms, t.compacted_rows,
           COALESCE(pg_catalog.pg_relation_size(
               pg_catalog.to_regclass('pgtrickle_changes.' || t.buffer_name)), 0)
           + COALESCE(pg_catalog.pg_relation_size(
               pg_catalog.to_regclass('pgtrickle_changes.' || t.buffer_name || '_settled')), 0)
      FROM pgtrickle.pgt_change_tracking AS t
     WHERE %(relids)s::pg_catalog.oid[] IS NULL OR t.source_relid = ANY(%(relids)s)
     ORDER BY t.source_relid
"""


def list_watched(
    connection: Connection[TupleRow], relids: list[int] | None = None
) -> list[BufferWatch]:
    """Return the buffers of these sources, or of all, with their sizes on disk."""
    return [BufferWatch(*row) for row in connection.execute(_LIST_WATCHED, {"relids": relids})]


_SET_ALERTED = """
    UPDATE pgtrickle.pgt_change_tracking
       SET alerted_at = CASE WHEN %(value)s THEN pg_catalog.clock_timestamp() END
     WHERE source_relid = %(relid)s
"""


def set_alerted(connection: Connection[TupleRow], source_relid: int, *, alerted: bool) -> None:
    """Record that an alert about a buffer was sent, or that the buffer is small again."""
    _set(connection, _SET_ALERTED, source_relid, alerted)


_SET_OVERFULL = """
    UPDATE pgtrickle.pgt_change_tracking SET overfull = %(value)s WHERE source_relid = %(relid)s
"""


def set_overfull(connection: Connection[TupleRow], source_relid: int, times: int) -> None:
    """Record how many consecutive checks found a buffer above its limit."""
    _set(connection, _SET_OVERFULL, source_relid, times)


_SET_DELAY = """
    UPDATE pgtrickle.pgt_change_tracking SET delay_ms = %(value)s WHERE source_relid = %(relid)s
"""


def set_delay(connection: Connection[TupleRow], source_relid: int, delay_ms: int) -> None:
    """Record how long writers are held up; the capture functions have to be written anew."""
    _set(connection, _SET_DELAY, source_relid, delay_ms)


_SET_COMPACTED = """
    UPDATE pgtrickle.pgt_change_tracking
       SET compacted_rows = %(value)s WHERE source_relid = %(relid)s
"""


def set_compacted(connection: Connection[TupleRow], source_relid: int, rows: int) -> None:
    """Record how many rows a compaction left."""
    _set(connection, _SET_COMPACTED, source_relid, rows)


def _set(
    connection: Connection[TupleRow], statement: LiteralString, relid: int, value: Any
) -> None:
    connection.execute(statement, {"relid": relid, "value": value})


_NOTIFY = """
    SELECT pgtrickle.notify('pg_trickle_alert', pg_catalog.json_build_object(
        'event', %(event)s::text, 'source', %(source)s::text, 'rows', %(rows)s::bigint)::text)
"""


def send_alert(connection: Connection[TupleRow], event: str, source: str, rows: int) -> None:
    """Notify listeners of the state of a buffer."""
    connection.execute(_NOTIFY, {"event": event, "source": source, "rows": rows})


_RESET_ERRORS = """
    UPDATE pgtrickle.pgt_stream_tables
       SET consecutive_errors = 0, last_error_message = NULL, needs_reinit = true,
           suspended_by = NULL,
           status = CASE WHEN status IN ('SUSPENDED', 'ERROR') THEN 'ACTIVE' ELSE status END,
           updated_at = pg_catalog.now()
     WHERE pgt_id = %(id)s
    RETURNING status
"""


def reset_errors(connection: Connection[TupleRow], stream_table_id: int) -> None:
    """Forget the errors of a stream table, let it be refreshed, and make that start anew."""
    connection.execute(_RESET_ERRORS, {"id": stream_table_id})
