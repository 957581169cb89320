"""Queries over ``pgt_ducklake_sinks`` and what was delivered to them; none of them commits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.errors import LakeSinkError
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.lake.sink import DeliveryStatus, FailingSink, LakeSink, SinkStatus
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName

_INSERT = """
    INSERT INTO pgtrickle.pgt_ducklake_sinks
        (pgt_id, catalog_schema, lake_schema, lake_table, sink_path, partition_by, catalog_dsn)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
"""


def insert_sink(connection: Connection[TupleRow], sink: LakeSink) -> None:
    """Give a stream table a sink; raise ST703 if another writes to the same lake table."""
    table = sink.lake_table
    values = [
        sink.stream_table_id,
        sink.catalog_schema,
        table.schema,
        table.name,
        sink.sink_path,
        sink.partition_by,
        sink.catalog_dsn,
    ]
    try:
        with connection.transaction():
            connection.execute(_INSERT, values)
    except psycopg.errors.UniqueViolation as error:
        raise LakeSinkError(
            f'the lake table "{table}" is taken, or the stream table has a sink already',
            hint="Choose another with ducklake_table, or turn the sink off first.",
        ) from error


_FIND = """
    SELECT pgt_id, catalog_schema, lake_schema, lake_table, sink_path, table_id, view_id,
           snapshot_id, home, needs_load, partition_by, catalog_dsn, data_path
      FROM pgtrickle.pgt_ducklake_sinks WHERE pgt_id = %s
"""


def find_sink(connection: Connection[TupleRow], stream_table_id: int) -> LakeSink | None:
    """Return the sink of a stream table."""
    row = connection.execute(_FIND, [stream_table_id]).fetchone()
    if row is None:
        return None
    return LakeSink(row[0], row[1], QualifiedName(row[2], row[3]), *row[4:])


_LIST = """
    SELECT t.pgt_schema, t.pgt_name
      FROM pgtrickle.pgt_ducklake_sinks AS s
      JOIN pgtrickle.pgt_stream_tables AS t USING (pgt_id)
     ORDER BY 1, 2
"""


def list_sinks(connection: Connection[TupleRow]) -> list[QualifiedName]:
    """Return the stream tables that have a sink."""
    return [QualifiedName(*row) for row in connection.execute(_LIST).fetchall()]


_LIST_ROOTS = """
    SELECT DISTINCT p.path
      FROM pgtrickle.pgt_ducklake_sinks AS s,
           LATERAL (VALUES (s.data_path), (s.sink_path)) AS p (path)
     WHERE s.catalog_dsn = %s AND s.catalog_schema = %s AND p.path IS NOT NULL
     ORDER BY 1
"""


def list_roots(connection: Connection[TupleRow], sink: LakeSink) -> tuple[str, ...]:
    """Return the directories on record for all sinks of the catalog in which a sink is."""
    found = connection.execute(_LIST_ROOTS, [sink.catalog_dsn, sink.catalog_schema])
    return tuple(path for (path,) in found.fetchall())


_TAKE_NEGLECTED = """
    UPDATE pgtrickle.pgt_ducklake_sinks AS s
       SET maintained_at = pg_catalog.clock_timestamp()
      FROM pgtrickle.pgt_stream_tables AS t
     WHERE t.pgt_id = s.pgt_id AND t.status <> 'SUSPENDED'
       AND s.maintained_at < pg_catalog.clock_timestamp() - %s::interval
    RETURNING t.pgt_schema, t.pgt_name
"""


def take_neglected_sinks(connection: Connection[TupleRow], every: timedelta) -> list[QualifiedName]:
    """Return the stream tables whose sinks are to be tended now, and note that they are."""
    return [QualifiedName(*row) for row in connection.execute(_TAKE_NEGLECTED, [every]).fetchall()]


_UPDATE = """
    UPDATE pgtrickle.pgt_ducklake_sinks
       SET table_id = %s, view_id = %s, snapshot_id = %s, home = %s, needs_load = %s,
           data_path = COALESCE(data_path, %s)
     WHERE pgt_id = %s
"""


def update_sink(connection: Connection[TupleRow], sink: LakeSink) -> None:
    """Record how far a sink is."""
    connection.execute(
        _UPDATE,
        [
            sink.table_id,
            sink.view_id,
            sink.snapshot_id,
            sink.home,
            sink.needs_load,
            sink.data_path,
            sink.stream_table_id,
        ],
    )


def delete_sink(connection: Connection[TupleRow], stream_table_id: int) -> None:
    """Forget the sink of a stream table; its deliveries stay on record, but none stays open."""
    connection.execute(
        "DELETE FROM pgtrickle.pgt_ducklake_sink_delivery"
        " WHERE stream_table_id = %s AND status <> 'DELIVERED'",
        [stream_table_id],
    )
    connection.execute(
        "DELETE FROM pgtrickle.pgt_ducklake_sinks WHERE pgt_id = %s", [stream_table_id]
    )


@dataclass(frozen=True, slots=True)
class OpenDelivery:
    """A delivery that has not succeeded yet."""

    id: int
    status: DeliveryStatus
    attempts: int
    due: bool
    lasting: int = 0  # of the last attempts, those that failed for what does not pass by itself


_FIND_OPEN = """
    SELECT delivery_id, status, attempt_count,
           COALESCE(next_attempt_at <= pg_catalog.clock_timestamp(), true), lasting_failures
      FROM pgtrickle.pgt_ducklake_sink_delivery
     WHERE stream_table_id = %s AND status <> 'DELIVERED'
"""


def find_open_delivery(
    connection: Connection[TupleRow], stream_table_id: int
) -> OpenDelivery | None:
    """Return the delivery of a stream table that is still to succeed."""
    row = connection.execute(_FIND_OPEN, [stream_table_id]).fetchone()
    return None if row is None else OpenDelivery(row[0], DeliveryStatus(row[1]), *row[2:])


_LIST_DUE = """
    SELECT t.pgt_schema, t.pgt_name
      FROM pgtrickle.pgt_ducklake_sink_delivery AS d
      JOIN pgtrickle.pgt_ducklake_sinks AS s ON s.pgt_id = d.stream_table_id
      JOIN pgtrickle.pgt_stream_tables AS t ON t.pgt_id = d.stream_table_id
     WHERE d.status IN ('PENDING', 'WRITING', 'FAILED_RETRYABLE')
       AND COALESCE(d.next_attempt_at <= pg_catalog.clock_timestamp(), true)
       AND t.is_populated AND t.status <> 'SUSPENDED'
     ORDER BY d.next_attempt_at NULLS FIRST
"""


def list_due_deliveries(connection: Connection[TupleRow]) -> list[QualifiedName]:
    """Return the stream tables whose delivery is to be tried again now."""
    return [QualifiedName(*row) for row in connection.execute(_LIST_DUE).fetchall()]


_OPEN = """
    INSERT INTO pgtrickle.pgt_ducklake_sink_delivery (stream_table_id, status)
    VALUES (%s, 'PENDING') RETURNING delivery_id
"""


def open_delivery(connection: Connection[TupleRow], stream_table_id: int) -> OpenDelivery:
    """Record that there is something to deliver."""
    [(id_,)] = connection.execute(_OPEN, [stream_table_id]).fetchall()
    return OpenDelivery(id_, DeliveryStatus.PENDING, 0, due=True)


_MARK = """
    UPDATE pgtrickle.pgt_ducklake_sink_delivery
       SET status = %(status)s
     WHERE delivery_id = %(id)s AND status <> 'DELIVERED'
"""


def mark_delivery(
    connection: Connection[TupleRow], delivery_id: int, status: DeliveryStatus
) -> None:
    """Show others how far an open delivery is."""
    connection.execute(_MARK, {"id": delivery_id, "status": status.value})


_CLOSE = """
    UPDATE pgtrickle.pgt_ducklake_sink_delivery
       SET status = 'DELIVERED', attempt_count = attempt_count + 1, refresh_id = %(refresh_id)s,
           bytes_written = %(bytes)s, rows_written = %(rows)s, rows_deleted = %(deleted)s,
           snapshot_id = %(snapshot_id)s, finished_at = pg_catalog.clock_timestamp(),
           next_attempt_at = NULL
     WHERE delivery_id = %(id)s
"""


def close_delivery(
    connection: Connection[TupleRow],
    delivery_id: int,
    *,
    refresh_id: int | None,
    rows: int,
    deleted: int,
    size: int,
    snapshot_id: int,
) -> None:
    """Record a delivery that succeeded."""
    values = {
        "id": delivery_id,
        "refresh_id": refresh_id,
        "rows": rows,
        "deleted": deleted,
        "bytes": size,
        "snapshot_id": snapshot_id,
    }
    connection.execute(_CLOSE, values)


_FAIL = """
    UPDATE pgtrickle.pgt_ducklake_sink_delivery
       SET status = %(status)s, attempt_count = attempt_count + 1, refresh_id = %(refresh_id)s,
           last_error = %(error)s, last_hint = %(hint)s,
           lasting_failures = CASE WHEN %(lasting)s THEN lasting_failures + 1 ELSE 0 END,
           failing_since = COALESCE(failing_since, pg_catalog.clock_timestamp()),
           finished_at = pg_catalog.clock_timestamp(),
           next_attempt_at = pg_catalog.clock_timestamp()
               + pg_catalog.make_interval(secs => %(seconds)s)
     WHERE delivery_id = %(id)s
"""


def fail_delivery(
    connection: Connection[TupleRow],
    delivery_id: int,
    *,
    refresh_id: int | None,
    permanent: bool,
    lasting: bool,
    error: str,
    hint: str,
    wait_seconds: float,
) -> None:
    """Record a delivery that failed and, unless it did for good, when it is tried again.

    ``lasting`` says whether it failed for a reason that does not pass by itself.
    """
    status = DeliveryStatus.FAILED_PERMANENT if permanent else DeliveryStatus.FAILED_RETRYABLE
    values = {
        "id": delivery_id,
        "refresh_id": refresh_id,
        "status": status.value,
        "lasting": lasting,
        "error": error,
        "hint": hint,
        "seconds": None if permanent else wait_seconds,
    }
    connection.execute(_FAIL, values)


_FORGIVE = """
    UPDATE pgtrickle.pgt_ducklake_sink_delivery
       SET status = 'PENDING', attempt_count = 0, lasting_failures = 0, next_attempt_at = NULL
     WHERE stream_table_id = %s AND status <> 'DELIVERED'
"""


def forgive_delivery(connection: Connection[TupleRow], stream_table_id: int) -> None:
    """Let an open delivery be tried at once, as often as a new one."""
    connection.execute(_FORGIVE, [stream_table_id])


_INSERT_PROVENANCE = """
    INSERT INTO pgtrickle.pgt_ducklake_provenance
        (stream_table_oid, stream_table_name, ducklake_snapshot_id, refresh_id, frontier,
         delta_row_count)
    VALUES (%s, %s, %s, %s, %s, %s)
"""


def insert_provenance(
    connection: Connection[TupleRow],
    stream_table: StreamTable,
    *,
    snapshot_id: int,
    refresh_id: int | None,
    frontier: Frontier | None,
    rows: int,
) -> None:
    """Record which refresh a snapshot of the lake came from."""
    written = None if frontier is None else Jsonb(frontier.to_json())
    name = str(stream_table.name)
    connection.execute(
        _INSERT_PROVENANCE, [stream_table.relid, name, snapshot_id, refresh_id, written, rows]
    )


_LIST_FAILING = """
    SELECT t.pgt_schema, t.pgt_name, s.lake_schema, s.lake_table, d.status, d.attempt_count,
           d.failing_since, d.next_attempt_at, COALESCE(d.last_error, ''),
           COALESCE(d.last_hint, ''), d.refresh_id
      FROM pgtrickle.pgt_ducklake_sink_delivery AS d
      JOIN pgtrickle.pgt_ducklake_sinks AS s ON s.pgt_id = d.stream_table_id
      JOIN pgtrickle.pgt_stream_tables AS t ON t.pgt_id = d.stream_table_id
     WHERE d.status <> 'DELIVERED' AND d.failing_since IS NOT NULL
     ORDER BY 1, 2
"""


def list_failing_sinks(connection: Connection[TupleRow]) -> list[FailingSink]:
    """Return the sinks of which an attempt failed since the last delivery that succeeded."""
    return [
        FailingSink(
            QualifiedName(*row[:2]), QualifiedName(*row[2:4]), DeliveryStatus(row[4]), *row[5:]
        )
        for row in connection.execute(_LIST_FAILING).fetchall()
    ]


def list_sink_status(connection: Connection[TupleRow]) -> list[SinkStatus]:
    """Return every sink and how far it is."""
    rows = connection.execute("SELECT * FROM pgtrickle.ducklake_sink_status()").fetchall()
    return [SinkStatus(row[0], row[1], DeliveryStatus(row[2]), *row[3:]) for row in rows]
