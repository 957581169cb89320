-- 0035 · pre · show a stream table whose query is being replaced once
--
-- Why:   a successor was listed beside its stream table, under a name of ours; sla_summary read all of the history.
-- Reads: the same columns as before, and one more at the end of stream_tables_info.
-- Locks: CREATE OR REPLACE only; ACCESS EXCLUSIVE on two views, briefly.
-- Undo:  CREATE OR REPLACE the functions as in 0022, 0026 and 0027; DROP and CREATE the views as in 0022.

CREATE OR REPLACE FUNCTION pgtrickle.find_stream_table(name text, schemas name[] DEFAULT current_schemas(false))
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
     WHERE s.pgt_name = parts[cardinality(parts)] AND s.pgt_schema <> 'pgtrickle_state'
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
                      AND n.pgt_name = format('next_%s', s.pgt_id)) AS being_replaced
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN (VALUES ('hot', 1), ('warm', 2), ('cold', 10)) AS t (tier, factor)
        ON t.tier = s.tier
     WHERE s.pgt_schema <> 'pgtrickle_state';

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
        SELECT n.*, 0 AS depth, ARRAY[n.node] AS path
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
        SELECT n.*, t.depth + 1, t.path || n.node
          FROM tree AS t
          JOIN reads AS d ON d.pgt_id = t.pgt_id
          JOIN nodes AS n ON n.relid = d.source_relid
         WHERE n.node <> ALL (t.path)
    )
    SELECT repeat('    ', t.depth - 1) || CASE WHEN t.depth > 0 THEN '└── ' ELSE '' END || t.node,
           t.node, t.node_type, t.depth, t.status, t.refresh_mode
      FROM tree AS t
     ORDER BY t.path
$$;

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
           avg(h.delta_row_count::double precision) FILTER (WHERE h.action = 'DIFFERENTIAL'),
           avg(h.actual_ms) FILTER (WHERE h.action IN ('FULL', 'REINITIALIZE'))
               / nullif(avg(h.actual_ms) FILTER (WHERE h.action = 'DIFFERENTIAL'), 0)
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pgtrickle.pgt_refresh_history AS h USING (pgt_id)
     WHERE h.status = 'COMPLETED' AND s.pgt_schema <> 'pgtrickle_state'
     GROUP BY s.pgt_id
     ORDER BY 1
$$;

-- In PL/pgSQL, which plans for the window asked for: it reads the index, not the whole history.
CREATE OR REPLACE FUNCTION pgtrickle.sla_summary(window_hours double precision DEFAULT 24)
RETURNS TABLE (name text, refreshes bigint, p50_ms double precision, p99_ms double precision,
               freshness_lag_s double precision, error_rate double precision,
               error_budget_remaining double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    WITH recent AS (
        SELECT h.pgt_id, count(*) AS number,
               percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
                   ORDER BY extract(epoch FROM h.end_time - h.start_time)::double precision * 1000)
                   AS took,
               avg(CASE WHEN h.status = 'FAILED' THEN 1.0 ELSE 0.0 END)::double precision AS failed
          FROM pgtrickle.pgt_refresh_history AS h
         WHERE h.start_time > statement_timestamp() - make_interval(secs => window_hours * 3600)
           AND h.end_time IS NOT NULL
         GROUP BY h.pgt_id
    )
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), coalesce(r.number, 0), r.took[1],
           r.took[2],
           extract(epoch FROM clock_timestamp() - s.data_timestamp)::double precision, r.failed,
           -- One failure in a hundred is what may happen.
           greatest(1 - r.failed / 0.01, 0)
      FROM pgtrickle.pgt_stream_tables AS s LEFT JOIN recent AS r USING (pgt_id)
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY 1;
END
$$;

CREATE OR REPLACE VIEW pgtrickle.quick_health AS
    SELECT CASE WHEN NOT EXISTS (SELECT FROM pgtrickle.stream_tables_info) THEN 'EMPTY'
                WHEN bool_or(severity = 'CRITICAL') THEN 'CRITICAL'
                WHEN bool_or(severity = 'WARNING') THEN 'WARNING' ELSE 'OK' END AS status,
           (SELECT count(*) FROM pgtrickle.stream_tables_info) AS stream_tables,
           string_agg(check_name || ': ' || detail, '; ') FILTER (WHERE severity <> 'OK') AS detail
      FROM pgtrickle.health_check();

CREATE OR REPLACE FUNCTION pgtrickle.explain_dag(format text DEFAULT 'mermaid')
RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    drawn text;
BEGIN
    IF explain_dag.format IS NULL OR explain_dag.format NOT IN ('mermaid', 'dot') THEN
        RAISE EXCEPTION 'the format "%" does not exist', explain_dag.format
              USING ERRCODE = 'ST501', HINT = 'Choose mermaid or dot.';
    END IF;
    WITH nodes AS (
        SELECT s.pgt_relid AS relid, format('%I.%I', s.pgt_schema, s.pgt_name) AS label,
               true AS maintained
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.pgt_schema <> 'pgtrickle_state'
         UNION ALL
        SELECT DISTINCT d.source_relid, format('%I.%I', d.source_schema, d.source_name), false
          FROM pgtrickle.pgt_dependencies AS d
          JOIN pgtrickle.pgt_stream_tables AS r USING (pgt_id)
         WHERE r.pgt_schema <> 'pgtrickle_state'
           AND d.source_relid NOT IN (SELECT s.pgt_relid FROM pgtrickle.pgt_stream_tables AS s)
    ), lines (place, line) AS (
        SELECT 1, CASE explain_dag.format
                      WHEN 'dot' THEN format('  n%s [label="%s", shape=%s];', n.relid,
                           replace(replace(n.label, '\', '\\'), '"', '\"'),
                           CASE WHEN n.maintained THEN 'box' ELSE 'ellipse' END)
                      WHEN 'mermaid' THEN format(
                           CASE WHEN n.maintained THEN '  n%s["%s"]' ELSE '  n%s(["%s"])' END,
                           n.relid, replace(replace(n.label, '#', '#35;'), '"', '#quot;')) END
          FROM nodes AS n
         UNION ALL
        SELECT 2, format(CASE explain_dag.format WHEN 'dot' THEN '  n%s -> n%s;'
                                                 ELSE '  n%s --> n%s' END,
                         d.source_relid, s.pgt_relid)
          FROM pgtrickle.pgt_dependencies AS d
          JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
         WHERE s.pgt_schema <> 'pgtrickle_state'
    )
    SELECT string_agg(line, E'\n' ORDER BY place, line) INTO drawn FROM lines;
    RETURN concat_ws(E'\n', CASE explain_dag.format WHEN 'dot' THEN 'digraph stream_tables {'
                                                    ELSE 'graph LR' END,
                     drawn, CASE explain_dag.format WHEN 'dot' THEN '}' END);
END
$$;

CREATE OR REPLACE FUNCTION pgtrickle.bootstrap_gate_status()
RETURNS TABLE (source_table text, gated boolean, gated_at timestamptz, ungated_at timestamptz,
               gated_by text, gate_duration interval, affected_stream_tables text[])
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN c.oid IS NULL THEN g.source_relid::text
                ELSE format('%I.%I', n.nspname, c.relname) END, g.gated,
           g.gated_at, g.ungated_at, g.gated_by,
           CASE WHEN g.gated THEN clock_timestamp() ELSE g.ungated_at END - g.gated_at,
           ARRAY(SELECT format('%I.%I', s.pgt_schema, s.pgt_name)
                   FROM pgtrickle.pgt_dependencies AS d
                   JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
                  WHERE d.source_relid = g.source_relid AND s.pgt_schema <> 'pgtrickle_state'
                  ORDER BY 1)
      FROM pgtrickle.pgt_source_gates AS g
      LEFT JOIN pg_class AS c ON c.oid = g.source_relid
      LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
     ORDER BY 1
$$;

CREATE OR REPLACE FUNCTION pgtrickle.fuse_status()
RETURNS TABLE (name text, fuse_mode text, fuse_state text, fuse_ceiling bigint,
               fuse_sensitivity double precision, blown_at timestamptz, blow_reason text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), s.fuse,
           CASE WHEN s.fuse_blown_at IS NOT NULL THEN 'blown' WHEN s.fuse = 'off' THEN 'disabled'
                WHEN s.fuse_bridged THEN 'bridged' ELSE 'armed' END,
           s.fuse_ceiling, s.fuse_sensitivity, s.fuse_blown_at, s.fuse_reason
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY 1
$$;

CREATE OR REPLACE FUNCTION pgtrickle.list_holds()
RETURNS TABLE (pgt_id bigint, name text, reason text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE astray AS MATERIALIZED (
        SELECT g.group_name, g.source_relids
          FROM pgtrickle.pgt_watermark_groups AS g
          JOIN pgtrickle.pgt_watermarks AS w ON w.source_relid = ANY (g.source_relids)
         GROUP BY g.group_id
        HAVING max(w.watermark) - min(w.watermark) > g.tolerance_secs * interval '1 second'
    ), reads (pgt_id, relid) AS (
        SELECT d.pgt_id, d.source_relid
          FROM pgtrickle.pgt_dependencies AS d
         WHERE EXISTS (SELECT FROM astray)
         UNION
        SELECT r.pgt_id, d.source_relid
          FROM reads AS r
          JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_relid = r.relid
          JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = s.pgt_id
    ), held (pgt_id, reason) AS (
        SELECT d.pgt_id, 'the source ' || g.source_relid::regclass || ' is gated'
          FROM pgtrickle.pgt_source_gates AS g
          JOIN pgtrickle.pgt_dependencies AS d ON d.source_relid = g.source_relid
         WHERE g.gated
         UNION ALL
        SELECT r.pgt_id, 'the watermarks of the group ' || a.group_name || ' are out of step'
          FROM astray AS a JOIN reads AS r ON r.relid = ANY (a.source_relids)
         GROUP BY r.pgt_id, a.group_name
        HAVING count(*) > 1
         UNION ALL
        SELECT s.pgt_id, CASE WHEN p.pgt_id IS NULL THEN 'the scheduler is drained'
                              ELSE 'the stream table is paused' END
          FROM pgtrickle.pgt_scheduler_pauses AS p
          JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = p.pgt_id OR p.pgt_id IS NULL
         UNION ALL
        SELECT s.pgt_id, 'its fuse has blown: ' || s.fuse_reason
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.fuse_blown_at IS NOT NULL
    )
    SELECT h.pgt_id, format('%I.%I', s.pgt_schema, s.pgt_name), h.reason
      FROM held AS h JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY 2, 3
$$;

COMMENT ON VIEW pgtrickle.stream_tables_info IS
    'Every stream table with all that is known of it; stale says that its refresh is late, being_replaced that another query is being loaded for it.';
