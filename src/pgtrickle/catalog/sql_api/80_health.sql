-- Health, in rows and in one word

CREATE OR REPLACE FUNCTION pgtrickle.health_check()
RETURNS TABLE (check_name text, severity text, detail text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH tables AS (
        SELECT format('%I.%I', i.pgt_schema, i.pgt_name) AS name, i.* FROM pgtrickle.stream_tables_info AS i
    ), found (check_name, severity, detail) AS (
        SELECT 'daemon', 'CRITICAL', 'no daemon serves this database; start one with: pgtrickle run'
         WHERE NOT pgtrickle.is_served() AND EXISTS (SELECT FROM tables)
         UNION ALL
        SELECT 'suspended', 'CRITICAL', string_agg(t.name, ', ' ORDER BY t.name)
          FROM tables AS t WHERE t.status IN ('SUSPENDED', 'ERROR') HAVING count(*) > 0
         UNION ALL
        SELECT 'errors', 'WARNING', string_agg(t.name || ': ' || t.last_error_message, '; ' ORDER BY t.name)
          FROM tables AS t WHERE t.failing HAVING count(*) > 0
         UNION ALL
        SELECT 'drained', 'WARNING', 'the scheduler begins nothing; SELECT pgtrickle.undrain() ends that'
         WHERE EXISTS (SELECT FROM pgtrickle.pgt_scheduler_pauses AS p WHERE p.pgt_id IS NULL)
         UNION ALL
        SELECT 'fuses', 'WARNING',
               string_agg(format('%I.%I: %s', s.pgt_schema, s.pgt_name, s.fuse_reason), '; '
                          ORDER BY s.pgt_schema, s.pgt_name)
          FROM pgtrickle.pgt_stream_tables AS s WHERE s.fuse_blown_at IS NOT NULL HAVING count(*) > 0
         UNION ALL
        SELECT 'stale', 'WARNING', string_agg(t.name, ', ' ORDER BY t.name)
          FROM tables AS t WHERE t.stale AND t.status = 'ACTIVE' HAVING count(*) > 0
         UNION ALL
        SELECT 'pace', 'WARNING',
               string_agg(format('%s takes %s s, is due every %s s', b.name,
                                 round(b.took_seconds::numeric, 1), b.effective_interval_seconds), '; ')
          FROM pgtrickle.falling_behind() AS b WHERE b.stretch > 1 HAVING count(*) > 0
         UNION ALL
        SELECT 'load', 'WARNING',
               format('%s: %s refreshes wait, %s at a time, hot stream tables first, since %s',
                      l.saturation ->> 'reason', l.saturation ->> 'waiting', l.saturation ->> 'limit',
                      l.saturation ->> 'since')
          FROM pgtrickle.pgt_leader AS l
         WHERE l.saturation IS NOT NULL AND l.expires_at > clock_timestamp()
         UNION ALL
        SELECT 'reinitialize', 'WARNING', string_agg(t.name, ', ' ORDER BY t.name)
          FROM tables AS t WHERE t.needs_reinit HAVING count(*) > 0
         UNION ALL
        SELECT 'capture', 'WARNING', string_agg(c.source_table || ': ' || c.alert, ', ' ORDER BY c.source_table, c.alert)
          FROM pgtrickle.check_cdc_health() AS c WHERE c.alert IS NOT NULL HAVING count(*) > 0
         UNION ALL
        SELECT 'sinks', CASE WHEN bool_or(f.lasting) THEN 'CRITICAL' ELSE 'WARNING' END,
               string_agg(f.detail, '; ' ORDER BY f.lasting DESC, f.stream_table)
          FROM pgtrickle.find_failing_sinks() AS f HAVING count(*) > 0
         UNION ALL
        SELECT 'lake', 'WARNING',
               string_agg(format('%I.%I: %s', l.landing_schema, l.landing_name, l.last_error), '; '
                          ORDER BY l.landing_schema, l.landing_name)
          FROM pgtrickle.pgt_ducklake_sources AS l WHERE l.last_error IS NOT NULL HAVING count(*) > 0
         UNION ALL
        SELECT 'outboxes', 'WARNING',
               string_agg(format('%s is kept for the consumer group %s', o.stream_table, o.blocked_by), '; '
                          ORDER BY o.stream_table)
          FROM pgtrickle.outbox_status() AS o WHERE o.blocked_by IS NOT NULL HAVING count(*) > 0
    )
    SELECT k.name, coalesce(f.severity, 'OK'), coalesce(f.detail, '')
      FROM unnest(ARRAY['daemon', 'drained', 'suspended', 'fuses', 'errors', 'stale', 'pace', 'load', 'reinitialize',
                        'capture', 'sinks', 'lake', 'outboxes'])
           WITH ORDINALITY AS k (name, n)
      LEFT JOIN found AS f ON f.check_name = k.name
     ORDER BY k.n
$$;

COMMENT ON FUNCTION pgtrickle.health_check() IS
    'The health checks with their severities: OK, WARNING or CRITICAL.';

CREATE OR REPLACE VIEW pgtrickle.quick_health AS
    SELECT CASE WHEN NOT EXISTS (SELECT FROM pgtrickle.stream_tables_info) THEN 'EMPTY'
                WHEN bool_or(severity = 'CRITICAL') THEN 'CRITICAL'
                WHEN bool_or(severity = 'WARNING') THEN 'WARNING' ELSE 'OK' END AS status,
           (SELECT count(*) FROM pgtrickle.stream_tables_info) AS stream_tables,
           string_agg(check_name || ': ' || detail, '; ') FILTER (WHERE severity <> 'OK') AS detail
      FROM pgtrickle.health_check();

COMMENT ON VIEW pgtrickle.quick_health IS 'EMPTY, OK, WARNING or CRITICAL, in one row.';
