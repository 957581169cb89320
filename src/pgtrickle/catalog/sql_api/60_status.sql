-- What is known of stream tables: status, history, staleness, definitions

-- What lists stream tables asks this of each: one amount with one unit, as most are, is read quickly.
CREATE OR REPLACE FUNCTION pgtrickle.parse_duration_seconds(duration text)
RETURNS double precision
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF duration ~ '^\d{1,18}[smhdw]$' THEN
        RETURN left(duration, -1)::double precision * CASE right(duration, 1)
                   WHEN 's' THEN 1 WHEN 'm' THEN 60 WHEN 'h' THEN 3600
                   WHEN 'd' THEN 86400 ELSE 604800 END;
    END IF;
    -- Eighteen digits fit any sum that can be made of them.
    IF octet_length(duration) > 200 OR duration !~ '^\s*(\d{1,18}\s*[smhdw]\s*)+$' THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT sum(part[1]::double precision * CASE part[2]
                       WHEN 's' THEN 1 WHEN 'm' THEN 60 WHEN 'h' THEN 3600
                       WHEN 'd' THEN 86400 ELSE 604800 END)
              FROM regexp_matches(duration, '(\d+)\s*([smhdw])', 'g') AS part);
END
$$;

COMMENT ON FUNCTION pgtrickle.parse_duration_seconds(text) IS
    'The length in seconds of a duration such as 1h30m; NULL if the text is not a duration.';

CREATE OR REPLACE VIEW pgtrickle.stream_tables_info AS
    SELECT s.pgt_id, s.pgt_schema, s.pgt_name, s.defining_query, s.original_query, s.schedule,
           s.refresh_mode, s.effective_refresh_mode, s.downgrade_reason, s.status, s.is_populated,
           s.needs_reinit, s.data_timestamp, s.last_refresh_at, s.consecutive_errors,
           s.last_error_message, s.last_error_at, s.owner_role, s.max_delta_fraction,
           s.requested_cdc_mode, s.tier, s.fuse, s.fuse_ceiling, s.fuse_sensitivity,
           s.diamond_consistency, s.diamond_schedule_policy, s.created_at, s.updated_at,
           clock_timestamp() - s.data_timestamp AS staleness,
           -- Late is a matter of the daemon, not of quiet sources.  Of cron it is not asked, nor of
           -- what is refreshed when those that read it need it, nor of the frozen.
           s.last_refresh_at + make_interval(secs => 10 + 2 * t.factor * CASE
               WHEN s.schedule <> 'calculated' THEN pgtrickle.parse_duration_seconds(s.schedule)
               WHEN NOT EXISTS (SELECT FROM pgtrickle.pgt_dependencies AS d
                                 WHERE d.source_relid = s.pgt_relid) THEN 1 END)
               < clock_timestamp() AS stale,
           EXISTS (SELECT FROM pgtrickle.pgt_stream_tables AS n
                    WHERE n.pgt_schema = 'pgtrickle_state'
                      AND n.pgt_name = format('next_%s', s.pgt_id)) AS being_replaced,
           -- Errors that wait for somebody, or for better times, are not counted; a fuse is shown as such.
           s.consecutive_errors > 0
               OR s.fuse_blown_at IS NULL AND s.last_error_message IS NOT NULL
                  AND s.last_error_at > coalesce(s.last_refresh_at, '-infinity') AS failing,
           s.engine, b.shadow_id IS NOT NULL AS in_shadow_build,
           CASE WHEN b.shadow_id IS NOT NULL THEN b.shadow_name END AS shadow_table_name,
           coalesce(p.stretch, 1) AS interval_stretch
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN pgtrickle.pgt_shadow_builds AS b USING (pgt_id)
      LEFT JOIN pgtrickle.pgt_paces AS p USING (pgt_id)
      LEFT JOIN (VALUES ('hot', 1), ('warm', 2), ('cold', 10)) AS t (tier, factor)
        ON t.tier = s.tier
     WHERE s.pgt_schema <> 'pgtrickle_state';

COMMENT ON VIEW pgtrickle.stream_tables_info IS
    'Every stream table with all that is known of it; stale: its refresh is late; failing: the last one'
    ' failed; being_replaced: another query is being loaded for it; in_shadow_build: another query follows'
    ' beside it; interval_stretch: a factor on the interval of its schedule, because refreshes fall behind.';

-- Lengths first: what parse_ident makes of a million quotes takes minutes and cannot be cancelled.
CREATE OR REPLACE FUNCTION pgtrickle.find_stream_table(name text, schemas name[] DEFAULT current_schemas(false))
RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parts text[];
    found bigint;
    other text;
BEGIN
    IF octet_length(find_stream_table.name) > 1024 OR cardinality(schemas) > 1000 THEN
        RAISE EXCEPTION 'a name of % bytes cannot name a stream table',
              octet_length(find_stream_table.name)
              USING ERRCODE = 'ST208', HINT = 'Write schema.name; each has 63 bytes at most.';
    END IF;
    parts := parse_ident(find_stream_table.name);
    SELECT s.pgt_id INTO found
      FROM (SELECT s.pgt_id, coalesce(r.new_schema, s.pgt_schema) AS pgt_schema,
                   coalesce(r.new_name, s.pgt_name) AS pgt_name
              FROM pgtrickle.pgt_stream_tables AS s
              LEFT JOIN pgtrickle.list_renamed() AS r ON r.pgt_id = s.pgt_id) AS s
     WHERE s.pgt_name = parts[cardinality(parts)] AND s.pgt_schema <> 'pgtrickle_state'
       AND CASE cardinality(parts) WHEN 1 THEN s.pgt_schema = ANY (schemas::text[])
                                   WHEN 2 THEN s.pgt_schema = parts[1] END
     ORDER BY array_position(schemas::text[], s.pgt_schema)
     LIMIT 1;
    IF found IS NULL THEN
        SELECT s.pgt_schema || '.' || s.pgt_name INTO other
          FROM (SELECT quote_ident(coalesce(r.new_schema, s.pgt_schema)) AS pgt_schema,
                       quote_ident(coalesce(r.new_name, s.pgt_name)) AS pgt_name,
                       CASE WHEN r.pgt_id IS NULL THEN s.former_names
                            ELSE jsonb_build_object('schema', r.old_schema, 'name', r.old_name)
                                 || s.former_names END AS former, s.updated_at
                  FROM pgtrickle.pgt_stream_tables AS s
                  LEFT JOIN pgtrickle.list_renamed() AS r ON r.pgt_id = s.pgt_id) AS s
         WHERE EXISTS (SELECT FROM jsonb_to_recordset(s.former) AS f (schema text, name text)
                        WHERE f.name = parts[cardinality(parts)]
                          AND f.schema = ANY (CASE cardinality(parts) WHEN 1 THEN schemas::text[]
                                              ELSE parts[1:1] END))
         ORDER BY s.updated_at DESC LIMIT 1;
        IF other IS NOT NULL THEN
            RAISE EXCEPTION 'the stream table "%" does not exist: it was renamed to "%"',
                  find_stream_table.name, other
                  USING ERRCODE = 'ST201', HINT = format('Use the name that it has: %s.', other);
        END IF;
        RAISE EXCEPTION 'the stream table "%" does not exist', find_stream_table.name
              USING ERRCODE = 'ST201', HINT = 'List them with: SELECT * FROM pgtrickle.pgt_status().';
    END IF;
    RETURN found;
END
$$;

COMMENT ON FUNCTION pgtrickle.find_stream_table(text, name[]) IS
    'The id of a stream table, by its name as written in a query.';

CREATE OR REPLACE FUNCTION pgtrickle.pgt_status()
RETURNS TABLE (name text, status text, refresh_mode text, is_populated boolean,
               consecutive_errors integer, schedule text, data_timestamp timestamptz,
               staleness interval)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), s.status, s.refresh_mode, s.is_populated,
           s.consecutive_errors, s.schedule, s.data_timestamp,
           clock_timestamp() - s.data_timestamp
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY s.pgt_schema, s.pgt_name
$$;

COMMENT ON FUNCTION pgtrickle.pgt_status() IS
    'Every stream table, one row each.';

CREATE OR REPLACE FUNCTION pgtrickle.get_refresh_history(
    name text, max_rows integer DEFAULT 20, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (refresh_id bigint, action text, status text, reason text, initiated_by text,
               start_time timestamptz, end_time timestamptz, data_timestamp timestamptz,
               rows_inserted bigint, rows_deleted bigint, rows_read bigint,
               duration_ms double precision, error_code text, error_message text,
               trace_id text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT h.refresh_id, h.action, h.status, h.reason, h.initiated_by, h.start_time, h.end_time,
           h.data_timestamp, h.rows_inserted, h.rows_deleted, h.rows_read,
           extract(epoch FROM h.end_time - h.start_time) * 1000, h.error_code, h.error_message,
           h.trace_id
      FROM pgtrickle.pgt_refresh_history AS h
     WHERE h.pgt_id = pgtrickle.find_stream_table($1, $3)
     ORDER BY h.start_time DESC, h.refresh_id DESC
     LIMIT $2
$$;

COMMENT ON FUNCTION pgtrickle.get_refresh_history(text, integer, name[]) IS
    'The latest refreshes of a stream table: what each did, and why.';

CREATE OR REPLACE FUNCTION pgtrickle.refresh_timeline(max_rows integer DEFAULT 50)
RETURNS TABLE (start_time timestamptz, name text, action text, status text, rows_inserted bigint,
               rows_deleted bigint, duration_ms double precision, error_message text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT h.start_time, format('%I.%I', s.pgt_schema, s.pgt_name), h.action, h.status,
           h.rows_inserted, h.rows_deleted, extract(epoch FROM h.end_time - h.start_time) * 1000,
           h.error_message
      FROM pgtrickle.pgt_refresh_history AS h
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY h.start_time DESC, h.refresh_id DESC
     LIMIT max_rows
$$;

COMMENT ON FUNCTION pgtrickle.refresh_timeline(integer) IS
    'The latest refreshes of all stream tables.';

CREATE OR REPLACE FUNCTION pgtrickle.get_staleness(name text, schemas name[] DEFAULT current_schemas(false))
RETURNS double precision
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT extract(epoch FROM clock_timestamp() - s.data_timestamp)
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_id = pgtrickle.find_stream_table($1, $2)
$$;

COMMENT ON FUNCTION pgtrickle.get_staleness(text, name[]) IS
    'How many seconds ago the contents of a stream table were current; NULL before the first load.';

CREATE OR REPLACE FUNCTION pgtrickle.explain_refresh_mode(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (configured_mode text, effective_mode text, downgrade_reason text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.refresh_mode, s.effective_refresh_mode, s.downgrade_reason
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_id = pgtrickle.find_stream_table($1, $2)
$$;

COMMENT ON FUNCTION pgtrickle.explain_refresh_mode(text, name[]) IS
    'The refresh mode that was asked for, the one in effect, and the reason if they differ.';

-- Rows of the lake are read through a view; what is shown is the view, and how it gets its rows.
CREATE OR REPLACE FUNCTION pgtrickle.list_sources(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (source_table text, source_oid oid, source_type text, cdc_mode text,
               columns_used text[])
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', COALESCE(l.landing_schema, d.source_schema),
                  COALESCE(l.landing_name, d.source_name)),
           d.source_relid, d.source_type,
           CASE WHEN l.source_id IS NULL THEN t.cdc_mode ELSE 'DUCKLAKE_CHANGE_FEED' END,
           d.columns_used
      FROM pgtrickle.pgt_dependencies AS d
      LEFT JOIN pgtrickle.pgt_change_tracking AS t USING (source_relid)
      LEFT JOIN pgtrickle.pgt_ducklake_sources AS l
        ON d.source_schema = 'pgtrickle_state' AND d.source_name = format('landed_%s', l.source_id)
     WHERE d.pgt_id = pgtrickle.find_stream_table($1, $2)
       AND NOT (d.source_type = 'VIEW' AND EXISTS (
                SELECT FROM pgtrickle.pgt_ducklake_sources AS v
                 WHERE v.landing_schema = d.source_schema AND v.landing_name = d.source_name))
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.list_sources(text, name[]) IS
    'The sources of a stream table, and how the changes of each are captured; NULL: the source is compared at'
    ' each refresh.';

CREATE OR REPLACE FUNCTION pgtrickle.dependency_tree()
RETURNS TABLE (tree_line text, node text, node_type text, depth integer, status text,
               refresh_mode text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE reads AS (
        SELECT d.*
          FROM pgtrickle.pgt_dependencies AS d
          JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
         WHERE s.pgt_schema <> 'pgtrickle_state'
    ), nodes AS (
        SELECT s.pgt_relid AS relid, format('%I.%I', s.pgt_schema, s.pgt_name) AS node,
               'stream_table' AS node_type, s.pgt_id, s.status, s.refresh_mode
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.pgt_schema <> 'pgtrickle_state'
         UNION ALL
        SELECT DISTINCT d.source_relid, format('%I.%I', d.source_schema, d.source_name),
               lower(d.source_type), NULL::bigint, NULL, NULL
          FROM reads AS d
         WHERE d.source_relid NOT IN (SELECT s.pgt_relid FROM pgtrickle.pgt_stream_tables AS s)
    ), tree AS (
        -- From what nothing reads down to the tables; a table that is read twice stands there twice.
        -- A circle that nothing else reads begins with its first member, and ends above it.
        SELECT n.*, 0 AS depth, ARRAY[n.node] AS path, true AS last, '' AS indent
          FROM nodes AS n
         WHERE n.pgt_id IS NOT NULL
           AND (n.relid NOT IN (SELECT d.source_relid FROM reads AS d)
                OR EXISTS (SELECT FROM pgtrickle.pgt_stream_tables AS s
                            WHERE s.pgt_id = n.pgt_id AND s.scc_id = s.pgt_id)
               AND NOT EXISTS (
                       SELECT FROM pgtrickle.pgt_stream_tables AS m
                         JOIN reads AS d ON d.source_relid = m.pgt_relid
                         JOIN pgtrickle.pgt_stream_tables AS r ON r.pgt_id = d.pgt_id
                        WHERE m.scc_id = n.pgt_id AND r.scc_id IS DISTINCT FROM m.scc_id))
         UNION ALL
        SELECT n.*, t.depth + 1, t.path || n.node,
               row_number() OVER (PARTITION BY t.path ORDER BY n.node DESC) = 1,
               t.indent || CASE WHEN t.depth = 0 THEN '' WHEN t.last THEN '    ' ELSE '│   ' END
          FROM tree AS t
          JOIN reads AS d ON d.pgt_id = t.pgt_id
          JOIN nodes AS n ON n.relid = d.source_relid
         WHERE n.node <> ALL (t.path)
    )
    SELECT t.indent || CASE WHEN t.depth = 0 THEN '' WHEN t.last THEN '└── ' ELSE '├── ' END
                    || t.node,
           t.node, t.node_type, t.depth, t.status, t.refresh_mode
      FROM tree AS t
     ORDER BY t.path
$$;

COMMENT ON FUNCTION pgtrickle.dependency_tree() IS
    'The stream tables as a tree: each stands above its sources.';

CREATE OR REPLACE FUNCTION pgtrickle.pgt_scc_status()
RETURNS TABLE (scc_id bigint, member_count integer, members text[],
               last_iterations integer, last_converged_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.scc_id, count(*)::integer,
           array_agg(format('%I.%I', s.pgt_schema, s.pgt_name) ORDER BY s.pgt_id),
           max(s.last_fixpoint_iterations), min(s.data_timestamp)
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.scc_id IS NOT NULL
     GROUP BY s.scc_id
     ORDER BY s.scc_id
$$;

COMMENT ON FUNCTION pgtrickle.pgt_scc_status() IS
    'The circles of stream tables: their members, how many rounds their latest fixpoint took, and the moment it shows.';

CREATE OR REPLACE FUNCTION pgtrickle.refresh_efficiency()
RETURNS TABLE (name text, total_refreshes bigint, differential_count bigint, full_count bigint,
               no_data_count bigint, avg_differential_ms double precision,
               avg_full_ms double precision, avg_changed_rows double precision,
               speedup double precision)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), count(*),
           count(*) FILTER (WHERE h.action = 'DIFFERENTIAL'),
           count(*) FILTER (WHERE h.action IN ('FULL', 'REINITIALIZE')),
           count(*) FILTER (WHERE h.action = 'NO_DATA'),
           avg(h.actual_ms) FILTER (WHERE h.action = 'DIFFERENTIAL'),
           avg(h.actual_ms) FILTER (WHERE h.action IN ('FULL', 'REINITIALIZE')),
           avg(h.changed_rows::double precision) FILTER (WHERE h.action = 'DIFFERENTIAL'),
           avg(h.actual_ms) FILTER (WHERE h.action IN ('FULL', 'REINITIALIZE'))
               / nullif(avg(h.actual_ms) FILTER (WHERE h.action = 'DIFFERENTIAL'), 0)
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pgtrickle.pgt_refresh_history AS h USING (pgt_id)
     WHERE h.status = 'COMPLETED' AND s.pgt_schema <> 'pgtrickle_state'
     GROUP BY s.pgt_id
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.refresh_efficiency() IS
    'How often each stream table was refreshed by its changes and how often recomputed, and the time of'
    ' either; the speed-up is FULL divided by DIFFERENTIAL.';

CREATE OR REPLACE FUNCTION pgtrickle.running_refreshes()
RETURNS TABLE (name text, daemon text, running_since timestamptz, stage text, rows_read bigint,
               rows_staged bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), l.owner, l.acquired_at, p.stage, p.rows_read,
           p.rows_staged
      FROM pgtrickle.pgt_leases AS l
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
      -- What was left by a process that died began before.
      LEFT JOIN pgtrickle.pgt_refresh_progress AS p
        ON p.pgt_id = l.pgt_id AND p.updated_at >= l.acquired_at
     WHERE l.expires_at > clock_timestamp() AND s.pgt_schema <> 'pgtrickle_state'
     ORDER BY l.acquired_at, 1
$$;

COMMENT ON FUNCTION pgtrickle.running_refreshes() IS
    'The refreshes that run now: which process runs each, since when and, if it is large, how far it is.';

CREATE OR REPLACE FUNCTION pgtrickle.version()
RETURNS TABLE (catalog_version integer, server_version text, daemon_running boolean,
               extension_version text, library_version text, pg_major_version integer,
               spark_version text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT (SELECT max(v.version) FROM pgtrickle.pgt_schema_version AS v),
           current_setting('server_version'), pgtrickle.is_served(),
           (SELECT a.package FROM pgtrickle.pgt_sql_api AS a ORDER BY a.applied_at DESC LIMIT 1),
           d.package, current_setting('server_version_num')::integer / 10000, d.spark
      FROM (SELECT) AS always
      -- The one that leads; if none does, the one that was seen last.
      LEFT JOIN (SELECT d.package, d.spark
                   FROM pgtrickle.pgt_daemons AS d
                   LEFT JOIN pgtrickle.pgt_leader AS l
                     ON l.owner = d.daemon AND l.expires_at > clock_timestamp()
                  ORDER BY l.owner IS NULL, d.seen_at DESC LIMIT 1) AS d ON true
$$;

COMMENT ON FUNCTION pgtrickle.version() IS
    'The versions of the catalog and of the server, whether a daemon runs, the versions of the package that'
    ' migrated the catalog and that the daemon runs, and the PySpark of the daemon.';
