"""A database with something to see in every panel, and a picture of it that never changes.

Everything was made by pgtrickle itself; then the times in the catalog were set to moments around
noon of a day far ahead, so that nothing depends on when and how fast it was made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

import pgtrickle
from pgtrickle import Picture, Trickle
from pgtrickle.settings import POSTGRES, Settings
from tests.fakes.engine import NoEngine

NOON = "timestamptz '2100-01-01 12:00+00'"
TABLES = (
    "CREATE TABLE orders (id int PRIMARY KEY, customer int, quantity int)",
    "CREATE TABLE customers (id int PRIMARY KEY, region text)",
    "INSERT INTO customers SELECT n, 'region ' || n % 5 FROM generate_series(1, 40) AS n",
    "INSERT INTO orders SELECT n, n % 40 + 1, n % 7 FROM generate_series(1, 400) AS n",
    "CREATE TABLE events (at int, kind text)",
)
STREAM_TABLES = {
    "revenue": "SELECT c.region, sum(o.quantity) AS quantity FROM orders AS o"
    " JOIN customers AS c ON c.id = o.customer GROUP BY c.region",
    "per_customer": "SELECT customer, count(*) AS n FROM orders GROUP BY customer",
    "best": "SELECT region, quantity FROM revenue WHERE quantity > 230",
    "both": "SELECT r.region, b.quantity FROM revenue AS r JOIN best AS b USING (region)",
    "kinds": "SELECT kind, count(*) AS n FROM events GROUP BY kind",
    "Odd \u202ename": "SELECT at FROM events",
    "stopped": "SELECT id FROM customers",
    "failing": "SELECT id, region FROM customers",
}
REFRESHES = 24  # of revenue
SETTINGS = ("cdc_mode", "engine", "max_concurrent_refreshes", "request_timeout")
AGES = {"public.revenue": 3.2, "public.per_customer": 190.0, "public.kinds": 45.0}

# What a daemon, its callers and a lake leave in the catalog.
_HAPPENINGS = (
    "UPDATE pgtrickle.pgt_stream_tables SET schedule = CASE pgt_name WHEN 'revenue' THEN '5s'"
    " WHEN 'kinds' THEN '1m' WHEN 'per_customer' THEN '1m' ELSE schedule END",
    "UPDATE pgtrickle.pgt_stream_tables SET status = 'SUSPENDED', consecutive_errors = 5,"
    " last_error_message = 'relation \"gone\" does not exist' WHERE pgt_name = 'stopped'",
    "UPDATE pgtrickle.pgt_stream_tables SET consecutive_errors = 2,"
    " last_error_message = 'division by zero' WHERE pgt_name = 'failing'",
    f"""INSERT INTO pgtrickle.pgt_daemons (daemon, started_at, seen_at, package, spark)
        VALUES ('db1:4711:a', {NOON} - interval '3 days', {NOON}, '1.0.0', '4.0.1'),
               ('db2:815:b', {NOON} - interval '2 hours', {NOON}, '1.0.0', '4.0.1')""",
    f"INSERT INTO pgtrickle.pgt_leader VALUES (true, 'db1:4711:a', {NOON}, {NOON})",
    f"INSERT INTO pgtrickle.pgt_request_servers VALUES ('db1:4711:a', {NOON})",
    f"""INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, acquired_at, expires_at)
        SELECT pgt_id, 'db1:4711:a', {NOON} - interval '40 s', {NOON}
          FROM pgtrickle.pgt_stream_tables WHERE pgt_name = 'both'""",
    f"""INSERT INTO pgtrickle.pgt_refresh_progress
        SELECT pgt_id, 'stage 1 of 2', 1200000, 34567, {NOON}, {NOON}
          FROM pgtrickle.pgt_stream_tables WHERE pgt_name = 'both'""",
    f"""INSERT INTO pgtrickle.pgt_requests
               (verb, arguments, caller, requested_at, status, started_at, ended_at, error)
        VALUES ('refresh_stream_table', '{{"name": "public.revenue"}}', 'ann',
                {NOON} - interval '50 s', 'COMPLETED', {NOON} - interval '49 s',
                {NOON} - interval '47 s', NULL),
               ('verify_stream_table', '{{"name": "public.best"}}', 'bob',
                {NOON} - interval '9 s', 'RUNNING', {NOON} - interval '8 s', NULL, NULL),
               ('create_stream_table', '{{"name": "public.next"}}', 'ann',
                {NOON} - interval '2 s', 'QUEUED', NULL, NULL, NULL),
               ('drop_stream_table', '{{"name": "public.gone"}}', 'bob',
                {NOON} - interval '90 s', 'FAILED', {NOON} - interval '89 s',
                {NOON} - interval '88 s', '{{"code": "ST201", "message": "no such table"}}')""",
    """INSERT INTO pgtrickle.pgt_ducklake_sinks
              (pgt_id, catalog_schema, lake_schema, lake_table, snapshot_id)
       SELECT pgt_id, 'ducklake', 'main', pgt_name, 17 FROM pgtrickle.pgt_stream_tables
        WHERE pgt_name IN ('revenue', 'best', 'kinds')""",
    f"""INSERT INTO pgtrickle.pgt_ducklake_sink_delivery
               (stream_table_id, status, attempt_count, bytes_written, rows_written, snapshot_id,
                started_at, finished_at, next_attempt_at, last_error, failing_since, last_hint)
        SELECT pgt_id, d.status, d.attempts, d.bytes, d.rows, d.snapshot, {NOON}, d.finished,
               d.again, d.error, d.since, d.hint
          FROM (VALUES ('revenue', 'DELIVERED', 1, 123456, 5000, 17, {NOON} - interval '3 s',
                        NULL, NULL, NULL, NULL),
                       ('best', 'FAILED_RETRYABLE', 3, 0, 0, NULL, NULL,
                        {NOON} + interval '1 min', 'ST401: the disk is full',
                        {NOON} - interval '5 min', 'Make room.'),
                       ('kinds', 'FAILED_PERMANENT', 9, 0, 0, NULL, NULL, NULL::timestamptz,
                        'ST402: access was denied', {NOON} - interval '1 day', 'Grant it.'))
               AS d (name, status, attempts, bytes, rows, snapshot, finished, again, error, since,
                     hint)
          JOIN pgtrickle.pgt_stream_tables ON pgt_name = d.name""",
    """INSERT INTO pgtrickle.pgt_relay_pipelines (pipeline, pgt_id, definition)
        SELECT d.pipeline, pgt_id, jsonb_build_object('sink', d.sink)
          FROM (VALUES ('revenue-to-kafka', 'kafka'), ('revenue-to-hook', 'webhook'),
                       ('revenue-to-files', 'file')) AS d (pipeline, sink),
               pgtrickle.pgt_stream_tables WHERE pgt_name = 'revenue'""",
    f"""INSERT INTO pgtrickle.pgt_relay_states
               (pipeline, pgt_id, sink, state, holder, held_until, outbox_id, messages, sent_at,
                error_code, error, hint)
        SELECT d.pipeline, pgt_id, d.sink, d.state, 'db1:4711:a', {NOON}, 9, d.messages,
               {NOON} - interval '4 s', d.code, d.error, d.hint
          FROM (VALUES ('revenue-to-kafka', 'kafka', 'streaming', 1234, NULL, NULL, NULL),
                       ('revenue-to-hook', 'webhook', 'blocked', 17, 'ST823', '410 Gone',
                        'Mend the receiver, then resume it.'))
               AS d (pipeline, sink, state, messages, code, error, hint),
               pgtrickle.pgt_stream_tables WHERE pgt_name = 'revenue'""",
    """INSERT INTO pgtrickle.pgt_inboxes
              (relid, schema_name, inbox_name, max_retries, schedule_seconds, retention_hours)
       VALUES ('events', 'public', 'events', 3, 5, 24)""",
    """INSERT INTO pgtrickle.pgt_inbound_pipelines (pipeline, inbox_id, definition)
        SELECT 'payments', inbox_id, '{"origin": "kafka"}' FROM pgtrickle.pgt_inboxes""",
    f"""INSERT INTO pgtrickle.pgt_inbound_states
               (pipeline, inbox_id, origin, state, holder, held_until, messages, duplicates, lag,
                received_at)
        SELECT 'payments', inbox_id, 'kafka', 'receiving', 'db1:4711:a', {NOON}, 4321, 12, 3,
               {NOON} - interval '1 s' FROM pgtrickle.pgt_inboxes""",
    f"""UPDATE pgtrickle.pgt_outbox_entries SET created_at = {NOON} - interval '6 s'""",
    """UPDATE pgtrickle.pgt_leader SET saturation = '{"waiting": 2, "limit": 4,
       "reason": "every worker is busy"}'""",
)
# The figures of a machine that always takes the same time.
_TIMES = (
    f"""UPDATE pgtrickle.pgt_refresh_history
           SET start_time = {NOON} - make_interval(secs => (100 - refresh_id) * 7),
               end_time = {NOON} - make_interval(secs => (100 - refresh_id) * 7)
                          + make_interval(secs => (10 + refresh_id * 37 % 91) / 1000.0),
               data_timestamp = {NOON} - make_interval(secs => (100 - refresh_id) * 7),
               timings = '{{"prepare": 1.5, "read": 4.25, "compute": 8, "apply": 2.5}}',
               predicted_ms = 25, predicted_differential_ms = 25, predicted_full_ms = 80,
               actual_ms = 16,
               reason = CASE action WHEN 'FULL' THEN 'first load; computed by PostgreSQL'
                                    ELSE 'changed rows in public.orders: 1' END,
               reads = (SELECT coalesce(jsonb_agg(r.value || '{{"bytes": 640}}'), '[]')
                          FROM jsonb_array_elements(reads) AS r)""",
    f"""UPDATE pgtrickle.pgt_stream_tables
           SET last_refresh_at = {NOON} - interval '2 s', data_timestamp = {NOON} - interval '3 s',
               created_at = {NOON} - interval '1 day', updated_at = {NOON} - interval '1 day'""",
    "UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = '2026-01-01'"
    " WHERE pgt_name = 'kinds'",
    f"UPDATE pgtrickle.pgt_snapshots SET created_at = {NOON} - interval '2 hours'",
    f"UPDATE pgtrickle.pgt_source_gates SET gated_at = {NOON} - interval '1 hour'",
)


def set_up(dsn: str) -> None:
    """Make the scene in a fresh database."""
    settings = Settings(dsn=dsn, engine=POSTGRES)
    with (
        psycopg.connect(dsn, autocommit=True) as user,
        pgtrickle.connect(settings=settings, engine=NoEngine()) as trickle,
    ):
        _run(user, *TABLES)
        for name, query in STREAM_TABLES.items():
            mode = "DIFFERENTIAL" if name == "revenue" else "AUTO"  # which does not explore
            trickle.create_stream_table(f'"{name}"', query, refresh_mode=mode)
        for number in range(1, REFRESHES - 1):
            _run(user, f"UPDATE orders SET quantity = quantity + 1 WHERE id = {number}")
            trickle.refresh_stream_table("revenue")
        trickle.outbox.enable_outbox("revenue")
        _run(user, "UPDATE orders SET quantity = quantity + 1 WHERE id = 100")
        trickle.refresh_stream_table("revenue")
        trickle.snapshots.snapshot_stream_table("revenue", "monday")
        trickle.scheduler.pause_scheduler("best")
        trickle.scheduler.set_stream_table_sla("per_customer", "2m")
        _run(user, "ANALYZE", *_HAPPENINGS, *_TIMES)


def _run(connection: Connection[TupleRow], *statements: str) -> None:
    for statement in statements:
        connection.execute(statement.encode())


def still(trickle: Trickle, name: str) -> Picture:
    """Take the picture, and set what depends on the clock and on the server."""
    picture = trickle.insight.picture(name=name)
    noon = picture.moment.taken_at.replace(
        year=2100, month=1, day=1, hour=12, minute=0, second=0, microsecond=0
    )
    moment = replace(
        picture.moment,
        taken_at=noon,
        database="shop",
        role="ann",
        server_version="18.1",
        served=True,
    )
    tables = tuple(
        replace(one, age_s=AGES.get(one.name, 5.0), owner="ann") for one in picture.tables or ()
    )
    settings = tuple(one for one in picture.settings or () if one.name in SETTINGS)
    capture = tuple(replace(one, buffer_bytes=8192) for one in picture.capture or ())
    snapshots = tuple(replace(one, size_bytes=16384) for one in picture.snapshots or ())
    fixed: dict[str, Any] = {
        "settings": settings,
        "capture": capture,
        "snapshots": snapshots,
        "metrics": tuple(
            replace(
                one,
                oldest_contents_seconds=190.0,
                buffer_rows=112,
                buffer_bytes=122_880,
                capture_lag_seconds=3.2,
            )
            for one in picture.metrics or ()
        ),
        "service_levels": tuple(
            replace(
                one,
                freshness_lag_s=AGES.get(one.stream_table, 5.0),
                error_budget_remaining=None if one.sla_s is None else 0.44,
            )
            for one in picture.service_levels or ()
        ),
        "relays": tuple(
            replace(one, lag_seconds=6.0 * (one.lag_entries > 0)) for one in picture.relays or ()
        ),
    }
    return replace(picture, moment=moment, tables=tables, **fixed)
