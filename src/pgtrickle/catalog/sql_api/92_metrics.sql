-- Figures of a whole database, as the metrics of a daemon have them

-- The buffers are not read: PostgreSQL counts their rows.  A change that waits was made after the
-- contents of whoever has not read it yet, so it is no older than the oldest of these.
CREATE OR REPLACE FUNCTION pgtrickle.capture_lag()
RETURNS TABLE (source_table text, buffer_rows bigint, buffer_bytes bigint, lag_seconds double precision)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
    WITH sizes AS (
        SELECT t.source_relid, format('%I.%I', t.source_schema, t.source_name) AS name,
               coalesce(sum(pg_stat_get_live_tuples(c.oid)), 0)::bigint AS rows,
               coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes
          FROM pgtrickle.pgt_change_tracking AS t
          LEFT JOIN pg_class AS c
            ON c.relnamespace = 'pgtrickle_changes'::regnamespace
           AND c.relname IN (t.buffer_name, t.buffer_name || '_settled')
         GROUP BY t.source_relid
    ), readers AS (
        SELECT d.source_relid, min(s.data_timestamp) AS oldest
          FROM pgtrickle.pgt_dependencies AS d JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
         GROUP BY d.source_relid
    )
    SELECT z.name, z.rows, z.bytes,
           CASE WHEN z.rows > 0
                THEN greatest(extract(epoch FROM clock_timestamp() - r.oldest), 0) ELSE 0 END
      FROM sizes AS z LEFT JOIN readers AS r USING (source_relid)
     ORDER BY z.bytes DESC, z.name
$$;

COMMENT ON FUNCTION pgtrickle.capture_lag() IS
    'The captured changes of each source that wait, about how many, and for how long at most.';

CREATE OR REPLACE FUNCTION pgtrickle.slot_health()
RETURNS TABLE (slot_name text, active boolean, wal_status text, lag_bytes bigint, severity text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT w.slot_name, coalesce(s.active, false), coalesce(s.wal_status, 'lost'), l.bytes,
           CASE WHEN coalesce(s.wal_status, 'lost') = 'lost'
                  OR l.bytes >= pgtrickle.number_setting('slot_lag_critical_threshold_mb') * 1048576
                THEN 'CRITICAL'
                WHEN l.bytes >= pgtrickle.number_setting('slot_lag_warning_threshold_mb') * 1048576
                THEN 'WARNING' ELSE 'OK' END
      FROM pgtrickle.pgt_wal_slots AS w
      LEFT JOIN pg_replication_slots AS s
        ON s.slot_name = w.slot_name AND s.database = current_database()
     CROSS JOIN LATERAL (
               SELECT coalesce(pg_wal_lsn_diff(
                          CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                               ELSE pg_current_wal_lsn() END, s.restart_lsn), 0)::bigint) AS l (bytes)
$$;

COMMENT ON FUNCTION pgtrickle.slot_health() IS
    'The logical slot from which changes are captured, and how much log the server keeps for it.';

CREATE OR REPLACE FUNCTION pgtrickle.metrics_summary(since interval DEFAULT '1 hour')
RETURNS TABLE (database text, stream_tables bigint, active bigint, suspended bigint, failing bigint,
               falling_behind bigint, oldest_contents_seconds double precision,
               refreshes bigint, failures bigint, p50_ms double precision, p99_ms double precision,
               rows_inserted bigint, rows_deleted bigint, buffer_rows bigint, buffer_bytes bigint,
               capture_lag_seconds double precision, slot_lag_bytes bigint, requests_queued bigint,
               lock_fallbacks bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
    WITH tables AS (
        SELECT count(*) AS number, count(*) FILTER (WHERE i.status = 'ACTIVE') AS active,
               count(*) FILTER (WHERE i.status IN ('SUSPENDED', 'ERROR')) AS suspended,
               count(*) FILTER (WHERE i.failing) AS failing,
               extract(epoch FROM max(i.staleness))::double precision AS oldest
          FROM pgtrickle.stream_tables_info AS i
    ), past AS (
        SELECT count(*) FILTER (WHERE h.status = 'COMPLETED') AS refreshes,
               count(*) FILTER (WHERE h.status = 'FAILED') AS failures,
               percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
                   ORDER BY extract(epoch FROM h.end_time - h.start_time) * 1000)
                   FILTER (WHERE h.status = 'COMPLETED') AS ms,
               coalesce(sum(h.rows_inserted), 0)::bigint AS inserted,
               coalesce(sum(h.rows_deleted), 0)::bigint AS deleted
          FROM pgtrickle.pgt_refresh_history AS h
         WHERE h.start_time > clock_timestamp() - since
    ), captured AS (
        SELECT coalesce(sum(c.buffer_rows), 0)::bigint AS rows,
               coalesce(sum(c.buffer_bytes), 0)::bigint AS bytes,
               coalesce(max(c.lag_seconds), 0) AS lag
          FROM pgtrickle.capture_lag() AS c
    )
    SELECT current_database()::text, t.number, t.active, t.suspended, t.failing,
           (SELECT count(*) FROM pgtrickle.falling_behind()), t.oldest, p.refreshes, p.failures,
           p.ms[1], p.ms[2], p.inserted, p.deleted, c.rows, c.bytes, c.lag,
           coalesce((SELECT max(s.lag_bytes) FROM pgtrickle.slot_health() AS s), 0),
           (SELECT count(*) FROM pgtrickle.pgt_requests AS r WHERE r.status = 'QUEUED'),
           coalesce((SELECT sum(m.statements) FROM pgtrickle.immediate_status() AS m
                      WHERE m.lock_mode = 'exclusive'), 0)::bigint
      FROM tables AS t, past AS p, captured AS c
$$;

COMMENT ON FUNCTION pgtrickle.metrics_summary(interval) IS
    'The figures of this database in one row: stream tables now, refreshes of the last hour, what waits.';

CREATE OR REPLACE FUNCTION pgtrickle.cluster_worker_summary()
RETURNS TABLE (database text, daemon text, leads boolean, started_at timestamptz,
               seen_at timestamptz, package text, refreshes_running bigint,
               oldest_running_since timestamptz, waiting bigint, refreshes_admitted bigint,
               saturation text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH running AS (
        SELECT l.owner, count(*) AS number, min(l.acquired_at) AS since
          FROM pgtrickle.pgt_leases AS l WHERE l.expires_at > clock_timestamp()
         GROUP BY l.owner
    ), leaders AS (
        SELECT l.owner, l.saturation FROM pgtrickle.pgt_leader AS l
         WHERE l.expires_at > clock_timestamp()
    ), alive AS (
        SELECT d.daemon, d.started_at, d.seen_at, d.package FROM pgtrickle.pgt_daemons AS d
         WHERE d.seen_at > clock_timestamp() - interval '10 seconds'
    )
    -- Commands and programs refresh, too: they are no daemons, but workers.
    SELECT current_database()::text, coalesce(a.daemon, r.owner), l.owner IS NOT NULL, a.started_at,
           a.seen_at, a.package, coalesce(r.number, 0), r.since,
           coalesce((l.saturation ->> 'waiting')::bigint, 0),
           (l.saturation ->> 'limit')::bigint, l.saturation ->> 'reason'
      FROM alive AS a
      FULL JOIN running AS r ON r.owner = a.daemon
      LEFT JOIN leaders AS l ON l.owner = coalesce(a.daemon, r.owner)
     ORDER BY l.owner IS NULL, 2
$$;

COMMENT ON FUNCTION pgtrickle.cluster_worker_summary() IS
    'Every process that refreshes stream tables of this database: whether it leads, and what it does.';
