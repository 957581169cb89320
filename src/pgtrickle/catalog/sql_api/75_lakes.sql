-- Lakes: sinks, lake tables as sources, and where catalogs went

CREATE OR REPLACE FUNCTION pgtrickle.ducklake_sink_status()
RETURNS TABLE (stream_table text, lake_table text, status text, attempt_count integer,
               snapshot_id bigint, last_delivered_at timestamptz, next_attempt_at timestamptz,
               deliveries bigint, rows_written bigint, rows_deleted bigint,
               bytes_written bigint, last_error text, failing_since timestamptz, remedy text,
               last_rows bigint, last_bytes bigint, failed_attempts bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT format('%I.%I', t.pgt_schema, t.pgt_name), format('%I.%I', s.lake_schema, s.lake_table),
           COALESCE(o.status, CASE WHEN d.deliveries > 0 THEN 'DELIVERED' ELSE 'PENDING' END),
           COALESCE(o.attempt_count, 0), d.snapshot_id, d.last_delivered_at, o.next_attempt_at,
           s.forgotten_deliveries + d.deliveries, s.forgotten_rows_written + d.rows_written,
           s.forgotten_rows_deleted + d.rows_deleted, s.forgotten_bytes_written + d.bytes_written,
           o.last_error,
           o.failing_since,
           CASE o.status
               WHEN 'FAILED_RETRYABLE' THEN
                   concat_ws(' ', nullif(o.last_hint, ''), 'It is tried again by itself.')
               WHEN 'FAILED_PERMANENT' THEN
                   concat_ws(' ', nullif(o.last_hint, ''), format(
                       'Then run: pgtrickle sink retry %I.%I.', t.pgt_schema, t.pgt_name))
           END,
           last.rows, last.bytes_written, d.failed_attempts + COALESCE(o.attempt_count, 0)
      FROM pgtrickle.pgt_ducklake_sinks AS s
      JOIN pgtrickle.pgt_stream_tables AS t USING (pgt_id)
      LEFT JOIN pgtrickle.pgt_ducklake_sink_delivery AS o
        ON o.stream_table_id = s.pgt_id AND o.status <> 'DELIVERED'
     CROSS JOIN LATERAL (
               SELECT max(finished_at) AS last_delivered_at, count(*) AS deliveries,
                      max(p.snapshot_id) AS snapshot_id,
                      COALESCE(sum(rows_written), 0)::bigint AS rows_written,
                      COALESCE(sum(rows_deleted), 0)::bigint AS rows_deleted,
                      COALESCE(sum(bytes_written), 0)::bigint AS bytes_written,
                      COALESCE(sum(greatest(p.attempt_count - 1, 0)), 0)::bigint AS failed_attempts
                 FROM pgtrickle.pgt_ducklake_sink_delivery AS p
                WHERE p.stream_table_id = s.pgt_id AND p.status = 'DELIVERED') AS d
      LEFT JOIN LATERAL (
               SELECT p.rows_written + p.rows_deleted AS rows, p.bytes_written
                 FROM pgtrickle.pgt_ducklake_sink_delivery AS p
                WHERE p.stream_table_id = s.pgt_id AND p.status = 'DELIVERED'
                ORDER BY p.started_at DESC LIMIT 1) AS last ON true
     ORDER BY 1;
END;

COMMENT ON FUNCTION pgtrickle.ducklake_sink_status() IS
    'Every sink: its position, its last delivery and error, since when it fails, and what to do.';

-- In this order: those that wait for somebody, then those that are tried again.
CREATE OR REPLACE FUNCTION pgtrickle.find_failing_sinks()
RETURNS TABLE (stream_table text, lasting boolean, detail text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT n.name, o.status = 'FAILED_PERMANENT',
           format('%s: failing since %s, %s attempts, %s: %s',
                  n.name, to_char(o.failing_since, 'YYYY-MM-DD HH24:MI:SS TZ'), o.attempt_count,
                  CASE WHEN o.status = 'FAILED_PERMANENT' THEN 'given up'
                       ELSE to_char(o.next_attempt_at, '"next at" HH24:MI:SS') END,
                  concat_ws(' ', o.last_error || '.', nullif(o.last_hint, ''),
                            CASE WHEN o.status = 'FAILED_PERMANENT'
                                 THEN format('Then run: pgtrickle sink retry %s.', n.name) END))
      FROM pgtrickle.pgt_ducklake_sink_delivery AS o
      JOIN pgtrickle.pgt_ducklake_sinks AS s ON s.pgt_id = o.stream_table_id
      JOIN pgtrickle.pgt_stream_tables AS t ON t.pgt_id = o.stream_table_id,
           format('%I.%I', t.pgt_schema, t.pgt_name) AS n (name)
     WHERE o.status IN ('FAILED_RETRYABLE', 'FAILED_PERMANENT')
     ORDER BY 2 DESC, 1
$$;

COMMENT ON FUNCTION pgtrickle.find_failing_sinks() IS
    'Copies in the lake whose last delivery failed: since when, how often, and what to do.';

CREATE OR REPLACE FUNCTION pgtrickle.ducklake_sources()
RETURNS TABLE (landing text, lake_table text, catalog_schema text, columns text[],
               compaction_policy text, snapshot_id bigint, followed_at timestamptz,
               last_error text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT format('%I.%I', s.landing_schema, s.landing_name),
           format('%I.%I', s.lake_schema, s.lake_table), s.catalog_schema,
           ARRAY(SELECT c.value ->> 'name'
                   FROM jsonb_array_elements(s.columns) WITH ORDINALITY AS c (value, place)
                  ORDER BY c.place),
           s.compaction_policy, s.snapshot_id, s.followed_at, s.last_error
      FROM pgtrickle.pgt_ducklake_sources AS s
     ORDER BY 1;
END;

COMMENT ON FUNCTION pgtrickle.ducklake_sources() IS
    'Every attached lake table: its name, the snapshot it was read to, and its last error.';

-- The address of the server is the client's to know; what a DSN says of passwords is left out.
CREATE OR REPLACE FUNCTION pgtrickle.ducklake_catalogs()
RETURNS TABLE (catalog_schema text, data_path text, sinks bigint, sources bigint, attach text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.catalog_schema, min(c.data_path), sum(c.sinks), sum(c.sources),
           format('ATTACH ''ducklake:postgres:%s'' AS lake (METADATA_SCHEMA ''%s'');',
                  replace(CASE WHEN c.catalog_dsn = ''
                               THEN 'dbname=' || CASE WHEN current_database() ~ '^[A-Za-z0-9_.-]+$'
                                                      THEN current_database()
                                                      ELSE '''' || regexp_replace(current_database(),
                                                                   '([''\\])', '\\\1', 'g') || '''' END
                               ELSE btrim(regexp_replace(c.catalog_dsn,
                                                         '(ssl)?password\s*=\s*\$\{ENV:[^}]*\}', '', 'g'))
                          END, '''', ''''''),
                  replace(c.catalog_schema, '''', ''''''))
      FROM (SELECT s.catalog_dsn, s.catalog_schema, s.data_path, 1::bigint AS sinks, 0::bigint AS sources
              FROM pgtrickle.pgt_ducklake_sinks AS s
             UNION ALL
            SELECT '', l.catalog_schema, l.data_path, 0, 1
              FROM pgtrickle.pgt_ducklake_sources AS l) AS c
     GROUP BY c.catalog_dsn, c.catalog_schema
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.ducklake_catalogs() IS
    'The catalogs of lakes, each with the line that attaches it in DuckDB; add the host.';
