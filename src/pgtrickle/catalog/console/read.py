"""Read the parts of a picture: one statement each, with the rights of a reader.

Each works on a standby, and their number does not grow with the stream tables.  Statements that
other commands need too are in ``catalog/overview.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.capture.health import check_cdc_health
from pgtrickle.catalog.console.lines import (
    Definition,
    Edge,
    Latencies,
    Moment,
    RequestLine,
    SettingLine,
    SlotLine,
    TableLine,
)
from pgtrickle.catalog.console.picture import LATENCIES, Picture, PicturePart
from pgtrickle.catalog.figures.summaries import get_metrics_summary, list_workers
from pgtrickle.catalog.inbound import states as inbound
from pgtrickle.catalog.lake.sinks import list_sink_status
from pgtrickle.catalog.outboxes.entries import list_outboxes
from pgtrickle.catalog.overview import (
    list_checks,
    list_daemons,
    list_hold_reasons,
    list_running,
    list_service_levels,
    named,
)
from pgtrickle.catalog.refreshes.history import list_refreshes
from pgtrickle.catalog.relay import states as relay
from pgtrickle.catalog.scheduling.planner import list_schedule_advice
from pgtrickle.catalog.snapshots.entries import list_snapshots
from pgtrickle.model.text.names import QualifiedName

Rows: TypeAlias = tuple[Any, ...]
Session: TypeAlias = Connection[TupleRow]

_REFRESHES = 60  # of one stream table, or the latest of all
_ADVISED = 100  # stream tables that are planned for at once: each has its history read
_HOURS = 24.0  # that times and failures are counted over


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a picture is to contain."""

    parts: frozenset[PicturePart]
    ids: Collection[int] | None = None  # whose latencies and advice are read; None: of all
    subject: QualifiedName | None = None  # the one stream table that is looked at


# One moment for all parts; nothing is written, and a server that is too busy is not waited for.
_BEGIN = """
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL statement_timeout = '10s'
"""
_MOMENT = """
    SELECT pg_catalog.clock_timestamp(), pg_catalog.current_database()::pg_catalog.text,
           current_user::pg_catalog.text, pg_catalog.current_setting('server_version'),
           pg_catalog.pg_is_in_recovery(),
           (SELECT pg_catalog.max(v.version) FROM pgtrickle.pgt_schema_version AS v),
           pgtrickle.is_served(), q.queued, q.running
      FROM pgtrickle.request_queue() AS q
"""


def take_picture(connection: Session, wanted: Wanted) -> Picture:
    """Read what is wanted, all of it as of one moment."""
    with connection.transaction():
        connection.execute(_BEGIN)
        [moment] = connection.execute(_MOMENT).fetchall()
        found = {
            part.value: read(connection, wanted)
            for part, read in _READERS.items()
            if part in wanted.parts
        }
    return Picture(Moment(*moment), **found)


_TABLES = """
    SELECT pgt_id, name, status, refresh_mode, effective_refresh_mode, engine, schedule, tier,
           is_populated, needs_reinit, age_s, target_s, interval_s, stale, failing,
           consecutive_errors, last_error_message, last_refresh_at, live_rows, owner_role
      FROM pgtrickle.console_tables()
"""


def _tables(connection: Session, _: Wanted) -> Rows:
    rows = connection.execute(_TABLES)
    return tuple(TableLine(number, named(name), *facts) for number, name, *facts in rows)


# By the index on stream table and time, whatever the length of the history.
_LATENCIES = """
    SELECT s.pgt_id, h.took, l.action, l.status, l.cost->>'engine',
           coalesce(l.delta_row_count, 0)
      FROM pgtrickle.pgt_stream_tables AS s
     CROSS JOIN LATERAL (
           SELECT pg_catalog.array_agg(r.took ORDER BY r.start_time, r.refresh_id) AS took
             FROM (SELECT d.start_time, d.refresh_id,
                          (extract(epoch FROM d.end_time - d.start_time) * 1000)::pg_catalog.float8
                              AS took
                     FROM pgtrickle.pgt_refresh_history AS d
                    WHERE d.pgt_id = s.pgt_id AND d.status = 'COMPLETED'
                    ORDER BY d.start_time DESC, d.refresh_id DESC
                    LIMIT %(latencies)s) AS r) AS h
      LEFT JOIN LATERAL (
           SELECT d.action, d.status, d.cost, d.delta_row_count
             FROM pgtrickle.pgt_refresh_history AS d
            WHERE d.pgt_id = s.pgt_id
            ORDER BY d.start_time DESC, d.refresh_id DESC
            LIMIT 1) AS l ON true
     WHERE s.pgt_schema <> 'pgtrickle_state'
       AND (%(ids)s::pg_catalog.int8[] IS NULL OR s.pgt_id = ANY (%(ids)s))
     ORDER BY s.pgt_id
"""


def _latencies(connection: Session, wanted: Wanted) -> Rows:
    ids = None if wanted.ids is None else list(wanted.ids)
    rows = connection.execute(_LATENCIES, {"ids": ids, "latencies": LATENCIES})
    return tuple(Latencies(one[0], tuple(one[1] or ()), *one[2:]) for one in rows)


_GRAPH = """
    SELECT d.pgt_id, s.pgt_schema, s.pgt_name, d.source_schema, d.source_name, d.source_type
      FROM pgtrickle.pgt_dependencies AS d
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = d.pgt_id
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY s.pgt_schema, s.pgt_name, d.source_schema, d.source_name
"""


def _graph(connection: Session, _: Wanted) -> Rows:
    return tuple(
        Edge(one[0], str(QualifiedName(*one[1:3])), str(QualifiedName(*one[3:5])), one[5])
        for one in connection.execute(_GRAPH)
    )


# A standby has no position to write at, only one that it has reached.
_SLOTS = """
    SELECT s.slot_name::pg_catalog.text, s.active, s.wal_status,
           (CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
                 ELSE pg_catalog.pg_current_wal_lsn() END - s.restart_lsn)::pg_catalog.int8
      FROM pg_catalog.pg_replication_slots AS s
     WHERE s.database = pg_catalog.current_database() AND s.slot_type = 'logical'
     ORDER BY s.slot_name
"""


def _slots(connection: Session, _: Wanted) -> Rows:
    return tuple(SlotLine(*row) for row in connection.execute(_SLOTS))


_REQUESTS = """
    SELECT request_id, verb, stream_table, caller, status, requested_at, started_at, ended_at,
           error_code
      FROM pgtrickle.console_requests(100)
"""


def _requests(connection: Session, _: Wanted) -> Rows:
    return tuple(RequestLine(*row) for row in connection.execute(_REQUESTS))


_SETTINGS = """
    SELECT name, value, source, default_value, unit, doc FROM pgtrickle.show_settings()
"""


def _settings(connection: Session, _: Wanted) -> Rows:
    found = (SettingLine(*row) for row in connection.execute(_SETTINGS))
    # A session may have been given a password in one, as every command may.
    return tuple(
        replace(one, value="***") if one.name.endswith("dsn") and one.value else one
        for one in found
    )


def _advice(connection: Session, wanted: Wanted) -> Rows:
    return tuple(list_schedule_advice(connection, wanted.ids, most=_ADVISED))


_DEFINITION = """
    SELECT s.pgt_id, s.pgt_schema, s.pgt_name, s.original_query, s.defining_query,
           s.downgrade_reason, s.fuse, s.fuse_reason, s.created_at, s.updated_at
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema = %(schema)s AND s.pgt_name = %(name)s
"""


def _definition(connection: Session, wanted: Wanted) -> Rows:
    if wanted.subject is None:
        return ()
    values = {"schema": wanted.subject.schema, "name": wanted.subject.name}
    return tuple(
        Definition(row[0], str(QualifiedName(*row[1:3])), *row[3:])
        for row in connection.execute(_DEFINITION, values)
    )


def _history(connection: Session, wanted: Wanted) -> Rows:
    if wanted.subject is None:
        return ()
    return tuple(list_refreshes(connection, wanted.subject, limit=_REFRESHES))


_READERS: dict[PicturePart, Callable[[Session, Wanted], Rows]] = {
    PicturePart.TABLES: _tables,
    PicturePart.LATENCIES: _latencies,
    PicturePart.GRAPH: _graph,
    PicturePart.CAPTURE: lambda connection, _: tuple(check_cdc_health(connection)),
    PicturePart.SLOTS: _slots,
    PicturePart.DAEMONS: lambda connection, _: tuple(list_daemons(connection)),
    PicturePart.RUNNING: lambda connection, _: tuple(list_running(connection)),
    PicturePart.HOLDS: lambda connection, _: tuple(list_hold_reasons(connection)),
    PicturePart.CHECKS: lambda connection, _: tuple(list_checks(connection)),
    PicturePart.SINKS: lambda connection, _: tuple(list_sink_status(connection)),
    PicturePart.OUTBOXES: lambda connection, _: tuple(list_outboxes(connection, None)),
    PicturePart.RELAYS: lambda connection, _: tuple(relay.list_states(connection, None)),
    PicturePart.INBOUND: lambda connection, _: tuple(inbound.list_states(connection, None)),
    PicturePart.SNAPSHOTS: lambda connection, _: tuple(list_snapshots(connection)),
    PicturePart.REQUESTS: _requests,
    PicturePart.SETTINGS: _settings,
    PicturePart.TIMELINE: lambda connection, _: tuple(list_refreshes(connection, limit=_REFRESHES)),
    PicturePart.WORKERS: lambda connection, _: tuple(list_workers(connection)),
    PicturePart.METRICS: lambda connection, _: (get_metrics_summary(connection),),
    PicturePart.SERVICE_LEVELS: lambda connection, _: tuple(
        list_service_levels(connection, _HOURS)
    ),
    PicturePart.ADVICE: _advice,
    PicturePart.DEFINITION: _definition,
    PicturePart.HISTORY: _history,
}
