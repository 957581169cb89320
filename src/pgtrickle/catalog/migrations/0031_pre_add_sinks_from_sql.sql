-- 0031 · pre · sinks from SQL, and more that explains
--
-- Why:   a copy in the lake is asked for from any SQL session; so is how a query is understood.
-- Reads: the procedures take what they took, by name, and four arguments more.
-- Locks: CREATE and DROP of procedures only.
-- Undo:  DROP the procedures and the function below, and create those of migration 21 again.

-- Other arguments make another procedure: who may call the old one may call the new one.
CREATE TEMPORARY TABLE former_callers ON COMMIT DROP AS
SELECT p.proname, g.grantee
  FROM pg_proc AS p, aclexplode(p.proacl) AS g
 WHERE p.pronamespace = 'pgtrickle'::regnamespace AND g.privilege_type = 'EXECUTE'
   AND g.grantee NOT IN (p.proowner, 0)
   AND p.proname IN ('create_stream_table', 'create_stream_table_if_not_exists',
                     'alter_stream_table');

DROP PROCEDURE pgtrickle.create_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, jsonb);
DROP PROCEDURE pgtrickle.create_stream_table_if_not_exists(
    text, text, text, text, boolean, text, double precision, text, text, jsonb);
DROP PROCEDURE pgtrickle.alter_stream_table(
    text, text, text, text, text, text, text, text, text, bigint, double precision, text, text,
    jsonb);

CREATE PROCEDURE pgtrickle.create_stream_table(
    name pg_catalog.text,
    query pg_catalog.text,
    schedule pg_catalog.text DEFAULT 'calculated',
    refresh_mode pg_catalog.text DEFAULT 'AUTO',
    initialize pg_catalog.bool DEFAULT true,
    cdc_mode pg_catalog.text DEFAULT NULL,
    max_delta_fraction pg_catalog.float8 DEFAULT NULL,
    diamond_consistency pg_catalog.text DEFAULT NULL,
    diamond_schedule_policy pg_catalog.text DEFAULT NULL,
    sink pg_catalog.text DEFAULT NULL,
    ducklake_sink_path pg_catalog.text DEFAULT NULL,
    ducklake_table pg_catalog.text DEFAULT NULL,
    ducklake_partition_by pg_catalog.text DEFAULT NULL,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('create_stream_table', pg_catalog.jsonb_build_object(
        'name', create_stream_table.name,
        'query', create_stream_table.query,
        'schedule', create_stream_table.schedule,
        'refresh_mode', create_stream_table.refresh_mode,
        'initialize', create_stream_table.initialize,
        'cdc_mode', create_stream_table.cdc_mode,
        'max_delta_fraction', create_stream_table.max_delta_fraction,
        'diamond_consistency', create_stream_table.diamond_consistency,
        'diamond_schedule_policy', create_stream_table.diamond_schedule_policy,
        'sink', create_stream_table.sink,
        'ducklake_sink_path', create_stream_table.ducklake_sink_path,
        'ducklake_table', create_stream_table.ducklake_table,
        'ducklake_partition_by', create_stream_table.ducklake_partition_by), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, text, text, text,
    text, jsonb) IS
    'Create a stream table and, unless initialize is false, load it. With the sink ''ducklake'' it has a copy in the lake.';

CREATE PROCEDURE pgtrickle.create_stream_table_if_not_exists(
    name pg_catalog.text,
    query pg_catalog.text,
    schedule pg_catalog.text DEFAULT 'calculated',
    refresh_mode pg_catalog.text DEFAULT 'AUTO',
    initialize pg_catalog.bool DEFAULT true,
    cdc_mode pg_catalog.text DEFAULT NULL,
    max_delta_fraction pg_catalog.float8 DEFAULT NULL,
    diamond_consistency pg_catalog.text DEFAULT NULL,
    diamond_schedule_policy pg_catalog.text DEFAULT NULL,
    sink pg_catalog.text DEFAULT NULL,
    ducklake_sink_path pg_catalog.text DEFAULT NULL,
    ducklake_table pg_catalog.text DEFAULT NULL,
    ducklake_partition_by pg_catalog.text DEFAULT NULL,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('create_stream_table_if_not_exists', pg_catalog.jsonb_build_object(
        'name', create_stream_table_if_not_exists.name,
        'query', create_stream_table_if_not_exists.query,
        'schedule', create_stream_table_if_not_exists.schedule,
        'refresh_mode', create_stream_table_if_not_exists.refresh_mode,
        'initialize', create_stream_table_if_not_exists.initialize,
        'cdc_mode', create_stream_table_if_not_exists.cdc_mode,
        'max_delta_fraction', create_stream_table_if_not_exists.max_delta_fraction,
        'diamond_consistency', create_stream_table_if_not_exists.diamond_consistency,
        'diamond_schedule_policy', create_stream_table_if_not_exists.diamond_schedule_policy,
        'sink', create_stream_table_if_not_exists.sink,
        'ducklake_sink_path', create_stream_table_if_not_exists.ducklake_sink_path,
        'ducklake_table', create_stream_table_if_not_exists.ducklake_table,
        'ducklake_partition_by', create_stream_table_if_not_exists.ducklake_partition_by), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_stream_table_if_not_exists(
    text, text, text, text, boolean, text, double precision, text, text, text, text, text,
    text, jsonb) IS
    'The same, unless there is one of this name: that stays as it is.';

CREATE PROCEDURE pgtrickle.alter_stream_table(
    name pg_catalog.text,
    query pg_catalog.text DEFAULT NULL,
    schedule pg_catalog.text DEFAULT NULL,
    refresh_mode pg_catalog.text DEFAULT NULL,
    status pg_catalog.text DEFAULT NULL,
    cdc_mode pg_catalog.text DEFAULT NULL,
    max_delta_fraction pg_catalog.text DEFAULT NULL,
    tier pg_catalog.text DEFAULT NULL,
    fuse pg_catalog.text DEFAULT NULL,
    fuse_ceiling pg_catalog.int8 DEFAULT NULL,
    fuse_sensitivity pg_catalog.float8 DEFAULT NULL,
    diamond_consistency pg_catalog.text DEFAULT NULL,
    diamond_schedule_policy pg_catalog.text DEFAULT NULL,
    sink pg_catalog.text DEFAULT NULL,
    ducklake_sink_path pg_catalog.text DEFAULT NULL,
    ducklake_table pg_catalog.text DEFAULT NULL,
    ducklake_partition_by pg_catalog.text DEFAULT NULL,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('alter_stream_table', pg_catalog.jsonb_build_object(
        'name', alter_stream_table.name,
        'query', alter_stream_table.query,
        'schedule', alter_stream_table.schedule,
        'refresh_mode', alter_stream_table.refresh_mode,
        'status', alter_stream_table.status,
        'cdc_mode', alter_stream_table.cdc_mode,
        'max_delta_fraction', alter_stream_table.max_delta_fraction,
        'tier', alter_stream_table.tier,
        'fuse', alter_stream_table.fuse,
        'fuse_ceiling', alter_stream_table.fuse_ceiling,
        'fuse_sensitivity', alter_stream_table.fuse_sensitivity,
        'diamond_consistency', alter_stream_table.diamond_consistency,
        'diamond_schedule_policy', alter_stream_table.diamond_schedule_policy,
        'sink', alter_stream_table.sink,
        'ducklake_sink_path', alter_stream_table.ducklake_sink_path,
        'ducklake_table', alter_stream_table.ducklake_table,
        'ducklake_partition_by', alter_stream_table.ducklake_partition_by), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.alter_stream_table(
    text, text, text, text, text, text, text, text, text, bigint, double precision, text, text,
    text, text, text, text, jsonb) IS
    'Change how a stream table is maintained, or its query; what is NULL stays. A max_delta_fraction of ''default'' leaves it to the setting, a sink of ''none'' ends the copy in the lake.';

COMMENT ON PROCEDURE pgtrickle.create_or_replace_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, jsonb) IS
    'Create a stream table, or alter the one of this name so that it is maintained like this and shows this query.';

CREATE PROCEDURE pgtrickle.explain_query_rewrite(
    query pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('explain_query_rewrite', pg_catalog.jsonb_build_object(
        'query', explain_query_rewrite.query), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.explain_query_rewrite(text, jsonb) IS
    'What each pass makes of a query: as PostgreSQL binds it, as algebra, as stages.';

CREATE FUNCTION pgtrickle.explain_st(name text, schemas name[] DEFAULT current_schemas(false))
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
    'Everything about one stream table in rows: query, mode, sources, state, frontier, its last 100 refreshes.';

UPDATE pgtrickle.pgt_grants AS g
   SET target = 'PROCEDURE ' || p.oid::regprocedure
  FROM pg_proc AS p
 WHERE p.pronamespace = 'pgtrickle'::regnamespace
   AND p.proname IN ('create_stream_table', 'create_stream_table_if_not_exists',
                     'alter_stream_table')
   AND g.target LIKE format('PROCEDURE pgtrickle.%s(%%', p.proname);

INSERT INTO pgtrickle.pgt_grants (level, privilege, target)
VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.explain_query_rewrite(text,jsonb)'),
       ('reader', 'EXECUTE', 'FUNCTION pgtrickle.explain_st(text,name[])');

REVOKE ALL ON FUNCTION pgtrickle.explain_st(text, name[]) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.explain_query_rewrite(text, jsonb),
    pgtrickle.create_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, text, text, text,
    text, jsonb),
    pgtrickle.create_stream_table_if_not_exists(
    text, text, text, text, boolean, text, double precision, text, text, text, text, text,
    text, jsonb),
    pgtrickle.alter_stream_table(
    text, text, text, text, text, text, text, text, text, bigint, double precision, text, text,
    text, text, text, text, jsonb) FROM PUBLIC;

DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT p.oid::regprocedure AS routine, f.grantee::regrole AS grantee
          FROM former_callers AS f
          JOIN pg_proc AS p ON p.proname = f.proname
                           AND p.pronamespace = 'pgtrickle'::regnamespace
    LOOP
        EXECUTE format('GRANT EXECUTE ON PROCEDURE %s TO %s', one.routine, one.grantee);
    END LOOP;
END
$$;
