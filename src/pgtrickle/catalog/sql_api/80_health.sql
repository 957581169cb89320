-- Health: findings, one row for each check without any, and one word for all

-- In PL/pgSQL, since it names functions of later files.
CREATE OR REPLACE FUNCTION pgtrickle.list_findings()
RETURNS TABLE (check_name text, severity text, detail text, evidence jsonb, command text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH tables AS (
        SELECT format('%I.%I', i.pgt_schema, i.pgt_name) AS name, i.* FROM pgtrickle.stream_tables_info AS i
    )
    SELECT 'daemon', 'CRITICAL', 'no daemon serves this database', NULL::jsonb, 'pgtrickle run'
     WHERE NOT pgtrickle.is_served() AND EXISTS (SELECT FROM tables)
     UNION ALL
    SELECT 'stale_daemons', 'WARNING',
           format('%s has shown no sign of life since %s, and has not said that it ends', d.daemon,
                  to_char(d.seen_at, 'YYYY-MM-DD HH24:MI:SS TZ')),
           jsonb_build_object('daemon', d.daemon, 'seen_at', d.seen_at, 'package', d.package),
           'pgtrickle status'
      FROM pgtrickle.pgt_daemons AS d
     WHERE d.seen_at < clock_timestamp() - interval '30 seconds'
     UNION ALL
    SELECT 'drained', 'WARNING', 'the scheduler begins nothing', to_jsonb(p) - 'pgt_id',
           'pgtrickle scheduler undrain'
      FROM pgtrickle.pgt_scheduler_pauses AS p WHERE p.pgt_id IS NULL
     UNION ALL
    SELECT 'suspended', 'CRITICAL', t.name,
           jsonb_build_object('stream_table', t.name, 'status', t.status, 'error', t.last_error_message),
           format('pgtrickle alter %s --status ACTIVE', t.name)
      FROM tables AS t WHERE t.status IN ('SUSPENDED', 'ERROR')
     UNION ALL
    SELECT 'fuses', 'WARNING', format('%I.%I: %s', s.pgt_schema, s.pgt_name, s.fuse_reason),
           jsonb_build_object('stream_table', format('%I.%I', s.pgt_schema, s.pgt_name),
                              'blown_at', s.fuse_blown_at),
           format('pgtrickle fuse reset %I.%I', s.pgt_schema, s.pgt_name)
      FROM pgtrickle.pgt_stream_tables AS s WHERE s.fuse_blown_at IS NOT NULL
     UNION ALL
    SELECT 'errors', 'WARNING', t.name || ': ' || t.last_error_message,
           jsonb_build_object('stream_table', t.name, 'consecutive_errors', t.consecutive_errors),
           format('pgtrickle errors %s', t.name)
      FROM tables AS t WHERE t.failing
     UNION ALL
    SELECT 'stale', 'WARNING', t.name,
           jsonb_build_object('stream_table', t.name, 'schedule', t.schedule,
                              'data_timestamp', t.data_timestamp),
           'pgtrickle scheduler holds'
      FROM tables AS t WHERE t.stale AND t.status = 'ACTIVE'
     UNION ALL
    SELECT 'pace', 'WARNING',
           format('%s takes %s s, is due every %s s', b.name, round(b.took_seconds::numeric, 1),
                  b.effective_interval_seconds),
           to_jsonb(b), format('pgtrickle advise %s', b.name)
      FROM pgtrickle.falling_behind() AS b WHERE b.stretch > 1
     UNION ALL
    SELECT 'load', 'WARNING',
           format('%s: %s refreshes wait, %s at a time, hot stream tables first, since %s',
                  l.saturation ->> 'reason', l.saturation ->> 'waiting', l.saturation ->> 'limit',
                  l.saturation ->> 'since'),
           l.saturation, 'pgtrickle status'
      FROM pgtrickle.pgt_leader AS l
     WHERE l.saturation IS NOT NULL AND l.expires_at > clock_timestamp()
     UNION ALL
    SELECT 'reinitialize', 'WARNING', t.name, jsonb_build_object('stream_table', t.name),
           format('pgtrickle refresh %s', t.name)
      FROM tables AS t WHERE t.needs_reinit
     UNION ALL
    SELECT 'capture', 'WARNING', c.source_table || ': ' || c.alert,
           jsonb_build_object('source', c.source_table, 'alert', c.alert, 'cdc_mode', c.cdc_mode,
                              'buffer_bytes', c.buffer_bytes, 'consumers', c.consumers),
           CASE WHEN c.alert = 'paused' THEN format('pgtrickle cdc resume %s', c.source_table)
                WHEN c.alert IN ('triggers_missing', 'triggers_disabled', 'buffer_missing')
                THEN 'pgtrickle cdc rebuild'
                WHEN c.alert IN ('gap', 'emptied_by_crash') THEN 'pgtrickle refresh --all'
                ELSE 'pgtrickle cdc health' END
      FROM pgtrickle.check_cdc_health() AS c WHERE c.alert IS NOT NULL
     UNION ALL
    SELECT 'snapshots', 'WARNING',
           format('the snapshot %I.%I keeps changes of %s in a buffer of %s', h.snapshot_schema,
                  h.snapshot_table, h.source, pg_size_pretty(h.bytes)),
           jsonb_build_object('snapshot', format('%I.%I', h.snapshot_schema, h.snapshot_table),
                              'source', h.source, 'buffer_bytes', h.bytes, 'created_at', h.created_at),
           format('pgtrickle snapshot drop %I.%I', h.snapshot_schema, h.snapshot_table)
      FROM pgtrickle.list_holding_snapshots() AS h WHERE h.bytes >= 16 * 1024 * 1024
     UNION ALL
    SELECT 'slots', l.severity, l.detail, l.evidence, 'pgtrickle run'
      FROM pgtrickle.check_slot() AS l
     UNION ALL
    SELECT 'sinks', CASE WHEN f.lasting THEN 'CRITICAL' ELSE 'WARNING' END, f.detail,
           jsonb_build_object('stream_table', f.stream_table, 'given_up', f.lasting),
           CASE WHEN f.lasting THEN format('pgtrickle sink retry %s', f.stream_table)
                ELSE 'pgtrickle sink status' END
      FROM pgtrickle.find_failing_sinks() AS f
     UNION ALL
    SELECT 'outboxes', 'WARNING',
           format('%s is kept for the consumer group %s', o.stream_table, o.blocked_by),
           jsonb_build_object('stream_table', o.stream_table, 'group', o.blocked_by,
                              'entries', o.entries, 'oldest_at', o.oldest_at),
           'pgtrickle outbox status'
      FROM pgtrickle.outbox_status() AS o WHERE o.blocked_by IS NOT NULL
     UNION ALL
    SELECT 'lake', 'WARNING', format('%I.%I: %s', l.landing_schema, l.landing_name, l.last_error),
           jsonb_build_object('landing', format('%I.%I', l.landing_schema, l.landing_name),
                              'snapshot_id', l.snapshot_id, 'followed_at', l.followed_at),
           'pgtrickle lake list'
      FROM pgtrickle.pgt_ducklake_sources AS l WHERE l.last_error IS NOT NULL
     UNION ALL
    SELECT 'indexes', 'WARNING',
           format('%s has no index that finds a row: each delete reads all of it', t.name),
           jsonb_build_object('stream_table', t.name, 'rows', c.reltuples::bigint),
           format('pgtrickle refresh %s --full', t.name)
      FROM tables AS t
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = t.pgt_id
      JOIN pg_class AS c ON c.oid = s.pgt_relid
     WHERE c.reltuples > 1000 AND t.is_populated
       AND NOT EXISTS (SELECT FROM pg_index AS x
                        WHERE x.indrelid = c.oid AND x.indisvalid
                          AND pg_get_indexdef(x.indexrelid) LIKE '%hash_record_extended(%')
     UNION ALL
    SELECT 'wraparound', w.severity, w.detail, w.evidence, w.command
      FROM pgtrickle.check_wraparound(
               1.5 * current_setting('autovacuum_freeze_max_age')::float8, 1000000000) AS w
     UNION ALL
    SELECT 'clock', 'WARNING',
           format('the contents of %s are of %s, in the future: the clock of the server has stepped back',
                  t.name, to_char(t.data_timestamp, 'YYYY-MM-DD HH24:MI:SS TZ')),
           jsonb_build_object('stream_table', t.name, 'data_timestamp', t.data_timestamp),
           'timedatectl'
      FROM tables AS t WHERE t.data_timestamp > clock_timestamp() + interval '5 seconds'
     UNION ALL
    SELECT 'long_transactions', 'WARNING', x.detail, x.evidence, x.command
      FROM pgtrickle.list_long_transactions(
               make_interval(secs => pgtrickle.number_setting('long_transaction_seconds'))) AS x;
END
$$;

COMMENT ON FUNCTION pgtrickle.list_findings() IS
    'What the health checks have found, a row for each finding.';

CREATE OR REPLACE FUNCTION pgtrickle.list_holding_snapshots()
RETURNS TABLE (snapshot_schema text, snapshot_table text, created_at timestamptz, source text, bytes bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    -- Of each source, the snapshot that goes back furthest.
    SELECT DISTINCT ON (d.source_relid)
           n.snapshot_schema, n.snapshot_table, n.created_at,
           format('%I.%I', d.source_schema, d.source_name),
           coalesce(pg_relation_size(to_regclass(format('pgtrickle_changes.%I', t.buffer_name))), 0)
             + coalesce(pg_relation_size(
                   to_regclass(format('pgtrickle_changes.%I', t.buffer_name || '_settled'))), 0)
      FROM pgtrickle.pgt_snapshots AS n
      JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = n.pgt_id
      JOIN pgtrickle.pgt_change_tracking AS t ON t.source_relid = d.source_relid
     WHERE (SELECT coalesce(nullif(current_setting('pg_trickle.snapshot_keeps_changes', true), ''),
                            s.value, s.default_value)
              FROM pgtrickle.pgt_settings AS s WHERE s.name = 'snapshot_keeps_changes')
           IN ('on', 'true', 'yes', '1')
     ORDER BY d.source_relid, n.created_at, n.snapshot_id
$$;

COMMENT ON FUNCTION pgtrickle.list_holding_snapshots() IS
    'The oldest snapshot for which the buffer of each source keeps changes, and the size of that buffer.';

CREATE OR REPLACE FUNCTION pgtrickle.check_slot()
RETURNS TABLE (severity text, detail text, evidence jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    mebibyte constant double precision := 1024 * 1024;
    slot     record;
    lag      double precision;
BEGIN
    FOR slot IN
        SELECT w.slot_name, r.slot_name IS NULL AS gone, r.active, r.wal_status, r.restart_lsn
          FROM pgtrickle.pgt_wal_slots AS w
          LEFT JOIN pg_replication_slots AS r
            ON r.slot_name = w.slot_name AND r.database = current_database()
    LOOP
        evidence := jsonb_build_object('slot', slot.slot_name, 'wal_status', slot.wal_status,
                                       'active', slot.active);
        IF slot.gone OR slot.wal_status = 'lost' THEN
            severity := 'CRITICAL';
            detail := format('the logical slot %s %s: the next refresh goes back to triggers',
                             slot.slot_name, CASE WHEN slot.gone THEN 'is gone'
                                                  ELSE 'has lost its log' END);
            RETURN NEXT;
        ELSIF NOT pg_is_in_recovery() THEN
            lag := pg_wal_lsn_diff(pg_current_wal_lsn(), slot.restart_lsn) / mebibyte;
            evidence := evidence || jsonb_build_object('lag_mb', round(lag::numeric, 1));
            detail := format('the server keeps %s MB of log for the logical slot %s',
                             round(lag::numeric, 1), slot.slot_name);
            IF lag >= pgtrickle.number_setting('slot_lag_critical_threshold_mb') THEN
                severity := 'CRITICAL';
                RETURN NEXT;
            ELSIF lag >= pgtrickle.number_setting('slot_lag_warning_threshold_mb')
                  OR slot.wal_status = 'unreserved' THEN
                severity := 'WARNING';
                RETURN NEXT;
            END IF;
        END IF;
    END LOOP;
END
$$;

COMMENT ON FUNCTION pgtrickle.check_slot() IS
    'What is wrong with the logical slot: it is gone, or the server keeps too much log for it.';

CREATE OR REPLACE FUNCTION pgtrickle.check_wraparound(warn_at double precision, critical_at double precision)
RETURNS TABLE (severity text, detail text, evidence jsonb, command text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN a.age >= critical_at THEN 'CRITICAL' ELSE 'WARNING' END,
           format('the oldest %s of the database are %s old, at about 2,147,000,000 the server stops writes',
                  a.kind, to_char(a.age, 'FM999,999,999,999')),
           jsonb_build_object('kind', a.kind, 'age', a.age, 'oldest_table', o.name),
           format('VACUUM (FREEZE) %s;', o.name)
      FROM (SELECT 'transactions' AS kind, age(d.datfrozenxid)::bigint AS age
              FROM pg_database AS d WHERE d.datname = current_database()
             UNION ALL
            SELECT 'multixacts', mxid_age(d.datminmxid)
              FROM pg_database AS d WHERE d.datname = current_database()) AS a
     CROSS JOIN LATERAL (
               SELECT c.oid::regclass::text AS name FROM pg_class AS c
                WHERE c.relkind IN ('r', 'm', 't') AND c.relfrozenxid <> '0'::xid
                ORDER BY CASE a.kind WHEN 'transactions' THEN age(c.relfrozenxid)
                                     ELSE mxid_age(c.relminmxid) END DESC, c.oid LIMIT 1) AS o
     WHERE a.age >= warn_at
$$;

COMMENT ON FUNCTION pgtrickle.check_wraparound(double precision, double precision) IS
    'How near the database is to the end of its transaction ids, from an age on.';

-- Without pg_read_all_stats, only sessions of roles that the owner of the catalog is a member of show
-- when they began.
CREATE OR REPLACE FUNCTION pgtrickle.list_long_transactions(longer_than interval)
RETURNS TABLE (detail text, evidence jsonb, command text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('a transaction of %s, %s, has been open since %s: vacuum and its changes wait',
                  coalesce(nullif(a.application_name, ''), a.usename), a.state,
                  to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS TZ')),
           jsonb_build_object('pid', a.pid, 'role', a.usename, 'application', a.application_name,
                              'state', a.state, 'began_at', a.xact_start),
           format('SELECT pg_terminate_backend(%s);', a.pid)
      FROM pg_stat_activity AS a
     WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
       AND a.backend_type = 'client backend'
       AND a.xact_start < clock_timestamp() - longer_than
     UNION ALL
    SELECT format('the prepared transaction %L has waited since %s', p.gid,
                  to_char(p.prepared, 'YYYY-MM-DD HH24:MI:SS TZ')),
           jsonb_build_object('gid', p.gid, 'role', p.owner, 'prepared_at', p.prepared),
           format('ROLLBACK PREPARED %L;', p.gid)
      FROM pg_prepared_xacts AS p
     WHERE p.database = current_database() AND p.prepared < clock_timestamp() - longer_than
$$;

COMMENT ON FUNCTION pgtrickle.list_long_transactions(interval) IS
    'Transactions of this database that have been open for longer, as far as they are shown.';

CREATE OR REPLACE FUNCTION pgtrickle.health_check()
RETURNS TABLE (check_name text, severity text, detail text, evidence jsonb, command text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH found AS (
        SELECT f.*, row_number() OVER (PARTITION BY f.check_name
                                           ORDER BY f.severity = 'CRITICAL' DESC, f.detail) AS place,
               count(*) OVER (PARTITION BY f.check_name) AS number
          FROM pgtrickle.list_findings() AS f
    ), told AS (
        SELECT f.check_name, f.severity, f.detail, f.evidence, f.command, f.place FROM found AS f
         WHERE f.place <= 20
         UNION ALL
        SELECT f.check_name, f.severity, format('and %s more', f.number - 20), NULL, f.command, 21
          FROM found AS f WHERE f.place = 21
    )
    SELECT k.name, coalesce(t.severity, 'OK'), coalesce(t.detail, ''), t.evidence, t.command
      FROM unnest(ARRAY['daemon', 'stale_daemons', 'drained', 'suspended', 'fuses', 'errors', 'stale',
                        'pace', 'load', 'reinitialize', 'capture', 'snapshots', 'slots', 'sinks', 'lake', 'outboxes', 'indexes',
                        'wraparound', 'clock', 'long_transactions'])
           WITH ORDINALITY AS k (name, n)
      LEFT JOIN told AS t ON t.check_name = k.name
     ORDER BY k.n, t.place
$$;

COMMENT ON FUNCTION pgtrickle.health_check() IS
    'Each health check: one row, OK, or a row for each finding, WARNING or CRITICAL, with the evidence and the'
    ' command that helps.';

CREATE OR REPLACE VIEW pgtrickle.quick_health AS
    SELECT CASE WHEN NOT EXISTS (SELECT FROM pgtrickle.stream_tables_info) THEN 'EMPTY'
                WHEN bool_or(severity = 'CRITICAL') THEN 'CRITICAL'
                WHEN bool_or(severity = 'WARNING') THEN 'WARNING' ELSE 'OK' END AS status,
           (SELECT count(*) FROM pgtrickle.stream_tables_info) AS stream_tables,
           string_agg(check_name || ': ' || detail, '; ') FILTER (WHERE severity <> 'OK') AS detail
      FROM pgtrickle.health_check();

COMMENT ON VIEW pgtrickle.quick_health IS 'EMPTY, OK, WARNING or CRITICAL, in one row.';
