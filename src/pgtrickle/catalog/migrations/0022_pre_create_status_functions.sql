-- 0022 · pre · create the functions and views that tell how stream tables are doing
--
-- Why:   whoever reads stream tables asks in SQL how fresh they are, what they cost, what is wrong.
-- Reads: nothing before this version calls them.
-- Locks: CREATE only.
-- Undo:  DROP the functions and views below.

-- Readers have no right on the tables of the catalog, so the functions run with their owner's, and
-- views do so anyway.  The default of `schemas` is evaluated by the caller: his search path.

CREATE FUNCTION pgtrickle.find_stream_table(name text, schemas name[] DEFAULT current_schemas(false))
RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parts text[] := parse_ident(find_stream_table.name);
    found bigint;
BEGIN
    SELECT s.pgt_id INTO found
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_name = parts[cardinality(parts)]
       AND CASE cardinality(parts) WHEN 1 THEN s.pgt_schema = ANY (schemas::text[])
                                   WHEN 2 THEN s.pgt_schema = parts[1] END
     ORDER BY array_position(schemas::text[], s.pgt_schema)
     LIMIT 1;
    IF found IS NULL THEN
        RAISE EXCEPTION 'the stream table "%" does not exist', find_stream_table.name
              USING ERRCODE = 'ST201', HINT = 'List them with: SELECT * FROM pgtrickle.pgt_status().';
    END IF;
    RETURN found;
END
$$;

COMMENT ON FUNCTION pgtrickle.find_stream_table(text, name[]) IS
    'The id of a stream table, by its name as one would write it in a query.';

CREATE FUNCTION pgtrickle.parse_duration_seconds(duration text)
RETURNS double precision
LANGUAGE sql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN duration ~ '^\s*(\d+\s*[smhdw]\s*)+$' THEN (
        SELECT sum(part[1]::double precision * CASE part[2]
                       WHEN 's' THEN 1 WHEN 'm' THEN 60 WHEN 'h' THEN 3600
                       WHEN 'd' THEN 86400 ELSE 604800 END)
          FROM regexp_matches(duration, '(\d+)\s*([smhdw])', 'g') AS part) END
$$;

COMMENT ON FUNCTION pgtrickle.parse_duration_seconds(text) IS
    'The length of a duration like 1h30m; NULL if it is none.';

CREATE VIEW pgtrickle.stream_tables_info AS
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
               < clock_timestamp() AS stale
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN (VALUES ('hot', 1), ('warm', 2), ('cold', 10)) AS t (tier, factor)
        ON t.tier = s.tier;

COMMENT ON VIEW pgtrickle.stream_tables_info IS
    'Every stream table with all that is known of it; stale says that its refresh is late.';

CREATE FUNCTION pgtrickle.pgt_status()
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
     ORDER BY s.pgt_schema, s.pgt_name
$$;

COMMENT ON FUNCTION pgtrickle.pgt_status() IS 'Every stream table in one line.';

CREATE FUNCTION pgtrickle.get_refresh_history(
    name text, max_rows integer DEFAULT 20, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (refresh_id bigint, action text, status text, reason text, initiated_by text,
               start_time timestamptz, end_time timestamptz, data_timestamp timestamptz,
               rows_inserted bigint, rows_deleted bigint, rows_read bigint,
               duration_ms double precision, error_code text, error_message text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT h.refresh_id, h.action, h.status, h.reason, h.initiated_by, h.start_time, h.end_time,
           h.data_timestamp, h.rows_inserted, h.rows_deleted, h.rows_read,
           extract(epoch FROM h.end_time - h.start_time) * 1000, h.error_code, h.error_message
      FROM pgtrickle.pgt_refresh_history AS h
     WHERE h.pgt_id = pgtrickle.find_stream_table($1, $3)
     ORDER BY h.start_time DESC, h.refresh_id DESC
     LIMIT $2
$$;

COMMENT ON FUNCTION pgtrickle.get_refresh_history(text, integer, name[]) IS
    'What the latest refreshes of a stream table did, and why.';

CREATE FUNCTION pgtrickle.refresh_timeline(max_rows integer DEFAULT 50)
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
     ORDER BY h.start_time DESC, h.refresh_id DESC
     LIMIT max_rows
$$;

COMMENT ON FUNCTION pgtrickle.refresh_timeline(integer) IS
    'The latest refreshes of all stream tables.';

CREATE FUNCTION pgtrickle.get_staleness(name text, schemas name[] DEFAULT current_schemas(false))
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

CREATE FUNCTION pgtrickle.explain_refresh_mode(
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
    'How a stream table is to be maintained, how it can be, and why not otherwise.';

CREATE FUNCTION pgtrickle.list_sources(name text, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (source_table text, source_oid oid, source_type text, cdc_mode text,
               columns_used text[])
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', d.source_schema, d.source_name), d.source_relid, d.source_type,
           t.cdc_mode, d.columns_used
      FROM pgtrickle.pgt_dependencies AS d
      LEFT JOIN pgtrickle.pgt_change_tracking AS t USING (source_relid)
     WHERE d.pgt_id = pgtrickle.find_stream_table($1, $2)
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.list_sources(text, name[]) IS
    'What a stream table reads, and how changes of that are captured; NULL: they are looked for.';

CREATE FUNCTION pgtrickle.change_buffer_sizes()
RETURNS TABLE (source_table text, source_oid oid, cdc_mode text, consumers bigint,
               pending_rows bigint, buffer_bytes bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one    record;
    buffer regclass;
BEGIN
    FOR one IN
        SELECT t.source_schema, t.source_name, t.source_relid, t.cdc_mode, t.buffer_name,
               (SELECT count(*) FROM pgtrickle.pgt_dependencies AS d
                 WHERE d.source_relid = t.source_relid) AS consumers
          FROM pgtrickle.pgt_change_tracking AS t
         ORDER BY t.source_schema, t.source_name
    LOOP
        source_table := format('%I.%I', one.source_schema, one.source_name);
        source_oid := one.source_relid;
        cdc_mode := one.cdc_mode;
        consumers := one.consumers;
        buffer := to_regclass(format('pgtrickle_changes.%I', one.buffer_name));
        pending_rows := NULL;
        buffer_bytes := NULL;
        IF buffer IS NOT NULL THEN
            EXECUTE format('SELECT count(*) FROM %s', buffer) INTO pending_rows;
            -- A buffer has a child for what some consumer has read already.
            SELECT sum(pg_total_relation_size(member)) INTO buffer_bytes
              FROM pgtrickle.list_members(buffer) AS member;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON FUNCTION pgtrickle.change_buffer_sizes() IS
    'How many captured changes each source keeps, and their size; counts them, so it reads them.';

CREATE FUNCTION pgtrickle.dependency_tree()
RETURNS TABLE (tree_line text, node text, node_type text, depth integer, status text,
               refresh_mode text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE nodes AS (
        SELECT s.pgt_relid AS relid, format('%I.%I', s.pgt_schema, s.pgt_name) AS node,
               'stream_table' AS node_type, s.pgt_id, s.status, s.refresh_mode
          FROM pgtrickle.pgt_stream_tables AS s
         UNION ALL
        SELECT DISTINCT d.source_relid, format('%I.%I', d.source_schema, d.source_name),
               lower(d.source_type), NULL::bigint, NULL, NULL
          FROM pgtrickle.pgt_dependencies AS d
         WHERE d.source_relid NOT IN (SELECT s.pgt_relid FROM pgtrickle.pgt_stream_tables AS s)
    ), tree AS (
        -- From what nothing reads down to the tables; a table that is read twice stands there twice.
        SELECT n.*, 0 AS depth, ARRAY[n.node] AS path
          FROM nodes AS n
         WHERE n.pgt_id IS NOT NULL
           AND n.relid NOT IN (SELECT d.source_relid FROM pgtrickle.pgt_dependencies AS d)
         UNION ALL
        SELECT n.*, t.depth + 1, t.path || n.node
          FROM tree AS t
          JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = t.pgt_id
          JOIN nodes AS n ON n.relid = d.source_relid
         WHERE n.node <> ALL (t.path)
    )
    SELECT repeat('    ', t.depth - 1) || CASE WHEN t.depth > 0 THEN '└── ' ELSE '' END || t.node,
           t.node, t.node_type, t.depth, t.status, t.refresh_mode
      FROM tree AS t
     ORDER BY t.path
$$;

COMMENT ON FUNCTION pgtrickle.dependency_tree() IS
    'What stream tables read, as a tree: each stands above its sources.';

CREATE FUNCTION pgtrickle.refresh_efficiency()
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
           avg(h.delta_row_count::double precision) FILTER (WHERE h.action = 'DIFFERENTIAL'),
           avg(h.actual_ms) FILTER (WHERE h.action IN ('FULL', 'REINITIALIZE'))
               / nullif(avg(h.actual_ms) FILTER (WHERE h.action = 'DIFFERENTIAL'), 0)
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pgtrickle.pgt_refresh_history AS h USING (pgt_id)
     WHERE h.status = 'COMPLETED'
     GROUP BY s.pgt_id
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.refresh_efficiency() IS
    'How often each stream table followed its changes and how often it was recomputed, and what
either took; the speed-up is FULL divided by DIFFERENTIAL.';

CREATE FUNCTION pgtrickle.sla_summary(window_hours double precision DEFAULT 24)
RETURNS TABLE (name text, refreshes bigint, p50_ms double precision, p99_ms double precision,
               freshness_lag_s double precision, error_rate double precision,
               error_budget_remaining double precision)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH recent AS (
        SELECT h.pgt_id, count(*) AS refreshes,
               percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
                   ORDER BY extract(epoch FROM h.end_time - h.start_time) * 1000.0) AS took,
               avg(CASE WHEN h.status = 'FAILED' THEN 1.0 ELSE 0.0 END)::double precision AS failed
          FROM pgtrickle.pgt_refresh_history AS h
         WHERE h.start_time > clock_timestamp() - make_interval(secs => window_hours * 3600)
           AND h.end_time IS NOT NULL
         GROUP BY h.pgt_id
    )
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), coalesce(r.refreshes, 0), r.took[1],
           r.took[2], extract(epoch FROM clock_timestamp() - s.data_timestamp), r.failed,
           -- One failure in a hundred is what may happen.
           greatest(1 - r.failed / 0.01, 0)
      FROM pgtrickle.pgt_stream_tables AS s LEFT JOIN recent AS r USING (pgt_id)
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.sla_summary(double precision) IS
    'How long refreshes took, how old the contents are, how many failed, and which share of an
error budget of one in a hundred is left.';

CREATE FUNCTION pgtrickle.health_check()
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
          FROM tables AS t WHERE t.consecutive_errors > 0 HAVING count(*) > 0
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
        SELECT 'reinitialize', 'WARNING', string_agg(t.name, ', ' ORDER BY t.name)
          FROM tables AS t WHERE t.needs_reinit HAVING count(*) > 0
         UNION ALL
        SELECT 'capture', 'WARNING', string_agg(c.source_table || ': ' || c.alert, ', ' ORDER BY c.source_table, c.alert)
          FROM pgtrickle.check_cdc_health() AS c WHERE c.alert IS NOT NULL HAVING count(*) > 0
    )
    SELECT k.name, coalesce(f.severity, 'OK'), coalesce(f.detail, '')
      FROM unnest(ARRAY['daemon', 'drained', 'suspended', 'fuses', 'errors', 'stale', 'reinitialize',
                        'capture'])
           WITH ORDINALITY AS k (name, n)
      LEFT JOIN found AS f ON f.check_name = k.name
     ORDER BY k.n
$$;

COMMENT ON FUNCTION pgtrickle.health_check() IS
    'What is checked, and what is wrong: OK, WARNING or CRITICAL.';

CREATE VIEW pgtrickle.quick_health AS
    SELECT CASE WHEN NOT EXISTS (SELECT FROM pgtrickle.pgt_stream_tables) THEN 'EMPTY'
                WHEN bool_or(severity = 'CRITICAL') THEN 'CRITICAL'
                WHEN bool_or(severity = 'WARNING') THEN 'WARNING' ELSE 'OK' END AS status,
           (SELECT count(*) FROM pgtrickle.pgt_stream_tables) AS stream_tables,
           string_agg(check_name || ': ' || detail, '; ') FILTER (WHERE severity <> 'OK') AS detail
      FROM pgtrickle.health_check();

COMMENT ON VIEW pgtrickle.quick_health IS 'EMPTY, OK, WARNING or CRITICAL, in one row.';

CREATE FUNCTION pgtrickle.version()
RETURNS TABLE (catalog_version integer, server_version text, daemon_running boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT (SELECT max(v.version) FROM pgtrickle.pgt_schema_version AS v),
           current_setting('server_version'), pgtrickle.is_served()
$$;

COMMENT ON FUNCTION pgtrickle.version() IS
    'The version of the catalog and of the server, and whether a daemon runs.';

CREATE FUNCTION pgtrickle.export_definition(name text, schemas name[] DEFAULT current_schemas(false))
RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(E'SET search_path = %s;\nCALL pgtrickle.drop_stream_table(%L);\n'
                  'CALL pgtrickle.create_stream_table(%L, %L, schedule => %L, refresh_mode => %L%s%s%s%s);\n'
                  'CALL pgtrickle.alter_stream_table(%L, tier => %L, fuse => %L%s%s);\n',
                  coalesce(nullif(s.query_search_path, ''), ''''''), full_name, full_name,
                  s.original_query, s.schedule, s.refresh_mode,
                  ', cdc_mode => ' || quote_literal(s.requested_cdc_mode),
                  ', max_delta_fraction => ' || s.max_delta_fraction,
                  ', diamond_consistency => ' || quote_literal(s.diamond_consistency),
                  ', diamond_schedule_policy => ' || quote_literal(s.diamond_schedule_policy),
                  full_name, s.tier, s.fuse, ', fuse_ceiling => ' || s.fuse_ceiling,
                  ', fuse_sensitivity => ' || s.fuse_sensitivity)
      FROM pgtrickle.pgt_stream_tables AS s, format('%I.%I', s.pgt_schema, s.pgt_name) AS full_name
     WHERE s.pgt_id = pgtrickle.find_stream_table($1, $2)
$$;

COMMENT ON FUNCTION pgtrickle.export_definition(text, name[]) IS
    'The statements that drop a stream table and create it again.';

CREATE FUNCTION pgtrickle.stream_table_spec(name text, schemas name[] DEFAULT current_schemas(false))
RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
               'name', format('%I.%I', s.pgt_schema, s.pgt_name), 'query', s.original_query,
               'search_path', s.query_search_path, 'schedule', s.schedule,
               'refresh_mode', s.refresh_mode, 'cdc_mode', s.requested_cdc_mode,
               'max_delta_fraction', s.max_delta_fraction, 'tier', s.tier, 'fuse', s.fuse,
               'fuse_ceiling', s.fuse_ceiling, 'fuse_sensitivity', s.fuse_sensitivity,
               'diamond_consistency', s.diamond_consistency,
               'diamond_schedule_policy', s.diamond_schedule_policy, 'owner', s.owner_role)
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_id = pgtrickle.find_stream_table($1, $2)
$$;

COMMENT ON FUNCTION pgtrickle.stream_table_spec(text, name[]) IS
    'The definition of a stream table as JSON.';

-- Readers may ask for it too.
ALTER FUNCTION pgtrickle.check_cdc_health() SECURITY DEFINER;

REVOKE ALL ON pgtrickle.stream_tables_info, pgtrickle.quick_health FROM PUBLIC;
REVOKE ALL ON FUNCTION pgtrickle.find_stream_table(text, name[]),
    pgtrickle.parse_duration_seconds(text), pgtrickle.pgt_status(),
    pgtrickle.get_refresh_history(text, integer, name[]), pgtrickle.refresh_timeline(integer),
    pgtrickle.get_staleness(text, name[]), pgtrickle.explain_refresh_mode(text, name[]),
    pgtrickle.list_sources(text, name[]), pgtrickle.change_buffer_sizes(),
    pgtrickle.dependency_tree(), pgtrickle.refresh_efficiency(),
    pgtrickle.sla_summary(double precision), pgtrickle.health_check(), pgtrickle.version(),
    pgtrickle.export_definition(text, name[]), pgtrickle.stream_table_spec(text, name[])
    FROM PUBLIC;
