-- Self-monitoring: stream tables over the history of refreshes

CREATE OR REPLACE FUNCTION pgtrickle.self_monitoring_status()
RETURNS TABLE (part text, stream_table text, status text, schedule text, last_refresh_at timestamptz,
               failing boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT m.part, format('%I.%I', i.pgt_schema, i.pgt_name), i.status, i.schedule, i.last_refresh_at,
           i.failing
      FROM pgtrickle.pgt_self_monitoring AS m
      JOIN pgtrickle.stream_tables_info AS i ON i.pgt_id = m.pgt_id
     ORDER BY m.pgt_id
$$;

COMMENT ON FUNCTION pgtrickle.self_monitoring_status() IS
    'The stream tables over the history of refreshes; no row: there is no self-monitoring.';
