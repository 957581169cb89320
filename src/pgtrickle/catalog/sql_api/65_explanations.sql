-- Explanations of one stream table, and the graph

CREATE OR REPLACE FUNCTION pgtrickle.explain_st(name text, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (property text, value text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT one.property, one.value
      FROM pgtrickle.pgt_stream_tables AS s
     CROSS JOIN LATERAL (
               SELECT count(*) FILTER (WHERE h.status = 'COMPLETED') AS refreshes,
                      count(*) FILTER (WHERE h.status = 'FAILED') AS failures,
                      round(avg(h.actual_ms) FILTER (WHERE h.action = 'DIFFERENTIAL')) AS differential,
                      round(avg(h.actual_ms) FILTER (WHERE h.action = 'FULL')) AS complete
                 FROM (SELECT * FROM pgtrickle.pgt_refresh_history AS r
                        WHERE r.pgt_id = s.pgt_id ORDER BY r.start_time DESC LIMIT 100) AS h) AS past
     CROSS JOIN LATERAL (VALUES
               (1, 'name', format('%I.%I', s.pgt_schema, s.pgt_name)),
               (2, 'query', s.original_query),
               (3, 'defining_query', s.defining_query),
               (4, 'schedule', s.schedule),
               (5, 'refresh_mode', s.refresh_mode),
               (6, 'effective_refresh_mode', s.effective_refresh_mode),
               (7, 'downgrade_reason', s.downgrade_reason),
               (8, 'status', s.status),
               (9, 'sources', (SELECT string_agg(format('%I.%I (%s)', d.source_schema, d.source_name,
                                                        lower(d.source_type)), ', '
                                                 ORDER BY d.source_schema, d.source_name)
                                 FROM pgtrickle.pgt_dependencies AS d WHERE d.pgt_id = s.pgt_id)),
               (10, 'state_tables', (SELECT string_agg(c.relname, ', ' ORDER BY c.relname)
                                       FROM pg_class AS c
                                      WHERE c.relnamespace = 'pgtrickle_state'::regnamespace
                                        AND c.relkind = 'r'
                                        AND c.relname ~ format('^st_%s_', s.pgt_id))),
               (11, 'frontier', s.frontier #>> '{pg,snapshot}'),
               (12, 'data_timestamp', s.data_timestamp::text),
               (13, 'last_refreshes', past.refreshes::text),
               (14, 'last_failures', past.failures::text),
               (15, 'avg_differential_ms', past.differential::text),
               (16, 'avg_full_ms', past.complete::text),
               (17, 'last_error', s.last_error_message)
           ) AS one (place, property, value)
     WHERE s.pgt_id = pgtrickle.find_stream_table(explain_st.name, explain_st.schemas)
     ORDER BY one.place
$$;

COMMENT ON FUNCTION pgtrickle.explain_st(text, name[]) IS
    'All that is known of one stream table, one row per property: query, mode, sources, state, frontier, its'
    ' last 100 refreshes. CALL explain_st(name, with_analyze => true) measures its next refresh.';

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

COMMENT ON FUNCTION pgtrickle.explain_dag(text) IS
    'The graph of sources and stream tables, drawn as mermaid or dot.';
