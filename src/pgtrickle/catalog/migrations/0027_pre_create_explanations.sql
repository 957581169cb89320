-- 0027 · pre · create what explains: the graph, groups, deltas, errors
--
-- Why:   whoever looks after stream tables asks in SQL what belongs together and what went wrong.
-- Reads: nothing before this version calls them.
-- Locks: CREATE only.
-- Undo:  DROP the function and the procedures below.

CREATE FUNCTION pgtrickle.explain_dag(format text DEFAULT 'mermaid')
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
         UNION ALL
        SELECT DISTINCT d.source_relid, format('%I.%I', d.source_schema, d.source_name), false
          FROM pgtrickle.pgt_dependencies AS d
         WHERE d.source_relid NOT IN (SELECT s.pgt_relid FROM pgtrickle.pgt_stream_tables AS s)
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
    )
    SELECT string_agg(line, E'\n' ORDER BY place, line) INTO drawn FROM lines;
    RETURN concat_ws(E'\n', CASE explain_dag.format WHEN 'dot' THEN 'digraph stream_tables {'
                                                    ELSE 'graph LR' END,
                     drawn, CASE explain_dag.format WHEN 'dot' THEN '}' END);
END
$$;

COMMENT ON FUNCTION pgtrickle.explain_dag(text) IS
    'The graph of sources and stream tables, drawn as mermaid or dot.';

-- These need what only the daemon has: see 0020.

CREATE PROCEDURE pgtrickle.diamond_groups(INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request(
        'diamond_groups', pg_catalog.jsonb_build_object(), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.diamond_groups(jsonb) IS
    'Which stream tables are refreshed together, in which order, and whether with the fastest or the slowest.';

CREATE PROCEDURE pgtrickle.explain_delta(
    name pg_catalog.text,
    INOUT result pg_catalog.text DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    answer pg_catalog.jsonb;
BEGIN
    CALL pgtrickle.perform_request('explain_delta', pg_catalog.jsonb_build_object(
        'name', explain_delta.name), answer);
    -- The text of a JSON string.
    result := pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0;
END
$$;

COMMENT ON PROCEDURE pgtrickle.explain_delta(text, text) IS
    'The statements by which the engine computes a change of a stream table.';

CREATE PROCEDURE pgtrickle.diagnose_errors(
    name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('diagnose_errors', pg_catalog.jsonb_build_object(
        'name', diagnose_errors.name), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.diagnose_errors(text, jsonb) IS
    'The latest errors of a stream table, what each means and what to do.';

INSERT INTO pgtrickle.pgt_grants (level, privilege, target)
VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.explain_dag(text)'),
       ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.diamond_groups(jsonb)'),
       ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.explain_delta(text,text)'),
       ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.diagnose_errors(text,jsonb)');

REVOKE ALL ON FUNCTION pgtrickle.explain_dag(text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.diamond_groups(jsonb), pgtrickle.explain_delta(text, text),
    pgtrickle.diagnose_errors(text, jsonb) FROM PUBLIC;
