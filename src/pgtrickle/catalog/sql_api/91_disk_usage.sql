-- What everything here takes on disk

CREATE OR REPLACE FUNCTION pgtrickle.disk_usage()
RETURNS TABLE (kind text, name text, stream_table text, bytes bigint, estimated_rows bigint,
               retention text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH owners AS (
        SELECT s.pgt_id, s.pgt_relid, format('%I.%I', s.pgt_schema, s.pgt_name) AS label
          FROM pgtrickle.pgt_stream_tables AS s
    ), snapshots AS (
        SELECT l.relid, n.snapshot_id, n.pgt_id
          FROM pgtrickle.locate_snapshots() AS l
          JOIN pgtrickle.pgt_snapshots AS n ON n.snapshot_id = l.snapshot_id
    ), found (kind, label, pgt_id, relid, retention) AS (
        SELECT 'contents', o.label, o.pgt_id, o.pgt_relid, NULL FROM owners AS o
         UNION ALL
        SELECT 'snapshot', n.relid::regclass::text, n.pgt_id, n.relid, 'snapshot_retention_days'
          FROM snapshots AS n WHERE n.relid IS NOT NULL
         UNION ALL
        SELECT 'buffer',
               coalesce((SELECT format('%I.%I', t.source_schema, t.source_name)
                           FROM pgtrickle.pgt_change_tracking AS t
                          WHERE c.relname IN (t.buffer_name, t.buffer_name || '_settled')), c.relname),
               NULL, c.oid, NULL
          FROM pg_class AS c
         WHERE c.relkind = 'r' AND c.relnamespace = 'pgtrickle_changes'::regnamespace
         UNION ALL
        SELECT CASE p.parts[1] WHEN 'st' THEN 'state' WHEN 'snapshot' THEN 'snapshot'
                               WHEN 'staged' THEN 'staging' WHEN 'landed' THEN 'landed'
                               WHEN 'lake' THEN 'row map' ELSE 'other' END,
               c.relname,
               CASE WHEN p.parts[1] IN ('st', 'staged', 'lake') THEN p.parts[2]::bigint
                    WHEN p.parts[1] = 'snapshot'
                    THEN (SELECT n.pgt_id FROM snapshots AS n
                           WHERE n.snapshot_id = p.parts[2]::bigint) END,
               c.oid, CASE p.parts[1] WHEN 'snapshot' THEN 'snapshot_retention_days' END
          FROM pg_class AS c
          LEFT JOIN LATERAL regexp_match(c.relname::text, '^(st|snapshot|staged|landed|lake)_(\d{1,18})(?:_|$)')
                    AS p (parts) ON true
         WHERE c.relkind = 'r' AND c.relnamespace = 'pgtrickle_state'::regnamespace
           AND NOT EXISTS (SELECT FROM owners AS o WHERE o.pgt_relid = c.oid)
           AND NOT EXISTS (SELECT FROM snapshots AS n WHERE n.relid = c.oid)
         UNION ALL
        SELECT coalesce(k.kind, 'catalog'), c.relname, NULL, c.oid, k.retention
          FROM pg_class AS c
          LEFT JOIN (VALUES ('pgt_refresh_history', 'history', 'history_retention_days'),
                            ('pgt_requests', 'requests', 'request_retention_hours'),
                            ('pgt_ducklake_sink_delivery', 'deliveries', 'delivery_retention_days'),
                            ('pgt_ducklake_provenance', 'provenance', 'delivery_retention_days'),
                            ('pgt_profiles', 'profiles', 'profiles_kept'))
                    AS k (relation, kind, retention) ON k.relation = c.relname
         WHERE c.relkind = 'r' AND c.relnamespace = 'pgtrickle'::regnamespace
    )
    SELECT f.kind, f.label, (SELECT o.label FROM owners AS o WHERE o.pgt_id = f.pgt_id),
           coalesce(pg_total_relation_size(f.relid), 0), greatest(c.reltuples, 0)::bigint, f.retention
      FROM found AS f JOIN pg_class AS c ON c.oid = f.relid
     ORDER BY 4 DESC, 1, 2
$$;

COMMENT ON FUNCTION pgtrickle.disk_usage() IS
    'What each table of stream tables and of pgtrickle takes on disk with its indexes, the largest first, and'
    ' the setting that says how long its rows are kept.';
