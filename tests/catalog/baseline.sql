--
-- PostgreSQL database dump
--



SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

CREATE SCHEMA app;

CREATE SCHEMA pgtrickle;

COMMENT ON SCHEMA pgtrickle IS 'The catalog of stream tables.';

CREATE SCHEMA pgtrickle_changes;

COMMENT ON SCHEMA pgtrickle_changes IS 'Captured changes of source tables.';

CREATE SCHEMA pgtrickle_state;

COMMENT ON SCHEMA pgtrickle_state IS 'Accumulators of stateful operators.';

CREATE TYPE app.mood AS ENUM (
    'good',
    'bad'
);

CREATE TYPE pgtrickle.pgt_failure AS (
	code text,
	message text,
	detail text,
	hint text
);

COMMENT ON TYPE pgtrickle.pgt_failure IS 'The error that a procedure is to raise; without a code there is none.';

CREATE FUNCTION pgtrickle.advance_watermark(source regclass, watermark timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM pgtrickle.check_may_act_on(ARRAY[source::oid]);
    INSERT INTO pgtrickle.pgt_watermarks AS w (source_relid, watermark)
    VALUES (source, advance_watermark.watermark)
        ON CONFLICT (source_relid) DO UPDATE
       SET watermark = excluded.watermark,
           updated_at = CASE WHEN w.watermark = excluded.watermark THEN w.updated_at
                             ELSE now() END,
           advanced_by = current_user
     WHERE w.watermark <= excluded.watermark;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the watermark of "%" cannot go back to %',
              source, advance_watermark.watermark
              USING ERRCODE = 'ST501', HINT = 'Give a later moment, or the same.';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.advance_watermark(source regclass, watermark timestamp with time zone) IS 'Say up to when a source is complete; it never goes back.';

CREATE PROCEDURE pgtrickle.alter_stream_table(IN name text, IN query text DEFAULT NULL::text, IN schedule text DEFAULT NULL::text, IN refresh_mode text DEFAULT NULL::text, IN status text DEFAULT NULL::text, IN cdc_mode text DEFAULT NULL::text, IN max_delta_fraction text DEFAULT NULL::text, IN tier text DEFAULT NULL::text, IN fuse text DEFAULT NULL::text, IN fuse_ceiling bigint DEFAULT NULL::bigint, IN fuse_sensitivity double precision DEFAULT NULL::double precision, IN diamond_consistency text DEFAULT NULL::text, IN diamond_schedule_policy text DEFAULT NULL::text, IN sink text DEFAULT NULL::text, IN ducklake_sink_path text DEFAULT NULL::text, IN ducklake_table text DEFAULT NULL::text, IN ducklake_partition_by text DEFAULT NULL::text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('alter_stream_table', pg_catalog.jsonb_build_object(
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
        'ducklake_partition_by', alter_stream_table.ducklake_partition_by), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.alter_stream_table(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN status text, IN cdc_mode text, IN max_delta_fraction text, IN tier text, IN fuse text, IN fuse_ceiling bigint, IN fuse_sensitivity double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) IS 'Change how a stream table is maintained, or its query; what is NULL stays. A max_delta_fraction of ''default'' leaves it to the setting, a sink of ''none'' ends the copy in the lake.';

CREATE FUNCTION pgtrickle.ask_column_types(relation oid, numbers smallint[], rows text) RETURNS text
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT 'SELECT ARRAY[' || coalesce(string_agg(
               CASE WHEN has_column_privilege(relation, n, 'SELECT') IS NULL THEN 'NULL'
                    ELSE 'pg_catalog.pg_typeof(r.c' || n || ')::pg_catalog.oid' END,
               ', ' ORDER BY place), '') || ']::pg_catalog.oid[] FROM '
           || pgtrickle.name_columns(relation, numbers, rows) || ' LIMIT 1'
      FROM unnest(numbers) WITH ORDINALITY AS one (n, place)
$$;

COMMENT ON FUNCTION pgtrickle.ask_column_types(relation oid, numbers smallint[], rows text) IS 'Write the query that tells the types columns have now; of no rows there is no answer.';

CREATE PROCEDURE pgtrickle.attach_ducklake_table(IN name text, IN lake_table text, IN columns text[] DEFAULT NULL::text[], IN catalog_schema text DEFAULT NULL::text, IN compaction_policy text DEFAULT NULL::text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('attach_ducklake_table', pg_catalog.jsonb_build_object(
        'name', attach_ducklake_table.name,
        'lake_table', attach_ducklake_table.lake_table,
        'columns', attach_ducklake_table.columns,
        'catalog_schema', attach_ducklake_table.catalog_schema,
        'compaction_policy', attach_ducklake_table.compaction_policy), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.attach_ducklake_table(IN name text, IN lake_table text, IN columns text[], IN catalog_schema text, IN compaction_policy text, INOUT result jsonb) IS 'Let PostgreSQL follow a table of the lake, under this name, so that stream tables can read it.';

CREATE PROCEDURE pgtrickle.await_request(IN verb text, IN arguments jsonb, INOUT result jsonb, INOUT failure pgtrickle.pgt_failure)
    LANGUAGE plpgsql
    AS $$
DECLARE
    request pg_catalog.int8;
    step    record;
    shown   pg_catalog.int4 := 0;
    nap     pg_catalog.float8 := 0;
    news    pg_catalog.text;
    because pg_catalog.text;
BEGIN
    CALL pgtrickle.find_obstacle(failure);
    IF failure.code IS NOT NULL THEN
        RETURN;
    END IF;
    BEGIN
        INSERT INTO pgtrickle.pgt_requests (verb, arguments, seen_at)
        VALUES (await_request.verb, await_request.arguments, pg_catalog.clock_timestamp())
        RETURNING request_id INTO request;
    EXCEPTION WHEN OTHERS THEN
        IF NOT pg_catalog.starts_with(SQLSTATE, 'ST') THEN
            RAISE;
        END IF;
        GET STACKED DIAGNOSTICS because = PG_EXCEPTION_HINT;
        failure := ROW (SQLSTATE, SQLERRM, NULL, because);
        RETURN;
    END;
    COMMIT;
    LOOP
        BEGIN
            PERFORM pg_catalog.pg_sleep(nap);
            SELECT * INTO step FROM pgtrickle.follow_request(request, shown, false);
        EXCEPTION WHEN query_canceled THEN
            SELECT * INTO step FROM pgtrickle.follow_request(request, shown, true);
        END;
        COMMIT;
        FOREACH news IN ARRAY step.news LOOP
            RAISE NOTICE USING MESSAGE = news;
        END LOOP;
        EXIT WHEN step.ended;
        shown := step.shown;
        nap := step.nap;
    END LOOP;
    result := step.outcome;
    IF step.code IS NOT NULL THEN
        failure := ROW (step.code, step.message, step.detail,
                        COALESCE(step.hint, 'What is half done is undone by itself.'));
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.await_request(IN verb text, IN arguments jsonb, INOUT result jsonb, INOUT failure pgtrickle.pgt_failure) IS 'Ask the daemon for something, wait until it is done, and return the error that it ended with.';

CREATE FUNCTION pgtrickle.bootstrap_gate_status() RETURNS TABLE(source_table text, gated boolean, gated_at timestamp with time zone, ungated_at timestamp with time zone, gated_by text, gate_duration interval, affected_stream_tables text[])
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.bootstrap_gate_status() IS 'Which sources are or were gated, how long, and which stream tables read them.';

CREATE PROCEDURE pgtrickle.bulk_alter_stream_tables(IN names text[], IN params jsonb, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('bulk_alter_stream_tables', pg_catalog.jsonb_build_object(
        'names', bulk_alter_stream_tables.names,
        'params', bulk_alter_stream_tables.params), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.bulk_alter_stream_tables(IN names text[], IN params jsonb, INOUT result jsonb) IS 'Change several stream tables alike.';

CREATE PROCEDURE pgtrickle.bulk_create(IN definitions jsonb, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('bulk_create', pg_catalog.jsonb_build_object(
        'definitions', bulk_create.definitions), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.bulk_create(IN definitions jsonb, INOUT result jsonb) IS 'Create several stream tables, all or none.';

CREATE PROCEDURE pgtrickle.bulk_drop_stream_tables(IN names text[], INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('bulk_drop_stream_tables', pg_catalog.jsonb_build_object(
        'names', bulk_drop_stream_tables.names), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.bulk_drop_stream_tables(IN names text[], INOUT result jsonb) IS 'Drop several stream tables, in this order.';

CREATE FUNCTION pgtrickle.cancel_request(request bigint) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH cancelled AS (
        INSERT INTO pgtrickle.pgt_request_signs AS s (request_id, cancelled_at)
        SELECT r.request_id, clock_timestamp() FROM pgtrickle.pgt_requests AS r
         WHERE r.request_id = request AND r.status IN ('QUEUED', 'RUNNING')
            ON CONFLICT (request_id) DO UPDATE SET cancelled_at = excluded.cancelled_at
         WHERE s.cancelled_at IS NULL
        RETURNING s.request_id
    )
    SELECT EXISTS (SELECT FROM cancelled)
$$;

COMMENT ON FUNCTION pgtrickle.cancel_request(request bigint) IS 'Take back a request of one''s own; false if it has ended, or was taken back before.';

CREATE FUNCTION pgtrickle.change_buffer_sizes() RETURNS TABLE(source_table text, source_oid oid, cdc_mode text, consumers bigint, pending_rows bigint, buffer_bytes bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.change_buffer_sizes() IS 'How many captured changes each source keeps, and their size; counts them, so it reads them.';

CREATE FUNCTION pgtrickle.check_cdc_health() RETURNS TABLE(source_relid oid, source_table text, cdc_mode text, durability text, buffer_bytes bigint, consumers bigint, alert text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    WITH sources AS (
        SELECT t.*,
               to_regclass('pgtrickle_changes.' || quote_ident(t.buffer_name)) AS buffer,
               to_regclass('pgtrickle_changes.' || quote_ident(t.buffer_name || '_settled')) AS settled,
               EXISTS (SELECT FROM pg_class AS c WHERE c.oid = t.source_relid) AS present
          FROM pgtrickle.pgt_change_tracking AS t
    ), triggers AS (
        SELECT s.source_relid, c.oid AS member,
               (SELECT count(*) FROM pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid
                 WHERE g.tgrelid = c.oid AND p.pronamespace = 'pgtrickle_changes'::regnamespace
                   AND p.proname ~ ('^capture_' || s.source_relid
                                    || '_(\d+_)?(insert|update|delete|truncate)$')) AS there,
               (SELECT count(*) FROM pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid
                 WHERE g.tgrelid = c.oid AND p.pronamespace = 'pgtrickle_changes'::regnamespace
                   AND starts_with(p.proname, 'capture_' || s.source_relid || '_')
                   AND g.tgenabled NOT IN ('O', 'A')) AS disabled
          FROM sources AS s, pgtrickle.list_members(s.source_relid) AS one
          JOIN pg_class AS c ON c.oid = one AND c.relkind = 'r'
         WHERE s.cdc_mode = 'TRIGGER'
    ), alerts AS (
        SELECT s.source_relid, 'source_missing' AS alert FROM sources AS s WHERE NOT present
         UNION ALL
        SELECT s.source_relid, 'buffer_missing' FROM sources AS s
         WHERE s.buffer IS NULL OR s.settled IS NULL
         UNION ALL
        SELECT DISTINCT t.source_relid, 'triggers_missing' FROM triggers AS t WHERE t.there < 4
         UNION ALL
        SELECT DISTINCT t.source_relid, 'triggers_disabled' FROM triggers AS t WHERE t.disabled > 0
         UNION ALL
        SELECT s.source_relid, 'paused' FROM sources AS s WHERE s.paused_at IS NOT NULL
         UNION ALL
        SELECT s.source_relid, 'emptied_by_crash' FROM sources AS s
         WHERE s.durability = 'unlogged' AND NOT EXISTS (
                   SELECT FROM pgtrickle.pgt_unlogged_buffers AS u
                    WHERE u.source_relid = s.source_relid)
         UNION ALL
        SELECT s.source_relid, 'buffer_growth' FROM sources AS s WHERE s.alerted_at IS NOT NULL
         UNION ALL
        SELECT s.source_relid, 'writers_delayed' FROM sources AS s WHERE s.delay_ms > 0
         UNION ALL
        SELECT DISTINCT d.source_relid, 'gap'
          FROM pgtrickle.pgt_dependencies AS d
          JOIN pgtrickle.list_gaps(ARRAY(SELECT pgt_id FROM pgtrickle.pgt_stream_tables)) AS g
            ON g.stream_table = d.pgt_id AND g.source = d.source_schema || '.' || d.source_name
    )
    SELECT s.source_relid, s.source_schema || '.' || s.source_name, s.cdc_mode,
           coalesce(s.durability, 'logged'),
           coalesce(pg_relation_size(s.buffer), 0) + coalesce(pg_relation_size(s.settled), 0),
           (SELECT count(*) FROM pgtrickle.pgt_dependencies AS d
             WHERE d.source_relid = s.source_relid),
           a.alert
      FROM sources AS s LEFT JOIN alerts AS a USING (source_relid)
     ORDER BY 2, 7
$_$;

COMMENT ON FUNCTION pgtrickle.check_cdc_health() IS 'Every captured source, with each thing that is wrong with its capture.';

CREATE FUNCTION pgtrickle.check_may_act_on(relations oid[]) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    one oid;
BEGIN
    FOREACH one IN ARRAY relations LOOP
        IF NOT pgtrickle.may_act_on(ARRAY[one]) THEN
            RAISE EXCEPTION 'must be owner of table "%"', one::regclass
                  USING ERRCODE = 'ST206', HINT = 'Connect as a member of the role that owns it.';
        END IF;
    END LOOP;
END
$$;

COMMENT ON FUNCTION pgtrickle.check_may_act_on(relations oid[]) IS 'Fail unless the caller can act as the owner of all these relations.';

CREATE FUNCTION pgtrickle.check_may_ask(role oid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    quota   integer := coalesce((SELECT coalesce(s.value, s.default_value)::integer
                                   FROM pgtrickle.pgt_settings AS s
                                  WHERE s.name = 'requests_per_caller'), 100);
    waiting integer;
BEGIN
    SELECT count(*) INTO waiting
      FROM (SELECT FROM pgtrickle.pgt_requests AS r
             WHERE r.caller_oid = role AND r.status = 'QUEUED' LIMIT quota) AS own;
    IF waiting >= quota THEN
        RAISE EXCEPTION 'the role % has % requests waiting, as many as one may', role::regrole, quota
              USING ERRCODE = 'ST606',
                    HINT = 'Wait until some are done, or take some back: '
                           'SELECT pgtrickle.cancel_request(request_id) FROM pgtrickle.requests.';
    END IF;
    RETURN true;
END
$$;

COMMENT ON FUNCTION pgtrickle.check_may_ask(role oid) IS 'Fail if a role has as many requests waiting as it may; the policy of pgt_requests asks.';

CREATE FUNCTION pgtrickle.check_may_group(sources oid[]) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF (SELECT count(*) FROM (SELECT FROM pgtrickle.pgt_watermark_groups AS g
                               WHERE g.source_relids && sources LIMIT 100) AS known) >= 100 THEN
        RAISE EXCEPTION 'sources of the watermark group are in 100 groups, as many as there may be'
              USING ERRCODE = 'ST606',
                    HINT = 'Drop one: SELECT pgtrickle.drop_watermark_group(...).';
    END IF;
    RETURN true;
END
$$;

COMMENT ON FUNCTION pgtrickle.check_may_group(sources oid[]) IS 'Fail if sources are in as many watermark groups as they may be; a policy asks.';

CREATE PROCEDURE pgtrickle.create_or_replace_stream_table(IN name text, IN query text, IN schedule text DEFAULT 'calculated'::text, IN refresh_mode text DEFAULT 'AUTO'::text, IN initialize boolean DEFAULT true, IN cdc_mode text DEFAULT NULL::text, IN max_delta_fraction double precision DEFAULT NULL::double precision, IN diamond_consistency text DEFAULT NULL::text, IN diamond_schedule_policy text DEFAULT NULL::text, IN sink text DEFAULT NULL::text, IN ducklake_sink_path text DEFAULT NULL::text, IN ducklake_table text DEFAULT NULL::text, IN ducklake_partition_by text DEFAULT NULL::text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('create_or_replace_stream_table', pg_catalog.jsonb_build_object(
        'name', create_or_replace_stream_table.name,
        'query', create_or_replace_stream_table.query,
        'schedule', create_or_replace_stream_table.schedule,
        'refresh_mode', create_or_replace_stream_table.refresh_mode,
        'initialize', create_or_replace_stream_table.initialize,
        'cdc_mode', create_or_replace_stream_table.cdc_mode,
        'max_delta_fraction', create_or_replace_stream_table.max_delta_fraction,
        'diamond_consistency', create_or_replace_stream_table.diamond_consistency,
        'diamond_schedule_policy', create_or_replace_stream_table.diamond_schedule_policy,
        'sink', create_or_replace_stream_table.sink,
        'ducklake_sink_path', create_or_replace_stream_table.ducklake_sink_path,
        'ducklake_table', create_or_replace_stream_table.ducklake_table,
        'ducklake_partition_by', create_or_replace_stream_table.ducklake_partition_by), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_or_replace_stream_table(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN initialize boolean, IN cdc_mode text, IN max_delta_fraction double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) IS 'Create a stream table, or alter the one of this name so that it is like this; what is not said of it stays.';

CREATE PROCEDURE pgtrickle.create_refresh_group(IN group_name text, IN members text[], IN isolation text DEFAULT NULL::text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('create_refresh_group', pg_catalog.jsonb_build_object(
        'group_name', create_refresh_group.group_name,
        'names', create_refresh_group.members,
        'isolation', create_refresh_group.isolation), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_refresh_group(IN group_name text, IN members text[], IN isolation text, INOUT result jsonb) IS 'Put stream tables into a group: they are refreshed at one moment and committed together; with read_committed, each on its own.';

CREATE PROCEDURE pgtrickle.create_stream_table(IN name text, IN query text, IN schedule text DEFAULT 'calculated'::text, IN refresh_mode text DEFAULT 'AUTO'::text, IN initialize boolean DEFAULT true, IN cdc_mode text DEFAULT NULL::text, IN max_delta_fraction double precision DEFAULT NULL::double precision, IN diamond_consistency text DEFAULT NULL::text, IN diamond_schedule_policy text DEFAULT NULL::text, IN sink text DEFAULT NULL::text, IN ducklake_sink_path text DEFAULT NULL::text, IN ducklake_table text DEFAULT NULL::text, IN ducklake_partition_by text DEFAULT NULL::text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('create_stream_table', pg_catalog.jsonb_build_object(
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
        'ducklake_partition_by', create_stream_table.ducklake_partition_by), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_stream_table(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN initialize boolean, IN cdc_mode text, IN max_delta_fraction double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) IS 'Create a stream table and, unless initialize is false, load it. With the sink ''ducklake'' it has a copy in the lake.';

CREATE PROCEDURE pgtrickle.create_stream_table_if_not_exists(IN name text, IN query text, IN schedule text DEFAULT 'calculated'::text, IN refresh_mode text DEFAULT 'AUTO'::text, IN initialize boolean DEFAULT true, IN cdc_mode text DEFAULT NULL::text, IN max_delta_fraction double precision DEFAULT NULL::double precision, IN diamond_consistency text DEFAULT NULL::text, IN diamond_schedule_policy text DEFAULT NULL::text, IN sink text DEFAULT NULL::text, IN ducklake_sink_path text DEFAULT NULL::text, IN ducklake_table text DEFAULT NULL::text, IN ducklake_partition_by text DEFAULT NULL::text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('create_stream_table_if_not_exists', pg_catalog.jsonb_build_object(
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
        'ducklake_partition_by', create_stream_table_if_not_exists.ducklake_partition_by), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_stream_table_if_not_exists(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN initialize boolean, IN cdc_mode text, IN max_delta_fraction double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) IS 'The same, unless there is one of this name: that stays as it is.';

CREATE FUNCTION pgtrickle.create_watermark_group(group_name text, sources regclass[], tolerance_secs double precision DEFAULT 0) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    members oid[] := ARRAY(SELECT DISTINCT one::oid FROM unnest(sources) AS one WHERE one IS NOT NULL);
    made    bigint;
BEGIN
    IF cardinality(members) < 2 OR tolerance_secs IS NULL OR NOT tolerance_secs >= 0 THEN
        RAISE EXCEPTION 'the watermark group "%" needs two sources and a tolerance of 0 or more',
              create_watermark_group.group_name
              USING ERRCODE = 'ST501', HINT = 'Name at least two different sources.';
    END IF;
    PERFORM pgtrickle.check_may_act_on(members);
    -- A group of somebody else may have the name and not be seen.
    INSERT INTO pgtrickle.pgt_watermark_groups AS g (group_name, source_relids, tolerance_secs)
    VALUES (create_watermark_group.group_name, members, create_watermark_group.tolerance_secs)
    RETURNING g.group_id INTO made;
    RETURN made;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'the watermark group "%" already exists', create_watermark_group.group_name
          USING ERRCODE = 'ST501', HINT = 'Drop it first, or choose another name.';
END
$$;

COMMENT ON FUNCTION pgtrickle.create_watermark_group(group_name text, sources regclass[], tolerance_secs double precision) IS 'Let what reads several of these sources wait until their watermarks agree, up to a tolerance.';

CREATE FUNCTION pgtrickle.daemons() RETURNS TABLE(daemon text, leads boolean, started_at timestamp with time zone, seen_at timestamp with time zone)
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT d.daemon,
           EXISTS (SELECT FROM pgtrickle.pgt_leader AS l
                    WHERE l.owner = d.daemon AND l.expires_at > clock_timestamp()),
           d.started_at, d.seen_at
      FROM pgtrickle.pgt_daemons AS d
     WHERE d.seen_at > clock_timestamp() - interval '10 seconds'
     ORDER BY 2 DESC, d.started_at, d.daemon
$$;

COMMENT ON FUNCTION pgtrickle.daemons() IS 'The daemons that live, the one that leads first; the others stand by to take over.';

CREATE FUNCTION pgtrickle.dependency_tree() RETURNS TABLE(tree_line text, node text, node_type text, depth integer, status text, refresh_mode text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.dependency_tree() IS 'What stream tables read, as a tree: each stands above its sources.';

CREATE FUNCTION pgtrickle.describe_api() RETURNS TABLE(object text, definition text)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT pg_describe_object('pg_proc'::regclass, p.oid, 0),
           md5(concat_ws(chr(1), pg_get_functiondef(p.oid), p.proowner, p.proacl::text,
                         obj_description(p.oid, 'pg_proc')))
      FROM pg_proc AS p WHERE p.pronamespace = 'pgtrickle'::regnamespace
     UNION ALL
    SELECT pg_describe_object('pg_class'::regclass, c.oid, 0),
           md5(concat_ws(chr(1), CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid) END, c.relowner,
                         c.relacl::text, c.reloptions, obj_description(c.oid, 'pg_class')))
      FROM pg_class AS c
     WHERE c.relnamespace = 'pgtrickle'::regnamespace AND c.relkind IN ('r', 'v')
     UNION ALL
    SELECT pg_describe_object('pg_trigger'::regclass, t.oid, 0),
           md5(concat_ws(chr(1), pg_get_triggerdef(t.oid), t.tgenabled))
      FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'pgtrickle'::regnamespace AND NOT t.tgisinternal
     UNION ALL
    SELECT pg_describe_object('pg_policy'::regclass, p.oid, 0),
           md5(concat_ws(chr(1), p.polcmd, p.polpermissive, p.polroles,
                         pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)))
      FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
     WHERE c.relnamespace = 'pgtrickle'::regnamespace
$$;

COMMENT ON FUNCTION pgtrickle.describe_api() IS 'Everything in the catalog that runs, and a hash of each.';

CREATE FUNCTION pgtrickle.describe_files(relation oid) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE WHEN count(*) = 1 THEN min(c.relfilenode::text)
                ELSE md5(string_agg(c.oid || ':' || c.relfilenode, ',' ORDER BY c.oid)) END
      FROM pgtrickle.list_members(relation) AS member
      JOIN pg_class AS c ON c.oid = member
$$;

COMMENT ON FUNCTION pgtrickle.describe_files(relation oid) IS 'Which files store a relation and its members: others mean that rows were written anew.';

CREATE FUNCTION pgtrickle.describe_layout(relation oid) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT md5(string_agg(
               c.oid || ':' || c.relfilenode || ':' || (
                   SELECT string_agg(a.attnum || ' ' || a.atttypid, ',' ORDER BY a.attnum)
                     FROM pg_attribute AS a
                    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
               ), ';' ORDER BY c.oid))
      FROM pgtrickle.list_members(relation) AS member
      JOIN pg_class AS c ON c.oid = member
$$;

COMMENT ON FUNCTION pgtrickle.describe_layout(relation oid) IS 'The files and column numbers for which the capture functions of a relation are written.';

CREATE FUNCTION pgtrickle.describe_source(relation oid, columns_used text[]) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    source     pg_class%ROWTYPE;
    columns    text;
    types      oid[];
    found_text text;
    described  text;
BEGIN
    SELECT c.* INTO source FROM pg_class AS c WHERE c.oid = relation;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF source.relkind = 'v' THEN
        SELECT 'definition=' || md5(v.ev_action::text) INTO described
          FROM pg_rewrite AS v WHERE v.ev_class = relation AND v.rulename = '_RETURN';
        RETURN described;
    END IF;
    -- NOT NULL and defaults are left out on purpose: they do not change what a stored row means.
    SELECT string_agg(concat_ws(' ', a.attnum, quote_ident(a.attname), a.atttypid, a.atttypmod,
                                a.attcollation), ',' ORDER BY a.attnum),
           array_agg(a.atttypid) FILTER (WHERE a.atttypid >= 16384)
      INTO columns, types
      FROM pg_attribute AS a
     WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
       AND a.attname = ANY (columns_used);
    described := 'columns=' || md5(coalesce(columns, ''));
    IF types IS NOT NULL THEN
        described := described || ' types=' || pgtrickle.describe_types(types);
    END IF;
    IF source.relrowsecurity THEN
        SELECT md5(string_agg(concat_ws(chr(1), p.polname, p.polcmd, p.polpermissive, p.polroles,
                                        p.polqual, p.polwithcheck), chr(2) ORDER BY p.oid))
          INTO found_text FROM pg_policy AS p WHERE p.polrelid = relation;
        described := described || ' policies=' || source.relforcerowsecurity
                     || coalesce(found_text, '');
    END IF;
    IF source.relhassubclass OR source.relispartition THEN
        SELECT md5(string_agg(member::text, ',' ORDER BY member)) INTO found_text
          FROM pgtrickle.list_members(relation) AS member;
        described := described || ' partitions=' || found_text;
    END IF;
    IF source.relpersistence = 'u' OR (source.relhassubclass AND EXISTS (
           SELECT FROM pgtrickle.list_members(relation) AS member
             JOIN pg_class AS c ON c.oid = member AND c.relpersistence = 'u')) THEN
        described := described || ' unlogged=yes';
    END IF;
    IF EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = relation AND NOT i.inhdetachpending)
    THEN
        described := described || ' parent=yes';
    END IF;
    IF EXISTS (SELECT FROM pgtrickle.list_members(relation) AS member
                 JOIN pg_subscription_rel AS s ON s.srrelid = member) THEN
        described := described || ' replication=yes';
    END IF;
    RETURN described;
END
$$;

COMMENT ON FUNCTION pgtrickle.describe_source(relation oid, columns_used text[]) IS 'What a stream table relies on in a source, as parts with a hash each; NULL if it is gone.';

CREATE FUNCTION pgtrickle.describe_stream_table(stream_table bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    ours   CONSTANT text := 'pgtrickle stream table';
    one    record;
    wanted text;
BEGIN
    SELECT s.pgt_relid::regclass AS relation, s.schedule, obj_description(c.oid, 'pg_class') AS current,
           btrim(regexp_replace(s.original_query, '\s+', ' ', 'g')) AS query
      INTO one
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pg_class AS c ON c.oid = s.pgt_relid
     WHERE s.pgt_id = stream_table AND s.pgt_schema <> 'pgtrickle_state';
    wanted := format('%s, schedule %s, query: %s', ours, one.schedule,
                     CASE WHEN length(one.query) > 1000 THEN left(one.query, 997) || '...'
                          ELSE one.query END);
    -- What somebody wrote himself stays.
    IF FOUND AND wanted IS DISTINCT FROM one.current
       AND (one.current IS NULL OR starts_with(one.current, ours)) THEN
        EXECUTE format('COMMENT ON TABLE %s IS %L', one.relation, wanted);
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.describe_stream_table(stream_table bigint) IS 'Let the comment of a stream table name its schedule and its query, unless somebody wrote another.';

CREATE FUNCTION pgtrickle.describe_types(types oid[]) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    -- With the types they consist of; PostgreSQL's own do not change.
    WITH RECURSIVE used (type) AS (
        SELECT unnest(types)
         UNION
        SELECT part.type
          FROM used JOIN pg_type AS t ON t.oid = used.type AND t.oid >= 16384,
       LATERAL (SELECT t.typelem UNION ALL SELECT t.typbasetype
                UNION ALL SELECT r.rngsubtype FROM pg_range AS r WHERE r.rngtypid = t.oid
                UNION ALL SELECT a.atttypid FROM pg_attribute AS a
                           WHERE a.attrelid = t.typrelid AND a.attnum > 0) AS part (type)
    )
    SELECT md5(string_agg(concat_ws(chr(1),
               t.oid, t.typname, t.typtype, t.typbasetype, t.typtypmod, t.typnotnull,
               (SELECT string_agg(e.enumlabel, chr(2) ORDER BY e.enumsortorder)
                  FROM pg_enum AS e WHERE e.enumtypid = t.oid),
               (SELECT string_agg(pg_get_constraintdef(k.oid), chr(2) ORDER BY k.oid)
                  FROM pg_constraint AS k WHERE k.contypid = t.oid),
               (SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod),
                                  chr(2) ORDER BY a.attnum)
                  FROM pg_attribute AS a
                 WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
           ), chr(3) ORDER BY t.oid))
      FROM used JOIN pg_type AS t ON t.oid = used.type AND t.oid >= 16384
$$;

COMMENT ON FUNCTION pgtrickle.describe_types(types oid[]) IS 'A hash over the definitions of user-defined types; NULL if there are none.';

CREATE PROCEDURE pgtrickle.detach_ducklake_table(IN name text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('detach_ducklake_table', pg_catalog.jsonb_build_object(
        'name', detach_ducklake_table.name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.detach_ducklake_table(IN name text, INOUT result jsonb) IS 'Follow a table of the lake no longer, and drop its rows; no stream table may read it.';

CREATE PROCEDURE pgtrickle.diagnose_errors(IN name text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('diagnose_errors', pg_catalog.jsonb_build_object(
        'name', diagnose_errors.name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.diagnose_errors(IN name text, INOUT result jsonb) IS 'The latest errors of a stream table, what each means and what to do.';

CREATE PROCEDURE pgtrickle.diamond_groups(INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(
        'diamond_groups', pg_catalog.jsonb_build_object(), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.diamond_groups(INOUT result jsonb) IS 'Which stream tables are refreshed together, in which order, and whether with the fastest or the slowest.';

CREATE PROCEDURE pgtrickle.drain(IN timeout_s double precision DEFAULT 60, INOUT result boolean DEFAULT NULL::boolean)
    LANGUAGE plpgsql
    AS $$
DECLARE
    began   pg_catalog.timestamptz := pg_catalog.clock_timestamp();
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.find_transaction_block(failure);
    IF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code,
              MESSAGE = 'the scheduler cannot be drained in a transaction block',
              DETAIL = 'The scheduler sees that only when it has been committed.',
              HINT = 'COMMIT or ROLLBACK first, then CALL.';
    END IF;
    INSERT INTO pgtrickle.pgt_scheduler_pauses (pgt_id) VALUES (NULL) ON CONFLICT DO NOTHING;
    LOOP
        COMMIT;
        result := pgtrickle.is_drained();
        EXIT WHEN result OR pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) began
            OPERATOR(pg_catalog.>=) pg_catalog.make_interval(secs => timeout_s);
        PERFORM pg_catalog.pg_sleep(0.1);
    END LOOP;
END
$$;

COMMENT ON PROCEDURE pgtrickle.drain(IN timeout_s double precision, INOUT result boolean) IS 'Let the scheduler begin nothing more, and wait for what is in flight; false if that takes longer than the timeout.';

CREATE PROCEDURE pgtrickle.drop_refresh_group(IN group_name text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('drop_refresh_group', pg_catalog.jsonb_build_object(
        'group_name', drop_refresh_group.group_name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.drop_refresh_group(IN group_name text, INOUT result jsonb) IS 'Forget a refresh group.';

CREATE PROCEDURE pgtrickle.drop_stream_table(IN name text, IN cascade boolean DEFAULT false, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('drop_stream_table', pg_catalog.jsonb_build_object(
        'name', drop_stream_table.name,
        'cascade', drop_stream_table.cascade), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.drop_stream_table(IN name text, IN cascade boolean, INOUT result jsonb) IS 'Drop a stream table; with cascade also what reads it.';

CREATE FUNCTION pgtrickle.drop_watermark_group(group_name text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO pgtrickle.acts (act, name)
    VALUES ('drop_watermark_group', drop_watermark_group.group_name);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no watermark group "%" of sources that you own',
              left(drop_watermark_group.group_name, 255)
              USING ERRCODE = 'ST501',
                    HINT = 'List them with: SELECT * FROM pgtrickle.watermark_status().';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.drop_watermark_group(group_name text) IS 'Forget a watermark group.';

CREATE FUNCTION pgtrickle.ducklake_catalogs() RETURNS TABLE(catalog_schema text, data_path text, sinks bigint, sources bigint, attach text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
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
$_$;

COMMENT ON FUNCTION pgtrickle.ducklake_catalogs() IS 'Where the catalogs of lakes are, and the line with which DuckDB attaches each; add the host.';

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE pgtrickle.pgt_ducklake_sink_delivery (
    delivery_id bigint NOT NULL,
    stream_table_id bigint NOT NULL,
    refresh_id bigint,
    status text NOT NULL,
    attempt_count integer DEFAULT 0 NOT NULL,
    bytes_written bigint DEFAULT 0 NOT NULL,
    rows_written bigint DEFAULT 0 NOT NULL,
    rows_deleted bigint DEFAULT 0 NOT NULL,
    snapshot_id bigint,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    next_attempt_at timestamp with time zone,
    last_error text,
    failing_since timestamp with time zone,
    last_hint text,
    lasting_failures integer DEFAULT 0 NOT NULL,
    CONSTRAINT pgt_ducklake_sink_delivery_status_is_known CHECK ((status = ANY (ARRAY['PENDING'::text, 'WRITING'::text, 'DELIVERED'::text, 'FAILED_RETRYABLE'::text, 'FAILED_PERMANENT'::text])))
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_sink_delivery IS 'Each delivery to the lake; one that failed stays open, and the next delivers for it too.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sink_delivery.failing_since IS 'When the first attempt failed.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sink_delivery.last_hint IS 'What to do about the last error.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sink_delivery.lasting_failures IS 'How many of the last attempts failed for a reason that does not pass by itself.';

CREATE TABLE pgtrickle.pgt_ducklake_sinks (
    pgt_id bigint NOT NULL,
    catalog_schema text NOT NULL,
    lake_schema text NOT NULL,
    lake_table text NOT NULL,
    sink_path text,
    table_id bigint,
    view_id bigint,
    snapshot_id bigint,
    home text,
    needs_load boolean DEFAULT true NOT NULL,
    maintained_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    partition_by text,
    catalog_dsn text DEFAULT ''::text NOT NULL,
    data_path text
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_sinks IS 'Which stream tables are copied into which tables of a DuckLake catalog.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.snapshot_id IS 'Up to this snapshot of the lake, nobody else has written to the lake table.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.home IS 'Cluster, database and file of the stream table at the last delivery; in another file, rows have other places.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.needs_load IS 'Whether the next delivery writes all rows instead of the difference.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.maintained_at IS 'When a daemon last began to merge the small files of the copy and to remove what nobody needs.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.partition_by IS 'The partition keys of the lake table as the user listed them; NULL: it has none.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.catalog_dsn IS 'In which database the catalog is, as the setting ducklake_catalog_dsn said it, with ${ENV:NAME} in place of secrets; empty: in this one.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.data_path IS 'The data path of the lake when the sink was turned on, below which its files lie; NULL: it is taken down with the next delivery.';

CREATE TABLE pgtrickle.pgt_stream_tables (
    pgt_id bigint NOT NULL,
    pgt_relid oid NOT NULL,
    pgt_schema text NOT NULL,
    pgt_name text NOT NULL,
    defining_query text NOT NULL,
    original_query text NOT NULL,
    query_search_path text NOT NULL,
    schedule text NOT NULL,
    refresh_mode text NOT NULL,
    effective_refresh_mode text NOT NULL,
    downgrade_reason text,
    status text DEFAULT 'INITIALIZING'::text NOT NULL,
    is_populated boolean DEFAULT false NOT NULL,
    needs_reinit boolean DEFAULT false NOT NULL,
    frontier jsonb,
    data_timestamp timestamp with time zone,
    last_refresh_at timestamp with time zone,
    consecutive_errors integer DEFAULT 0 NOT NULL,
    last_error_message text,
    last_error_at timestamp with time zone,
    plan jsonb,
    owner_role text DEFAULT CURRENT_USER NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    max_delta_fraction double precision,
    function_hashes jsonb DEFAULT '{}'::jsonb NOT NULL,
    requested_cdc_mode text,
    diamond_consistency text,
    diamond_schedule_policy text,
    tier text DEFAULT 'hot'::text NOT NULL,
    fuse text DEFAULT 'off'::text NOT NULL,
    fuse_ceiling bigint,
    fuse_sensitivity double precision,
    fuse_blown_at timestamp with time zone,
    fuse_reason text,
    fuse_bridged boolean DEFAULT false NOT NULL,
    measured_since bigint DEFAULT 0 NOT NULL,
    scc_id bigint,
    last_fixpoint_iterations integer,
    bound jsonb,
    errors_since timestamp with time zone,
    suspended_by text,
    former_names jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT pgt_stream_tables_diamond_consistency_is_known CHECK ((diamond_consistency = ANY (ARRAY['atomic'::text, 'none'::text]))),
    CONSTRAINT pgt_stream_tables_diamond_schedule_policy_is_known CHECK ((diamond_schedule_policy = ANY (ARRAY['fastest'::text, 'slowest'::text]))),
    CONSTRAINT pgt_stream_tables_effective_refresh_mode_known CHECK ((effective_refresh_mode = ANY (ARRAY['AUTO'::text, 'DIFFERENTIAL'::text, 'FULL'::text, 'IMMEDIATE'::text]))),
    CONSTRAINT pgt_stream_tables_errors_not_negative CHECK ((consecutive_errors >= 0)),
    CONSTRAINT pgt_stream_tables_fuse_ceiling_positive CHECK ((fuse_ceiling > 0)),
    CONSTRAINT pgt_stream_tables_fuse_is_known CHECK ((fuse = ANY (ARRAY['off'::text, 'on'::text, 'auto'::text]))),
    CONSTRAINT pgt_stream_tables_fuse_sensitivity_above_one CHECK ((fuse_sensitivity > (1)::double precision)),
    CONSTRAINT pgt_stream_tables_max_delta_fraction_is_a_fraction CHECK (((max_delta_fraction >= (0)::double precision) AND (max_delta_fraction <= (1)::double precision))),
    CONSTRAINT pgt_stream_tables_populated_has_frontier CHECK (((frontier IS NOT NULL) OR (NOT is_populated))),
    CONSTRAINT pgt_stream_tables_refresh_mode_known CHECK ((refresh_mode = ANY (ARRAY['AUTO'::text, 'DIFFERENTIAL'::text, 'FULL'::text, 'IMMEDIATE'::text]))),
    CONSTRAINT pgt_stream_tables_requested_cdc_mode_known CHECK ((requested_cdc_mode = ANY (ARRAY['TRIGGER'::text, 'WAL'::text, 'AUTO'::text]))),
    CONSTRAINT pgt_stream_tables_status_known CHECK ((status = ANY (ARRAY['INITIALIZING'::text, 'ACTIVE'::text, 'SUSPENDED'::text, 'ERROR'::text]))),
    CONSTRAINT pgt_stream_tables_tier_is_known CHECK ((tier = ANY (ARRAY['hot'::text, 'warm'::text, 'cold'::text, 'frozen'::text])))
);

COMMENT ON TABLE pgtrickle.pgt_stream_tables IS 'Every stream table: its query, how it is maintained, and the frontier it has reached.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.max_delta_fraction IS 'Share of changed rows above which AUTO recomputes in full; NULL: the setting decides.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.function_hashes IS 'The functions of users that the query calls: name and hash by oid.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.requested_cdc_mode IS 'How its sources are to be captured; NULL: the setting cdc_mode decides.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.diamond_consistency IS 'Whether the paths that meet in this stream table are refreshed together; NULL: atomic.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.diamond_schedule_policy IS 'Whether its group is due with its first member or its last; NULL: fastest.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.tier IS 'A factor on the schedule: hot 1, warm 2, cold 10; frozen is refreshed by hand alone.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.fuse IS 'off; on: blows above the ceiling; auto: also above what is usual, times the sensitivity.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.fuse_bridged IS 'The next refresh passes whatever it finds: someone has looked and decided.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.measured_since IS 'The last refresh of an earlier query: nothing is learned from it or those before.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.scc_id IS 'The circle that it belongs to: the least pgt_id of its members; NULL: none.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.last_fixpoint_iterations IS 'How many rounds the latest refresh of its circle took that had anything to do.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.bound IS 'The relations, functions, operators, types and collations that defining_query names, with their owners; NULL until it is compiled for the first time by a version that keeps this.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.errors_since IS 'When the first of consecutive_errors happened; says nothing if there are none.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.suspended_by IS 'The code of the error that suspended it, until it works again; NULL if somebody did.';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.former_names IS 'The names that it had before, the latest first: who asks for one of them is told the new one.';

CREATE FUNCTION pgtrickle.ducklake_sink_status() RETURNS TABLE(stream_table text, lake_table text, status text, attempt_count integer, snapshot_id bigint, last_delivered_at timestamp with time zone, next_attempt_at timestamp with time zone, deliveries bigint, rows_written bigint, rows_deleted bigint, bytes_written bigint, last_error text, failing_since timestamp with time zone, remedy text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    BEGIN ATOMIC
 SELECT format('%I.%I'::text, t.pgt_schema, t.pgt_name) AS format,
     format('%I.%I'::text, s.lake_schema, s.lake_table) AS format,
     COALESCE(o.status,
         CASE
             WHEN (d.deliveries > 0) THEN 'DELIVERED'::text
             ELSE 'PENDING'::text
         END) AS "coalesce",
     COALESCE(o.attempt_count, 0) AS "coalesce",
     d.snapshot_id,
     d.last_delivered_at,
     o.next_attempt_at,
     d.deliveries,
     d.rows_written,
     d.rows_deleted,
     d.bytes_written,
     o.last_error,
     o.failing_since,
         CASE o.status
             WHEN 'FAILED_RETRYABLE'::text THEN concat_ws(' '::text, NULLIF(o.last_hint, ''::text), 'It is tried again by itself.')
             WHEN 'FAILED_PERMANENT'::text THEN concat_ws(' '::text, NULLIF(o.last_hint, ''::text), format('Then run: pgtrickle sink retry %I.%I.'::text, t.pgt_schema, t.pgt_name))
             ELSE NULL::text
         END AS "case"
    FROM (((pgtrickle.pgt_ducklake_sinks s
      JOIN pgtrickle.pgt_stream_tables t USING (pgt_id))
      LEFT JOIN pgtrickle.pgt_ducklake_sink_delivery o ON (((o.stream_table_id = s.pgt_id) AND (o.status <> 'DELIVERED'::text))))
      CROSS JOIN LATERAL ( SELECT max(p.finished_at) AS last_delivered_at,
             count(*) AS deliveries,
             max(p.snapshot_id) AS snapshot_id,
             (COALESCE(sum(p.rows_written), (0)::numeric))::bigint AS rows_written,
             (COALESCE(sum(p.rows_deleted), (0)::numeric))::bigint AS rows_deleted,
             (COALESCE(sum(p.bytes_written), (0)::numeric))::bigint AS bytes_written
            FROM pgtrickle.pgt_ducklake_sink_delivery p
           WHERE ((p.stream_table_id = s.pgt_id) AND (p.status = 'DELIVERED'::text))) d)
   ORDER BY (format('%I.%I'::text, t.pgt_schema, t.pgt_name));
END;

COMMENT ON FUNCTION pgtrickle.ducklake_sink_status() IS 'Each sink: whether the lake is up to date, what has been delivered, what went wrong last, since
when, and what to do about it.';

CREATE TABLE pgtrickle.pgt_ducklake_sources (
    source_id bigint NOT NULL,
    landing_schema text NOT NULL,
    landing_name text NOT NULL,
    catalog_schema text NOT NULL,
    lake_schema text NOT NULL,
    lake_table text NOT NULL,
    table_id bigint NOT NULL,
    table_uuid text NOT NULL,
    columns jsonb NOT NULL,
    compaction_policy text NOT NULL,
    snapshot_id bigint NOT NULL,
    followed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    failed_at timestamp with time zone,
    last_error text,
    data_path text,
    CONSTRAINT pgt_ducklake_sources_policy_is_known CHECK ((compaction_policy = ANY (ARRAY['fallback'::text, 'error'::text])))
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_sources IS 'Which tables of a DuckLake catalog in this database are followed, and how far; their rows are in the table landed_<source_id> of pgtrickle_state.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sources.landing_name IS 'The view under which queries read the rows.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sources.columns IS 'The columns that are followed: id, name and kind of each, as the catalog of the lake has them.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sources.snapshot_id IS 'The snapshot of the lake whose rows are held; it changes in one transaction with them.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sources.data_path IS 'The data path of the lake when the table was attached, below which its files lie; NULL: it is taken down when it is followed next.';

CREATE FUNCTION pgtrickle.ducklake_sources() RETURNS TABLE(landing text, lake_table text, catalog_schema text, columns text[], compaction_policy text, snapshot_id bigint, followed_at timestamp with time zone, last_error text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    BEGIN ATOMIC
 SELECT format('%I.%I'::text, s.landing_schema, s.landing_name) AS format,
     format('%I.%I'::text, s.lake_schema, s.lake_table) AS format,
     s.catalog_schema,
     ARRAY( SELECT (c.value ->> 'name'::text)
            FROM jsonb_array_elements(s.columns) WITH ORDINALITY c(value, place)
           ORDER BY c.place) AS "array",
     s.compaction_policy,
     s.snapshot_id,
     s.followed_at,
     s.last_error
    FROM pgtrickle.pgt_ducklake_sources s
   ORDER BY (format('%I.%I'::text, s.landing_schema, s.landing_name));
END;

COMMENT ON FUNCTION pgtrickle.ducklake_sources() IS 'Each lake table that is followed: under which name, up to which snapshot, what went wrong last.';

CREATE PROCEDURE pgtrickle.explain(IN name text)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
    answer  pg_catalog.jsonb;
BEGIN
    CALL pgtrickle.await_request('explain_stream_table', pg_catalog.jsonb_build_object(
        'name', explain.name, 'format', 'text'), answer, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
    -- The text of a JSON string.
    RAISE INFO USING MESSAGE = pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0;
END
$$;

COMMENT ON PROCEDURE pgtrickle.explain(IN name text) IS 'Print how a stream table is maintained, as a message: in psql, line by line.';

CREATE FUNCTION pgtrickle.explain_dag(format text DEFAULT 'mermaid'::text) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.explain_dag(format text) IS 'The graph of sources and stream tables, drawn as mermaid or dot.';

CREATE PROCEDURE pgtrickle.explain_delta(IN name text, INOUT result text DEFAULT NULL::text)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
    answer pg_catalog.jsonb;
BEGIN
    CALL pgtrickle.await_request('explain_delta', pg_catalog.jsonb_build_object(
        'name', explain_delta.name), answer, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
    -- The text of a JSON string.
    result := pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0;
END
$$;

COMMENT ON PROCEDURE pgtrickle.explain_delta(IN name text, INOUT result text) IS 'The statements by which the engine computes a change of a stream table.';

CREATE PROCEDURE pgtrickle.explain_query_rewrite(IN query text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('explain_query_rewrite', pg_catalog.jsonb_build_object(
        'query', explain_query_rewrite.query), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.explain_query_rewrite(IN query text, INOUT result jsonb) IS 'What each pass makes of a query: as PostgreSQL binds it, as algebra, as stages.';

CREATE FUNCTION pgtrickle.explain_refresh_mode(name text, schemas name[] DEFAULT current_schemas(false)) RETURNS TABLE(configured_mode text, effective_mode text, downgrade_reason text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT s.refresh_mode, s.effective_refresh_mode, s.downgrade_reason
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_id = pgtrickle.find_stream_table($1, $2)
$_$;

COMMENT ON FUNCTION pgtrickle.explain_refresh_mode(name text, schemas name[]) IS 'How a stream table is to be maintained, how it can be, and why not otherwise.';

CREATE FUNCTION pgtrickle.explain_st(name text, schemas name[] DEFAULT current_schemas(false)) RETURNS TABLE(property text, value text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.explain_st(name text, schemas name[]) IS 'Everything about one stream table in rows: query, mode, sources, state, frontier, its last 100 refreshes.';

CREATE PROCEDURE pgtrickle.explain_stream_table(IN name text, IN format text DEFAULT 'text'::text, INOUT result text DEFAULT NULL::text)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
    answer pg_catalog.jsonb;
BEGIN
    CALL pgtrickle.await_request('explain_stream_table', pg_catalog.jsonb_build_object(
        'name', explain_stream_table.name,
        'format', explain_stream_table.format), answer, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
    -- The text of a JSON string.
    result := pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0;
END
$$;

COMMENT ON PROCEDURE pgtrickle.explain_stream_table(IN name text, IN format text, INOUT result text) IS 'Show how a stream table is maintained: as text, json or dot.';

CREATE FUNCTION pgtrickle.export_definition(name text, schemas name[] DEFAULT current_schemas(false)) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT format(E'SET search_path = %s;\n'
                  'CALL pgtrickle.create_or_replace_stream_table(%L, %L, schedule => %L, refresh_mode => %L%s%s%s%s%s%s%s);\n'
                  'CALL pgtrickle.alter_stream_table(%L, tier => %L, max_delta_fraction => %L, fuse => %L%s%s);\n',
                  coalesce(nullif(spec ->> 'search_path', ''), ''''''), spec ->> 'name',
                  spec ->> 'query', spec ->> 'schedule', spec ->> 'refresh_mode',
                  ', cdc_mode => ' || quote_literal(spec ->> 'cdc_mode'),
                  ', diamond_consistency => ' || quote_literal(spec ->> 'diamond_consistency'),
                  ', diamond_schedule_policy => ' || quote_literal(spec ->> 'diamond_schedule_policy'),
                  ', sink => ' || quote_literal(spec ->> 'sink'),
                  ', ducklake_table => ' || quote_literal(spec ->> 'ducklake_table'),
                  ', ducklake_sink_path => ' || quote_literal(spec ->> 'ducklake_sink_path'),
                  ', ducklake_partition_by => ' || quote_literal(spec ->> 'ducklake_partition_by'),
                  spec ->> 'name', spec ->> 'tier', coalesce(spec ->> 'max_delta_fraction', 'default'),
                  spec ->> 'fuse', ', fuse_ceiling => ' || (spec ->> 'fuse_ceiling'),
                  ', fuse_sensitivity => ' || (spec ->> 'fuse_sensitivity'))
      FROM pgtrickle.stream_table_spec($1, $2) AS spec
$_$;

COMMENT ON FUNCTION pgtrickle.export_definition(name text, schemas name[]) IS 'The statements that create a stream table, in this database or another, or make it like this again.';

CREATE FUNCTION pgtrickle.find_base_type(type oid) RETURNS oid
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    base oid;
BEGIN
    LOOP
        SELECT t.typbasetype INTO base FROM pg_type AS t WHERE t.oid = type AND t.typtype = 'd';
        EXIT WHEN base IS NULL;
        type := base;
    END LOOP;
    RETURN type;
END
$$;

COMMENT ON FUNCTION pgtrickle.find_base_type(type oid) IS 'What a domain is based on in the end.';

CREATE FUNCTION pgtrickle.find_failing_sinks() RETURNS TABLE(stream_table text, lasting boolean, detail text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.find_failing_sinks() IS 'Copies in the lake whose last delivery failed: since when, how often, what to do about it.';

CREATE FUNCTION pgtrickle.find_idle(stream_tables bigint[], compare_shapes bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '100ms'
    AS $_$
DECLARE
    source   record;
    buffer   regclass;
    settled  regclass;
    relation text;
    stirred  boolean;
    unseen   bigint[];
    seen     bigint[] := '{}';
    busy     bigint[] := '{}';
BEGIN
    FOR source IN
        WITH wanted AS MATERIALIZED (
            SELECT s.pgt_id, s.plan -> 'files' AS files,
                   s.pgt_id IN (SELECT unnest(compare_shapes)) AS compare,
                   (s.frontier #>> '{pg,snapshot}')::pg_snapshot AS snapshot
              FROM pgtrickle.pgt_stream_tables AS s
             WHERE s.pgt_id = ANY (stream_tables)
               AND s.status = 'ACTIVE' AND s.is_populated AND NOT s.needs_reinit
               AND s.consecutive_errors = 0
               AND (s.function_hashes = '{}'
                    OR s.function_hashes = pgtrickle.hash_functions(s.function_hashes))
               AND s.owner_role IN (SELECT r.rolname FROM pg_roles AS r
                                     WHERE pg_has_role(r.oid, 'USAGE'))
               AND s.frontier #>> '{pg,system_identifier}'
                   = (SELECT c.system_identifier::text FROM pg_control_system() AS c)
               AND s.frontier #>> '{pg,database_oid}'
                   = (SELECT b.oid::text FROM pg_database AS b WHERE b.datname = current_database())
               AND s.pgt_id NOT IN (SELECT l.pgt_id FROM pgtrickle.pgt_leases AS l
                                     WHERE l.expires_at > clock_timestamp())
        ), reads AS (
            -- The shape is NULL where the source is gone or was stored anew.  Subqueries and not
            -- joins: their cost cannot be misjudged.
            SELECT w.pgt_id, w.snapshot, d.source_relid, d.source_type = 'VIEW' AS is_view,
                   d.schema_fingerprint,
                   CASE WHEN d.source_type = 'VIEW'
                        THEN pgtrickle.describe_source(d.source_relid, d.columns_used)
                        -- What has no triggers is compared by the refresh.
                        WHEN d.source_type IN ('MATVIEW', 'FOREIGN_TABLE') THEN NULL
                        WHEN (SELECT w.files IS NULL
                                     OR w.files ->> c.oid::text
                                        = CASE WHEN c.relhassubclass
                                               THEN pgtrickle.describe_files(c.oid)
                                               ELSE c.relfilenode::text END
                                FROM pg_class AS c WHERE c.oid = d.source_relid)
                        THEN CASE WHEN w.compare
                                  THEN pgtrickle.describe_source(d.source_relid, d.columns_used)
                                  ELSE d.schema_fingerprint END
                   END AS shape
              FROM wanted AS w
              LEFT JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = w.pgt_id
             -- A frontier ahead of the server belongs to a history that was undone.
             WHERE pg_snapshot_xmax(w.snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
        )
        SELECT source_relid AS relid, is_view, array_agg(pgt_id) AS ids,
               array_agg(snapshot) AS frontiers, min(pg_snapshot_xmax(snapshot)) AS newest,
               string_agg(nullif(split_part(snapshot::text, ':', 3), ''), ',') AS in_progress,
               array_agg(pgt_id) FILTER (WHERE shape IS DISTINCT FROM schema_fingerprint) AS moved
          FROM reads
         GROUP BY source_relid, is_view
    LOOP
        seen := seen || source.ids;
        CONTINUE WHEN source.relid IS NULL;
        busy := busy || source.moved;
        CONTINUE WHEN source.is_view;
        BEGIN
            buffer := to_regclass(format('pgtrickle_changes.changes_%s', source.relid));
            settled := to_regclass(format('pgtrickle_changes.changes_%s_settled', source.relid));
            IF buffer IS NULL OR settled IS NULL THEN
                busy := busy || source.ids;
                CONTINUE;
            END IF;
            -- A file of no pages holds no row, and this is the usual case.
            CONTINUE WHEN pg_relation_size(buffer) = 0 AND pg_relation_size(settled) = 0;
            relation := CASE WHEN pg_relation_size(settled) = 0 THEN 'ONLY ' ELSE '' END || buffer;
            -- First for all consumers together: none has changes, as a rule.  In the simplest
            -- words, because it is planned anew for each buffer.
            EXECUTE format(
                'SELECT true FROM %s WHERE __xid >= $1 OR __xid = ANY ($2) LIMIT 1', relation
            ) INTO stirred
            USING source.newest, string_to_array(source.in_progress, ',')::xid8[];
            CONTINUE WHEN stirred IS NULL;
            EXECUTE format(
                'SELECT array_agg(id) FROM unnest($1, $2) AS c (id, frontier) WHERE EXISTS ('
                'SELECT FROM %s AS b WHERE b.__xid >= pg_snapshot_xmin(c.frontier)'
                ' AND NOT pg_visible_in_snapshot(b.__xid, c.frontier))',
                relation
            ) INTO unseen USING source.ids, source.frontiers;
            busy := busy || unseen;
        EXCEPTION
            WHEN undefined_table OR lock_not_available OR insufficient_privilege THEN
                busy := busy || source.ids;
        END;
    END LOOP;
    RETURN QUERY SELECT unnest(seen) EXCEPT SELECT unnest(busy);
END
$_$;

COMMENT ON FUNCTION pgtrickle.find_idle(stream_tables bigint[], compare_shapes bigint[]) IS 'Which of these stream tables have nothing to do: no source changed since the frontier, in its
rows or its shape, and nothing else calls for a refresh.';

CREATE PROCEDURE pgtrickle.find_obstacle(INOUT failure pgtrickle.pgt_failure)
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT pgtrickle.is_served() THEN
        failure := ROW ('ST601', pg_catalog.format('no pgtrickle daemon serves the database "%s"',
                                                   pg_catalog.current_database()),
                        NULL, 'Start one with: pgtrickle run --dsn ...');
    ELSIF pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL THEN
        failure := ROW ('ST605', 'a request cannot be made and awaited after something was written',
            'The daemon sees a request only when it has been committed, and what was written with it.',
            'COMMIT first; or ask without waiting: SELECT pgtrickle.submit_request(...).');
    END IF;
    IF failure.code IS NULL OR failure.code OPERATOR(pg_catalog.=) 'ST605' THEN
        CALL pgtrickle.find_transaction_block(failure);
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.find_obstacle(INOUT failure pgtrickle.pgt_failure) IS 'Find out whether a request would be seen by a daemon.';

CREATE FUNCTION pgtrickle.find_stream_table(name text, schemas name[] DEFAULT current_schemas(false)) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.find_stream_table(name text, schemas name[]) IS 'The id of a stream table, by its name as one would write it in a query.';

CREATE PROCEDURE pgtrickle.find_transaction_block(INOUT failure pgtrickle.pgt_failure)
    LANGUAGE plpgsql
    AS $$
BEGIN
    BEGIN
        COMMIT;
    EXCEPTION WHEN invalid_transaction_termination THEN
        IF SQLERRM OPERATOR(pg_catalog.=) pgtrickle.refusal_of_commit() THEN
            failure := ROW ('ST605', 'a request cannot be made and awaited in a transaction block',
                'The daemon sees a request only when it has been committed.',
                'COMMIT or ROLLBACK first, then CALL; send one statement at a time (with psql: one for '
                'each -c), and use autocommit in drivers. Or ask without waiting: '
                'SELECT pgtrickle.submit_request(...).');
        END IF;
    END;
END
$$;

COMMENT ON PROCEDURE pgtrickle.find_transaction_block(INOUT failure pgtrickle.pgt_failure) IS 'Find out whether a procedure is called where it cannot commit.';

CREATE FUNCTION pgtrickle.follow_request(request bigint, INOUT shown integer, stop boolean, OUT ended boolean, OUT news text[], OUT outcome jsonb, OUT nap double precision, OUT code text, OUT message text, OUT detail text, OUT hint text) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    known   record;
    waited  interval;
    patience double precision := coalesce(
        nullif(current_setting('pg_trickle.request_timeout', true), '')::double precision, 300);
BEGIN
    SELECT r.status, r.notices, r.result, r.error, r.requested_at,
           coalesce(s.seen_at, r.seen_at) AS seen_at
      INTO known
      FROM pgtrickle.pgt_requests AS r
      LEFT JOIN pgtrickle.pgt_request_signs AS s ON s.request_id = r.request_id
     WHERE r.request_id = request;
    news := '{}';
    IF NOT FOUND THEN
        ended := true; code := 'ST604'; message := format('the request %s is gone', request);
        hint := 'Make it again.';
        RETURN;
    END IF;
    waited := clock_timestamp() - known.requested_at;
    news := known.notices[shown + 1:];
    shown := cardinality(known.notices);
    ended := known.status NOT IN ('QUEUED', 'RUNNING');
    outcome := known.result;
    nap := least(0.01 + extract(epoch FROM waited) / 10, 0.5);
    IF ended AND known.error IS NOT NULL THEN
        code := known.error ->> 'code'; message := known.error ->> 'message';
        detail := nullif(known.error ->> 'detail', '');
        hint := coalesce(nullif(known.error ->> 'hint', ''),
                         CASE WHEN detail IS NULL THEN 'See docs/errors.md.' END);
        RETURN;
    END IF;
    IF ended THEN
        RETURN;
    END IF;
    IF stop THEN
        code := '57014'; message := 'canceling statement due to user request';
        detail := format('The request %s is cancelled too.', request);
    ELSIF patience > 0 AND waited > make_interval(secs => patience) THEN
        code := 'ST602';
        message := format('the request was not done after %s seconds, and is cancelled', patience);
        hint := 'Give it more time: SET pg_trickle.request_timeout = 3600 (seconds; 0: no limit).';
    ELSIF NOT pgtrickle.is_served() THEN
        code := 'ST604'; message := 'the pgtrickle daemon has ended, and the request with it';
        hint := 'Start it with: pgtrickle run. What is half done is undone by itself.';
    END IF;
    IF code IS NOT NULL THEN
        ended := true;
        INSERT INTO pgtrickle.pgt_request_signs AS s (request_id, cancelled_at)
        VALUES (request, clock_timestamp())
            ON CONFLICT (request_id) DO UPDATE SET cancelled_at = excluded.cancelled_at;
    ELSIF known.seen_at < clock_timestamp() - interval '1 second' THEN
        INSERT INTO pgtrickle.pgt_request_signs AS s (request_id, seen_at)
        VALUES (request, clock_timestamp())
            ON CONFLICT (request_id) DO UPDATE SET seen_at = excluded.seen_at;
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.follow_request(request bigint, INOUT shown integer, stop boolean, OUT ended boolean, OUT news text[], OUT outcome jsonb, OUT nap double precision, OUT code text, OUT message text, OUT detail text, OUT hint text) IS 'Look at a request for its caller, or cancel it.';

CREATE FUNCTION pgtrickle.forget_gaps() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM pgtrickle.pgt_capture_gaps AS g WHERE g.source_relid = OLD.source_relid;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.forget_gaps() IS 'Delete the gaps of a source together with the record of its capture.';

CREATE FUNCTION pgtrickle.fuse_status() RETURNS TABLE(name text, fuse_mode text, fuse_state text, fuse_ceiling bigint, fuse_sensitivity double precision, blown_at timestamp with time zone, blow_reason text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), s.fuse,
           CASE WHEN s.fuse_blown_at IS NOT NULL THEN 'blown' WHEN s.fuse = 'off' THEN 'disabled'
                WHEN s.fuse_bridged THEN 'bridged' ELSE 'armed' END,
           s.fuse_ceiling, s.fuse_sensitivity, s.fuse_blown_at, s.fuse_reason
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.fuse_status() IS 'The fuse of each stream table: armed, blown, disabled, or bridged for the next refresh.';

CREATE FUNCTION pgtrickle.gate_source(source regclass) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM pgtrickle.check_may_act_on(ARRAY[source::oid]);
    INSERT INTO pgtrickle.pgt_source_gates AS g (source_relid) VALUES (source)
        ON CONFLICT (source_relid) DO UPDATE
       SET gated = true, gated_at = now(), gated_by = current_user;
END
$$;

COMMENT ON FUNCTION pgtrickle.gate_source(source regclass) IS 'Let the scheduler leave alone what reads a source, while that is being loaded.';

CREATE FUNCTION pgtrickle.get_refresh_history(name text, max_rows integer DEFAULT 20, schemas name[] DEFAULT current_schemas(false)) RETURNS TABLE(refresh_id bigint, action text, status text, reason text, initiated_by text, start_time timestamp with time zone, end_time timestamp with time zone, data_timestamp timestamp with time zone, rows_inserted bigint, rows_deleted bigint, rows_read bigint, duration_ms double precision, error_code text, error_message text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT h.refresh_id, h.action, h.status, h.reason, h.initiated_by, h.start_time, h.end_time,
           h.data_timestamp, h.rows_inserted, h.rows_deleted, h.rows_read,
           extract(epoch FROM h.end_time - h.start_time) * 1000, h.error_code, h.error_message
      FROM pgtrickle.pgt_refresh_history AS h
     WHERE h.pgt_id = pgtrickle.find_stream_table($1, $3)
     ORDER BY h.start_time DESC, h.refresh_id DESC
     LIMIT $2
$_$;

COMMENT ON FUNCTION pgtrickle.get_refresh_history(name text, max_rows integer, schemas name[]) IS 'What the latest refreshes of a stream table did, and why.';

CREATE FUNCTION pgtrickle.get_staleness(name text, schemas name[] DEFAULT current_schemas(false)) RETURNS double precision
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT extract(epoch FROM clock_timestamp() - s.data_timestamp)
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_id = pgtrickle.find_stream_table($1, $2)
$_$;

COMMENT ON FUNCTION pgtrickle.get_staleness(name text, schemas name[]) IS 'How many seconds ago the contents of a stream table were current; NULL before the first load.';

CREATE FUNCTION pgtrickle.grant_access(role name, level text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    one record;
BEGIN
    IF grant_access.level NOT IN ('reader', 'operator', 'admin') THEN
        RAISE EXCEPTION 'there is no level of access "%"', grant_access.level
              USING ERRCODE = 'ST501', HINT = 'Choose reader, operator or admin.';
    END IF;
    -- Default privileges of the database may have opened the tables to all who can reach them.
    REVOKE ALL ON ALL TABLES IN SCHEMA pgtrickle FROM PUBLIC;
    REVOKE ALL ON ALL ROUTINES IN SCHEMA pgtrickle FROM PUBLIC;
    FOR one IN
        SELECT g.privilege, g.target FROM pgtrickle.pgt_grants AS g
         WHERE g.level = 'reader' OR grant_access.level <> 'reader'
    LOOP
        EXECUTE format('GRANT %s ON %s TO %I', one.privilege, one.target, role);
    END LOOP;
    IF grant_access.level = 'admin' THEN
        -- Whoever creates stream tables lets the daemon run queries with its rights.
        EXECUTE format('GRANT %I TO %I',
                       (SELECT pg_get_userbyid(n.nspowner) FROM pg_namespace AS n
                         WHERE n.nspname = 'pgtrickle'), role);
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.grant_access(role name, level text) IS 'Let a role look (reader), ask the daemon and subscribe (operator), or act as the owner of the
catalog (admin).';

CREATE FUNCTION pgtrickle.hash_functions(known jsonb) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT coalesce(jsonb_object_agg(p.oid::text, jsonb_build_array(
               p.oid::regprocedure::text,
               -- Its owner, privileges, cost and comment do not change what it answers.
               md5(concat_ws(chr(1), p.prosrc, p.probin, p.prosqlbody, p.prolang, p.provolatile,
                             p.proisstrict, p.prosecdef, p.proretset, p.prorettype, p.proconfig,
                             a.aggtransfn, a.aggfinalfn, a.agginitval))
           )), '{}')
      FROM jsonb_object_keys(known) AS called
      JOIN pg_proc AS p ON p.oid = called::oid
      LEFT JOIN pg_aggregate AS a ON a.aggfnoid = p.oid
$$;

COMMENT ON FUNCTION pgtrickle.hash_functions(known jsonb) IS 'Name and hash, by oid, of those functions among the keys that exist.';

CREATE FUNCTION pgtrickle.health_check() RETURNS TABLE(check_name text, severity text, detail text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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
    )
    SELECT k.name, coalesce(f.severity, 'OK'), coalesce(f.detail, '')
      FROM unnest(ARRAY['daemon', 'drained', 'suspended', 'fuses', 'errors', 'stale', 'reinitialize',
                        'capture', 'sinks', 'lake'])
           WITH ORDINALITY AS k (name, n)
      LEFT JOIN found AS f ON f.check_name = k.name
     ORDER BY k.n
$$;

COMMENT ON FUNCTION pgtrickle.health_check() IS 'What is checked, and what is wrong: OK, WARNING or CRITICAL.';

CREATE FUNCTION pgtrickle.is_drained() RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_scheduler_pauses WHERE pgt_id IS NULL)
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_leases WHERE expires_at > clock_timestamp())
$$;

COMMENT ON FUNCTION pgtrickle.is_drained() IS 'Whether the scheduler was told to begin nothing more, and nothing is in flight.';

CREATE FUNCTION pgtrickle.is_served() RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_request_servers
                    WHERE beat_at > clock_timestamp() - interval '10 seconds')
$$;

COMMENT ON FUNCTION pgtrickle.is_served() IS 'Whether a daemon executes requests.';

CREATE FUNCTION pgtrickle.lies_here(frontier jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT frontier #>> '{pg,system_identifier}' = (SELECT y.system_identifier::text
                                                      FROM pg_control_system() AS y)
           AND frontier #>> '{pg,database_oid}' = (SELECT b.oid::text FROM pg_database AS b
                                                    WHERE b.datname = current_database())
$$;

COMMENT ON FUNCTION pgtrickle.lies_here(frontier jsonb) IS 'Whether a frontier is of this database; else the oids on record with it mean nothing here.';

CREATE FUNCTION pgtrickle.list_gaps(stream_tables bigint[]) RETURNS TABLE(stream_table bigint, source text, reason text)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH gaps (relid, only_for, xid, reason) AS (
        SELECT t.source_relid, NULL::bigint, NULL::xid8, 'its capture is paused'
          FROM pgtrickle.pgt_change_tracking AS t WHERE t.paused_at IS NOT NULL
         UNION ALL
        SELECT t.source_relid, NULL, NULL, 'a crash emptied its buffer'
          FROM pgtrickle.pgt_change_tracking AS t
         WHERE t.durability = 'unlogged'
           AND t.source_relid NOT IN (SELECT u.source_relid FROM pgtrickle.pgt_unlogged_buffers AS u)
         UNION ALL
        SELECT g.source_relid, g.pgt_id, g.xid, g.reason FROM pgtrickle.pgt_capture_gaps AS g
         UNION ALL
        -- A frontier never goes back by itself; but a user may restore what a backup holds.
        SELECT t.source_relid, s.pgt_id, NULL, 'its frontier is older than its buffer'
          FROM pgtrickle.pgt_change_tracking AS t
          JOIN pgtrickle.pgt_dependencies AS d USING (source_relid)
          JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
         WHERE s.pgt_id = ANY (stream_tables)
           AND pg_snapshot_xmax((s.frontier #>> '{pg,snapshot}')::pg_snapshot) < t.trimmed_before
    )
    SELECT DISTINCT s.pgt_id, d.source_schema || '.' || d.source_name, gaps.reason
      FROM gaps
      JOIN pgtrickle.pgt_dependencies AS d ON d.source_relid = gaps.relid
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = d.pgt_id
     WHERE s.pgt_id = ANY (stream_tables) AND (gaps.only_for IS NULL OR gaps.only_for = s.pgt_id)
       AND (gaps.xid IS NULL OR s.frontier IS NULL OR NOT pg_visible_in_snapshot(
                gaps.xid, (s.frontier #>> '{pg,snapshot}')::pg_snapshot))
$$;

COMMENT ON FUNCTION pgtrickle.list_gaps(stream_tables bigint[]) IS 'Sources with changes after the frontier of a stream table that no buffer holds, and why.';

CREATE FUNCTION pgtrickle.list_holds() RETURNS TABLE(pgt_id bigint, name text, reason text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.list_holds() IS 'Which stream tables the scheduler leaves alone, and each reason why.';

CREATE FUNCTION pgtrickle.list_members(relation oid) RETURNS SETOF oid
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH RECURSIVE tree (relid) AS (
        SELECT relation
         UNION
        SELECT i.inhrelid
          FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.relid AND NOT i.inhdetachpending
    )
    SELECT relid FROM tree ORDER BY relid
$$;

COMMENT ON FUNCTION pgtrickle.list_members(relation oid) IS 'A relation and all its partitions or heirs, at any depth: whose rows a query of it sees.';

CREATE FUNCTION pgtrickle.list_renamed() RETURNS TABLE(pgt_id bigint, old_schema text, old_name text, new_schema text, new_name text)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT s.pgt_id, s.pgt_schema, s.pgt_name, n.nspname::text, c.relname::text
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pg_class AS c ON c.oid = s.pgt_relid AND c.relkind = 'r'
      JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE (s.pgt_schema <> n.nspname OR s.pgt_name <> c.relname)
       AND s.pgt_schema <> 'pgtrickle_state' AND n.nspname <> 'pgtrickle_state'
       AND CASE WHEN s.frontier IS NOT NULL THEN pgtrickle.lies_here(s.frontier)
                ELSE NOT EXISTS (SELECT FROM pg_class AS o
                                   JOIN pg_namespace AS p ON p.oid = o.relnamespace
                                  WHERE p.nspname = s.pgt_schema AND o.relname = s.pgt_name) END
       -- The name of one whose table is gone is free only when that one was dropped.
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_stream_tables AS g
                        WHERE g.pgt_schema = n.nspname AND g.pgt_name = c.relname
                          AND NOT EXISTS (SELECT FROM pg_class AS o WHERE o.oid = g.pgt_relid))
$$;

COMMENT ON FUNCTION pgtrickle.list_renamed() IS 'The stream tables whose tables have other names by now than the catalog knows.';

CREATE FUNCTION pgtrickle.list_reshaped(relations oid[], with_parents boolean) RETURNS TABLE(stream_table bigint, name text, source text)
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH RECURSIVE touched (relid) AS (
        SELECT unnest(relations)
         UNION
        SELECT i.inhparent FROM touched JOIN pg_inherits AS i ON i.inhrelid = touched.relid
    ), used AS (
        SELECT DISTINCT d.source_relid, d.columns_used
          FROM pgtrickle.pgt_dependencies AS d
         WHERE relations IS NULL OR d.source_relid IN (SELECT relid FROM touched)
            OR with_parents AND EXISTS (SELECT FROM pg_class AS c
                                         WHERE c.oid = d.source_relid AND c.relhassubclass)
    ), described AS MATERIALIZED (
        SELECT source_relid, columns_used,
               pgtrickle.describe_source(source_relid, columns_used) AS now
          FROM used
    )
    SELECT s.pgt_id, format('%I.%I', s.pgt_schema, s.pgt_name),
           format('%I.%I', d.source_schema, d.source_name)
      FROM described AS n
      JOIN pgtrickle.pgt_dependencies AS d
        ON d.source_relid = n.source_relid AND d.columns_used = n.columns_used
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE d.schema_fingerprint IS DISTINCT FROM n.now
     UNION ALL
    SELECT s.pgt_id, format('%I.%I', s.pgt_schema, s.pgt_name), was.value ->> 0
      FROM pgtrickle.pgt_stream_tables AS s, jsonb_each(s.function_hashes) AS was
     WHERE relations IS NULL AND s.function_hashes <> '{}'
       AND was.value IS DISTINCT FROM pgtrickle.hash_functions(s.function_hashes) -> was.key
$$;

COMMENT ON FUNCTION pgtrickle.list_reshaped(relations oid[], with_parents boolean) IS 'Stream tables whose sources are not what they were: of these relations, also of those with heirs (a dropped heir names no parent), or of all.';

CREATE FUNCTION pgtrickle.list_sources(name text, schemas name[] DEFAULT current_schemas(false)) RETURNS TABLE(source_table text, source_oid oid, source_type text, cdc_mode text, columns_used text[])
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
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
$_$;

COMMENT ON FUNCTION pgtrickle.list_sources(name text, schemas name[]) IS 'What a stream table reads, and how changes of that are captured; NULL: they are looked for.';

CREATE FUNCTION pgtrickle.list_subscriptions() RETURNS TABLE(stream_table text, channel text, created_at timestamp with time zone, created_by text, notified_at timestamp with time zone)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT format('%I.%I', t.pgt_schema, t.pgt_name), s.channel, s.created_at, s.created_by,
           s.notified_at
      FROM pgtrickle.pgt_subscriptions AS s
      JOIN pgtrickle.stream_tables_info AS t USING (pgt_id)
     ORDER BY 1, 2
$$;

COMMENT ON FUNCTION pgtrickle.list_subscriptions() IS 'Which channels of one''s own are told of which stream tables; the owner of the catalog sees all.';

CREATE FUNCTION pgtrickle.may_act_on(relations oid[]) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT EXISTS (SELECT FROM pg_namespace AS n
                    WHERE n.nspname = 'pgtrickle' AND pg_has_role(n.nspowner, 'USAGE'))
        OR (SELECT coalesce(bool_and(coalesce(pg_has_role(c.relowner, 'USAGE'), false)), false)
              FROM unnest(relations) AS one (oid) LEFT JOIN pg_class AS c USING (oid))
$$;

COMMENT ON FUNCTION pgtrickle.may_act_on(relations oid[]) IS 'Whether the caller can act as the owner of all these relations, or as that of the catalog.';

CREATE FUNCTION pgtrickle.may_notify() RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT pg_notification_queue_usage() < 0.5 $$;

COMMENT ON FUNCTION pgtrickle.may_notify() IS 'Whether the queue of notifications has room enough for those that can be done without.';

CREATE FUNCTION pgtrickle.migrate() RETURNS TABLE(object text, action text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    owner  name;
    before jsonb;
    texts  text[];
    one    text;
BEGIN
    SELECT pg_get_userbyid(n.nspowner) INTO owner FROM pg_namespace AS n WHERE n.nspname = 'pgtrickle';
    -- Whatever is made belongs to the role that makes it.
    IF current_user <> owner THEN
        RAISE EXCEPTION 'only "%", who owns the catalog, may migrate it', owner
              USING ERRCODE = 'insufficient_privilege', HINT = format('Connect as %I.', owner);
    END IF;
    LOCK TABLE pgtrickle.pgt_schema_version IN SHARE ROW EXCLUSIVE MODE;
    SELECT jsonb_object_agg(d.object, d.definition) INTO before FROM pgtrickle.describe_api() AS d;
    SELECT array_agg(a.content ORDER BY a.name) INTO texts FROM pgtrickle.pgt_sql_api AS a;
    FOREACH one IN ARRAY texts LOOP
        EXECUTE one;
    END LOOP;
    RETURN QUERY
    SELECT d.object, CASE WHEN before ? d.object THEN 'restored' ELSE 'created' END
      FROM pgtrickle.describe_api() AS d
     WHERE before ->> d.object IS DISTINCT FROM d.definition
     ORDER BY 1;
END
$$;

COMMENT ON FUNCTION pgtrickle.migrate() IS 'Make every function, procedure, view, policy and trigger of the catalog again as it was last
migrated; return what was missing or different. A newer version comes with: pgtrickle migrate.';

CREATE PROCEDURE pgtrickle.move_ducklake_catalog(IN to_schema text DEFAULT NULL::text, IN from_schema text DEFAULT NULL::text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('move_ducklake_catalog', pg_catalog.jsonb_build_object(
        'to_schema', move_ducklake_catalog.to_schema,
        'from_schema', move_ducklake_catalog.from_schema), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.move_ducklake_catalog(IN to_schema text, IN from_schema text, INOUT result jsonb) IS 'Move the tables of a lake''s catalog to another schema, with everything that names them.';

CREATE FUNCTION pgtrickle.name_columns(relation oid, numbers smallint[], rows text) RETURNS text
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    -- The columns of a relation are aliased in order, and those that were dropped are not there.
    SELECT rows || ' AS r' || coalesce(' (' || string_agg('c' || n, ', ' ORDER BY n) || ')', '')
      FROM generate_series(1, (SELECT max(one) FROM unnest(numbers) AS one)) AS n
     WHERE has_column_privilege(relation, n::int2, 'SELECT') IS NOT NULL
$$;

COMMENT ON FUNCTION pgtrickle.name_columns(relation oid, numbers smallint[], rows text) IS 'Write a FROM item that names the columns of a relation by their numbers: c1, c2, ...';

CREATE FUNCTION pgtrickle.note_crashes() RETURNS SETOF oid
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH noticed AS (
        INSERT INTO pgtrickle.pgt_unlogged_buffers
        SELECT t.source_relid FROM pgtrickle.pgt_change_tracking AS t
         WHERE t.durability = 'unlogged'
           AND t.source_relid NOT IN (SELECT u.source_relid FROM pgtrickle.pgt_unlogged_buffers AS u)
            ON CONFLICT DO NOTHING
        RETURNING source_relid
    ), noted AS (
        INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, reason)
        SELECT n.source_relid, 'a crash emptied its buffer' FROM noticed AS n
            ON CONFLICT DO NOTHING
    )
    SELECT n.source_relid FROM noticed AS n
$$;

COMMENT ON FUNCTION pgtrickle.note_crashes() IS 'Turn the loss of unlogged buffers by a crash into gaps; return the sources.';

CREATE FUNCTION pgtrickle.note_gap(relation oid, reason text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, reason) VALUES (relation, reason)
        ON CONFLICT DO NOTHING
$$;

COMMENT ON FUNCTION pgtrickle.note_gap(relation oid, reason text) IS 'Note that this transaction changes a source and is not captured.';

CREATE FUNCTION pgtrickle.notify(channel text, payload text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF NOT pgtrickle.may_notify() THEN
        RAISE LOG 'pgtrickle: the queue of notifications is filling up, not told to %: %',
                  channel, payload;
        RETURN false;
    END IF;
    PERFORM pg_notify(channel, payload);
    RETURN true;
END
$$;

COMMENT ON FUNCTION pgtrickle.notify(channel text, payload text) IS 'Notify while the queue has room; tell whether it had, and write to the server''s log if not.';

CREATE FUNCTION pgtrickle.open_guard(relation regclass) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    strange text;
    remedy  text;
BEGIN
    EXECUTE format('LOCK TABLE ONLY %s IN ROW EXCLUSIVE MODE', relation);
    SELECT format('the trigger "%s" of a role that is not trusted', t.tgname),
           format('DROP TRIGGER %I ON %s', t.tgname, relation)
      INTO strange, remedy
      FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
     WHERE t.tgrelid = relation AND NOT t.tgisinternal AND t.tgenabled <> 'D'
       AND (NOT pgtrickle.trusts(relation, p.proowner)
            OR (t.tgqual IS NOT NULL AND EXISTS (
                    SELECT FROM pg_depend AS d
                      LEFT JOIN pg_proc AS f
                        ON d.refclassid = 'pg_proc'::regclass AND f.oid = d.refobjid
                      LEFT JOIN pg_operator AS o
                        ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
                     WHERE d.classid = 'pg_trigger'::regclass AND d.objid = t.oid
                       AND NOT pgtrickle.trusts(relation, coalesce(f.proowner, o.oprowner)))))
     ORDER BY t.tgname LIMIT 1;
    IF strange IS NULL THEN
        -- Whoever made it: what is written must be what was computed.
        SELECT format('the trigger "%s", which can change rows before they are written', t.tgname),
               format('DROP TRIGGER %I ON %s', t.tgname, relation)
          INTO strange, remedy
          FROM pg_trigger AS t
         WHERE t.tgrelid = relation AND NOT t.tgisinternal AND t.tgenabled <> 'D'
           AND t.tgtype & 3 = 3
         ORDER BY t.tgname LIMIT 1;
    END IF;
    IF strange IS NULL THEN
        SELECT format('the rule "%s"', r.rulename), format('DROP RULE %I ON %s', r.rulename, relation)
          INTO strange, remedy
          FROM pg_rewrite AS r WHERE r.ev_class = relation
         ORDER BY r.rulename LIMIT 1;
    END IF;
    IF strange IS NULL AND row_security_active(relation) THEN
        strange := format('row security that hides rows from "%s"', current_user);
        remedy := format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', relation);
    END IF;
    IF strange IS NOT NULL THEN
        RAISE EXCEPTION 'the stream table "%" has %', relation, strange
              USING ERRCODE = 'ST309',
                    HINT = format('Look at it, then run: %s;', remedy);
    END IF;
    PERFORM set_config('pg_trickle.refreshing', relation::oid::text, true);
END
$$;

COMMENT ON FUNCTION pgtrickle.open_guard(relation regclass) IS 'Let this transaction write to a stream table, unless code of others would run or rows are hidden.';

CREATE FUNCTION pgtrickle.parse_duration_seconds(duration text) RETURNS double precision
    LANGUAGE sql IMMUTABLE STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    -- Eighteen digits fit any sum that can be made of them.
    SELECT CASE WHEN octet_length(duration) <= 200
                 AND duration ~ '^\s*(\d{1,18}\s*[smhdw]\s*)+$' THEN (
        SELECT sum(part[1]::double precision * CASE part[2]
                       WHEN 's' THEN 1 WHEN 'm' THEN 60 WHEN 'h' THEN 3600
                       WHEN 'd' THEN 86400 ELSE 604800 END)
          FROM regexp_matches(duration, '(\d+)\s*([smhdw])', 'g') AS part) END
$_$;

COMMENT ON FUNCTION pgtrickle.parse_duration_seconds(duration text) IS 'The length of a duration like 1h30m; NULL if it is none.';

CREATE PROCEDURE pgtrickle.pause_scheduler(IN nodes text[], INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('pause_scheduler', pg_catalog.jsonb_build_object(
        'names', pause_scheduler.nodes), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.pause_scheduler(IN nodes text[], INOUT result jsonb) IS 'Let the scheduler leave stream tables alone; a refresh in progress comes to its end.';

CREATE FUNCTION pgtrickle.perform_act() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    relation oid;
    catalog  oid := (SELECT n.nspowner FROM pg_namespace AS n WHERE n.nspname = 'pgtrickle');
BEGIN
    IF NEW.act = 'subscribe' THEN
        SELECT s.pgt_relid INTO relation
          FROM pgtrickle.pgt_stream_tables AS s WHERE s.pgt_id = NEW.stream_table;
        IF NOT coalesce(has_any_column_privilege(NEW.caller, relation, 'SELECT'), false) THEN
            RAISE EXCEPTION 'the role % may not read the stream table %',
                  NEW.caller::regrole, relation::regclass
                  USING ERRCODE = 'ST303', HINT = 'GRANT SELECT on it to the role first.';
        END IF;
        IF NEW.name IS NULL OR octet_length(NEW.name) NOT BETWEEN 1 AND 63
           OR NEW.name ~ '[[:cntrl:]]' OR starts_with(NEW.name, 'pg_trickle') THEN
            RAISE EXCEPTION 'the channel "%" cannot be subscribed to', left(NEW.name, 63)
                  USING ERRCODE = 'ST605',
                        HINT = 'A channel has 1 to 63 bytes and no control characters; those that '
                               'begin with pg_trickle are ours.';
        END IF;
        -- A channel that nobody who exists has subscribed is free.
        DELETE FROM pgtrickle.pgt_subscriptions AS s
         WHERE s.channel = NEW.name
           AND NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.oid = s.subscriber_oid);
        IF EXISTS (SELECT FROM pgtrickle.pgt_subscriptions AS s
                    WHERE s.channel = NEW.name
                      AND NOT pg_has_role(NEW.caller, s.subscriber_oid, 'USAGE')) THEN
            RAISE EXCEPTION 'the channel "%" belongs to another role', NEW.name
                  USING ERRCODE = 'ST605', HINT = 'Choose another channel.';
        END IF;
        IF (SELECT count(*) FROM pgtrickle.pgt_subscriptions AS s
             WHERE s.pgt_id = NEW.stream_table AND s.subscriber_oid = NEW.caller
               AND s.channel <> NEW.name) >= 20 THEN
            RAISE EXCEPTION 'the role % has 20 channels on this stream table, as many as one may',
                  NEW.caller::regrole
                  USING ERRCODE = 'ST606', HINT = 'End one: SELECT pgtrickle.unsubscribe(...).';
        END IF;
        INSERT INTO pgtrickle.pgt_subscriptions (pgt_id, channel, created_by, subscriber_oid)
        VALUES (NEW.stream_table, NEW.name, pg_get_userbyid(NEW.caller), NEW.caller)
            ON CONFLICT DO NOTHING;
    ELSIF NEW.act = 'unsubscribe' THEN
        DELETE FROM pgtrickle.pgt_subscriptions AS s
         WHERE s.pgt_id = NEW.stream_table AND s.channel = NEW.name
           AND (pg_has_role(NEW.caller, s.subscriber_oid, 'USAGE')
                OR pg_has_role(NEW.caller, catalog, 'USAGE'));
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    ELSIF NEW.act = 'drop_watermark_group' THEN
        DELETE FROM pgtrickle.pgt_watermark_groups AS g
         WHERE g.group_name = NEW.name
           AND (pg_has_role(NEW.caller, catalog, 'USAGE')
                OR NOT EXISTS (
                    SELECT FROM unnest(g.source_relids) AS one (oid)
                      LEFT JOIN pg_class AS c USING (oid)
                     WHERE NOT coalesce(pg_has_role(NEW.caller, c.relowner, 'USAGE'), false)));
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    ELSE
        RAISE EXCEPTION 'there is no act "%"', left(NEW.act, 63)
              USING ERRCODE = 'ST605', HINT = 'Call the functions of the schema pgtrickle.';
    END IF;
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION pgtrickle.perform_act() IS 'Do what was inserted into pgtrickle.acts, if the role that inserted it may.';

CREATE PROCEDURE pgtrickle.perform_request(IN verb text, IN arguments jsonb, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(perform_request.verb, perform_request.arguments, result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.perform_request(IN verb text, IN arguments jsonb, INOUT result jsonb) IS 'Ask the daemon for something, wait until it is done, pass on what it says.';

CREATE FUNCTION pgtrickle.pgt_scc_status() RETURNS TABLE(scc_id bigint, member_count integer, members text[], last_iterations integer, last_converged_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT s.scc_id, count(*)::integer,
           array_agg(format('%I.%I', s.pgt_schema, s.pgt_name) ORDER BY s.pgt_id),
           max(s.last_fixpoint_iterations), min(s.data_timestamp)
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.scc_id IS NOT NULL
     GROUP BY s.scc_id
     ORDER BY s.scc_id
$$;

COMMENT ON FUNCTION pgtrickle.pgt_scc_status() IS 'The circles of stream tables: their members, how many rounds their latest fixpoint took, and the moment it shows.';

CREATE FUNCTION pgtrickle.pgt_status() RETURNS TABLE(name text, status text, refresh_mode text, is_populated boolean, consecutive_errors integer, schedule text, data_timestamp timestamp with time zone, staleness interval)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), s.status, s.refresh_mode, s.is_populated,
           s.consecutive_errors, s.schedule, s.data_timestamp,
           clock_timestamp() - s.data_timestamp
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY s.pgt_schema, s.pgt_name
$$;

COMMENT ON FUNCTION pgtrickle.pgt_status() IS 'Every stream table in one line.';

CREATE FUNCTION pgtrickle.refresh_efficiency() RETURNS TABLE(name text, total_refreshes bigint, differential_count bigint, full_count bigint, no_data_count bigint, avg_differential_ms double precision, avg_full_ms double precision, avg_changed_rows double precision, speedup double precision)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.refresh_efficiency() IS 'How often each stream table followed its changes and how often it was recomputed, and what
either took; the speed-up is FULL divided by DIFFERENTIAL.';

CREATE FUNCTION pgtrickle.refresh_groups() RETURNS TABLE(group_name text, members text[], isolation text, created_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT g.group_name,
           ARRAY(SELECT format('%I.%I', s.pgt_schema, s.pgt_name)
                   FROM pgtrickle.pgt_stream_tables AS s
                  WHERE s.pgt_relid = ANY (g.member_oids) ORDER BY 1),
           g.isolation, g.created_at
      FROM pgtrickle.pgt_refresh_groups AS g
     ORDER BY g.group_name
$$;

COMMENT ON FUNCTION pgtrickle.refresh_groups() IS 'The refresh groups and their members.';

CREATE PROCEDURE pgtrickle.refresh_stream_table(IN name text, IN "full" boolean DEFAULT false, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('refresh_stream_table', pg_catalog.jsonb_build_object(
        'name', refresh_stream_table.name,
        'full', refresh_stream_table."full"), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.refresh_stream_table(IN name text, IN "full" boolean, INOUT result jsonb) IS 'Bring a stream table up to date; with "full" by recomputing it.';

CREATE FUNCTION pgtrickle.refresh_timeline(max_rows integer DEFAULT 50) RETURNS TABLE(start_time timestamp with time zone, name text, action text, status text, rows_inserted bigint, rows_deleted bigint, duration_ms double precision, error_message text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.refresh_timeline(max_rows integer) IS 'The latest refreshes of all stream tables.';

CREATE FUNCTION pgtrickle.refusal_of_commit() RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    COMMIT;
EXCEPTION WHEN invalid_transaction_termination THEN
    RETURN SQLERRM;
END
$$;

COMMENT ON FUNCTION pgtrickle.refusal_of_commit() IS 'What the server says, in its language, to a COMMIT where there can be none.';

CREATE FUNCTION pgtrickle.refuse_lake_write() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF current_setting('pg_trickle.refreshing', true) IS DISTINCT FROM TG_RELID::text
       OR NOT EXISTS (SELECT FROM pg_class AS c
                       WHERE c.oid = TG_RELID AND pg_has_role(c.relowner, 'USAGE')) THEN
        RAISE EXCEPTION '"%.%" holds the rows of a lake table: % is refused',
                        TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP
              USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Write to the table in the lake; its changes are followed.';
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.refuse_lake_write() IS 'The guard of rows that come from the lake.';

CREATE FUNCTION pgtrickle.refuse_write() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF current_setting('pg_trickle.refreshing', true) IS DISTINCT FROM TG_RELID::text
       OR NOT EXISTS (SELECT FROM pg_class AS c
                       WHERE c.oid = TG_RELID AND pg_has_role(c.relowner, 'USAGE')) THEN
        RAISE EXCEPTION '"%.%" is a stream table: % is refused', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP
              USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Change its sources and refresh it, or drop it with: pgtrickle drop.';
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.refuse_write() IS 'The guard of stream tables.';

CREATE PROCEDURE pgtrickle.rename_stream_table(IN name text, IN new_name text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('rename_stream_table', pg_catalog.jsonb_build_object(
        'name', rename_stream_table.name,
        'new_name', rename_stream_table.new_name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.rename_stream_table(IN name text, IN new_name text, INOUT result jsonb) IS 'Give a stream table another name or, with schema.name, another schema; all that reads it follows.';

CREATE PROCEDURE pgtrickle.repair_stream_table(IN name text, INOUT result text DEFAULT NULL::text)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
    answer pg_catalog.jsonb;
BEGIN
    CALL pgtrickle.await_request('repair_stream_table', pg_catalog.jsonb_build_object(
        'name', repair_stream_table.name), answer, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
    -- The text of a JSON string.
    result := pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0;
END
$$;

COMMENT ON PROCEDURE pgtrickle.repair_stream_table(IN name text, INOUT result text) IS 'Mend the capture, the guard and the status of a stream table; it then starts anew.';

CREATE FUNCTION pgtrickle.request_queue() RETURNS TABLE(queued bigint, running bigint, oldest_queued_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT count(*) FILTER (WHERE r.status = 'QUEUED'),
           count(*) FILTER (WHERE r.status = 'RUNNING'),
           min(r.requested_at) FILTER (WHERE r.status = 'QUEUED')
      FROM pgtrickle.pgt_requests AS r
     WHERE r.status IN ('QUEUED', 'RUNNING')
$$;

COMMENT ON FUNCTION pgtrickle.request_queue() IS 'How many requests wait for the daemon and how many it executes, of all callers.';

CREATE PROCEDURE pgtrickle.reset_fuse(IN name text, IN action text DEFAULT 'apply'::text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('reset_fuse', pg_catalog.jsonb_build_object(
        'name', reset_fuse.name,
        'action', reset_fuse.action), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.reset_fuse(IN name text, IN action text, INOUT result jsonb) IS 'After a fuse has blown: let the next refresh apply what it found, or reinitialize.';

CREATE PROCEDURE pgtrickle.resume_scheduler(IN nodes text[], INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('resume_scheduler', pg_catalog.jsonb_build_object(
        'names', resume_scheduler.nodes), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.resume_scheduler(IN nodes text[], INOUT result jsonb) IS 'Let the scheduler go on with stream tables that were paused.';

CREATE PROCEDURE pgtrickle.resume_stream_table(IN name text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('resume_stream_table', pg_catalog.jsonb_build_object(
        'name', resume_stream_table.name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.resume_stream_table(IN name text, INOUT result jsonb) IS 'Let a suspended stream table be refreshed again.';

CREATE FUNCTION pgtrickle.revoke_access(role name) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA pgtrickle FROM %I', role);
    EXECUTE format('REVOKE ALL ON ALL ROUTINES IN SCHEMA pgtrickle FROM %I', role);
    EXECUTE format('REVOKE ALL ON SCHEMA pgtrickle FROM %I', role);
END
$$;

COMMENT ON FUNCTION pgtrickle.revoke_access(role name) IS 'Take every access to the schema pgtrickle from a role, but not a membership.';

CREATE FUNCTION pgtrickle.running_refreshes() RETURNS TABLE(name text, daemon text, running_since timestamp with time zone, stage text, rows_read bigint, rows_staged bigint)
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.running_refreshes() IS 'Which stream tables are worked on now, by whom, since when and, if it is a large refresh, how
far that is.';

CREATE FUNCTION pgtrickle.set_setting(name text, value text, author text DEFAULT CURRENT_USER) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    known  record;
    number double precision;
    fits   boolean := true;
BEGIN
    SELECT s.* INTO known FROM pgtrickle.pgt_settings AS s WHERE s.name = set_setting.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no setting "%"', set_setting.name
              USING ERRCODE = 'ST501',
                    HINT = 'List them with: SELECT * FROM pgtrickle.show_settings().';
    END IF;
    IF set_setting.value IS NOT NULL THEN
        IF known.type IN ('int', 'float') THEN
            fits := set_setting.value ~ CASE known.type WHEN 'int' THEN '^-?[0-9]{1,18}$'
                                        ELSE '^-?[0-9]{1,18}(\.[0-9]{1,18})?$' END;
            number := CASE WHEN fits THEN set_setting.value::double precision END;
            fits := fits AND coalesce(number >= known.low, true)
                    AND coalesce(number <= known.high, true);
        ELSIF known.type = 'bool' THEN
            fits := lower(set_setting.value) IN ('true', 'on', '1', 'false', 'off', '0');
        ELSIF known.choices <> '{}' THEN
            fits := set_setting.value = ANY (known.choices);
        END IF;
        IF NOT fits THEN
            RAISE EXCEPTION 'the setting "%" cannot be "%"', set_setting.name, set_setting.value
                  USING ERRCODE = 'ST501', HINT = format(
                      'It is of the type %s%s%s.', known.type,
                      ', from ' || known.low || coalesce(' to ' || known.high, ''),
                      ', one of ' || nullif(array_to_string(known.choices, ', '), ''));
        END IF;
    END IF;
    UPDATE pgtrickle.pgt_settings AS s
       SET value = set_setting.value, updated_at = clock_timestamp(), updated_by = author
     WHERE s.name = set_setting.name;
END
$_$;

COMMENT ON FUNCTION pgtrickle.set_setting(name text, value text, author text) IS 'Give a setting a value for this database, NULL: its default; processes read it when they start.';

CREATE FUNCTION pgtrickle.show_settings() RETURNS TABLE(name text, value text, source text, default_value text, unit text, low double precision, high double precision, choices text[], doc text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT s.name, coalesce(own.value, s.value, s.default_value),
           CASE WHEN own.value IS NOT NULL THEN 'session' WHEN s.value IS NOT NULL THEN 'table'
                ELSE 'default' END,
           s.default_value, s.unit, s.low, s.high, s.choices, s.doc
      FROM pgtrickle.pgt_settings AS s,
           nullif(current_setting('pg_trickle.' || s.name, true), '') AS own (value)
     ORDER BY s.name
$$;

COMMENT ON FUNCTION pgtrickle.show_settings() IS 'Every setting, its value as far as the database has it, and where that comes from.';

CREATE FUNCTION pgtrickle.sla_summary(window_hours double precision DEFAULT 24) RETURNS TABLE(name text, refreshes bigint, p50_ms double precision, p99_ms double precision, freshness_lag_s double precision, error_rate double precision, error_budget_remaining double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

COMMENT ON FUNCTION pgtrickle.sla_summary(window_hours double precision) IS 'How long refreshes took, how old the contents are, how many failed, and which share of an
error budget of one in a hundred is left.';

CREATE FUNCTION pgtrickle.stream_table_spec(name text, schemas name[] DEFAULT current_schemas(false)) RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT jsonb_build_object(
               'name', format('%I.%I', s.pgt_schema, s.pgt_name), 'query', s.original_query,
               'search_path', s.query_search_path, 'schedule', s.schedule,
               'refresh_mode', s.refresh_mode, 'cdc_mode', s.requested_cdc_mode,
               'max_delta_fraction', s.max_delta_fraction, 'tier', s.tier, 'fuse', s.fuse,
               'fuse_ceiling', s.fuse_ceiling, 'fuse_sensitivity', s.fuse_sensitivity,
               'diamond_consistency', s.diamond_consistency,
               'diamond_schedule_policy', s.diamond_schedule_policy, 'owner', s.owner_role,
               'sink', CASE WHEN k.pgt_id IS NOT NULL THEN 'ducklake' END,
               'ducklake_sink_path', k.sink_path,
               'ducklake_table', quote_ident(k.lake_schema) || '.' || quote_ident(k.lake_table),
               'ducklake_partition_by', k.partition_by)
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN pgtrickle.pgt_ducklake_sinks AS k ON k.pgt_id = s.pgt_id
     WHERE s.pgt_id = pgtrickle.find_stream_table($1, $2)
$_$;

COMMENT ON FUNCTION pgtrickle.stream_table_spec(name text, schemas name[]) IS 'The definition of a stream table as JSON.';

CREATE FUNCTION pgtrickle.submit_request(verb text, arguments jsonb) RETURNS bigint
    LANGUAGE sql
    AS $$
    INSERT INTO pgtrickle.pgt_requests (verb, arguments) VALUES (verb, arguments)
    RETURNING request_id
$$;

COMMENT ON FUNCTION pgtrickle.submit_request(verb text, arguments jsonb) IS 'Ask the daemon for something and do not wait: it begins when the transaction has committed.';

CREATE FUNCTION pgtrickle.subscribe(stream_table text, channel text, schemas name[] DEFAULT current_schemas(false)) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    INSERT INTO pgtrickle.acts (act, stream_table, name)
    VALUES ('subscribe', pgtrickle.find_stream_table($1, $3), $2)
$_$;

COMMENT ON FUNCTION pgtrickle.subscribe(stream_table text, channel text, schemas name[]) IS 'Let a channel of one''s own be told of each refresh that changes a stream table.';

CREATE FUNCTION pgtrickle.tell_pending(stream_table bigint, coalesce_ms integer) RETURNS SETOF text
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH due AS (
        SELECT s.pgt_id, s.channel, s.pending_refresh_id, s.pending_inserted, s.pending_deleted,
               format('%I.%I', t.pgt_schema, t.pgt_name) AS name,
               EXISTS (SELECT FROM pg_roles AS r
                        WHERE r.oid = s.subscriber_oid
                          AND has_any_column_privilege(r.oid, t.pgt_relid, 'SELECT')) AS allowed
          FROM pgtrickle.pgt_subscriptions AS s
          JOIN pgtrickle.pgt_stream_tables AS t USING (pgt_id)
         WHERE s.pending_refresh_id IS NOT NULL
           AND (stream_table IS NULL OR s.pgt_id = stream_table)
           AND (SELECT pgtrickle.may_notify())
           -- What lies in the future was noted before the clock was set back.
           AND (s.notified_at IS NULL OR s.notified_at > clock_timestamp()
                OR s.notified_at <= clock_timestamp() - make_interval(secs => coalesce_ms / 1000.0))
           FOR NO KEY UPDATE OF s
    ), told AS (
        UPDATE pgtrickle.pgt_subscriptions AS s
           SET notified_at = clock_timestamp(), pending_refresh_id = NULL, pending_inserted = 0,
               pending_deleted = 0
          FROM due WHERE s.pgt_id = due.pgt_id AND s.channel = due.channel
        RETURNING due.*
    )
    SELECT channel
      FROM told, pg_notify(channel, json_build_object(
               'name', name, 'refresh_id', pending_refresh_id,
               'inserted_count', pending_inserted, 'deleted_count', pending_deleted)::text)
     WHERE allowed
$$;

COMMENT ON FUNCTION pgtrickle.tell_pending(stream_table bigint, coalesce_ms integer) IS 'Tell what was held back for long enough, of one stream table or of all; return the channels.';

CREATE FUNCTION pgtrickle.tell_subscribers(stream_table bigint, refresh bigint, inserted bigint, deleted bigint, coalesce_ms integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    told integer;
BEGIN
    UPDATE pgtrickle.pgt_subscriptions AS s
       SET pending_refresh_id = refresh, pending_inserted = s.pending_inserted + inserted,
           pending_deleted = s.pending_deleted + deleted
     WHERE s.pgt_id = stream_table;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT count(*) INTO told FROM pgtrickle.tell_pending(stream_table, coalesce_ms);
    RETURN told;
END
$$;

COMMENT ON FUNCTION pgtrickle.tell_subscribers(stream_table bigint, refresh bigint, inserted bigint, deleted bigint, coalesce_ms integer) IS 'Tell the channels of a stream table of a refresh, in its own transaction.';

CREATE FUNCTION pgtrickle.trusts(relation oid, role oid) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT role = c.relowner OR role = n.nspowner
           OR (SELECT r.rolsuper FROM pg_roles AS r WHERE r.oid = role)
           OR pg_has_role(role, current_user, 'MEMBER')
      FROM pg_class AS c, pg_namespace AS n
     WHERE c.oid = relation AND n.nspname = 'pgtrickle'
$$;

COMMENT ON FUNCTION pgtrickle.trusts(relation oid, role oid) IS 'Whether code of a role may run while a stream table is written: that of its owner, of the catalog''s, of superusers, and of those who can act as the current role.';

CREATE FUNCTION pgtrickle.undrain() RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH gone AS (
        DELETE FROM pgtrickle.pgt_scheduler_pauses WHERE pgt_id IS NULL RETURNING pgt_id
    )
    SELECT EXISTS (SELECT FROM gone)
$$;

COMMENT ON FUNCTION pgtrickle.undrain() IS 'Let the scheduler begin again; false if it was not drained.';

CREATE FUNCTION pgtrickle.ungate_source(source regclass) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM pgtrickle.check_may_act_on(ARRAY[source::oid]);
    UPDATE pgtrickle.pgt_source_gates
       SET gated = false, ungated_at = now(), gated_by = current_user
     WHERE source_relid = source AND gated;
    RETURN FOUND;
END
$$;

COMMENT ON FUNCTION pgtrickle.ungate_source(source regclass) IS 'Let the scheduler go on with what reads a source; false if it was not gated.';

CREATE FUNCTION pgtrickle.unsubscribe(stream_table text, channel text, schemas name[] DEFAULT current_schemas(false)) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO pgtrickle.acts (act, stream_table, name)
    VALUES ('unsubscribe',
            pgtrickle.find_stream_table(unsubscribe.stream_table, unsubscribe.schemas),
            unsubscribe.channel);
    RETURN FOUND;
END
$$;

COMMENT ON FUNCTION pgtrickle.unsubscribe(stream_table text, channel text, schemas name[]) IS 'Tell a channel of one''s own no more; false if it was not told before.';

CREATE PROCEDURE pgtrickle.validate_query(IN query text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('validate_query', pg_catalog.jsonb_build_object(
        'query', validate_query.query), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.validate_query(IN query text, INOUT result jsonb) IS 'Tell whether and how a query could be maintained, and every reason why not.';

CREATE PROCEDURE pgtrickle.verify_stream_table(IN name text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request('verify_stream_table', pg_catalog.jsonb_build_object(
        'name', verify_stream_table.name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.verify_stream_table(IN name text, INOUT result jsonb) IS 'Compare a stream table with PostgreSQL''s own answer to its query.';

CREATE FUNCTION pgtrickle.version() RETURNS TABLE(catalog_version integer, server_version text, daemon_running boolean, extension_version text, library_version text, pg_major_version integer)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT (SELECT max(v.version) FROM pgtrickle.pgt_schema_version AS v),
           current_setting('server_version'), pgtrickle.is_served(),
           (SELECT a.package FROM pgtrickle.pgt_sql_api AS a ORDER BY a.applied_at DESC LIMIT 1),
           (SELECT d.package FROM pgtrickle.pgt_daemons AS d ORDER BY d.seen_at DESC LIMIT 1),
           current_setting('server_version_num')::integer / 10000
$$;

COMMENT ON FUNCTION pgtrickle.version() IS 'The version of the catalog and of the server, whether a daemon runs, which version of the package
last migrated the catalog, and which one the daemon seen last runs.';

CREATE FUNCTION pgtrickle.watch_ddl() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    block     boolean := coalesce(current_setting('pg_trickle.block_source_ddl', true), '')
                         IN ('on', 'true', 'yes', '1');
    relations oid[];
    other     boolean;
    one       record;
    blocked   record;
BEGIN
    BEGIN
        IF TG_EVENT = 'ddl_command_end' THEN
            SELECT array_agg(objid), bool_or(classid <> 'pg_class'::regclass)
              INTO relations, other FROM pg_event_trigger_ddl_commands()
             WHERE coalesce(schema_name, '') NOT IN
                   ('pg_temp', 'pgtrickle', 'pgtrickle_changes', 'pgtrickle_state');
        ELSE
            SELECT array_agg(objid),
                   bool_or(original AND object_type IN ('function', 'type', 'domain', 'policy',
                           'domain constraint', 'schema', 'extension', 'collation', 'cast'))
              INTO relations, other FROM pg_event_trigger_dropped_objects()
             WHERE NOT is_temporary AND coalesce(schema_name, '') NOT IN
                   ('pgtrickle', 'pgtrickle_changes', 'pgtrickle_state')
               AND (original OR classid = 'pg_class'::regclass);
        END IF;
        IF relations IS NULL THEN
            RETURN;
        END IF;
        FOR one IN SELECT * FROM pgtrickle.list_reshaped(
            CASE WHEN NOT other THEN relations END, TG_EVENT = 'sql_drop'
        ) LOOP
            blocked := one;
            EXIT WHEN block;
            PERFORM FROM pgtrickle.pgt_stream_tables AS s
              WHERE s.pgt_id = one.stream_table AND NOT s.needs_reinit
                FOR NO KEY UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE pgtrickle.pgt_stream_tables SET needs_reinit = true
                 WHERE pgt_id = one.stream_table;
                PERFORM pgtrickle.notify('pg_trickle_alert', json_build_object(
                    'event', 'reinitialize_needed', 'name', one.name,
                    'source', one.source)::text);
            END IF;
        END LOOP;
    EXCEPTION WHEN OTHERS THEN
        RAISE WARNING 'pgtrickle could not watch this command: %', SQLERRM;
        RETURN;
    END;
    IF block AND blocked IS NOT NULL THEN
        RAISE EXCEPTION 'the stream table % reads %: % is refused', blocked.name, blocked.source, TG_TAG
              USING ERRCODE = 'dependent_objects_still_exist',
                    HINT = 'Drop the stream table first, or allow it: '
                           'SET pg_trickle.block_source_ddl = off.';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.watch_ddl() IS 'Note or, with pg_trickle.block_source_ddl, refuse commands that change what a query relies on.';

CREATE FUNCTION pgtrickle.watermark_status() RETURNS TABLE(group_name text, sources text[], tolerance_secs double precision, min_watermark timestamp with time zone, max_watermark timestamp with time zone, lag_secs double precision, aligned boolean, sources_with_watermark bigint, sources_total bigint)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT g.group_name,
           ARRAY(SELECT format('%I.%I', n.nspname, c.relname)
                   FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                  WHERE c.oid = ANY (g.source_relids) ORDER BY 1),
           g.tolerance_secs, min(w.watermark), max(w.watermark),
           extract(epoch FROM max(w.watermark) - min(w.watermark)),
           -- As the scheduler asks.
           coalesce(max(w.watermark) - min(w.watermark)
                        <= g.tolerance_secs * interval '1 second', true),
           count(w.source_relid), cardinality(g.source_relids)
      FROM pgtrickle.pgt_watermark_groups AS g
      LEFT JOIN pgtrickle.pgt_watermarks AS w ON w.source_relid = ANY (g.source_relids)
     GROUP BY g.group_id
     ORDER BY g.group_name
$$;

COMMENT ON FUNCTION pgtrickle.watermark_status() IS 'The watermark groups, how far their watermarks are apart, and whether that is within the tolerance.';

CREATE FUNCTION pgtrickle.watermarks() RETURNS TABLE(source_table text, watermark timestamp with time zone, updated_at timestamp with time zone, advanced_by text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE WHEN c.oid IS NULL THEN w.source_relid::text
                ELSE format('%I.%I', n.nspname, c.relname) END, w.watermark,
           w.updated_at, w.advanced_by
      FROM pgtrickle.pgt_watermarks AS w
      LEFT JOIN pg_class AS c ON c.oid = w.source_relid
      LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.watermarks() IS 'Up to when each source is said to be complete.';

CREATE PROCEDURE pgtrickle.write_and_refresh(IN sql text, IN stream_table_name text, INOUT result jsonb DEFAULT NULL::jsonb)
    LANGUAGE plpgsql
    AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.find_obstacle(failure);
    IF failure.code IS NULL THEN
        EXECUTE write_and_refresh.sql;
        COMMIT;
        CALL pgtrickle.await_request('refresh_stream_table', pg_catalog.jsonb_build_object(
            'name', write_and_refresh.stream_table_name,
            'full', false), result, failure);
    END IF;
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.write_and_refresh(IN sql text, IN stream_table_name text, INOUT result jsonb) IS 'Run a statement, commit it, and wait until a stream table shows what it did.';

CREATE FUNCTION pgtrickle.write_changes(relation oid, buffer text, names text[], numbers smallint[], captured oid[], present oid[], rows text, weight integer) RETURNS text
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT format(
               'INSERT INTO %s (__xid, __weight%s) SELECT pg_catalog.pg_current_xact_id(), %s%s FROM %s',
               buffer, coalesce(string_agg(', ' || quote_ident(name), '' ORDER BY n), ''),
               weight, coalesce(string_agg(', r.c' || n, '' ORDER BY n), ''),
               pgtrickle.name_columns(relation, numbers, rows))
      FROM unnest(names, numbers, captured) AS one (name, n, was)
      JOIN unnest(numbers, present) AS other (n, found) USING (n),
           pgtrickle.find_base_type(found) AS now
     WHERE was = now
        OR EXISTS (SELECT FROM pg_cast AS c
                    WHERE c.castsource = now AND c.casttarget = was
                      AND c.castmethod = 'b' AND c.castcontext IN ('a', 'i'))
$$;

COMMENT ON FUNCTION pgtrickle.write_changes(relation oid, buffer text, names text[], numbers smallint[], captured oid[], present oid[], rows text, weight integer) IS 'Write the statement that copies rows of a relation into its change buffer.';

CREATE FUNCTION pgtrickle_changes.capture_17197_delete() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
DECLARE
    __types pg_catalog.oid[];
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF EXISTS (SELECT FROM __old) THEN
            PERFORM pgtrickle.note_gap(17197::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17228::pg_catalog.oid, 'INSERT') AND pg_catalog.pg_relation_filenode(17197::pg_catalog.oid) = 17197 AND pg_catalog.has_column_privilege(17197::pg_catalog.oid, 1::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17197::pg_catalog.oid, 2::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17197::pg_catalog.oid, 3::pg_catalog.int2, 'SELECT') IS NOT NULL THEN 
        INSERT INTO "pgtrickle_changes"."changes_17197" (__xid, __weight, "id", "region", "mood")
        SELECT pg_catalog.pg_current_xact_id(),  -1, r.c1, r.c2, r.c3 FROM __old AS r (c1, c2, c3);
    ELSE
        BEGIN
        EXECUTE pgtrickle.ask_column_types(17197, ARRAY[1, 2, 3]::pg_catalog.int2[], '__old') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17197, '"pgtrickle_changes"."changes_17197"', ARRAY['id', 'region', 'mood']::pg_catalog.text[], ARRAY[1, 2, 3]::pg_catalog.int2[], ARRAY[23, 25, 17193]::pg_catalog.oid[], __types, '__old',  -1);
        END IF;
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgtrickle.note_gap(
                17197::pg_catalog.oid, 'a change could not be captured: ' || SQLSTATE);
        END;
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) & 8192::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND EXISTS (SELECT FROM __old) THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17197');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE FUNCTION pgtrickle_changes.capture_17197_insert() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
DECLARE
    __types pg_catalog.oid[];
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF EXISTS (SELECT FROM __new) THEN
            PERFORM pgtrickle.note_gap(17197::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17228::pg_catalog.oid, 'INSERT') AND pg_catalog.pg_relation_filenode(17197::pg_catalog.oid) = 17197 AND pg_catalog.has_column_privilege(17197::pg_catalog.oid, 1::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17197::pg_catalog.oid, 2::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17197::pg_catalog.oid, 3::pg_catalog.int2, 'SELECT') IS NOT NULL THEN 
        INSERT INTO "pgtrickle_changes"."changes_17197" (__xid, __weight, "id", "region", "mood")
        SELECT pg_catalog.pg_current_xact_id(), 1, r.c1, r.c2, r.c3 FROM __new AS r (c1, c2, c3);
    ELSE
        BEGIN
        EXECUTE pgtrickle.ask_column_types(17197, ARRAY[1, 2, 3]::pg_catalog.int2[], '__new') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17197, '"pgtrickle_changes"."changes_17197"', ARRAY['id', 'region', 'mood']::pg_catalog.text[], ARRAY[1, 2, 3]::pg_catalog.int2[], ARRAY[23, 25, 17193]::pg_catalog.oid[], __types, '__new', 1);
        END IF;
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgtrickle.note_gap(
                17197::pg_catalog.oid, 'a change could not be captured: ' || SQLSTATE);
        END;
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) & 8192::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND EXISTS (SELECT FROM __new) THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17197');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE FUNCTION pgtrickle_changes.capture_17197_truncate() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF true THEN
            PERFORM pgtrickle.note_gap(17197::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17228::pg_catalog.oid, 'INSERT') THEN
        INSERT INTO "pgtrickle_changes"."changes_17197" (__xid, __weight) VALUES (pg_catalog.pg_current_xact_id(), 0);
    ELSE
        PERFORM pgtrickle.note_gap(17197::pg_catalog.oid, 'its buffer could not be written');
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) & 8192::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND true THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17197');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE FUNCTION pgtrickle_changes.capture_17197_update() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
DECLARE
    __types pg_catalog.oid[];
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF EXISTS (SELECT FROM __old) THEN
            PERFORM pgtrickle.note_gap(17197::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17228::pg_catalog.oid, 'INSERT') AND pg_catalog.pg_relation_filenode(17197::pg_catalog.oid) = 17197 AND pg_catalog.has_column_privilege(17197::pg_catalog.oid, 1::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17197::pg_catalog.oid, 2::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17197::pg_catalog.oid, 3::pg_catalog.int2, 'SELECT') IS NOT NULL THEN 
        INSERT INTO "pgtrickle_changes"."changes_17197" (__xid, __weight, "id", "region", "mood")
        SELECT pg_catalog.pg_current_xact_id(),  -1, r.c1, r.c2, r.c3 FROM __old AS r (c1, c2, c3);
        INSERT INTO "pgtrickle_changes"."changes_17197" (__xid, __weight, "id", "region", "mood")
        SELECT pg_catalog.pg_current_xact_id(), 1, r.c1, r.c2, r.c3 FROM __new AS r (c1, c2, c3);
    ELSE
        BEGIN
        EXECUTE pgtrickle.ask_column_types(17197, ARRAY[1, 2, 3]::pg_catalog.int2[], '__old') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17197, '"pgtrickle_changes"."changes_17197"', ARRAY['id', 'region', 'mood']::pg_catalog.text[], ARRAY[1, 2, 3]::pg_catalog.int2[], ARRAY[23, 25, 17193]::pg_catalog.oid[], __types, '__old',  -1);
        END IF;
        EXECUTE pgtrickle.ask_column_types(17197, ARRAY[1, 2, 3]::pg_catalog.int2[], '__new') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17197, '"pgtrickle_changes"."changes_17197"', ARRAY['id', 'region', 'mood']::pg_catalog.text[], ARRAY[1, 2, 3]::pg_catalog.int2[], ARRAY[23, 25, 17193]::pg_catalog.oid[], __types, '__new', 1);
        END IF;
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgtrickle.note_gap(
                17197::pg_catalog.oid, 'a change could not be captured: ' || SQLSTATE);
        END;
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) & 8192::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND EXISTS (SELECT FROM __old) THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17197');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE FUNCTION pgtrickle_changes.capture_17206_delete() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
DECLARE
    __types pg_catalog.oid[];
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF EXISTS (SELECT FROM __old) THEN
            PERFORM pgtrickle.note_gap(17206::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17251::pg_catalog.oid, 'INSERT') AND pg_catalog.pg_relation_filenode(17206::pg_catalog.oid) = 17206 AND pg_catalog.has_column_privilege(17206::pg_catalog.oid, 1::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17206::pg_catalog.oid, 2::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17206::pg_catalog.oid, 3::pg_catalog.int2, 'SELECT') IS NOT NULL THEN 
        INSERT INTO "pgtrickle_changes"."changes_17206" (__xid, __weight, "id", "customer", "amount")
        SELECT pg_catalog.pg_current_xact_id(),  -1, r.c1, r.c2, r.c3 FROM __old AS r (c1, c2, c3);
    ELSE
        BEGIN
        EXECUTE pgtrickle.ask_column_types(17206, ARRAY[1, 2, 3]::pg_catalog.int2[], '__old') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17206, '"pgtrickle_changes"."changes_17206"', ARRAY['id', 'customer', 'amount']::pg_catalog.text[], ARRAY[1, 2, 3]::pg_catalog.int2[], ARRAY[23, 23, 1700]::pg_catalog.oid[], __types, '__old',  -1);
        END IF;
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgtrickle.note_gap(
                17206::pg_catalog.oid, 'a change could not be captured: ' || SQLSTATE);
        END;
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) & 4194304::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND EXISTS (SELECT FROM __old) THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17206');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE FUNCTION pgtrickle_changes.capture_17206_insert() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
DECLARE
    __types pg_catalog.oid[];
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF EXISTS (SELECT FROM __new) THEN
            PERFORM pgtrickle.note_gap(17206::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17251::pg_catalog.oid, 'INSERT') AND pg_catalog.pg_relation_filenode(17206::pg_catalog.oid) = 17206 AND pg_catalog.has_column_privilege(17206::pg_catalog.oid, 1::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17206::pg_catalog.oid, 2::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17206::pg_catalog.oid, 3::pg_catalog.int2, 'SELECT') IS NOT NULL THEN 
        INSERT INTO "pgtrickle_changes"."changes_17206" (__xid, __weight, "id", "customer", "amount")
        SELECT pg_catalog.pg_current_xact_id(), 1, r.c1, r.c2, r.c3 FROM __new AS r (c1, c2, c3);
    ELSE
        BEGIN
        EXECUTE pgtrickle.ask_column_types(17206, ARRAY[1, 2, 3]::pg_catalog.int2[], '__new') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17206, '"pgtrickle_changes"."changes_17206"', ARRAY['id', 'customer', 'amount']::pg_catalog.text[], ARRAY[1, 2, 3]::pg_catalog.int2[], ARRAY[23, 23, 1700]::pg_catalog.oid[], __types, '__new', 1);
        END IF;
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgtrickle.note_gap(
                17206::pg_catalog.oid, 'a change could not be captured: ' || SQLSTATE);
        END;
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) & 4194304::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND EXISTS (SELECT FROM __new) THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17206');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE FUNCTION pgtrickle_changes.capture_17206_truncate() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF true THEN
            PERFORM pgtrickle.note_gap(17206::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17251::pg_catalog.oid, 'INSERT') THEN
        INSERT INTO "pgtrickle_changes"."changes_17206" (__xid, __weight) VALUES (pg_catalog.pg_current_xact_id(), 0);
    ELSE
        PERFORM pgtrickle.note_gap(17206::pg_catalog.oid, 'its buffer could not be written');
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) & 4194304::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND true THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17206');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE FUNCTION pgtrickle_changes.capture_17206_update() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
DECLARE
    __types pg_catalog.oid[];
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF EXISTS (SELECT FROM __old) THEN
            PERFORM pgtrickle.note_gap(17206::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17251::pg_catalog.oid, 'INSERT') AND pg_catalog.pg_relation_filenode(17206::pg_catalog.oid) = 17206 AND pg_catalog.has_column_privilege(17206::pg_catalog.oid, 1::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17206::pg_catalog.oid, 2::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17206::pg_catalog.oid, 3::pg_catalog.int2, 'SELECT') IS NOT NULL THEN 
        INSERT INTO "pgtrickle_changes"."changes_17206" (__xid, __weight, "id", "customer", "amount")
        SELECT pg_catalog.pg_current_xact_id(),  -1, r.c1, r.c2, r.c3 FROM __old AS r (c1, c2, c3);
        INSERT INTO "pgtrickle_changes"."changes_17206" (__xid, __weight, "id", "customer", "amount")
        SELECT pg_catalog.pg_current_xact_id(), 1, r.c1, r.c2, r.c3 FROM __new AS r (c1, c2, c3);
    ELSE
        BEGIN
        EXECUTE pgtrickle.ask_column_types(17206, ARRAY[1, 2, 3]::pg_catalog.int2[], '__old') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17206, '"pgtrickle_changes"."changes_17206"', ARRAY['id', 'customer', 'amount']::pg_catalog.text[], ARRAY[1, 2, 3]::pg_catalog.int2[], ARRAY[23, 23, 1700]::pg_catalog.oid[], __types, '__old',  -1);
        END IF;
        EXECUTE pgtrickle.ask_column_types(17206, ARRAY[1, 2, 3]::pg_catalog.int2[], '__new') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17206, '"pgtrickle_changes"."changes_17206"', ARRAY['id', 'customer', 'amount']::pg_catalog.text[], ARRAY[1, 2, 3]::pg_catalog.int2[], ARRAY[23, 23, 1700]::pg_catalog.oid[], __types, '__new', 1);
        END IF;
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgtrickle.note_gap(
                17206::pg_catalog.oid, 'a change could not be captured: ' || SQLSTATE);
        END;
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) & 4194304::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_1'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND EXISTS (SELECT FROM __old) THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17206');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE FUNCTION pgtrickle_changes.capture_17216_delete() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
DECLARE
    __types pg_catalog.oid[];
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF EXISTS (SELECT FROM __old) THEN
            PERFORM pgtrickle.note_gap(17216::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17361::pg_catalog.oid, 'INSERT') AND pg_catalog.pg_relation_filenode(17216::pg_catalog.oid) = 17216 AND pg_catalog.has_column_privilege(17216::pg_catalog.oid, 1::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17216::pg_catalog.oid, 2::pg_catalog.int2, 'SELECT') IS NOT NULL THEN 
        INSERT INTO "pgtrickle_changes"."changes_17216" (__xid, __weight, "total")
        SELECT pg_catalog.pg_current_xact_id(),  -1, r.c2 FROM __old AS r (c1, c2);
    ELSE
        BEGIN
        EXECUTE pgtrickle.ask_column_types(17216, ARRAY[2]::pg_catalog.int2[], '__old') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17216, '"pgtrickle_changes"."changes_17216"', ARRAY['total']::pg_catalog.text[], ARRAY[2]::pg_catalog.int2[], ARRAY[1700]::pg_catalog.oid[], __types, '__old',  -1);
        END IF;
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgtrickle.note_gap(
                17216::pg_catalog.oid, 'a change could not be captured: ' || SQLSTATE);
        END;
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_2'::pg_catalog.regclass) & 1::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_2'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND EXISTS (SELECT FROM __old) THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17216');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE FUNCTION pgtrickle_changes.capture_17216_insert() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
DECLARE
    __types pg_catalog.oid[];
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF EXISTS (SELECT FROM __new) THEN
            PERFORM pgtrickle.note_gap(17216::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17361::pg_catalog.oid, 'INSERT') AND pg_catalog.pg_relation_filenode(17216::pg_catalog.oid) = 17216 AND pg_catalog.has_column_privilege(17216::pg_catalog.oid, 1::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17216::pg_catalog.oid, 2::pg_catalog.int2, 'SELECT') IS NOT NULL THEN 
        INSERT INTO "pgtrickle_changes"."changes_17216" (__xid, __weight, "total")
        SELECT pg_catalog.pg_current_xact_id(), 1, r.c2 FROM __new AS r (c1, c2);
    ELSE
        BEGIN
        EXECUTE pgtrickle.ask_column_types(17216, ARRAY[2]::pg_catalog.int2[], '__new') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17216, '"pgtrickle_changes"."changes_17216"', ARRAY['total']::pg_catalog.text[], ARRAY[2]::pg_catalog.int2[], ARRAY[1700]::pg_catalog.oid[], __types, '__new', 1);
        END IF;
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgtrickle.note_gap(
                17216::pg_catalog.oid, 'a change could not be captured: ' || SQLSTATE);
        END;
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_2'::pg_catalog.regclass) & 1::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_2'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND EXISTS (SELECT FROM __new) THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17216');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE FUNCTION pgtrickle_changes.capture_17216_truncate() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF true THEN
            PERFORM pgtrickle.note_gap(17216::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17361::pg_catalog.oid, 'INSERT') THEN
        INSERT INTO "pgtrickle_changes"."changes_17216" (__xid, __weight) VALUES (pg_catalog.pg_current_xact_id(), 0);
    ELSE
        PERFORM pgtrickle.note_gap(17216::pg_catalog.oid, 'its buffer could not be written');
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_2'::pg_catalog.regclass) & 1::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_2'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND true THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17216');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE FUNCTION pgtrickle_changes.capture_17216_update() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '0'
    AS $$
DECLARE
    __types pg_catalog.oid[];
BEGIN
    IF pg_catalog.lower(pg_catalog.current_setting('pg_trickle.enabled', true))
       IN ('off', 'false', 'no', '0') THEN
        IF EXISTS (SELECT FROM __old) THEN
            PERFORM pgtrickle.note_gap(17216::pg_catalog.oid, 'pg_trickle.enabled was off');
        END IF;
        RETURN NULL;
    END IF;
    IF pg_catalog.has_table_privilege(17361::pg_catalog.oid, 'INSERT') AND pg_catalog.pg_relation_filenode(17216::pg_catalog.oid) = 17216 AND pg_catalog.has_column_privilege(17216::pg_catalog.oid, 1::pg_catalog.int2, 'SELECT') IS NOT NULL AND pg_catalog.has_column_privilege(17216::pg_catalog.oid, 2::pg_catalog.int2, 'SELECT') IS NOT NULL THEN 
        INSERT INTO "pgtrickle_changes"."changes_17216" (__xid, __weight, "total")
        SELECT pg_catalog.pg_current_xact_id(),  -1, r.c2 FROM __old AS r (c1, c2);
        INSERT INTO "pgtrickle_changes"."changes_17216" (__xid, __weight, "total")
        SELECT pg_catalog.pg_current_xact_id(), 1, r.c2 FROM __new AS r (c1, c2);
    ELSE
        BEGIN
        EXECUTE pgtrickle.ask_column_types(17216, ARRAY[2]::pg_catalog.int2[], '__old') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17216, '"pgtrickle_changes"."changes_17216"', ARRAY['total']::pg_catalog.text[], ARRAY[2]::pg_catalog.int2[], ARRAY[1700]::pg_catalog.oid[], __types, '__old',  -1);
        END IF;
        EXECUTE pgtrickle.ask_column_types(17216, ARRAY[2]::pg_catalog.int2[], '__new') INTO __types;
        IF __types IS NOT NULL THEN
            EXECUTE pgtrickle.write_changes(
                17216, '"pgtrickle_changes"."changes_17216"', ARRAY['total']::pg_catalog.text[], ARRAY[2]::pg_catalog.int2[], ARRAY[1700]::pg_catalog.oid[], __types, '__new', 1);
        END IF;
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgtrickle.note_gap(
                17216::pg_catalog.oid, 'a change could not be captured: ' || SQLSTATE);
        END;
    END IF;
    IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_2'::pg_catalog.regclass) & 1::pg_catalog.int8 <> 0 THEN
        IF pg_catalog.pg_sequence_last_value('pgtrickle_changes.bell_2'::pg_catalog.regclass) >> 32 > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8
           AND pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')
           AND pg_catalog.pg_notification_queue_usage() < 0.01
           AND EXISTS (SELECT FROM __old) THEN
            PERFORM pg_catalog.pg_notify('pg_trickle_wake', '17216');
        END IF;
    END IF;
    RETURN NULL;
END$$;

CREATE TABLE app.best (
    total numeric
);

COMMENT ON TABLE app.best IS 'pgtrickle stream table, schedule 1h, query: SELECT max(total) AS total FROM app.revenue';

CREATE TABLE app.customers (
    id integer NOT NULL,
    region text NOT NULL,
    mood app.mood
);

CREATE TABLE app.large (
    id integer,
    amount numeric(10,2)
);

COMMENT ON TABLE app.large IS 'pgtrickle stream table, schedule 1h, query: SELECT id, amount FROM app.orders WHERE amount > 4';

CREATE TABLE app.moods (
    mood app.mood
);

COMMENT ON TABLE app.moods IS 'pgtrickle stream table, schedule 1h, query: SELECT DISTINCT mood FROM app.customers';

CREATE TABLE app.orders (
    id integer NOT NULL,
    customer integer,
    amount numeric(10,2)
);

CREATE TABLE app.revenue (
    region text,
    total numeric,
    n bigint
);

COMMENT ON TABLE app.revenue IS 'pgtrickle stream table, schedule 1h, query: SELECT c.region, sum(o.amount) AS total, count(*) AS n FROM app.orders AS o JOIN app.customers AS c ON c.id = o.customer GROUP BY c.region';

CREATE VIEW pgtrickle.acts AS
 SELECT NULL::text AS act,
    NULL::bigint AS stream_table,
    NULL::text AS name,
    NULL::oid AS caller
  WHERE false;

COMMENT ON VIEW pgtrickle.acts IS 'Always empty: what is inserted is done at once, for the role that inserts it.';

CREATE TABLE pgtrickle.pgt_capture_gaps (
    source_relid oid NOT NULL,
    pgt_id bigint,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    reason text NOT NULL,
    noted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_capture_gaps IS 'Transactions with changes that no buffer holds: a frontier that does not see one starts anew.';

COMMENT ON COLUMN pgtrickle.pgt_capture_gaps.pgt_id IS 'The one stream table for which they are missing; NULL: for all.';

CREATE TABLE pgtrickle.pgt_change_tracking (
    source_relid oid NOT NULL,
    source_schema text NOT NULL,
    source_name text NOT NULL,
    buffer_name text NOT NULL,
    captured_columns text[] NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    layout text,
    cdc_mode text DEFAULT 'TRIGGER'::text NOT NULL,
    wal_from pg_lsn,
    publication_member oid,
    former_replica_identity text,
    cdc_note text,
    wal_lost_at timestamp with time zone,
    durability text,
    paused_at timestamp with time zone,
    delay_ms integer DEFAULT 0 NOT NULL,
    overfull integer DEFAULT 0 NOT NULL,
    alerted_at timestamp with time zone,
    compacted_rows bigint DEFAULT 0 NOT NULL,
    trimmed_before xid8,
    CONSTRAINT pgt_change_tracking_cdc_mode_known CHECK ((cdc_mode = ANY (ARRAY['TRIGGER'::text, 'WAL'::text]))),
    CONSTRAINT pgt_change_tracking_delay_not_negative CHECK ((delay_ms >= 0)),
    CONSTRAINT pgt_change_tracking_durability_known CHECK ((durability = ANY (ARRAY['unlogged'::text, 'logged'::text, 'sync'::text]))),
    CONSTRAINT pgt_change_tracking_wal_starts_somewhere CHECK (((cdc_mode = 'WAL'::text) = (wal_from IS NOT NULL)))
);

COMMENT ON TABLE pgtrickle.pgt_change_tracking IS 'Source tables whose changes are captured, and where they are kept.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.layout IS 'For which files and column numbers the capture functions were written.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.cdc_mode IS 'Who writes the buffer now: triggers, or the reader of the write-ahead log.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.wal_from IS 'Transactions that committed before it were captured by triggers.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.publication_member IS 'The row of pg_publication_rel: another one means that the table was not published for a time.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.former_replica_identity IS 'What to set again when the log is no longer read; NULL: nothing was changed.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.cdc_note IS 'Why the source is captured in another way than was asked for.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.wal_lost_at IS 'When the log last failed to tell the changes of the source; NULL: never.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.durability IS 'What a crash leaves of the buffer; NULL: logged, as earlier versions made it.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.paused_at IS 'Since when nothing is captured; NULL: everything is.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.delay_ms IS 'How long each writing statement is held up, so that refreshes catch up.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.overfull IS 'How many times in a row the buffer was found above its limit.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.alerted_at IS 'When an alert about the size of the buffer was sent; NULL: it is small again.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.compacted_rows IS 'How many rows the last compaction left.';

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.trimmed_before IS 'The least end of the frontiers up to which changes were deleted: an older one needs them back.';

CREATE TABLE pgtrickle.pgt_daemons (
    daemon text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    package text
);

COMMENT ON TABLE pgtrickle.pgt_daemons IS 'The daemons on this database, those that stand by too, and when each last showed a sign of life.';

COMMENT ON COLUMN pgtrickle.pgt_daemons.package IS 'The version of the package that it runs.';

CREATE TABLE pgtrickle.pgt_dependencies (
    pgt_id bigint NOT NULL,
    source_relid oid NOT NULL,
    source_schema text NOT NULL,
    source_name text NOT NULL,
    source_type text NOT NULL,
    columns_used text[] NOT NULL,
    schema_fingerprint text NOT NULL,
    CONSTRAINT pgt_dependencies_source_type_known CHECK ((source_type = ANY (ARRAY['TABLE'::text, 'STREAM_TABLE'::text, 'VIEW'::text, 'MATVIEW'::text, 'FOREIGN_TABLE'::text])))
);

COMMENT ON TABLE pgtrickle.pgt_dependencies IS 'Which columns of which relation a stream table reads, and their shape when it was compiled.';

CREATE TABLE pgtrickle.pgt_ducklake_intents (
    pgt_id bigint NOT NULL,
    token text NOT NULL,
    snapshot_id bigint NOT NULL,
    first_file_id bigint NOT NULL,
    paths text[] NOT NULL,
    loads boolean NOT NULL,
    before jsonb NOT NULL,
    delivery_id bigint,
    refresh_id bigint,
    frontier jsonb,
    rows_written bigint DEFAULT 0 NOT NULL,
    rows_deleted bigint DEFAULT 0 NOT NULL,
    bytes_written bigint DEFAULT 0 NOT NULL,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_intents IS 'A snapshot of a lake in another database that was about to be committed there, until it is known whether it was.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_intents.token IS 'Stands in the extra information of the snapshot, if that was committed.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_intents.first_file_id IS 'Files of the lake from this id on are its own; if it was not committed, they are others''.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_intents.paths IS 'The files that it was to bring, which go if it was not committed.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_intents.before IS 'How far the sink was before.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_intents.delivery_id IS 'The delivery that it belongs to; NULL: it merges files.';

CREATE TABLE pgtrickle.pgt_ducklake_moves (
    catalog_dsn text NOT NULL,
    from_schema text NOT NULL,
    to_schema text NOT NULL,
    moved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pgt_ducklake_moves_lead_away CHECK ((from_schema <> to_schema))
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_moves IS 'Where the catalog of a lake went, for processes whose settings still name where it was.';

CREATE TABLE pgtrickle.pgt_ducklake_provenance (
    provenance_id bigint NOT NULL,
    stream_table_oid oid NOT NULL,
    stream_table_name text NOT NULL,
    ducklake_snapshot_id bigint NOT NULL,
    refresh_id bigint,
    frontier jsonb,
    delta_row_count bigint NOT NULL,
    written_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_provenance IS 'Which refresh of which stream table each snapshot of the lake came from.';

ALTER TABLE pgtrickle.pgt_ducklake_provenance ALTER COLUMN provenance_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgtrickle.pgt_ducklake_provenance_provenance_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE pgtrickle.pgt_ducklake_sink_delivery ALTER COLUMN delivery_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgtrickle.pgt_ducklake_sink_delivery_delivery_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE pgtrickle.pgt_ducklake_sources ALTER COLUMN source_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgtrickle.pgt_ducklake_sources_source_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgtrickle.pgt_grants (
    level text NOT NULL,
    privilege text NOT NULL,
    target text NOT NULL,
    CONSTRAINT pgt_grants_level_known CHECK ((level = ANY (ARRAY['reader'::text, 'operator'::text])))
);

COMMENT ON TABLE pgtrickle.pgt_grants IS 'What each level of access comes to; an operator may do what a reader may.';

CREATE TABLE pgtrickle.pgt_leader (
    only_one boolean DEFAULT true NOT NULL,
    owner text NOT NULL,
    acquired_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT pgt_leader_only_one_check CHECK (only_one)
);

COMMENT ON TABLE pgtrickle.pgt_leader IS 'Which daemon schedules refreshes, and until when unless it says that it lives.';

CREATE TABLE pgtrickle.pgt_leases (
    pgt_id bigint NOT NULL,
    owner text NOT NULL,
    token bigint NOT NULL,
    acquired_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT pgt_leases_expire_after_acquisition CHECK ((expires_at > acquired_at))
);

COMMENT ON TABLE pgtrickle.pgt_leases IS 'Which process may refresh a stream table, until when, and the token that fences it.';

CREATE SEQUENCE pgtrickle.pgt_lease_tokens
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE pgtrickle.pgt_lease_tokens OWNED BY pgtrickle.pgt_leases.token;

CREATE TABLE pgtrickle.pgt_locks (
    purpose text NOT NULL,
    relid oid NOT NULL,
    CONSTRAINT pgt_locks_have_a_purpose CHECK ((purpose = ANY (ARRAY['capture'::text, 'buffer'::text, 'watch'::text])))
);

COMMENT ON TABLE pgtrickle.pgt_locks IS 'Rows that are locked while something is changed, and never changed themselves.';

COMMENT ON COLUMN pgtrickle.pgt_locks.purpose IS 'capture: who changes the capture of a source; buffer: who deletes from its buffer; watch: who makes the event triggers.';

CREATE TABLE pgtrickle.pgt_refresh_groups (
    group_id bigint NOT NULL,
    group_name text NOT NULL,
    member_oids oid[] NOT NULL,
    isolation text DEFAULT 'read_committed'::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT pgt_refresh_groups_have_members CHECK ((cardinality(member_oids) >= 2)),
    CONSTRAINT pgt_refresh_groups_isolation_is_known CHECK ((isolation = ANY (ARRAY['read_committed'::text, 'repeatable_read'::text])))
);

COMMENT ON TABLE pgtrickle.pgt_refresh_groups IS 'Stream tables that are refreshed at one moment and committed together (repeatable_read).';

ALTER TABLE pgtrickle.pgt_refresh_groups ALTER COLUMN group_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgtrickle.pgt_refresh_groups_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgtrickle.pgt_refresh_history (
    refresh_id bigint NOT NULL,
    pgt_id bigint NOT NULL,
    data_timestamp timestamp with time zone,
    start_time timestamp with time zone NOT NULL,
    end_time timestamp with time zone,
    action text,
    status text NOT NULL,
    reason text NOT NULL,
    rows_inserted bigint NOT NULL,
    rows_deleted bigint NOT NULL,
    delta_row_count bigint NOT NULL,
    reads jsonb NOT NULL,
    timings jsonb NOT NULL,
    predicted_ms double precision,
    initiated_by text NOT NULL,
    error_code text,
    error_message text,
    predicted_differential_ms double precision,
    predicted_full_ms double precision,
    actual_ms double precision,
    rows_read bigint,
    bytes_read bigint,
    cost jsonb,
    error_hint text,
    changed_rows bigint,
    CONSTRAINT pgt_refresh_history_action_known CHECK ((action = ANY (ARRAY['NO_DATA'::text, 'DIFFERENTIAL'::text, 'FULL'::text, 'REINITIALIZE'::text, 'SKIPPED'::text]))),
    CONSTRAINT pgt_refresh_history_completed_has_action CHECK (((status <> 'COMPLETED'::text) OR (action IS NOT NULL))),
    CONSTRAINT pgt_refresh_history_counts_not_negative CHECK (((rows_inserted >= 0) AND (rows_deleted >= 0) AND (delta_row_count >= 0))),
    CONSTRAINT pgt_refresh_history_ends_after_start CHECK ((end_time >= start_time)),
    CONSTRAINT pgt_refresh_history_ends_unless_running CHECK (((end_time IS NULL) = (status = 'RUNNING'::text))),
    CONSTRAINT pgt_refresh_history_initiator_known CHECK ((initiated_by = ANY (ARRAY['MANUAL'::text, 'INITIAL'::text, 'SCHEDULER'::text]))),
    CONSTRAINT pgt_refresh_history_status_known CHECK ((status = ANY (ARRAY['RUNNING'::text, 'COMPLETED'::text, 'FAILED'::text, 'CANCELLED'::text, 'SKIPPED'::text])))
);

COMMENT ON TABLE pgtrickle.pgt_refresh_history IS 'What every refresh did, why, and at what cost.';

COMMENT ON COLUMN pgtrickle.pgt_refresh_history.delta_row_count IS 'rows_inserted and rows_deleted together; an updated row of the stream table is in both.';

COMMENT ON COLUMN pgtrickle.pgt_refresh_history.actual_ms IS 'From the snapshot to the commit; compiling the query is not part of it.';

COMMENT ON COLUMN pgtrickle.pgt_refresh_history.rows_read IS 'By all reads together; NULL where executors read without counting.';

COMMENT ON COLUMN pgtrickle.pgt_refresh_history.cost IS 'The work that was counted for each action, for refreshes that later predictions learn from.';

COMMENT ON COLUMN pgtrickle.pgt_refresh_history.error_hint IS 'What whoever met the error was told to do.';

COMMENT ON COLUMN pgtrickle.pgt_refresh_history.changed_rows IS 'How many rows of the sources had changed; an updated one counts once.';

ALTER TABLE pgtrickle.pgt_refresh_history ALTER COLUMN refresh_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgtrickle.pgt_refresh_history_refresh_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgtrickle.pgt_refresh_progress (
    pgt_id bigint NOT NULL,
    stage text NOT NULL,
    rows_read bigint NOT NULL,
    rows_staged bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_refresh_progress IS 'How far the large refreshes are that run now; a row that is no longer updated was left by a process that died.';

CREATE TABLE pgtrickle.pgt_request_servers (
    server text NOT NULL,
    beat_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_request_servers IS 'The daemons that execute requests, and when each last showed a sign of life.';

CREATE TABLE pgtrickle.pgt_request_signs (
    request_id bigint NOT NULL,
    seen_at timestamp with time zone,
    cancelled_at timestamp with time zone
);

COMMENT ON TABLE pgtrickle.pgt_request_signs IS 'When callers last looked for an answer, and whether they took their requests back.';

CREATE TABLE pgtrickle.pgt_requests (
    request_id bigint NOT NULL,
    verb text NOT NULL,
    arguments jsonb NOT NULL,
    caller text DEFAULT CURRENT_USER NOT NULL,
    schemas text[] DEFAULT current_schemas(false) NOT NULL,
    requested_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    seen_at timestamp with time zone,
    cancelled_at timestamp with time zone,
    status text DEFAULT 'QUEUED'::text NOT NULL,
    server text,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    notices text[] DEFAULT '{}'::text[] NOT NULL,
    result jsonb,
    error jsonb,
    caller_oid oid DEFAULT (to_regrole(quote_ident((CURRENT_USER)::text)))::oid NOT NULL,
    CONSTRAINT pgt_requests_arguments_few CHECK (((jsonb_typeof(arguments) <> 'object'::text) OR (jsonb_array_length(jsonb_path_query_array(arguments, '$.keyvalue()'::jsonpath)) <= 64))),
    CONSTRAINT pgt_requests_arguments_have_names CHECK ((jsonb_typeof(arguments) = 'object'::text)),
    CONSTRAINT pgt_requests_arguments_short CHECK ((octet_length((arguments)::text) <= 1048576)),
    CONSTRAINT pgt_requests_failed_has_error CHECK (((status <> 'FAILED'::text) OR (error IS NOT NULL))),
    CONSTRAINT pgt_requests_schemas_few CHECK ((cardinality(schemas) <= 200)),
    CONSTRAINT pgt_requests_status_known CHECK ((status = ANY (ARRAY['QUEUED'::text, 'RUNNING'::text, 'COMPLETED'::text, 'FAILED'::text, 'CANCELLED'::text]))),
    CONSTRAINT pgt_requests_verb_short CHECK ((octet_length(verb) <= 63))
);

COMMENT ON TABLE pgtrickle.pgt_requests IS 'What sessions ask the daemon to do, and what came of it.';

COMMENT ON COLUMN pgtrickle.pgt_requests.schemas IS 'The search path of the caller: where names without a schema are looked for.';

COMMENT ON COLUMN pgtrickle.pgt_requests.seen_at IS 'When the caller began to wait for the answer; NULL: nobody waits for it.';

COMMENT ON COLUMN pgtrickle.pgt_requests.cancelled_at IS 'No longer written: see pgt_request_signs.';

COMMENT ON COLUMN pgtrickle.pgt_requests.caller_oid IS 'The role that asks; nobody may write this column. caller is the name that it had.';

ALTER TABLE pgtrickle.pgt_requests ALTER COLUMN request_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgtrickle.pgt_requests_request_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgtrickle.pgt_scheduler_pauses (
    pgt_id bigint,
    paused_at timestamp with time zone DEFAULT now() NOT NULL,
    paused_by text DEFAULT CURRENT_USER NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_scheduler_pauses IS 'What the scheduler leaves alone: a stream table, or with NULL everything (drained).';

CREATE TABLE pgtrickle.pgt_schema_version (
    version integer NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    description text NOT NULL,
    sha256 text NOT NULL,
    CONSTRAINT pgt_schema_version_counts_from_one CHECK ((version >= 1))
);

COMMENT ON TABLE pgtrickle.pgt_schema_version IS 'Which migrations the catalog has had, and the hash of each as it was applied.';

CREATE TABLE pgtrickle.pgt_settings (
    name text NOT NULL,
    value text,
    type text NOT NULL,
    default_value text NOT NULL,
    unit text NOT NULL,
    low double precision,
    high double precision,
    choices text[] NOT NULL,
    doc text NOT NULL,
    updated_at timestamp with time zone,
    updated_by text,
    CONSTRAINT pgt_settings_hold_no_password CHECK (((name <> 'ducklake_catalog_dsn'::text) OR (value IS NULL) OR (NOT ((value ~* 'password\s*=\s*''?(?!\$\{ENV:)[^\s'']'::text) OR (value ~ '://[^/@:]*:(?!\$\{ENV:)[^/@]+@'::text))))),
    CONSTRAINT pgt_settings_type_known CHECK ((type = ANY (ARRAY['bool'::text, 'int'::text, 'float'::text, 'str'::text]))),
    CONSTRAINT pgt_settings_value_short CHECK ((octet_length(value) <= 8192))
);

COMMENT ON TABLE pgtrickle.pgt_settings IS 'Every setting that processes know, and the value that was given for this database.';

CREATE TABLE pgtrickle.pgt_source_gates (
    source_relid oid NOT NULL,
    gated boolean DEFAULT true NOT NULL,
    gated_at timestamp with time zone DEFAULT now() NOT NULL,
    ungated_at timestamp with time zone,
    gated_by text DEFAULT CURRENT_USER NOT NULL,
    CONSTRAINT pgt_source_gates_gated_at_a_moment CHECK (((gated_at >= '0002-01-01 00:00:00+00'::timestamp with time zone) AND (gated_at <= '9998-12-31 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT pgt_source_gates_ungated_at_a_moment CHECK (((ungated_at >= '0002-01-01 00:00:00+00'::timestamp with time zone) AND (ungated_at <= '9998-12-31 00:00:00+00'::timestamp with time zone)))
);

COMMENT ON TABLE pgtrickle.pgt_source_gates IS 'Sources whose consumers the scheduler leaves alone, as long as they are gated.';

CREATE TABLE pgtrickle.pgt_sql_api (
    name text NOT NULL,
    sha256 text NOT NULL,
    content text NOT NULL,
    package text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_sql_api IS 'The files that define functions, procedures, views, policies and triggers, as last applied.';

COMMENT ON COLUMN pgtrickle.pgt_sql_api.content IS 'The text, which pgtrickle.migrate() applies again.';

COMMENT ON COLUMN pgtrickle.pgt_sql_api.package IS 'The version of the package that applied it.';

ALTER TABLE pgtrickle.pgt_stream_tables ALTER COLUMN pgt_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgtrickle.pgt_stream_tables_pgt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgtrickle.pgt_subscriptions (
    pgt_id bigint NOT NULL,
    channel text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text NOT NULL,
    notified_at timestamp with time zone,
    pending_refresh_id bigint,
    pending_inserted bigint DEFAULT 0 NOT NULL,
    pending_deleted bigint DEFAULT 0 NOT NULL,
    subscriber_oid oid NOT NULL,
    CONSTRAINT pgt_subscriptions_channel_fits CHECK (((octet_length(channel) >= 1) AND (octet_length(channel) <= 63))),
    CONSTRAINT pgt_subscriptions_channel_not_ours CHECK (((channel !~ '[[:cntrl:]]'::text) AND (NOT starts_with(channel, 'pg_trickle'::text)))),
    CONSTRAINT pgt_subscriptions_pending_not_negative CHECK (((pending_inserted >= 0) AND (pending_deleted >= 0)))
);

COMMENT ON TABLE pgtrickle.pgt_subscriptions IS 'Channels that are told of each refresh that changed a stream table.';

COMMENT ON COLUMN pgtrickle.pgt_subscriptions.pending_refresh_id IS 'The latest refresh that has not been told yet; the counts are of all since the last notice.';

COMMENT ON COLUMN pgtrickle.pgt_subscriptions.subscriber_oid IS 'The role whose subscription it is; created_by is the name that it had.';

CREATE TABLE pgtrickle.pgt_successors (
    pgt_id bigint NOT NULL,
    alive_until timestamp with time zone NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_successors IS 'Stream tables that are to replace the contents of another, and until when their maker is alive.';

CREATE UNLOGGED TABLE pgtrickle.pgt_unlogged_buffers (
    source_relid oid NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_unlogged_buffers IS 'Unlogged buffers that no crash has emptied so far.';

CREATE TABLE pgtrickle.pgt_wal_slots (
    slot_name text NOT NULL,
    publication_name text NOT NULL,
    "position" pg_lsn NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_wal_slots IS 'The logical slot of this database, and up to where its changes are in the buffers.';

COMMENT ON COLUMN pgtrickle.pgt_wal_slots."position" IS 'Every transaction whose commit record starts before it has been written to the buffers.';

CREATE TABLE pgtrickle.pgt_watermark_groups (
    group_id bigint NOT NULL,
    group_name text NOT NULL,
    source_relids oid[] NOT NULL,
    tolerance_secs double precision DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT pgt_watermark_groups_have_sources CHECK ((cardinality(source_relids) >= 2)),
    CONSTRAINT pgt_watermark_groups_name_short CHECK ((octet_length(group_name) <= 255)),
    CONSTRAINT pgt_watermark_groups_sources_few CHECK ((cardinality(source_relids) <= 1000)),
    CONSTRAINT pgt_watermark_groups_tolerance_finite CHECK ((tolerance_secs <= ('1000000000'::numeric)::double precision)),
    CONSTRAINT pgt_watermark_groups_tolerance_not_negative CHECK ((tolerance_secs >= (0)::double precision))
);

COMMENT ON TABLE pgtrickle.pgt_watermark_groups IS 'Sources that must be complete up to about the same moment before they are read together.';

ALTER TABLE pgtrickle.pgt_watermark_groups ALTER COLUMN group_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgtrickle.pgt_watermark_groups_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgtrickle.pgt_watermarks (
    source_relid oid NOT NULL,
    watermark timestamp with time zone NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    advanced_by text DEFAULT CURRENT_USER NOT NULL,
    CONSTRAINT pgt_watermarks_are_moments CHECK (((watermark >= '0002-01-01 00:00:00+00'::timestamp with time zone) AND (watermark <= '9998-12-31 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT pgt_watermarks_updated_at_a_moment CHECK (((updated_at >= '0002-01-01 00:00:00+00'::timestamp with time zone) AND (updated_at <= '9998-12-31 00:00:00+00'::timestamp with time zone)))
);

COMMENT ON TABLE pgtrickle.pgt_watermarks IS 'Up to when a source is complete, as whoever loads it says.';

CREATE VIEW pgtrickle.stream_tables_info AS
 SELECT s.pgt_id,
    s.pgt_schema,
    s.pgt_name,
    s.defining_query,
    s.original_query,
    s.schedule,
    s.refresh_mode,
    s.effective_refresh_mode,
    s.downgrade_reason,
    s.status,
    s.is_populated,
    s.needs_reinit,
    s.data_timestamp,
    s.last_refresh_at,
    s.consecutive_errors,
    s.last_error_message,
    s.last_error_at,
    s.owner_role,
    s.max_delta_fraction,
    s.requested_cdc_mode,
    s.tier,
    s.fuse,
    s.fuse_ceiling,
    s.fuse_sensitivity,
    s.diamond_consistency,
    s.diamond_schedule_policy,
    s.created_at,
    s.updated_at,
    (clock_timestamp() - s.data_timestamp) AS staleness,
    ((s.last_refresh_at + make_interval(secs => ((10)::double precision + (((2 * t.factor))::double precision *
        CASE
            WHEN (s.schedule <> 'calculated'::text) THEN pgtrickle.parse_duration_seconds(s.schedule)
            WHEN (NOT (EXISTS ( SELECT
               FROM pgtrickle.pgt_dependencies d
              WHERE (d.source_relid = s.pgt_relid)))) THEN (1)::double precision
            ELSE NULL::double precision
        END)))) < clock_timestamp()) AS stale,
    (EXISTS ( SELECT
           FROM pgtrickle.pgt_stream_tables n
          WHERE ((n.pgt_schema = 'pgtrickle_state'::text) AND (n.pgt_name = format('next_%s'::text, s.pgt_id))))) AS being_replaced,
    ((s.consecutive_errors > 0) OR ((s.fuse_blown_at IS NULL) AND (s.last_error_message IS NOT NULL) AND (s.last_error_at > COALESCE(s.last_refresh_at, '-infinity'::timestamp with time zone)))) AS failing
   FROM (pgtrickle.pgt_stream_tables s
     LEFT JOIN ( VALUES ('hot'::text,1), ('warm'::text,2), ('cold'::text,10)) t(tier, factor) ON ((t.tier = s.tier)))
  WHERE (s.pgt_schema <> 'pgtrickle_state'::text);

COMMENT ON VIEW pgtrickle.stream_tables_info IS 'Every stream table with all that is known of it; stale says that its refresh is late, failing that the last one failed, being_replaced that another query is being loaded for it.';

CREATE VIEW pgtrickle.quick_health AS
 SELECT
        CASE
            WHEN (NOT (EXISTS ( SELECT
               FROM pgtrickle.stream_tables_info))) THEN 'EMPTY'::text
            WHEN bool_or((severity = 'CRITICAL'::text)) THEN 'CRITICAL'::text
            WHEN bool_or((severity = 'WARNING'::text)) THEN 'WARNING'::text
            ELSE 'OK'::text
        END AS status,
    ( SELECT count(*) AS count
           FROM pgtrickle.stream_tables_info) AS stream_tables,
    string_agg(((check_name || ': '::text) || detail), '; '::text) FILTER (WHERE (severity <> 'OK'::text)) AS detail
   FROM pgtrickle.health_check() health_check(check_name, severity, detail);

COMMENT ON VIEW pgtrickle.quick_health IS 'EMPTY, OK, WARNING or CRITICAL, in one row.';

CREATE VIEW pgtrickle.requests WITH (security_invoker='true') AS
 SELECT r.request_id,
    r.verb,
    r.arguments,
    r.caller,
    r.requested_at,
    r.status,
    r.started_at,
    r.ended_at,
    (s.cancelled_at IS NOT NULL) AS cancelled,
    r.notices,
    r.result,
    r.error
   FROM (pgtrickle.pgt_requests r
     LEFT JOIN pgtrickle.pgt_request_signs s USING (request_id));

COMMENT ON VIEW pgtrickle.requests IS 'One''s own requests of the last day.';

CREATE SEQUENCE pgtrickle_changes.bell_0
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

COMMENT ON SEQUENCE pgtrickle_changes.bell_0 IS 'Whether writers are to ring the bell, and until when; so are the others.';

CREATE SEQUENCE pgtrickle_changes.bell_1
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE SEQUENCE pgtrickle_changes.bell_2
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE SEQUENCE pgtrickle_changes.bell_3
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE SEQUENCE pgtrickle_changes.bell_4
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE SEQUENCE pgtrickle_changes.bell_5
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE SEQUENCE pgtrickle_changes.bell_6
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE SEQUENCE pgtrickle_changes.bell_7
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE TABLE pgtrickle_changes.changes_17197 (
    __xid xid8 NOT NULL,
    id integer,
    __weight smallint NOT NULL,
    region text,
    mood app.mood
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='1000000', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='20000', autovacuum_vacuum_cost_delay='0');

CREATE TABLE pgtrickle_changes.changes_17197_settled (
)
INHERITS (pgtrickle_changes.changes_17197);

CREATE TABLE pgtrickle_changes.changes_17206 (
    __xid xid8 NOT NULL,
    customer integer,
    __weight smallint NOT NULL,
    amount numeric,
    id integer
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='1000000', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='20000', autovacuum_vacuum_cost_delay='0');

CREATE TABLE pgtrickle_changes.changes_17206_settled (
)
INHERITS (pgtrickle_changes.changes_17206);

CREATE TABLE pgtrickle_changes.changes_17216 (
    __xid xid8 NOT NULL,
    __weight smallint NOT NULL,
    total numeric
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='1000000', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='20000', autovacuum_vacuum_cost_delay='0');

CREATE TABLE pgtrickle_changes.changes_17216_settled (
)
INHERITS (pgtrickle_changes.changes_17216);

CREATE TABLE pgtrickle_state.st_1_group_1 (
    c_region_key text,
    __count bigint,
    n1 bigint,
    s2 numeric
);

CREATE TABLE pgtrickle_state.st_3_group_1 (
    mood app.mood,
    __count bigint
);

CREATE TABLE pgtrickle_state.st_4_group_1 (
    __count bigint,
    max numeric
);

CREATE TABLE pgtrickle_state.st_4_group_1_v1 (
    revenue_total_in numeric,
    __count bigint
);

ALTER TABLE ONLY pgtrickle.acts ALTER COLUMN caller SET DEFAULT (to_regrole(quote_ident((CURRENT_USER)::text)))::oid;

ALTER TABLE ONLY pgtrickle.pgt_leases ALTER COLUMN token SET DEFAULT nextval('pgtrickle.pgt_lease_tokens'::regclass);

--
-- Data for Name: best; Type: TABLE DATA; Schema: app; Owner: -
--

INSERT INTO app.best VALUES (25.00);

--
-- Data for Name: customers; Type: TABLE DATA; Schema: app; Owner: -
--

INSERT INTO app.customers VALUES (1, 'north', 'good');
INSERT INTO app.customers VALUES (2, 'south', 'bad');
INSERT INTO app.customers VALUES (3, 'west', NULL);

--
-- Data for Name: large; Type: TABLE DATA; Schema: app; Owner: -
--

INSERT INTO app.large VALUES (1, 10.00);
INSERT INTO app.large VALUES (2, 25.00);
INSERT INTO app.large VALUES (3, 5.00);

--
-- Data for Name: moods; Type: TABLE DATA; Schema: app; Owner: -
--

INSERT INTO app.moods VALUES ('bad');
INSERT INTO app.moods VALUES (NULL);
INSERT INTO app.moods VALUES ('good');

--
-- Data for Name: orders; Type: TABLE DATA; Schema: app; Owner: -
--

INSERT INTO app.orders VALUES (1, 1, 10.00);
INSERT INTO app.orders VALUES (2, 2, 25.00);
INSERT INTO app.orders VALUES (3, 3, 5.00);
INSERT INTO app.orders VALUES (5, 2, 7.00);
INSERT INTO app.orders VALUES (6, 3, 1.00);

--
-- Data for Name: revenue; Type: TABLE DATA; Schema: app; Owner: -
--

INSERT INTO app.revenue VALUES ('south', 32.00, 2);
INSERT INTO app.revenue VALUES ('north', 10.00, 1);
INSERT INTO app.revenue VALUES ('west', 6.00, 2);

--
-- Data for Name: pgt_capture_gaps; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_change_tracking; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_change_tracking VALUES (17206, 'app', 'orders', 'changes_17206', '{id,customer,amount}', '2026-11-18 01:46:07.433768+00', '81181a4d9f74798f29c1a0243c425a7a', 'TRIGGER', NULL, NULL, NULL, NULL, NULL, 'logged', NULL, 0, 0, NULL, 0, NULL);
INSERT INTO pgtrickle.pgt_change_tracking VALUES (17197, 'app', 'customers', 'changes_17197', '{id,region,mood}', '2026-11-18 01:46:07.433768+00', '422a18cfe4b6d0143edddf2c9ee0b7b7', 'TRIGGER', NULL, NULL, NULL, NULL, NULL, 'logged', NULL, 0, 0, NULL, 0, NULL);
INSERT INTO pgtrickle.pgt_change_tracking VALUES (17216, 'app', 'revenue', 'changes_17216', '{total}', '2026-11-18 01:46:08.760144+00', 'ce6219de4d52330b85d5cfea3ccf538f', 'TRIGGER', NULL, NULL, NULL, NULL, NULL, 'logged', NULL, 0, 0, NULL, 0, NULL);

--
-- Data for Name: pgt_daemons; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_dependencies; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_dependencies VALUES (1, 17206, 'app', 'orders', 'TABLE', '{amount,customer}', 'columns=fb02d2cfcb59ae79e059602a9aa532e7');
INSERT INTO pgtrickle.pgt_dependencies VALUES (1, 17197, 'app', 'customers', 'TABLE', '{id,region}', 'columns=d06e2e04b28f2b5f1562bd8132adc08c');
INSERT INTO pgtrickle.pgt_dependencies VALUES (2, 17206, 'app', 'orders', 'TABLE', '{amount,id}', 'columns=9e6630603cac6162ced2eb89e75434eb');
INSERT INTO pgtrickle.pgt_dependencies VALUES (3, 17197, 'app', 'customers', 'TABLE', '{mood}', 'columns=83dc17732254d44db257b38d492e7909 types=330e2978734386717c9647dae955c23a');
INSERT INTO pgtrickle.pgt_dependencies VALUES (4, 17216, 'app', 'revenue', 'STREAM_TABLE', '{total}', 'columns=33e64b7277872e8c735fa25935026355');

--
-- Data for Name: pgt_ducklake_intents; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_ducklake_moves; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_ducklake_provenance; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_ducklake_sink_delivery; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_ducklake_sinks; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_ducklake_sources; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_grants; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.advance_watermark(regclass,timestamp with time zone)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.alter_stream_table(text,text,text,text,text,text,text,text,text,bigint,double precision,text,text,text,text,text,text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.attach_ducklake_table(text,text,text[],text,text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.await_request(text,jsonb,jsonb,pgtrickle.pgt_failure)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.bootstrap_gate_status()');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.bulk_alter_stream_tables(text[],jsonb,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.bulk_create(jsonb,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.bulk_drop_stream_tables(text[],jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.cancel_request(bigint)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.change_buffer_sizes()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.check_cdc_health()');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.check_may_act_on(oid[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.check_may_ask(oid)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.check_may_group(oid[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.create_or_replace_stream_table(text,text,text,text,boolean,text,double precision,text,text,text,text,text,text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.create_refresh_group(text,text[],text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.create_stream_table(text,text,text,text,boolean,text,double precision,text,text,text,text,text,text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.create_stream_table_if_not_exists(text,text,text,text,boolean,text,double precision,text,text,text,text,text,text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.create_watermark_group(text,regclass[],double precision)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.daemons()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.dependency_tree()');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.detach_ducklake_table(text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.diagnose_errors(text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.diamond_groups(jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.drop_refresh_group(text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.drop_stream_table(text,boolean,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.drop_watermark_group(text)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.ducklake_catalogs()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.ducklake_sink_status()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.ducklake_sources()');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.explain(text)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.explain_dag(text)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.explain_delta(text,text)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.explain_query_rewrite(text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.explain_refresh_mode(text,name[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.explain_st(text,name[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.explain_stream_table(text,text,text)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.export_definition(text,name[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.find_obstacle(pgtrickle.pgt_failure)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.find_stream_table(text,name[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.find_transaction_block(pgtrickle.pgt_failure)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.follow_request(bigint,integer,boolean)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.fuse_status()');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.gate_source(regclass)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.get_refresh_history(text,integer,name[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.get_staleness(text,name[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.health_check()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.is_drained()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.is_served()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.list_holds()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.list_sources(text,name[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.list_subscriptions()');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.may_act_on(oid[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.move_ducklake_catalog(text,text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.parse_duration_seconds(text)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.pause_scheduler(text[],jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.perform_request(text,jsonb,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.pgt_scc_status()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.pgt_status()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.refresh_efficiency()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.refresh_groups()');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.refresh_stream_table(text,boolean,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.refresh_timeline(integer)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.refusal_of_commit()');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.rename_stream_table(text,text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.repair_stream_table(text,text)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.request_queue()');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.reset_fuse(text,text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.resume_scheduler(text[],jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.resume_stream_table(text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.running_refreshes()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.show_settings()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.sla_summary(double precision)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.stream_table_spec(text,name[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.submit_request(text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.subscribe(text,text,name[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.ungate_source(regclass)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'FUNCTION pgtrickle.unsubscribe(text,text,name[])');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.validate_query(text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.verify_stream_table(text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.version()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.watermark_status()');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.watermarks()');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.write_and_refresh(text,text,jsonb)');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'USAGE', 'SCHEMA pgtrickle');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'SELECT', 'TABLE pgtrickle.pgt_dependencies');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'SELECT (delivery_id, stream_table_id, refresh_id, status, attempt_count, failing_since, next_attempt_at, last_error, last_hint)', 'TABLE pgtrickle.pgt_ducklake_sink_delivery');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'SELECT (pgt_id, lake_schema, lake_table)', 'TABLE pgtrickle.pgt_ducklake_sinks');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'SELECT', 'TABLE pgtrickle.pgt_ducklake_sources');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'SELECT', 'TABLE pgtrickle.pgt_refresh_history');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'SELECT', 'TABLE pgtrickle.pgt_schema_version');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'SELECT', 'TABLE pgtrickle.pgt_settings');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'SELECT', 'TABLE pgtrickle.pgt_stream_tables');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'SELECT', 'TABLE pgtrickle.pgt_subscriptions');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'SELECT', 'TABLE pgtrickle.quick_health');
INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'SELECT', 'TABLE pgtrickle.stream_tables_info');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'INSERT (act, stream_table, name)', 'TABLE pgtrickle.acts');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'SELECT, INSERT, UPDATE (seen_at, cancelled_at)', 'TABLE pgtrickle.pgt_request_signs');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'SELECT, INSERT (verb, arguments, seen_at)', 'TABLE pgtrickle.pgt_requests');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'SELECT, INSERT, UPDATE (gated, gated_at, ungated_at, gated_by)', 'TABLE pgtrickle.pgt_source_gates');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'SELECT, INSERT', 'TABLE pgtrickle.pgt_watermark_groups');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'SELECT, INSERT, UPDATE (watermark, updated_at, advanced_by)', 'TABLE pgtrickle.pgt_watermarks');
INSERT INTO pgtrickle.pgt_grants VALUES ('operator', 'SELECT', 'TABLE pgtrickle.requests');

--
-- Data for Name: pgt_leader; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_leases; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_locks; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_locks VALUES ('watch', 0);
INSERT INTO pgtrickle.pgt_locks VALUES ('buffer', 17197);
INSERT INTO pgtrickle.pgt_locks VALUES ('capture', 17197);
INSERT INTO pgtrickle.pgt_locks VALUES ('buffer', 17206);
INSERT INTO pgtrickle.pgt_locks VALUES ('capture', 17206);
INSERT INTO pgtrickle.pgt_locks VALUES ('buffer', 17216);
INSERT INTO pgtrickle.pgt_locks VALUES ('capture', 17216);

--
-- Data for Name: pgt_refresh_groups; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_refresh_groups OVERRIDING SYSTEM VALUE VALUES (1, 'pair', '{17300,17316}', 'repeatable_read', '2026-11-18 01:46:09.501621+00');

--
-- Data for Name: pgt_refresh_history; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_refresh_history OVERRIDING SYSTEM VALUE VALUES (1, 1, '2026-11-18 01:46:07.695459+00', '2026-11-18 01:46:07.695459+00', '2026-11-18 01:46:08.146644+00', 'FULL', 'COMPLETED', 'first load', 2, 0, 2, '[{"kind": "full", "rows": 4, "bytes": 81, "source": "app.orders", "bounded_by": "nothing: every row is read"}, {"kind": "full", "rows": 3, "bytes": 39, "source": "app.customers", "bounded_by": "nothing: every row is read"}]', '{"read": 264.722, "apply": 11.358, "merge": 11.925, "stage": 8.315, "decide": 21.529, "capture": 0.939, "compute": 8.571, "prepare": 107.31, "lake_sources": 0.963}', 143.7604, 'INITIAL', NULL, NULL, NULL, 143.7604, 455.44682699970275, 7, 120, NULL, NULL, 0);
INSERT INTO pgtrickle.pgt_refresh_history OVERRIDING SYSTEM VALUE VALUES (2, 2, '2026-11-18 01:46:08.35246+00', '2026-11-18 01:46:08.35246+00', '2026-11-18 01:46:08.393412+00', 'FULL', 'COMPLETED', 'first load', 3, 0, 3, '[{"kind": "full", "rows": 3, "bytes": 38, "source": "app.orders", "bounded_by": "nothing: every row is read"}]', '{"read": 12.806, "apply": 6.401, "stage": 2.471, "decide": 12.317, "capture": 0.501, "compute": 2.589, "prepare": 71.417, "lake_sources": 0.764}', 137.86400000000003, 'INITIAL', NULL, NULL, NULL, 137.86400000000003, 42.75028899985173, 3, 38, NULL, NULL, 0);
INSERT INTO pgtrickle.pgt_refresh_history OVERRIDING SYSTEM VALUE VALUES (3, 3, '2026-11-18 01:46:08.555465+00', '2026-11-18 01:46:08.555465+00', '2026-11-18 01:46:08.661484+00', 'FULL', 'COMPLETED', 'first load', 3, 0, 3, '[{"kind": "full", "rows": 3, "bytes": 20, "source": "app.customers", "bounded_by": "nothing: every row is read"}]', '{"read": 5.682, "apply": 12.408, "merge": 18.997, "stage": 17.523, "decide": 27.384, "capture": 0.434, "compute": 10.464, "prepare": 58.499, "lake_sources": 0.879}', 137.026, 'INITIAL', NULL, NULL, NULL, 137.026, 109.58344999992894, 3, 20, NULL, NULL, 0);
INSERT INTO pgtrickle.pgt_refresh_history OVERRIDING SYSTEM VALUE VALUES (4, 4, '2026-11-18 01:46:09.031761+00', '2026-11-18 01:46:09.031761+00', '2026-11-18 01:46:09.165699+00', 'FULL', 'COMPLETED', 'first load', 1, 0, 1, '[{"kind": "full", "rows": 2, "bytes": 18, "source": "app.revenue", "bounded_by": "nothing: every row is read"}]', '{"read": 15.446, "apply": 24.884, "merge": 24.304, "stage": 2.136, "decide": 23.785, "capture": 4.521, "compute": 18.078, "prepare": 117.983, "lake_sources": 0.657}', 136.67879999999997, 'INITIAL', NULL, NULL, NULL, 136.67879999999997, 141.58847200006147, 2, 18, NULL, NULL, 0);
INSERT INTO pgtrickle.pgt_refresh_history OVERRIDING SYSTEM VALUE VALUES (5, 1, '2026-11-18 01:46:09.247841+00', '2026-11-18 01:46:09.247841+00', '2026-11-18 01:46:09.36526+00', 'DIFFERENTIAL', 'COMPLETED', 'DIFFERENTIAL predicted 96 ms, FULL 144 ms; changed rows in app.customers: 1, app.orders: 2', 3, 2, 5, '[{"kind": "changes", "rows": 3, "bytes": 73, "source": "app.orders", "bounded_by": "the window since the last refresh"}, {"kind": "changes", "rows": 2, "bytes": 33, "source": "app.customers", "bounded_by": "the window since the last refresh"}, {"kind": "keyed", "rows": 3, "bytes": 38, "source": "app.customers", "bounded_by": "\"id\" in the changes of app.orders (\"customer\")"}, {"kind": "keyed", "rows": 2, "bytes": 41, "source": "app.orders", "bounded_by": "\"customer\" in the changes of app.customers (\"id\")"}]', '{"read": 31.316, "apply": 15.987, "merge": 4.18, "stage": 1.895, "decide": 18.926, "capture": 4.358, "compute": 25.061, "prepare": 3.952, "lake_sources": 0.617}', 96.48646, 'MANUAL', NULL, NULL, 96.48646, 143.8054, 120.34271300038131, 10, 185, '{"work": {"FULL": {"reads": 2.0, "stages": 1.0, "operators": 4.0, "refreshes": 1.0, "joined_rows": 120.0, "merged_rows": 3.0, "staged_rows": 12.0, "applied_rows": 6.0, "moved_values": 480.0, "scanned_rows": 240.0, "compared_rows": 24.0, "full_refreshes": 1.0}, "DIFFERENTIAL": {"reads": 4.0, "stages": 1.0, "operators": 8.0, "refreshes": 1.0, "keyed_rows": 3.0, "change_rows": 10.0, "joined_rows": 23.0, "merged_rows": 3.0, "staged_rows": 3.0, "applied_rows": 6.0, "moved_values": 61.0, "scanned_rows": 120.0}}, "since": 1, "misses": 0}', NULL, 3);

--
-- Data for Name: pgt_refresh_progress; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_request_servers; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_request_signs; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_requests; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_requests OVERRIDING SYSTEM VALUE VALUES (1, 'refresh_stream_table', '{}', 'frozen_owner', '{public}', '2026-11-18 01:46:09.540605+00', NULL, NULL, 'QUEUED', NULL, NULL, NULL, '{}', NULL, NULL, 16384);

--
-- Data for Name: pgt_scheduler_pauses; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_scheduler_pauses VALUES (3, '2026-11-18 01:46:09.513215+00', 'frozen_owner');

--
-- Data for Name: pgt_schema_version; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_schema_version VALUES (1, '2026-11-18 01:46:05.439453+00', 'baseline', 'a39994e2853964b54a1b24527b82d93c604c90672b3b85ebfdd2194bbfdbc2ee');

--
-- Data for Name: pgt_settings; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_settings VALUES ('differential_max_change_ratio', NULL, 'float', '0.5', 'share', 0, 1, '{}', 'Under AUTO, the share of changed rows among a query''s source rows above which a refresh recomputes in full, whatever it is predicted to cost; an updated row counts once. A stream table''s own max_delta_fraction comes first.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('cost_model_safety_margin', NULL, 'float', '0.9', '', 0, 1, '{}', 'Under AUTO, a refresh recomputes in full where that is predicted to take less than this share of what following the changes is predicted to take; 0: never for its cost.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('force_full_refresh', NULL, 'bool', 'false', '', NULL, NULL, '{}', 'Under AUTO, recompute in full at every refresh.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('max_concurrent_refreshes', NULL, 'int', '4', '', 1, 64, '{}', 'How many refreshes `pgtrickle run` works on at a time.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('per_database_worker_quota', NULL, 'int', '0', '', 0, 64, '{}', 'How many of them one database may have, kept in its own settings table; 0: all.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('auto_backoff', NULL, 'bool', 'true', '', NULL, NULL, '{}', 'Refresh a stream table half as often after three refreshes in a row that took longer than its schedule, down to an eighth, until one takes no longer.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('event_wakeup', NULL, 'bool', 'true', '', NULL, NULL, '{}', 'Let a captured change wake `pgtrickle run`, where it has a session of its own on the server; otherwise it looks for changes when they are due.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('fuse_default_ceiling', NULL, 'int', '0', '', 0, NULL, '{}', 'Changed rows above which the fuse of a stream table blows that has no ceiling of its own; 0: none.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('allow_circular', NULL, 'bool', 'false', '', NULL, NULL, '{}', 'Let a new query of a stream table close a circle of stream tables that read one another, if all their queries are monotone; those that are there are refreshed anyway.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('max_fixpoint_iterations', NULL, 'int', '100', '', 1, 1000000, '{}', 'After how many rounds the refresh of a circle gives up that still finds rows.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('planning_timeout_seconds', NULL, 'float', '10.0', 's', 0.05, 3600, '{}', 'How long PostgreSQL may take to plan a query while it is bound or compiled; one that takes longer is refused.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('max_consecutive_errors', NULL, 'int', '3', '', 0, 1000, '{}', 'After how many errors in a row that do not heal by themselves `pgtrickle run` suspends a stream table; 0: never.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('suspend_after_seconds', NULL, 'float', '300.0', 's', 0, 86400, '{}', 'How long errors in a row must last, from the first to the latest, before they suspend a stream table; 0: max_consecutive_errors alone decides.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('history_retention_days', NULL, 'int', '90', 'days', 0, 36500, '{}', 'How long the history keeps a refresh; 0: for ever.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('history_prune_interval_seconds', NULL, 'float', '60.0', 's', 1, 86400, '{}', 'How often `pgtrickle run` looks for history to delete.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('read_connections', NULL, 'int', '4', '', 1, 64, '{}', 'How many connections read side by side during one refresh.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('large_read_bytes', NULL, 'int', '33554432', 'bytes', 1, NULL, '{}', 'Size of one input of a refresh (a table, a window of changes, what a bounded read brings) from which Spark''s executors read it in parts, side by side, and write the result themselves. A smaller one passes through the memory of this process.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('spark_driver_memory', NULL, 'str', '2g', '', NULL, NULL, '{}', 'The heap of Spark''s driver, as Spark writes sizes; with a local master the executors live in it too.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('spark_class_archive', NULL, 'bool', 'true', '', NULL, NULL, '{}', 'Keep an archive of the classes that Spark''s JVM loads in the user''s cache directory (some 150 MB): Spark then starts in half the time. It is written when Spark stops for the first time, which takes some seconds, or by a process of its own beside a daemon.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('refresh_stall_seconds', NULL, 'float', '600.0', 's', 0, 86400, '{}', 'After how long without any progress (no job, stage or task that ends, no row that moves, no processor time) what Spark does for a refresh is ended, and Spark started anew if it does not answer; 0: never.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('shutdown_seconds', NULL, 'float', '30.0', 's', 1, 3600, '{}', 'Within how long `pgtrickle run` ends after a signal, whatever hangs. Refreshes in progress have the first half to finish and are cancelled then.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('driver_result_bytes', NULL, 'int', '134217728', 'bytes', 1048576, NULL, '{}', 'Size up to which the result of a stage passes through the driver; a larger one is computed again and written by the executors.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('progress_seconds', NULL, 'float', '2.0', 's', 0.05, 3600, '{}', 'How often a large refresh tells how far it is.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('matview_polling', NULL, 'bool', 'true', '', NULL, NULL, '{}', 'Accept materialized views as sources; each refresh reads all their rows to learn whether they changed.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('foreign_table_polling', NULL, 'bool', 'false', '', NULL, NULL, '{}', 'Accept foreign tables as sources; each refresh reads all their rows to learn whether they changed.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('trim_rows', NULL, 'int', '1000000', 'rows', 1, NULL, '{}', 'How many consumed changes one refresh deletes at most.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('cdc_mode', NULL, 'str', 'trigger', '', NULL, NULL, '{}', 'How changes are captured: by `trigger`, from the `wal`, or `auto`, which reads the log where all it needs is in place. A stream table''s own cdc_mode comes first.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('wal_max_changes_per_poll', NULL, 'int', '100000', '', 1, NULL, '{}', 'After how many messages a read of the log ends with the transaction it is in.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('wal_transition_timeout_seconds', NULL, 'float', '300.0', 's', 1, 86400, '{}', 'How long creating the logical slot may wait for transactions that are open.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('wal_heartbeat_seconds', NULL, 'float', '10.0', 's', 0.1, 3600, '{}', 'How often `pgtrickle run` reads the log although nothing is due, so that the server need not keep it.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('slot_lag_warning_threshold_mb', NULL, 'int', '100', 'MB', 1, NULL, '{}', 'How much log the slot may hold back before a warning.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('slot_lag_critical_threshold_mb', NULL, 'int', '1024', 'MB', 1, NULL, '{}', 'How much log the slot may hold back before the matter is critical.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('change_buffer_durability', NULL, 'str', 'logged', '', NULL, NULL, '{unlogged,logged,sync}', 'What a crash of the server leaves of new change buffers: all (logged), all and the writer has waited for the disk whatever its synchronous_commit (sync), or nothing (unlogged): cheaper, and each crash makes stream tables start anew.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('compact_threshold', NULL, 'int', '100000', '', 0, NULL, '{}', 'Rows of a change buffer from which changes that undo one another are taken out of it; 0: never.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('buffer_alert_threshold', NULL, 'int', '1000000', '', 1, NULL, '{}', 'Rows of a change buffer from which an alert is sent to the channel pg_trickle_alert.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('max_buffer_rows', NULL, 'int', '0', 'rows', 0, NULL, '{}', 'Rows of a change buffer above which stream tables that are behind no longer hold it up and start anew instead, or writers are slowed down (enforce_backpressure); 0: no limit.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('enforce_backpressure', NULL, 'bool', 'false', '', NULL, NULL, '{}', 'Slow writers down while a change buffer is above max_buffer_rows, instead of letting stream tables start anew.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('backpressure_consecutive_limit', NULL, 'int', '3', '', 1, 1000, '{}', 'How often in a row a buffer is found above its limit before something is done.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('backpressure_delay_ms', NULL, 'int', '20', 'ms', 1, 10000, '{}', 'How long back pressure holds up each statement that writes to a source.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('notify_coalesce_ms', NULL, 'int', '250', 'ms', 0, 5000, '{}', 'How long after a notice the next one to the same subscriber waits, to tell of all refreshes meanwhile at once; 0: each refresh is told by itself.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('requests_per_caller', NULL, 'int', '100', '', 1, 100000, '{}', 'How many requests of one role may wait at a time, kept in the settings table; those who can act as the owner of the catalog may have any number.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_catalog_schema', NULL, 'str', 'ducklake', '', NULL, NULL, '{}', 'The schema of PostgreSQL that holds the DuckLake catalog; new sinks take it down.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_catalog_dsn', NULL, 'str', '', '', NULL, NULL, '{}', 'In which database the DuckLake catalog is; empty: in this one. New sinks take it down as it stands here, and look up ${ENV:NAME} in it whenever they connect; a password must be written so.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_sink_failure_mode', NULL, 'str', 'warn', '', NULL, NULL, '{warn,error}', 'What a delivery to the lake that fails does to its refresh: nothing, and the lake catches up later (warn), or it fails too (error).', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_sink_max_retries', NULL, 'int', '3', '', 0, 1000, '{}', 'How often a delivery that failed for a reason which does not pass by itself is tried again before someone must ask; storage and networks are waited for as long as it takes.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_sink_retry_seconds', NULL, 'float', '1.0', 's', 0, 3600, '{}', 'How long the first retry waits at most; each later one waits twice as long.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_sink_longest_retry_seconds', NULL, 'float', '300.0', 's', 0, 86400, '{}', 'How long a retry waits at most, however often the delivery failed.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_compaction_policy', NULL, 'str', 'fallback', '', NULL, NULL, '{fallback,error}', 'What is done when the lake has forgotten the snapshot up to which an attached table was read: all its rows are compared (fallback), or that is an error (error); newly attached tables take it down.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_file_mode', NULL, 'str', '0600', '', NULL, NULL, '{0600,0640,0644,0660,0664}', 'Who may read the local files of copies in the lake, as an octal mode; directories are open to the same. 0640 or 0644 where DuckDB reads them as another user of the system.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_read_paths', NULL, 'str', '', '', NULL, NULL, '{}', 'Further directories, with commas in between, in which files of attached lake tables may lie beside the data path of their lake.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_maintain_seconds', NULL, 'float', '600.0', 's', 0, 31536000, '{}', 'How often a daemon merges the small files of a copy in the lake and removes what nobody needs; 0: never.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_file_seconds', NULL, 'float', '86400.0', 's', 1, 31536000, '{}', 'The age from which a daemon removes files of the lake that no snapshot needs; longer than any reader or writer takes.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('ducklake_keep_seconds', NULL, 'float', '0.0', 's', 0, 31536000, '{}', 'The age from which a daemon forgets snapshots of the lake; 0: never.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('lock_wait_seconds', NULL, 'float', '60.0', 's', 1, 86400, '{}', 'How long create, drop, alter and others go on asking for a lock that somebody has, a tenth of a second at a time so that nobody has to wait behind them, before they give up.', NULL, NULL);
INSERT INTO pgtrickle.pgt_settings VALUES ('lease_seconds', '40', 'float', '30.0', 's', 1, 86400, '{}', 'How long a refresh may go without a sign of life before another may take over.', '2026-11-18 01:46:09.469584+00', 'frozen_owner');

--
-- Data for Name: pgt_source_gates; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_source_gates VALUES (17197, false, '2026-11-18 01:46:09.476183+00', '2026-11-18 01:46:09.486716+00', 'frozen_owner');

--
-- Data for Name: pgt_sql_api; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_sql_api VALUES ('10_sources', 'faa468ba7301496c9a724b10aafd7faf9b67b40aab9e71f4439bd7a52c49fbac', '-- What sources and queries are made of: shapes, types, functions, renames

CREATE OR REPLACE FUNCTION pgtrickle.list_members(relation oid)
RETURNS SETOF oid
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE tree (relid) AS (
        SELECT relation
         UNION
        SELECT i.inhrelid
          FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.relid AND NOT i.inhdetachpending
    )
    SELECT relid FROM tree ORDER BY relid
$$;

COMMENT ON FUNCTION pgtrickle.list_members(oid) IS
    ''A relation and all its partitions or heirs, at any depth: whose rows a query of it sees.'';

CREATE OR REPLACE FUNCTION pgtrickle.describe_files(relation oid)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN count(*) = 1 THEN min(c.relfilenode::text)
                ELSE md5(string_agg(c.oid || '':'' || c.relfilenode, '','' ORDER BY c.oid)) END
      FROM pgtrickle.list_members(relation) AS member
      JOIN pg_class AS c ON c.oid = member
$$;

COMMENT ON FUNCTION pgtrickle.describe_files(oid) IS
    ''Which files store a relation and its members: others mean that rows were written anew.'';

CREATE OR REPLACE FUNCTION pgtrickle.describe_layout(relation oid)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT md5(string_agg(
               c.oid || '':'' || c.relfilenode || '':'' || (
                   SELECT string_agg(a.attnum || '' '' || a.atttypid, '','' ORDER BY a.attnum)
                     FROM pg_attribute AS a
                    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
               ), '';'' ORDER BY c.oid))
      FROM pgtrickle.list_members(relation) AS member
      JOIN pg_class AS c ON c.oid = member
$$;

COMMENT ON FUNCTION pgtrickle.describe_layout(oid) IS
    ''The files and column numbers for which the capture functions of a relation are written.'';

CREATE OR REPLACE FUNCTION pgtrickle.trusts(relation oid, role oid)
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT role = c.relowner OR role = n.nspowner
           OR (SELECT r.rolsuper FROM pg_roles AS r WHERE r.oid = role)
           OR pg_has_role(role, current_user, ''MEMBER'')
      FROM pg_class AS c, pg_namespace AS n
     WHERE c.oid = relation AND n.nspname = ''pgtrickle''
$$;

COMMENT ON FUNCTION pgtrickle.trusts(oid, oid) IS
    ''Whether code of a role may run while a stream table is written: that of its owner, of the''
    '' catalog''''s, of superusers, and of those who can act as the current role.'';

CREATE OR REPLACE FUNCTION pgtrickle.describe_types(types oid[])
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    -- With the types they consist of; PostgreSQL''s own do not change.
    WITH RECURSIVE used (type) AS (
        SELECT unnest(types)
         UNION
        SELECT part.type
          FROM used JOIN pg_type AS t ON t.oid = used.type AND t.oid >= 16384,
       LATERAL (SELECT t.typelem UNION ALL SELECT t.typbasetype
                UNION ALL SELECT r.rngsubtype FROM pg_range AS r WHERE r.rngtypid = t.oid
                UNION ALL SELECT a.atttypid FROM pg_attribute AS a
                           WHERE a.attrelid = t.typrelid AND a.attnum > 0) AS part (type)
    )
    SELECT md5(string_agg(concat_ws(chr(1),
               t.oid, t.typname, t.typtype, t.typbasetype, t.typtypmod, t.typnotnull,
               (SELECT string_agg(e.enumlabel, chr(2) ORDER BY e.enumsortorder)
                  FROM pg_enum AS e WHERE e.enumtypid = t.oid),
               (SELECT string_agg(pg_get_constraintdef(k.oid), chr(2) ORDER BY k.oid)
                  FROM pg_constraint AS k WHERE k.contypid = t.oid),
               (SELECT string_agg(concat_ws('' '', a.attnum, a.attname, a.atttypid, a.atttypmod),
                                  chr(2) ORDER BY a.attnum)
                  FROM pg_attribute AS a
                 WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
           ), chr(3) ORDER BY t.oid))
      FROM used JOIN pg_type AS t ON t.oid = used.type AND t.oid >= 16384
$$;

COMMENT ON FUNCTION pgtrickle.describe_types(oid[]) IS
    ''A hash over the definitions of user-defined types; NULL if there are none.'';

CREATE OR REPLACE FUNCTION pgtrickle.hash_functions(known jsonb)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(jsonb_object_agg(p.oid::text, jsonb_build_array(
               p.oid::regprocedure::text,
               -- Its owner, privileges, cost and comment do not change what it answers.
               md5(concat_ws(chr(1), p.prosrc, p.probin, p.prosqlbody, p.prolang, p.provolatile,
                             p.proisstrict, p.prosecdef, p.proretset, p.prorettype, p.proconfig,
                             a.aggtransfn, a.aggfinalfn, a.agginitval))
           )), ''{}'')
      FROM jsonb_object_keys(known) AS called
      JOIN pg_proc AS p ON p.oid = called::oid
      LEFT JOIN pg_aggregate AS a ON a.aggfnoid = p.oid
$$;

COMMENT ON FUNCTION pgtrickle.hash_functions(jsonb) IS
    ''Name and hash, by oid, of those functions among the keys that exist.'';

-- In plpgsql, which keeps its plans: this runs for each source of each refresh.
CREATE OR REPLACE FUNCTION pgtrickle.describe_source(relation oid, columns_used text[])
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    source     pg_class%ROWTYPE;
    columns    text;
    types      oid[];
    found_text text;
    described  text;
BEGIN
    SELECT c.* INTO source FROM pg_class AS c WHERE c.oid = relation;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF source.relkind = ''v'' THEN
        SELECT ''definition='' || md5(v.ev_action::text) INTO described
          FROM pg_rewrite AS v WHERE v.ev_class = relation AND v.rulename = ''_RETURN'';
        RETURN described;
    END IF;
    -- NOT NULL and defaults are left out on purpose: they do not change what a stored row means.
    SELECT string_agg(concat_ws('' '', a.attnum, quote_ident(a.attname), a.atttypid, a.atttypmod,
                                a.attcollation), '','' ORDER BY a.attnum),
           array_agg(a.atttypid) FILTER (WHERE a.atttypid >= 16384)
      INTO columns, types
      FROM pg_attribute AS a
     WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
       AND a.attname = ANY (columns_used);
    described := ''columns='' || md5(coalesce(columns, ''''));
    IF types IS NOT NULL THEN
        described := described || '' types='' || pgtrickle.describe_types(types);
    END IF;
    IF source.relrowsecurity THEN
        SELECT md5(string_agg(concat_ws(chr(1), p.polname, p.polcmd, p.polpermissive, p.polroles,
                                        p.polqual, p.polwithcheck), chr(2) ORDER BY p.oid))
          INTO found_text FROM pg_policy AS p WHERE p.polrelid = relation;
        described := described || '' policies='' || source.relforcerowsecurity
                     || coalesce(found_text, '''');
    END IF;
    IF source.relhassubclass OR source.relispartition THEN
        SELECT md5(string_agg(member::text, '','' ORDER BY member)) INTO found_text
          FROM pgtrickle.list_members(relation) AS member;
        described := described || '' partitions='' || found_text;
    END IF;
    IF source.relpersistence = ''u'' OR (source.relhassubclass AND EXISTS (
           SELECT FROM pgtrickle.list_members(relation) AS member
             JOIN pg_class AS c ON c.oid = member AND c.relpersistence = ''u'')) THEN
        described := described || '' unlogged=yes'';
    END IF;
    IF EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = relation AND NOT i.inhdetachpending)
    THEN
        described := described || '' parent=yes'';
    END IF;
    IF EXISTS (SELECT FROM pgtrickle.list_members(relation) AS member
                 JOIN pg_subscription_rel AS s ON s.srrelid = member) THEN
        described := described || '' replication=yes'';
    END IF;
    RETURN described;
END
$$;

COMMENT ON FUNCTION pgtrickle.describe_source(oid, text[]) IS
    ''What a stream table relies on in a source, as parts with a hash each; NULL if it is gone.'';

CREATE OR REPLACE FUNCTION pgtrickle.lies_here(frontier jsonb)
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT frontier #>> ''{pg,system_identifier}'' = (SELECT y.system_identifier::text
                                                      FROM pg_control_system() AS y)
           AND frontier #>> ''{pg,database_oid}'' = (SELECT b.oid::text FROM pg_database AS b
                                                    WHERE b.datname = current_database())
$$;

COMMENT ON FUNCTION pgtrickle.lies_here(jsonb) IS
    ''Whether a frontier is of this database; else the oids on record with it mean nothing here.'';

-- After a restore the oid on record may be another table''s, so a name is followed only where the
-- oids are of this database.  Without a frontier that is so if nothing has the old name.
CREATE OR REPLACE FUNCTION pgtrickle.list_renamed()
RETURNS TABLE (pgt_id bigint, old_schema text, old_name text, new_schema text, new_name text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.pgt_id, s.pgt_schema, s.pgt_name, n.nspname::text, c.relname::text
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pg_class AS c ON c.oid = s.pgt_relid AND c.relkind = ''r''
      JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE (s.pgt_schema <> n.nspname OR s.pgt_name <> c.relname)
       AND s.pgt_schema <> ''pgtrickle_state'' AND n.nspname <> ''pgtrickle_state''
       AND CASE WHEN s.frontier IS NOT NULL THEN pgtrickle.lies_here(s.frontier)
                ELSE NOT EXISTS (SELECT FROM pg_class AS o
                                   JOIN pg_namespace AS p ON p.oid = o.relnamespace
                                  WHERE p.nspname = s.pgt_schema AND o.relname = s.pgt_name) END
       -- The name of one whose table is gone is free only when that one was dropped.
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_stream_tables AS g
                        WHERE g.pgt_schema = n.nspname AND g.pgt_name = c.relname
                          AND NOT EXISTS (SELECT FROM pg_class AS o WHERE o.oid = g.pgt_relid))
$$;

COMMENT ON FUNCTION pgtrickle.list_renamed() IS
    ''The stream tables whose tables have other names by now than the catalog knows.'';

-- Every command of the database comes here, temporary tables of applications among them: the cost
-- must follow what the command touched, and what many stream tables read is described once.
CREATE OR REPLACE FUNCTION pgtrickle.list_reshaped(relations oid[], with_parents boolean)
RETURNS TABLE (stream_table bigint, name text, source text)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE touched (relid) AS (
        SELECT unnest(relations)
         UNION
        SELECT i.inhparent FROM touched JOIN pg_inherits AS i ON i.inhrelid = touched.relid
    ), used AS (
        SELECT DISTINCT d.source_relid, d.columns_used
          FROM pgtrickle.pgt_dependencies AS d
         WHERE relations IS NULL OR d.source_relid IN (SELECT relid FROM touched)
            OR with_parents AND EXISTS (SELECT FROM pg_class AS c
                                         WHERE c.oid = d.source_relid AND c.relhassubclass)
    ), described AS MATERIALIZED (
        SELECT source_relid, columns_used,
               pgtrickle.describe_source(source_relid, columns_used) AS now
          FROM used
    )
    SELECT s.pgt_id, format(''%I.%I'', s.pgt_schema, s.pgt_name),
           format(''%I.%I'', d.source_schema, d.source_name)
      FROM described AS n
      JOIN pgtrickle.pgt_dependencies AS d
        ON d.source_relid = n.source_relid AND d.columns_used = n.columns_used
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE d.schema_fingerprint IS DISTINCT FROM n.now
     UNION ALL
    SELECT s.pgt_id, format(''%I.%I'', s.pgt_schema, s.pgt_name), was.value ->> 0
      FROM pgtrickle.pgt_stream_tables AS s, jsonb_each(s.function_hashes) AS was
     WHERE relations IS NULL AND s.function_hashes <> ''{}''
       AND was.value IS DISTINCT FROM pgtrickle.hash_functions(s.function_hashes) -> was.key
$$;

COMMENT ON FUNCTION pgtrickle.list_reshaped(oid[], boolean) IS
    ''Stream tables whose sources are not what they were: of these relations, also of those with''
    '' heirs (a dropped heir names no parent), or of all.'';

-- It must never make a statement fail that it only watches, not even by a full queue of notifications.
-- A refresh finds the change in any case; what is noted here is noted for readers of the catalog and
-- for those who listen.
CREATE OR REPLACE FUNCTION pgtrickle.watch_ddl()
RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    block     boolean := coalesce(current_setting(''pg_trickle.block_source_ddl'', true), '''')
                         IN (''on'', ''true'', ''yes'', ''1'');
    relations oid[];
    other     boolean;
    one       record;
    blocked   record;
BEGIN
    BEGIN
        IF TG_EVENT = ''ddl_command_end'' THEN
            SELECT array_agg(objid), bool_or(classid <> ''pg_class''::regclass)
              INTO relations, other FROM pg_event_trigger_ddl_commands()
             WHERE coalesce(schema_name, '''') NOT IN
                   (''pg_temp'', ''pgtrickle'', ''pgtrickle_changes'', ''pgtrickle_state'');
        ELSE
            SELECT array_agg(objid),
                   bool_or(original AND object_type IN (''function'', ''type'', ''domain'', ''policy'',
                           ''domain constraint'', ''schema'', ''extension'', ''collation'', ''cast''))
              INTO relations, other FROM pg_event_trigger_dropped_objects()
             WHERE NOT is_temporary AND coalesce(schema_name, '''') NOT IN
                   (''pgtrickle'', ''pgtrickle_changes'', ''pgtrickle_state'')
               AND (original OR classid = ''pg_class''::regclass);
        END IF;
        IF relations IS NULL THEN
            RETURN;
        END IF;
        FOR one IN SELECT * FROM pgtrickle.list_reshaped(
            CASE WHEN NOT other THEN relations END, TG_EVENT = ''sql_drop''
        ) LOOP
            blocked := one;
            EXIT WHEN block;
            PERFORM FROM pgtrickle.pgt_stream_tables AS s
              WHERE s.pgt_id = one.stream_table AND NOT s.needs_reinit
                FOR NO KEY UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE pgtrickle.pgt_stream_tables SET needs_reinit = true
                 WHERE pgt_id = one.stream_table;
                PERFORM pgtrickle.notify(''pg_trickle_alert'', json_build_object(
                    ''event'', ''reinitialize_needed'', ''name'', one.name,
                    ''source'', one.source)::text);
            END IF;
        END LOOP;
    EXCEPTION WHEN OTHERS THEN
        RAISE WARNING ''pgtrickle could not watch this command: %'', SQLERRM;
        RETURN;
    END;
    IF block AND blocked IS NOT NULL THEN
        RAISE EXCEPTION ''the stream table % reads %: % is refused'', blocked.name, blocked.source, TG_TAG
              USING ERRCODE = ''dependent_objects_still_exist'',
                    HINT = ''Drop the stream table first, or allow it: ''
                           ''SET pg_trickle.block_source_ddl = off.'';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.watch_ddl() IS
    ''Note or, with pg_trickle.block_source_ddl, refuse commands that change what a query relies on.'';

-- Every doubt counts as something to do: the ordinary refresh then finds out, and says what.
-- Comparing the columns of tables takes as long as all the rest, so the caller says for which to
-- do it now; views are always compared, because another definition means other contents.
-- STABLE, so that all of it sees one snapshot.  The time limit keeps a buffer that is being
-- altered from holding up the stream tables that do not read it.
CREATE OR REPLACE FUNCTION pgtrickle.find_idle(stream_tables bigint[], compare_shapes bigint[])
RETURNS SETOF bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = ''100ms''
AS $$
DECLARE
    source   record;
    buffer   regclass;
    settled  regclass;
    relation text;
    stirred  boolean;
    unseen   bigint[];
    seen     bigint[] := ''{}'';
    busy     bigint[] := ''{}'';
BEGIN
    FOR source IN
        WITH wanted AS MATERIALIZED (
            SELECT s.pgt_id, s.plan -> ''files'' AS files,
                   s.pgt_id IN (SELECT unnest(compare_shapes)) AS compare,
                   (s.frontier #>> ''{pg,snapshot}'')::pg_snapshot AS snapshot
              FROM pgtrickle.pgt_stream_tables AS s
             WHERE s.pgt_id = ANY (stream_tables)
               AND s.status = ''ACTIVE'' AND s.is_populated AND NOT s.needs_reinit
               AND s.consecutive_errors = 0
               AND (s.function_hashes = ''{}''
                    OR s.function_hashes = pgtrickle.hash_functions(s.function_hashes))
               AND s.owner_role IN (SELECT r.rolname FROM pg_roles AS r
                                     WHERE pg_has_role(r.oid, ''USAGE''))
               AND s.frontier #>> ''{pg,system_identifier}''
                   = (SELECT c.system_identifier::text FROM pg_control_system() AS c)
               AND s.frontier #>> ''{pg,database_oid}''
                   = (SELECT b.oid::text FROM pg_database AS b WHERE b.datname = current_database())
               AND s.pgt_id NOT IN (SELECT l.pgt_id FROM pgtrickle.pgt_leases AS l
                                     WHERE l.expires_at > clock_timestamp())
        ), reads AS (
            -- The shape is NULL where the source is gone or was stored anew.  Subqueries and not
            -- joins: their cost cannot be misjudged.
            SELECT w.pgt_id, w.snapshot, d.source_relid, d.source_type = ''VIEW'' AS is_view,
                   d.schema_fingerprint,
                   CASE WHEN d.source_type = ''VIEW''
                        THEN pgtrickle.describe_source(d.source_relid, d.columns_used)
                        -- What has no triggers is compared by the refresh.
                        WHEN d.source_type IN (''MATVIEW'', ''FOREIGN_TABLE'') THEN NULL
                        WHEN (SELECT w.files IS NULL
                                     OR w.files ->> c.oid::text
                                        = CASE WHEN c.relhassubclass
                                               THEN pgtrickle.describe_files(c.oid)
                                               ELSE c.relfilenode::text END
                                FROM pg_class AS c WHERE c.oid = d.source_relid)
                        THEN CASE WHEN w.compare
                                  THEN pgtrickle.describe_source(d.source_relid, d.columns_used)
                                  ELSE d.schema_fingerprint END
                   END AS shape
              FROM wanted AS w
              LEFT JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = w.pgt_id
             -- A frontier ahead of the server belongs to a history that was undone.
             WHERE pg_snapshot_xmax(w.snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
        )
        SELECT source_relid AS relid, is_view, array_agg(pgt_id) AS ids,
               array_agg(snapshot) AS frontiers, min(pg_snapshot_xmax(snapshot)) AS newest,
               string_agg(nullif(split_part(snapshot::text, '':'', 3), ''''), '','') AS in_progress,
               array_agg(pgt_id) FILTER (WHERE shape IS DISTINCT FROM schema_fingerprint) AS moved
          FROM reads
         GROUP BY source_relid, is_view
    LOOP
        seen := seen || source.ids;
        CONTINUE WHEN source.relid IS NULL;
        busy := busy || source.moved;
        CONTINUE WHEN source.is_view;
        BEGIN
            buffer := to_regclass(format(''pgtrickle_changes.changes_%s'', source.relid));
            settled := to_regclass(format(''pgtrickle_changes.changes_%s_settled'', source.relid));
            IF buffer IS NULL OR settled IS NULL THEN
                busy := busy || source.ids;
                CONTINUE;
            END IF;
            -- A file of no pages holds no row, and this is the usual case.
            CONTINUE WHEN pg_relation_size(buffer) = 0 AND pg_relation_size(settled) = 0;
            relation := CASE WHEN pg_relation_size(settled) = 0 THEN ''ONLY '' ELSE '''' END || buffer;
            -- First for all consumers together: none has changes, as a rule.  In the simplest
            -- words, because it is planned anew for each buffer.
            EXECUTE format(
                ''SELECT true FROM %s WHERE __xid >= $1 OR __xid = ANY ($2) LIMIT 1'', relation
            ) INTO stirred
            USING source.newest, string_to_array(source.in_progress, '','')::xid8[];
            CONTINUE WHEN stirred IS NULL;
            EXECUTE format(
                ''SELECT array_agg(id) FROM unnest($1, $2) AS c (id, frontier) WHERE EXISTS (''
                ''SELECT FROM %s AS b WHERE b.__xid >= pg_snapshot_xmin(c.frontier)''
                '' AND NOT pg_visible_in_snapshot(b.__xid, c.frontier))'',
                relation
            ) INTO unseen USING source.ids, source.frontiers;
            busy := busy || unseen;
        EXCEPTION
            WHEN undefined_table OR lock_not_available OR insufficient_privilege THEN
                busy := busy || source.ids;
        END;
    END LOOP;
    RETURN QUERY SELECT unnest(seen) EXCEPT SELECT unnest(busy);
END
$$;

COMMENT ON FUNCTION pgtrickle.find_idle(bigint[], bigint[]) IS
    ''Which of these stream tables have nothing to do: no source changed since the frontier, in its
rows or its shape, and nothing else calls for a refresh.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('20_capture', '8a2ede72ecb742b465977d314713b0eef268f4762fb2fcb4d17b1777d10ed1a7', '-- Capture: what triggers call, gaps, and the health of change data capture

-- Capture triggers know their table by the numbers of its columns.  Where a trigger finds another
-- table than it was made for, it asks these functions for its statements.  They go by the server''s
-- caches and not by queries of the catalog, which in a REPEATABLE READ transaction may be older
-- than the table that is being written.
CREATE OR REPLACE FUNCTION pgtrickle.name_columns(relation oid, numbers int2[], rows text)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    -- The columns of a relation are aliased in order, and those that were dropped are not there.
    SELECT rows || '' AS r'' || coalesce('' ('' || string_agg(''c'' || n, '', '' ORDER BY n) || '')'', '''')
      FROM generate_series(1, (SELECT max(one) FROM unnest(numbers) AS one)) AS n
     WHERE has_column_privilege(relation, n::int2, ''SELECT'') IS NOT NULL
$$;

COMMENT ON FUNCTION pgtrickle.name_columns(oid, int2[], text) IS
    ''Write a FROM item that names the columns of a relation by their numbers: c1, c2, ...'';

CREATE OR REPLACE FUNCTION pgtrickle.ask_column_types(relation oid, numbers int2[], rows text)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ''SELECT ARRAY['' || coalesce(string_agg(
               CASE WHEN has_column_privilege(relation, n, ''SELECT'') IS NULL THEN ''NULL''
                    ELSE ''pg_catalog.pg_typeof(r.c'' || n || '')::pg_catalog.oid'' END,
               '', '' ORDER BY place), '''') || '']::pg_catalog.oid[] FROM ''
           || pgtrickle.name_columns(relation, numbers, rows) || '' LIMIT 1''
      FROM unnest(numbers) WITH ORDINALITY AS one (n, place)
$$;

COMMENT ON FUNCTION pgtrickle.ask_column_types(oid, int2[], text) IS
    ''Write the query that tells the types columns have now; of no rows there is no answer.'';

CREATE OR REPLACE FUNCTION pgtrickle.find_base_type(type oid)
RETURNS oid
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    base oid;
BEGIN
    LOOP
        SELECT t.typbasetype INTO base FROM pg_type AS t WHERE t.oid = type AND t.typtype = ''d'';
        EXIT WHEN base IS NULL;
        type := base;
    END LOOP;
    RETURN type;
END
$$;

COMMENT ON FUNCTION pgtrickle.find_base_type(oid) IS ''What a domain is based on in the end.'';

-- A column that is gone or has another type stays NULL: whoever reads it starts anew, because its
-- number or type or the file of its table is another one.  Types that are stored alike may change
-- into one another and back without any of that, so their values are kept.
CREATE OR REPLACE FUNCTION pgtrickle.write_changes(
    relation oid, buffer text, names text[], numbers int2[], captured oid[], present oid[],
    rows text, weight int
)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(
               ''INSERT INTO %s (__xid, __weight%s) SELECT pg_catalog.pg_current_xact_id(), %s%s FROM %s'',
               buffer, coalesce(string_agg('', '' || quote_ident(name), '''' ORDER BY n), ''''),
               weight, coalesce(string_agg('', r.c'' || n, '''' ORDER BY n), ''''),
               pgtrickle.name_columns(relation, numbers, rows))
      FROM unnest(names, numbers, captured) AS one (name, n, was)
      JOIN unnest(numbers, present) AS other (n, found) USING (n),
           pgtrickle.find_base_type(found) AS now
     WHERE was = now
        OR EXISTS (SELECT FROM pg_cast AS c
                    WHERE c.castsource = now AND c.casttarget = was
                      AND c.castmethod = ''b'' AND c.castcontext IN (''a'', ''i''))
$$;

COMMENT ON FUNCTION pgtrickle.write_changes(oid, text, text[], int2[], oid[], oid[], text, int) IS
    ''Write the statement that copies rows of a relation into its change buffer.'';

-- Once a transaction.  By the table and not by a setting, which the writer could have made himself.
CREATE OR REPLACE FUNCTION pgtrickle.note_gap(relation oid, reason text)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, reason) VALUES (relation, reason)
        ON CONFLICT DO NOTHING
$$;

COMMENT ON FUNCTION pgtrickle.note_gap(oid, text) IS
    ''Note that this transaction changes a source and is not captured.'';

CREATE OR REPLACE FUNCTION pgtrickle.list_gaps(stream_tables bigint[])
RETURNS TABLE (stream_table bigint, source text, reason text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gaps (relid, only_for, xid, reason) AS (
        SELECT t.source_relid, NULL::bigint, NULL::xid8, ''its capture is paused''
          FROM pgtrickle.pgt_change_tracking AS t WHERE t.paused_at IS NOT NULL
         UNION ALL
        SELECT t.source_relid, NULL, NULL, ''a crash emptied its buffer''
          FROM pgtrickle.pgt_change_tracking AS t
         WHERE t.durability = ''unlogged''
           AND t.source_relid NOT IN (SELECT u.source_relid FROM pgtrickle.pgt_unlogged_buffers AS u)
         UNION ALL
        SELECT g.source_relid, g.pgt_id, g.xid, g.reason FROM pgtrickle.pgt_capture_gaps AS g
         UNION ALL
        -- A frontier never goes back by itself; but a user may restore what a backup holds.
        SELECT t.source_relid, s.pgt_id, NULL, ''its frontier is older than its buffer''
          FROM pgtrickle.pgt_change_tracking AS t
          JOIN pgtrickle.pgt_dependencies AS d USING (source_relid)
          JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
         WHERE s.pgt_id = ANY (stream_tables)
           AND pg_snapshot_xmax((s.frontier #>> ''{pg,snapshot}'')::pg_snapshot) < t.trimmed_before
    )
    SELECT DISTINCT s.pgt_id, d.source_schema || ''.'' || d.source_name, gaps.reason
      FROM gaps
      JOIN pgtrickle.pgt_dependencies AS d ON d.source_relid = gaps.relid
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = d.pgt_id
     WHERE s.pgt_id = ANY (stream_tables) AND (gaps.only_for IS NULL OR gaps.only_for = s.pgt_id)
       AND (gaps.xid IS NULL OR s.frontier IS NULL OR NOT pg_visible_in_snapshot(
                gaps.xid, (s.frontier #>> ''{pg,snapshot}'')::pg_snapshot))
$$;

COMMENT ON FUNCTION pgtrickle.list_gaps(bigint[]) IS
    ''Sources with changes after the frontier of a stream table that no buffer holds, and why.'';

CREATE OR REPLACE FUNCTION pgtrickle.note_crashes()
RETURNS SETOF oid
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH noticed AS (
        INSERT INTO pgtrickle.pgt_unlogged_buffers
        SELECT t.source_relid FROM pgtrickle.pgt_change_tracking AS t
         WHERE t.durability = ''unlogged''
           AND t.source_relid NOT IN (SELECT u.source_relid FROM pgtrickle.pgt_unlogged_buffers AS u)
            ON CONFLICT DO NOTHING
        RETURNING source_relid
    ), noted AS (
        INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, reason)
        SELECT n.source_relid, ''a crash emptied its buffer'' FROM noticed AS n
            ON CONFLICT DO NOTHING
    )
    SELECT n.source_relid FROM noticed AS n
$$;

COMMENT ON FUNCTION pgtrickle.note_crashes() IS
    ''Turn the loss of unlogged buffers by a crash into gaps; return the sources.'';

CREATE OR REPLACE FUNCTION pgtrickle.forget_gaps()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM pgtrickle.pgt_capture_gaps AS g WHERE g.source_relid = OLD.source_relid;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.forget_gaps() IS
    ''Delete the gaps of a source together with the record of its capture.'';

CREATE OR REPLACE TRIGGER forget_gaps AFTER DELETE ON pgtrickle.pgt_change_tracking
    FOR EACH ROW EXECUTE FUNCTION pgtrickle.forget_gaps();

-- The queue of notifications is one for the whole server.  It is emptied by those who listen, and
-- one that listens in an open transaction lets it grow to its limit; then every transaction fails
-- that has something to say.  So nothing is said from the half on: what fails is ours alone.
CREATE OR REPLACE FUNCTION pgtrickle.may_notify()
RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT pg_notification_queue_usage() < 0.5 $$;

COMMENT ON FUNCTION pgtrickle.may_notify() IS
    ''Whether the queue of notifications has room enough for those that can be done without.'';

CREATE OR REPLACE FUNCTION pgtrickle.notify(channel text, payload text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT pgtrickle.may_notify() THEN
        RAISE LOG ''pgtrickle: the queue of notifications is filling up, not told to %: %'',
                  channel, payload;
        RETURN false;
    END IF;
    PERFORM pg_notify(channel, payload);
    RETURN true;
END
$$;

COMMENT ON FUNCTION pgtrickle.notify(text, text) IS
    ''Notify while the queue has room; tell whether it had, and write to the server''''s log if not.'';

-- One row a trouble; a source without any has one row with alert NULL.
CREATE OR REPLACE FUNCTION pgtrickle.check_cdc_health()
RETURNS TABLE (source_relid oid, source_table text, cdc_mode text, durability text,
               buffer_bytes bigint, consumers bigint, alert text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH sources AS (
        SELECT t.*,
               to_regclass(''pgtrickle_changes.'' || quote_ident(t.buffer_name)) AS buffer,
               to_regclass(''pgtrickle_changes.'' || quote_ident(t.buffer_name || ''_settled'')) AS settled,
               EXISTS (SELECT FROM pg_class AS c WHERE c.oid = t.source_relid) AS present
          FROM pgtrickle.pgt_change_tracking AS t
    ), triggers AS (
        SELECT s.source_relid, c.oid AS member,
               (SELECT count(*) FROM pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid
                 WHERE g.tgrelid = c.oid AND p.pronamespace = ''pgtrickle_changes''::regnamespace
                   AND p.proname ~ (''^capture_'' || s.source_relid
                                    || ''_(\d+_)?(insert|update|delete|truncate)$'')) AS there,
               (SELECT count(*) FROM pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid
                 WHERE g.tgrelid = c.oid AND p.pronamespace = ''pgtrickle_changes''::regnamespace
                   AND starts_with(p.proname, ''capture_'' || s.source_relid || ''_'')
                   AND g.tgenabled NOT IN (''O'', ''A'')) AS disabled
          FROM sources AS s, pgtrickle.list_members(s.source_relid) AS one
          JOIN pg_class AS c ON c.oid = one AND c.relkind = ''r''
         WHERE s.cdc_mode = ''TRIGGER''
    ), alerts AS (
        SELECT s.source_relid, ''source_missing'' AS alert FROM sources AS s WHERE NOT present
         UNION ALL
        SELECT s.source_relid, ''buffer_missing'' FROM sources AS s
         WHERE s.buffer IS NULL OR s.settled IS NULL
         UNION ALL
        SELECT DISTINCT t.source_relid, ''triggers_missing'' FROM triggers AS t WHERE t.there < 4
         UNION ALL
        SELECT DISTINCT t.source_relid, ''triggers_disabled'' FROM triggers AS t WHERE t.disabled > 0
         UNION ALL
        SELECT s.source_relid, ''paused'' FROM sources AS s WHERE s.paused_at IS NOT NULL
         UNION ALL
        SELECT s.source_relid, ''emptied_by_crash'' FROM sources AS s
         WHERE s.durability = ''unlogged'' AND NOT EXISTS (
                   SELECT FROM pgtrickle.pgt_unlogged_buffers AS u
                    WHERE u.source_relid = s.source_relid)
         UNION ALL
        SELECT s.source_relid, ''buffer_growth'' FROM sources AS s WHERE s.alerted_at IS NOT NULL
         UNION ALL
        SELECT s.source_relid, ''writers_delayed'' FROM sources AS s WHERE s.delay_ms > 0
         UNION ALL
        SELECT DISTINCT d.source_relid, ''gap''
          FROM pgtrickle.pgt_dependencies AS d
          JOIN pgtrickle.list_gaps(ARRAY(SELECT pgt_id FROM pgtrickle.pgt_stream_tables)) AS g
            ON g.stream_table = d.pgt_id AND g.source = d.source_schema || ''.'' || d.source_name
    )
    SELECT s.source_relid, s.source_schema || ''.'' || s.source_name, s.cdc_mode,
           coalesce(s.durability, ''logged''),
           coalesce(pg_relation_size(s.buffer), 0) + coalesce(pg_relation_size(s.settled), 0),
           (SELECT count(*) FROM pgtrickle.pgt_dependencies AS d
             WHERE d.source_relid = s.source_relid),
           a.alert
      FROM sources AS s LEFT JOIN alerts AS a USING (source_relid)
     ORDER BY 2, 7
$$;

COMMENT ON FUNCTION pgtrickle.check_cdc_health() IS
    ''Every captured source, with each thing that is wrong with its capture.'';

CREATE OR REPLACE FUNCTION pgtrickle.change_buffer_sizes()
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
        source_table := format(''%I.%I'', one.source_schema, one.source_name);
        source_oid := one.source_relid;
        cdc_mode := one.cdc_mode;
        consumers := one.consumers;
        buffer := to_regclass(format(''pgtrickle_changes.%I'', one.buffer_name));
        pending_rows := NULL;
        buffer_bytes := NULL;
        IF buffer IS NOT NULL THEN
            EXECUTE format(''SELECT count(*) FROM %s'', buffer) INTO pending_rows;
            -- A buffer has a child for what some consumer has read already.
            SELECT sum(pg_total_relation_size(member)) INTO buffer_bytes
              FROM pgtrickle.list_members(buffer) AS member;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON FUNCTION pgtrickle.change_buffer_sizes() IS
    ''How many captured changes each source keeps, and their size; counts them, so it reads them.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('30_guards', '21dbf225280006c1c187b23092f5a9ce4b996ddc25d937e4831dc2fcbb491409', '-- Guards of stream tables and lake tables, and the comments on stream tables

-- A setting is anybody''s to make.  It opens the guard only for those who can act as the owner of the
-- table, who could as well disable the trigger.
CREATE OR REPLACE FUNCTION pgtrickle.refuse_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting(''pg_trickle.refreshing'', true) IS DISTINCT FROM TG_RELID::text
       OR NOT EXISTS (SELECT FROM pg_class AS c
                       WHERE c.oid = TG_RELID AND pg_has_role(c.relowner, ''USAGE'')) THEN
        RAISE EXCEPTION ''"%.%" is a stream table: % is refused'', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP
              USING ERRCODE = ''object_not_in_prerequisite_state'',
                    HINT = ''Change its sources and refresh it, or drop it with: pgtrickle drop.'';
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.refuse_write() IS ''The guard of stream tables.'';

-- As for stream tables: who follows the lake says which table it writes to.
CREATE OR REPLACE FUNCTION pgtrickle.refuse_lake_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting(''pg_trickle.refreshing'', true) IS DISTINCT FROM TG_RELID::text
       OR NOT EXISTS (SELECT FROM pg_class AS c
                       WHERE c.oid = TG_RELID AND pg_has_role(c.relowner, ''USAGE'')) THEN
        RAISE EXCEPTION ''"%.%" holds the rows of a lake table: % is refused'',
                        TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP
              USING ERRCODE = ''object_not_in_prerequisite_state'',
                    HINT = ''Write to the table in the lake; its changes are followed.'';
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.refuse_lake_write() IS ''The guard of rows that come from the lake.'';

-- Instead of the setting alone.  The lock keeps what is found here as it is until the commit; a
-- transaction that keeps to an older snapshot has to take it before that.
CREATE OR REPLACE FUNCTION pgtrickle.open_guard(relation regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    strange text;
    remedy  text;
BEGIN
    EXECUTE format(''LOCK TABLE ONLY %s IN ROW EXCLUSIVE MODE'', relation);
    SELECT format(''the trigger "%s" of a role that is not trusted'', t.tgname),
           format(''DROP TRIGGER %I ON %s'', t.tgname, relation)
      INTO strange, remedy
      FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
     WHERE t.tgrelid = relation AND NOT t.tgisinternal AND t.tgenabled <> ''D''
       AND (NOT pgtrickle.trusts(relation, p.proowner)
            OR (t.tgqual IS NOT NULL AND EXISTS (
                    SELECT FROM pg_depend AS d
                      LEFT JOIN pg_proc AS f
                        ON d.refclassid = ''pg_proc''::regclass AND f.oid = d.refobjid
                      LEFT JOIN pg_operator AS o
                        ON d.refclassid = ''pg_operator''::regclass AND o.oid = d.refobjid
                     WHERE d.classid = ''pg_trigger''::regclass AND d.objid = t.oid
                       AND NOT pgtrickle.trusts(relation, coalesce(f.proowner, o.oprowner)))))
     ORDER BY t.tgname LIMIT 1;
    IF strange IS NULL THEN
        -- Whoever made it: what is written must be what was computed.
        SELECT format(''the trigger "%s", which can change rows before they are written'', t.tgname),
               format(''DROP TRIGGER %I ON %s'', t.tgname, relation)
          INTO strange, remedy
          FROM pg_trigger AS t
         WHERE t.tgrelid = relation AND NOT t.tgisinternal AND t.tgenabled <> ''D''
           AND t.tgtype & 3 = 3
         ORDER BY t.tgname LIMIT 1;
    END IF;
    IF strange IS NULL THEN
        SELECT format(''the rule "%s"'', r.rulename), format(''DROP RULE %I ON %s'', r.rulename, relation)
          INTO strange, remedy
          FROM pg_rewrite AS r WHERE r.ev_class = relation
         ORDER BY r.rulename LIMIT 1;
    END IF;
    IF strange IS NULL AND row_security_active(relation) THEN
        strange := format(''row security that hides rows from "%s"'', current_user);
        remedy := format(''ALTER TABLE %s NO FORCE ROW LEVEL SECURITY'', relation);
    END IF;
    IF strange IS NOT NULL THEN
        RAISE EXCEPTION ''the stream table "%" has %'', relation, strange
              USING ERRCODE = ''ST309'',
                    HINT = format(''Look at it, then run: %s;'', remedy);
    END IF;
    PERFORM set_config(''pg_trickle.refreshing'', relation::oid::text, true);
END
$$;

COMMENT ON FUNCTION pgtrickle.open_guard(regclass) IS
    ''Let this transaction write to a stream table, unless code of others would run or rows are hidden.'';

CREATE OR REPLACE FUNCTION pgtrickle.describe_stream_table(stream_table bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    ours   CONSTANT text := ''pgtrickle stream table'';
    one    record;
    wanted text;
BEGIN
    SELECT s.pgt_relid::regclass AS relation, s.schedule, obj_description(c.oid, ''pg_class'') AS current,
           btrim(regexp_replace(s.original_query, ''\s+'', '' '', ''g'')) AS query
      INTO one
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pg_class AS c ON c.oid = s.pgt_relid
     WHERE s.pgt_id = stream_table AND s.pgt_schema <> ''pgtrickle_state'';
    wanted := format(''%s, schedule %s, query: %s'', ours, one.schedule,
                     CASE WHEN length(one.query) > 1000 THEN left(one.query, 997) || ''...''
                          ELSE one.query END);
    -- What somebody wrote himself stays.
    IF FOUND AND wanted IS DISTINCT FROM one.current
       AND (one.current IS NULL OR starts_with(one.current, ours)) THEN
        EXECUTE format(''COMMENT ON TABLE %s IS %L'', one.relation, wanted);
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.describe_stream_table(bigint) IS
    ''Let the comment of a stream table name its schedule and its query, unless somebody wrote another.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('40_requests', '9d0ca2516124933a4961b4756bb72d0783131847b0b07aa4ec5b7eac6e235f5f', '-- Requests: how a session asks the daemon, and waits for the answer

CREATE OR REPLACE FUNCTION pgtrickle.is_served()
RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_request_servers
                    WHERE beat_at > clock_timestamp() - interval ''10 seconds'')
$$;

COMMENT ON FUNCTION pgtrickle.is_served() IS ''Whether a daemon executes requests.'';

CREATE OR REPLACE FUNCTION pgtrickle.check_may_ask(role oid)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    quota   integer := coalesce((SELECT coalesce(s.value, s.default_value)::integer
                                   FROM pgtrickle.pgt_settings AS s
                                  WHERE s.name = ''requests_per_caller''), 100);
    waiting integer;
BEGIN
    SELECT count(*) INTO waiting
      FROM (SELECT FROM pgtrickle.pgt_requests AS r
             WHERE r.caller_oid = role AND r.status = ''QUEUED'' LIMIT quota) AS own;
    IF waiting >= quota THEN
        RAISE EXCEPTION ''the role % has % requests waiting, as many as one may'', role::regrole, quota
              USING ERRCODE = ''ST606'',
                    HINT = ''Wait until some are done, or take some back: ''
                           ''SELECT pgtrickle.cancel_request(request_id) FROM pgtrickle.requests.'';
    END IF;
    RETURN true;
END
$$;

COMMENT ON FUNCTION pgtrickle.check_may_ask(oid) IS
    ''Fail if a role has as many requests waiting as it may; the policy of pgt_requests asks.'';

DROP POLICY IF EXISTS pgt_requests_ask ON pgtrickle.pgt_requests;
CREATE POLICY pgt_requests_ask ON pgtrickle.pgt_requests FOR INSERT
    WITH CHECK (pgtrickle.check_may_ask(caller_oid));

DROP POLICY IF EXISTS pgt_requests_see_own ON pgtrickle.pgt_requests;
CREATE POLICY pgt_requests_see_own ON pgtrickle.pgt_requests FOR SELECT
    USING (caller_oid OPERATOR(pg_catalog.=)
           pg_catalog.to_regrole(pg_catalog.quote_ident(current_user))::pg_catalog.oid);

-- The policies of pgt_requests say whose requests these are.
DROP POLICY IF EXISTS pgt_request_signs_of_own ON pgtrickle.pgt_request_signs;
CREATE POLICY pgt_request_signs_of_own ON pgtrickle.pgt_request_signs
    USING (EXISTS (SELECT FROM pgtrickle.pgt_requests AS r
                    WHERE r.request_id OPERATOR(pg_catalog.=) pgt_request_signs.request_id));

-- One look at a request: a sign of life, and what there is to tell.  `ended` says that there is
-- no more to wait for; `code` is then the SQLSTATE to raise, or NULL.
CREATE OR REPLACE FUNCTION pgtrickle.follow_request(
    request bigint, INOUT shown integer, stop boolean,
    OUT ended boolean, OUT news text[], OUT outcome jsonb, OUT nap double precision,
    OUT code text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known   record;
    waited  interval;
    patience double precision := coalesce(
        nullif(current_setting(''pg_trickle.request_timeout'', true), '''')::double precision, 300);
BEGIN
    SELECT r.status, r.notices, r.result, r.error, r.requested_at,
           coalesce(s.seen_at, r.seen_at) AS seen_at
      INTO known
      FROM pgtrickle.pgt_requests AS r
      LEFT JOIN pgtrickle.pgt_request_signs AS s ON s.request_id = r.request_id
     WHERE r.request_id = request;
    news := ''{}'';
    IF NOT FOUND THEN
        ended := true; code := ''ST604''; message := format(''the request %s is gone'', request);
        hint := ''Make it again.'';
        RETURN;
    END IF;
    waited := clock_timestamp() - known.requested_at;
    news := known.notices[shown + 1:];
    shown := cardinality(known.notices);
    ended := known.status NOT IN (''QUEUED'', ''RUNNING'');
    outcome := known.result;
    nap := least(0.01 + extract(epoch FROM waited) / 10, 0.5);
    IF ended AND known.error IS NOT NULL THEN
        code := known.error ->> ''code''; message := known.error ->> ''message'';
        detail := nullif(known.error ->> ''detail'', '''');
        hint := coalesce(nullif(known.error ->> ''hint'', ''''),
                         CASE WHEN detail IS NULL THEN ''See docs/errors.md.'' END);
        RETURN;
    END IF;
    IF ended THEN
        RETURN;
    END IF;
    IF stop THEN
        code := ''57014''; message := ''canceling statement due to user request'';
        detail := format(''The request %s is cancelled too.'', request);
    ELSIF patience > 0 AND waited > make_interval(secs => patience) THEN
        code := ''ST602'';
        message := format(''the request was not done after %s seconds, and is cancelled'', patience);
        hint := ''Give it more time: SET pg_trickle.request_timeout = 3600 (seconds; 0: no limit).'';
    ELSIF NOT pgtrickle.is_served() THEN
        code := ''ST604''; message := ''the pgtrickle daemon has ended, and the request with it'';
        hint := ''Start it with: pgtrickle run. What is half done is undone by itself.'';
    END IF;
    IF code IS NOT NULL THEN
        ended := true;
        INSERT INTO pgtrickle.pgt_request_signs AS s (request_id, cancelled_at)
        VALUES (request, clock_timestamp())
            ON CONFLICT (request_id) DO UPDATE SET cancelled_at = excluded.cancelled_at;
    ELSIF known.seen_at < clock_timestamp() - interval ''1 second'' THEN
        INSERT INTO pgtrickle.pgt_request_signs AS s (request_id, seen_at)
        VALUES (request, clock_timestamp())
            ON CONFLICT (request_id) DO UPDATE SET seen_at = excluded.seen_at;
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.follow_request(bigint, integer, boolean) IS
    ''Look at a request for its caller, or cancel it.'';

-- No SET clause: the row takes the search path of the session down.
CREATE OR REPLACE FUNCTION pgtrickle.submit_request(verb pg_catalog.text, arguments pg_catalog.jsonb)
RETURNS pg_catalog.int8
LANGUAGE sql VOLATILE
AS $$
    INSERT INTO pgtrickle.pgt_requests (verb, arguments) VALUES (verb, arguments)
    RETURNING request_id
$$;

COMMENT ON FUNCTION pgtrickle.submit_request(text, jsonb) IS
    ''Ask the daemon for something and do not wait: it begins when the transaction has committed.'';

CREATE OR REPLACE FUNCTION pgtrickle.cancel_request(request bigint)
RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH cancelled AS (
        INSERT INTO pgtrickle.pgt_request_signs AS s (request_id, cancelled_at)
        SELECT r.request_id, clock_timestamp() FROM pgtrickle.pgt_requests AS r
         WHERE r.request_id = request AND r.status IN (''QUEUED'', ''RUNNING'')
            ON CONFLICT (request_id) DO UPDATE SET cancelled_at = excluded.cancelled_at
         WHERE s.cancelled_at IS NULL
        RETURNING s.request_id
    )
    SELECT EXISTS (SELECT FROM cancelled)
$$;

COMMENT ON FUNCTION pgtrickle.cancel_request(bigint) IS
    ''Take back a request of one''''s own; false if it has ended, or was taken back before.'';

CREATE OR REPLACE FUNCTION pgtrickle.refusal_of_commit()
RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    COMMIT;
EXCEPTION WHEN invalid_transaction_termination THEN
    RETURN SQLERRM;
END
$$;

COMMENT ON FUNCTION pgtrickle.refusal_of_commit() IS
    ''What the server says, in its language, to a COMMIT where there can be none.'';

-- COMMIT fails in a block with EXCEPTION in any case, and first of all because of a transaction
-- block around the call, if there is one: the message tells which it was.  No SET clause here and
-- below, because that is such a block too; so every name is qualified.
CREATE OR REPLACE PROCEDURE pgtrickle.find_transaction_block(INOUT failure pgtrickle.pgt_failure)
LANGUAGE plpgsql
AS $$
BEGIN
    BEGIN
        COMMIT;
    EXCEPTION WHEN invalid_transaction_termination THEN
        IF SQLERRM OPERATOR(pg_catalog.=) pgtrickle.refusal_of_commit() THEN
            failure := ROW (''ST605'', ''a request cannot be made and awaited in a transaction block'',
                ''The daemon sees a request only when it has been committed.'',
                ''COMMIT or ROLLBACK first, then CALL; send one statement at a time (with psql: one for ''
                ''each -c), and use autocommit in drivers. Or ask without waiting: ''
                ''SELECT pgtrickle.submit_request(...).'');
        END IF;
    END;
END
$$;

COMMENT ON PROCEDURE pgtrickle.find_transaction_block(pgtrickle.pgt_failure) IS
    ''Find out whether a procedure is called where it cannot commit.'';

CREATE OR REPLACE PROCEDURE pgtrickle.find_obstacle(INOUT failure pgtrickle.pgt_failure)
LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT pgtrickle.is_served() THEN
        failure := ROW (''ST601'', pg_catalog.format(''no pgtrickle daemon serves the database "%s"'',
                                                   pg_catalog.current_database()),
                        NULL, ''Start one with: pgtrickle run --dsn ...'');
    ELSIF pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL THEN
        failure := ROW (''ST605'', ''a request cannot be made and awaited after something was written'',
            ''The daemon sees a request only when it has been committed, and what was written with it.'',
            ''COMMIT first; or ask without waiting: SELECT pgtrickle.submit_request(...).'');
    END IF;
    IF failure.code IS NULL OR failure.code OPERATOR(pg_catalog.=) ''ST605'' THEN
        CALL pgtrickle.find_transaction_block(failure);
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.find_obstacle(pgtrickle.pgt_failure) IS
    ''Find out whether a request would be seen by a daemon.'';

CREATE OR REPLACE PROCEDURE pgtrickle.await_request(
    verb pg_catalog.text, arguments pg_catalog.jsonb,
    INOUT result pg_catalog.jsonb, INOUT failure pgtrickle.pgt_failure)
LANGUAGE plpgsql
AS $$
DECLARE
    request pg_catalog.int8;
    step    record;
    shown   pg_catalog.int4 := 0;
    nap     pg_catalog.float8 := 0;
    news    pg_catalog.text;
    because pg_catalog.text;
BEGIN
    CALL pgtrickle.find_obstacle(failure);
    IF failure.code IS NOT NULL THEN
        RETURN;
    END IF;
    BEGIN
        INSERT INTO pgtrickle.pgt_requests (verb, arguments, seen_at)
        VALUES (await_request.verb, await_request.arguments, pg_catalog.clock_timestamp())
        RETURNING request_id INTO request;
    EXCEPTION WHEN OTHERS THEN
        IF NOT pg_catalog.starts_with(SQLSTATE, ''ST'') THEN
            RAISE;
        END IF;
        GET STACKED DIAGNOSTICS because = PG_EXCEPTION_HINT;
        failure := ROW (SQLSTATE, SQLERRM, NULL, because);
        RETURN;
    END;
    COMMIT;
    LOOP
        BEGIN
            PERFORM pg_catalog.pg_sleep(nap);
            SELECT * INTO step FROM pgtrickle.follow_request(request, shown, false);
        EXCEPTION WHEN query_canceled THEN
            SELECT * INTO step FROM pgtrickle.follow_request(request, shown, true);
        END;
        COMMIT;
        FOREACH news IN ARRAY step.news LOOP
            RAISE NOTICE USING MESSAGE = news;
        END LOOP;
        EXIT WHEN step.ended;
        shown := step.shown;
        nap := step.nap;
    END LOOP;
    result := step.outcome;
    IF step.code IS NOT NULL THEN
        failure := ROW (step.code, step.message, step.detail,
                        COALESCE(step.hint, ''What is half done is undone by itself.''));
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.await_request(text, jsonb, jsonb, pgtrickle.pgt_failure) IS
    ''Ask the daemon for something, wait until it is done, and return the error that it ended with.'';

-- No SET clause, because it commits: so every name is qualified and nothing is computed here.
CREATE OR REPLACE PROCEDURE pgtrickle.perform_request(
    verb pg_catalog.text, arguments pg_catalog.jsonb, INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(perform_request.verb, perform_request.arguments, result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.perform_request(text, jsonb, jsonb) IS
    ''Ask the daemon for something, wait until it is done, pass on what it says.'';

CREATE OR REPLACE VIEW pgtrickle.requests WITH (security_invoker = true) AS
    SELECT r.request_id, r.verb, r.arguments, r.caller, r.requested_at, r.status, r.started_at,
           r.ended_at, s.cancelled_at IS NOT NULL AS cancelled, r.notices, r.result, r.error
      FROM pgtrickle.pgt_requests AS r
      LEFT JOIN pgtrickle.pgt_request_signs AS s USING (request_id);

COMMENT ON VIEW pgtrickle.requests IS ''One''''s own requests of the last day.'';

CREATE OR REPLACE FUNCTION pgtrickle.request_queue()
RETURNS TABLE (queued bigint, running bigint, oldest_queued_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(*) FILTER (WHERE r.status = ''QUEUED''),
           count(*) FILTER (WHERE r.status = ''RUNNING''),
           min(r.requested_at) FILTER (WHERE r.status = ''QUEUED'')
      FROM pgtrickle.pgt_requests AS r
     WHERE r.status IN (''QUEUED'', ''RUNNING'')
$$;

COMMENT ON FUNCTION pgtrickle.request_queue() IS
    ''How many requests wait for the daemon and how many it executes, of all callers.'';

CREATE OR REPLACE FUNCTION pgtrickle.daemons()
RETURNS TABLE (daemon text, leads boolean, started_at timestamptz, seen_at timestamptz)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT d.daemon,
           EXISTS (SELECT FROM pgtrickle.pgt_leader AS l
                    WHERE l.owner = d.daemon AND l.expires_at > clock_timestamp()),
           d.started_at, d.seen_at
      FROM pgtrickle.pgt_daemons AS d
     WHERE d.seen_at > clock_timestamp() - interval ''10 seconds''
     ORDER BY 2 DESC, d.started_at, d.daemon
$$;

COMMENT ON FUNCTION pgtrickle.daemons() IS
    ''The daemons that live, the one that leads first; the others stand by to take over.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('50_lifecycle', 'b905d4af27e3a5a07f736f782b3ce69a7a89ddea0dfc1668adabae87ac460db3', '-- Stream tables from SQL: create, alter, refresh, verify, drop

-- Each writes a request and waits (see 40_requests.sql).  They commit, so they have no SET clause, and every
-- name in them is qualified.
CREATE OR REPLACE PROCEDURE pgtrickle.create_stream_table(
    name pg_catalog.text,
    query pg_catalog.text,
    schedule pg_catalog.text DEFAULT ''calculated'',
    refresh_mode pg_catalog.text DEFAULT ''AUTO'',
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
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''create_stream_table'', pg_catalog.jsonb_build_object(
        ''name'', create_stream_table.name,
        ''query'', create_stream_table.query,
        ''schedule'', create_stream_table.schedule,
        ''refresh_mode'', create_stream_table.refresh_mode,
        ''initialize'', create_stream_table.initialize,
        ''cdc_mode'', create_stream_table.cdc_mode,
        ''max_delta_fraction'', create_stream_table.max_delta_fraction,
        ''diamond_consistency'', create_stream_table.diamond_consistency,
        ''diamond_schedule_policy'', create_stream_table.diamond_schedule_policy,
        ''sink'', create_stream_table.sink,
        ''ducklake_sink_path'', create_stream_table.ducklake_sink_path,
        ''ducklake_table'', create_stream_table.ducklake_table,
        ''ducklake_partition_by'', create_stream_table.ducklake_partition_by), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, text, text, text,
    text, jsonb) IS
    ''Create a stream table and, unless initialize is false, load it. With the sink ''''ducklake'''' it has a copy in the lake.'';

CREATE OR REPLACE PROCEDURE pgtrickle.create_stream_table_if_not_exists(
    name pg_catalog.text,
    query pg_catalog.text,
    schedule pg_catalog.text DEFAULT ''calculated'',
    refresh_mode pg_catalog.text DEFAULT ''AUTO'',
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
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''create_stream_table_if_not_exists'', pg_catalog.jsonb_build_object(
        ''name'', create_stream_table_if_not_exists.name,
        ''query'', create_stream_table_if_not_exists.query,
        ''schedule'', create_stream_table_if_not_exists.schedule,
        ''refresh_mode'', create_stream_table_if_not_exists.refresh_mode,
        ''initialize'', create_stream_table_if_not_exists.initialize,
        ''cdc_mode'', create_stream_table_if_not_exists.cdc_mode,
        ''max_delta_fraction'', create_stream_table_if_not_exists.max_delta_fraction,
        ''diamond_consistency'', create_stream_table_if_not_exists.diamond_consistency,
        ''diamond_schedule_policy'', create_stream_table_if_not_exists.diamond_schedule_policy,
        ''sink'', create_stream_table_if_not_exists.sink,
        ''ducklake_sink_path'', create_stream_table_if_not_exists.ducklake_sink_path,
        ''ducklake_table'', create_stream_table_if_not_exists.ducklake_table,
        ''ducklake_partition_by'', create_stream_table_if_not_exists.ducklake_partition_by), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_stream_table_if_not_exists(
    text, text, text, text, boolean, text, double precision, text, text, text, text, text,
    text, jsonb) IS
    ''The same, unless there is one of this name: that stays as it is.'';

CREATE OR REPLACE PROCEDURE pgtrickle.create_or_replace_stream_table(
    name pg_catalog.text,
    query pg_catalog.text,
    schedule pg_catalog.text DEFAULT ''calculated'',
    refresh_mode pg_catalog.text DEFAULT ''AUTO'',
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
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''create_or_replace_stream_table'', pg_catalog.jsonb_build_object(
        ''name'', create_or_replace_stream_table.name,
        ''query'', create_or_replace_stream_table.query,
        ''schedule'', create_or_replace_stream_table.schedule,
        ''refresh_mode'', create_or_replace_stream_table.refresh_mode,
        ''initialize'', create_or_replace_stream_table.initialize,
        ''cdc_mode'', create_or_replace_stream_table.cdc_mode,
        ''max_delta_fraction'', create_or_replace_stream_table.max_delta_fraction,
        ''diamond_consistency'', create_or_replace_stream_table.diamond_consistency,
        ''diamond_schedule_policy'', create_or_replace_stream_table.diamond_schedule_policy,
        ''sink'', create_or_replace_stream_table.sink,
        ''ducklake_sink_path'', create_or_replace_stream_table.ducklake_sink_path,
        ''ducklake_table'', create_or_replace_stream_table.ducklake_table,
        ''ducklake_partition_by'', create_or_replace_stream_table.ducklake_partition_by), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_or_replace_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, text, text, text, text,
    jsonb) IS
    ''Create a stream table, or alter the one of this name so that it is like this; what is not said of''
    '' it stays.'';

CREATE OR REPLACE PROCEDURE pgtrickle.alter_stream_table(
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
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''alter_stream_table'', pg_catalog.jsonb_build_object(
        ''name'', alter_stream_table.name,
        ''query'', alter_stream_table.query,
        ''schedule'', alter_stream_table.schedule,
        ''refresh_mode'', alter_stream_table.refresh_mode,
        ''status'', alter_stream_table.status,
        ''cdc_mode'', alter_stream_table.cdc_mode,
        ''max_delta_fraction'', alter_stream_table.max_delta_fraction,
        ''tier'', alter_stream_table.tier,
        ''fuse'', alter_stream_table.fuse,
        ''fuse_ceiling'', alter_stream_table.fuse_ceiling,
        ''fuse_sensitivity'', alter_stream_table.fuse_sensitivity,
        ''diamond_consistency'', alter_stream_table.diamond_consistency,
        ''diamond_schedule_policy'', alter_stream_table.diamond_schedule_policy,
        ''sink'', alter_stream_table.sink,
        ''ducklake_sink_path'', alter_stream_table.ducklake_sink_path,
        ''ducklake_table'', alter_stream_table.ducklake_table,
        ''ducklake_partition_by'', alter_stream_table.ducklake_partition_by), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.alter_stream_table(
    text, text, text, text, text, text, text, text, text, bigint, double precision, text, text,
    text, text, text, text, jsonb) IS
    ''Change how a stream table is maintained, or its query; what is NULL stays. A max_delta_fraction of ''''default'''' leaves it to the setting, a sink of ''''none'''' ends the copy in the lake.'';

CREATE OR REPLACE PROCEDURE pgtrickle.rename_stream_table(
    name pg_catalog.text,
    new_name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''rename_stream_table'', pg_catalog.jsonb_build_object(
        ''name'', rename_stream_table.name,
        ''new_name'', rename_stream_table.new_name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.rename_stream_table(text, text, jsonb) IS
    ''Give a stream table another name or, with schema.name, another schema; all that reads it follows.'';

CREATE OR REPLACE PROCEDURE pgtrickle.drop_stream_table(
    name pg_catalog.text,
    cascade pg_catalog.bool DEFAULT false,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''drop_stream_table'', pg_catalog.jsonb_build_object(
        ''name'', drop_stream_table.name,
        ''cascade'', drop_stream_table.cascade), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.drop_stream_table(
    text, boolean, jsonb) IS
    ''Drop a stream table; with cascade also what reads it.'';

CREATE OR REPLACE PROCEDURE pgtrickle.refresh_stream_table(
    name pg_catalog.text,
    "full" pg_catalog.bool DEFAULT false,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''refresh_stream_table'', pg_catalog.jsonb_build_object(
        ''name'', refresh_stream_table.name,
        ''full'', refresh_stream_table."full"), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.refresh_stream_table(
    text, boolean, jsonb) IS
    ''Bring a stream table up to date; with "full" by recomputing it.'';

-- Not one transaction: the daemon sees what was written when it has been committed.
CREATE OR REPLACE PROCEDURE pgtrickle.write_and_refresh(
    sql pg_catalog.text,
    stream_table_name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.find_obstacle(failure);
    IF failure.code IS NULL THEN
        EXECUTE write_and_refresh.sql;
        COMMIT;
        CALL pgtrickle.await_request(''refresh_stream_table'', pg_catalog.jsonb_build_object(
            ''name'', write_and_refresh.stream_table_name,
            ''full'', false), result, failure);
    END IF;
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.write_and_refresh(text, text, jsonb) IS
    ''Run a statement, commit it, and wait until a stream table shows what it did.'';

CREATE OR REPLACE PROCEDURE pgtrickle.resume_stream_table(
    name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''resume_stream_table'', pg_catalog.jsonb_build_object(
        ''name'', resume_stream_table.name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.resume_stream_table(
    text, jsonb) IS
    ''Let a suspended stream table be refreshed again.'';

CREATE OR REPLACE PROCEDURE pgtrickle.repair_stream_table(
    name pg_catalog.text,
    INOUT result pg_catalog.text DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
    answer pg_catalog.jsonb;
BEGIN
    CALL pgtrickle.await_request(''repair_stream_table'', pg_catalog.jsonb_build_object(
        ''name'', repair_stream_table.name), answer, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
    -- The text of a JSON string.
    result := pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0;
END
$$;

COMMENT ON PROCEDURE pgtrickle.repair_stream_table(
    text, text) IS
    ''Mend the capture, the guard and the status of a stream table; it then starts anew.'';

CREATE OR REPLACE PROCEDURE pgtrickle.verify_stream_table(
    name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''verify_stream_table'', pg_catalog.jsonb_build_object(
        ''name'', verify_stream_table.name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.verify_stream_table(
    text, jsonb) IS
    ''Compare a stream table with PostgreSQL''''s own answer to its query.'';

CREATE OR REPLACE PROCEDURE pgtrickle.validate_query(
    query pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''validate_query'', pg_catalog.jsonb_build_object(
        ''query'', validate_query.query), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.validate_query(
    text, jsonb) IS
    ''Tell whether and how a query could be maintained, and every reason why not.'';

CREATE OR REPLACE PROCEDURE pgtrickle.bulk_create(
    definitions pg_catalog.jsonb,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''bulk_create'', pg_catalog.jsonb_build_object(
        ''definitions'', bulk_create.definitions), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.bulk_create(
    jsonb, jsonb) IS
    ''Create several stream tables, all or none.'';

CREATE OR REPLACE PROCEDURE pgtrickle.bulk_alter_stream_tables(
    names pg_catalog.text[],
    params pg_catalog.jsonb,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''bulk_alter_stream_tables'', pg_catalog.jsonb_build_object(
        ''names'', bulk_alter_stream_tables.names,
        ''params'', bulk_alter_stream_tables.params), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.bulk_alter_stream_tables(
    text[], jsonb, jsonb) IS
    ''Change several stream tables alike.'';

CREATE OR REPLACE PROCEDURE pgtrickle.bulk_drop_stream_tables(
    names pg_catalog.text[],
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''bulk_drop_stream_tables'', pg_catalog.jsonb_build_object(
        ''names'', bulk_drop_stream_tables.names), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.bulk_drop_stream_tables(
    text[], jsonb) IS
    ''Drop several stream tables, in this order.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('60_status', '70d7c045d1563184eee3cb3ea3758d781b4e7b6fd1a4f1fb13dfe6e64e51695e', '-- What is known of stream tables: status, history, staleness, definitions

CREATE OR REPLACE FUNCTION pgtrickle.parse_duration_seconds(duration text)
RETURNS double precision
LANGUAGE sql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    -- Eighteen digits fit any sum that can be made of them.
    SELECT CASE WHEN octet_length(duration) <= 200
                 AND duration ~ ''^\s*(\d{1,18}\s*[smhdw]\s*)+$'' THEN (
        SELECT sum(part[1]::double precision * CASE part[2]
                       WHEN ''s'' THEN 1 WHEN ''m'' THEN 60 WHEN ''h'' THEN 3600
                       WHEN ''d'' THEN 86400 ELSE 604800 END)
          FROM regexp_matches(duration, ''(\d+)\s*([smhdw])'', ''g'') AS part) END
$$;

COMMENT ON FUNCTION pgtrickle.parse_duration_seconds(text) IS
    ''The length of a duration like 1h30m; NULL if it is none.'';

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
               WHEN s.schedule <> ''calculated'' THEN pgtrickle.parse_duration_seconds(s.schedule)
               WHEN NOT EXISTS (SELECT FROM pgtrickle.pgt_dependencies AS d
                                 WHERE d.source_relid = s.pgt_relid) THEN 1 END)
               < clock_timestamp() AS stale,
           EXISTS (SELECT FROM pgtrickle.pgt_stream_tables AS n
                    WHERE n.pgt_schema = ''pgtrickle_state''
                      AND n.pgt_name = format(''next_%s'', s.pgt_id)) AS being_replaced,
           -- Errors that wait for somebody, or for better times, are not counted; a fuse is shown as such.
           s.consecutive_errors > 0
               OR s.fuse_blown_at IS NULL AND s.last_error_message IS NOT NULL
                  AND s.last_error_at > coalesce(s.last_refresh_at, ''-infinity'') AS failing
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN (VALUES (''hot'', 1), (''warm'', 2), (''cold'', 10)) AS t (tier, factor)
        ON t.tier = s.tier
     WHERE s.pgt_schema <> ''pgtrickle_state'';

COMMENT ON VIEW pgtrickle.stream_tables_info IS
    ''Every stream table with all that is known of it; stale says that its refresh is late, failing that the last one failed, being_replaced that another query is being loaded for it.'';

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
        RAISE EXCEPTION ''a name of % bytes cannot name a stream table'',
              octet_length(find_stream_table.name)
              USING ERRCODE = ''ST208'', HINT = ''Write schema.name; each has 63 bytes at most.'';
    END IF;
    parts := parse_ident(find_stream_table.name);
    SELECT s.pgt_id INTO found
      FROM (SELECT s.pgt_id, coalesce(r.new_schema, s.pgt_schema) AS pgt_schema,
                   coalesce(r.new_name, s.pgt_name) AS pgt_name
              FROM pgtrickle.pgt_stream_tables AS s
              LEFT JOIN pgtrickle.list_renamed() AS r ON r.pgt_id = s.pgt_id) AS s
     WHERE s.pgt_name = parts[cardinality(parts)] AND s.pgt_schema <> ''pgtrickle_state''
       AND CASE cardinality(parts) WHEN 1 THEN s.pgt_schema = ANY (schemas::text[])
                                   WHEN 2 THEN s.pgt_schema = parts[1] END
     ORDER BY array_position(schemas::text[], s.pgt_schema)
     LIMIT 1;
    IF found IS NULL THEN
        SELECT s.pgt_schema || ''.'' || s.pgt_name INTO other
          FROM (SELECT quote_ident(coalesce(r.new_schema, s.pgt_schema)) AS pgt_schema,
                       quote_ident(coalesce(r.new_name, s.pgt_name)) AS pgt_name,
                       CASE WHEN r.pgt_id IS NULL THEN s.former_names
                            ELSE jsonb_build_object(''schema'', r.old_schema, ''name'', r.old_name)
                                 || s.former_names END AS former, s.updated_at
                  FROM pgtrickle.pgt_stream_tables AS s
                  LEFT JOIN pgtrickle.list_renamed() AS r ON r.pgt_id = s.pgt_id) AS s
         WHERE EXISTS (SELECT FROM jsonb_to_recordset(s.former) AS f (schema text, name text)
                        WHERE f.name = parts[cardinality(parts)]
                          AND f.schema = ANY (CASE cardinality(parts) WHEN 1 THEN schemas::text[]
                                              ELSE parts[1:1] END))
         ORDER BY s.updated_at DESC LIMIT 1;
        IF other IS NOT NULL THEN
            RAISE EXCEPTION ''the stream table "%" does not exist: it was renamed to "%"'',
                  find_stream_table.name, other
                  USING ERRCODE = ''ST201'', HINT = format(''Use the name that it has: %s.'', other);
        END IF;
        RAISE EXCEPTION ''the stream table "%" does not exist'', find_stream_table.name
              USING ERRCODE = ''ST201'', HINT = ''List them with: SELECT * FROM pgtrickle.pgt_status().'';
    END IF;
    RETURN found;
END
$$;

COMMENT ON FUNCTION pgtrickle.find_stream_table(text, name[]) IS
    ''The id of a stream table, by its name as one would write it in a query.'';

CREATE OR REPLACE FUNCTION pgtrickle.pgt_status()
RETURNS TABLE (name text, status text, refresh_mode text, is_populated boolean,
               consecutive_errors integer, schedule text, data_timestamp timestamptz,
               staleness interval)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(''%I.%I'', s.pgt_schema, s.pgt_name), s.status, s.refresh_mode, s.is_populated,
           s.consecutive_errors, s.schedule, s.data_timestamp,
           clock_timestamp() - s.data_timestamp
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema <> ''pgtrickle_state''
     ORDER BY s.pgt_schema, s.pgt_name
$$;

COMMENT ON FUNCTION pgtrickle.pgt_status() IS ''Every stream table in one line.'';

CREATE OR REPLACE FUNCTION pgtrickle.get_refresh_history(
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
    ''What the latest refreshes of a stream table did, and why.'';

CREATE OR REPLACE FUNCTION pgtrickle.refresh_timeline(max_rows integer DEFAULT 50)
RETURNS TABLE (start_time timestamptz, name text, action text, status text, rows_inserted bigint,
               rows_deleted bigint, duration_ms double precision, error_message text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT h.start_time, format(''%I.%I'', s.pgt_schema, s.pgt_name), h.action, h.status,
           h.rows_inserted, h.rows_deleted, extract(epoch FROM h.end_time - h.start_time) * 1000,
           h.error_message
      FROM pgtrickle.pgt_refresh_history AS h
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE s.pgt_schema <> ''pgtrickle_state''
     ORDER BY h.start_time DESC, h.refresh_id DESC
     LIMIT max_rows
$$;

COMMENT ON FUNCTION pgtrickle.refresh_timeline(integer) IS
    ''The latest refreshes of all stream tables.'';

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
    ''How many seconds ago the contents of a stream table were current; NULL before the first load.'';

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
    ''How a stream table is to be maintained, how it can be, and why not otherwise.'';

-- Rows of the lake are read through a view; what is shown is the view, and how it gets its rows.
CREATE OR REPLACE FUNCTION pgtrickle.list_sources(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (source_table text, source_oid oid, source_type text, cdc_mode text,
               columns_used text[])
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(''%I.%I'', COALESCE(l.landing_schema, d.source_schema),
                  COALESCE(l.landing_name, d.source_name)),
           d.source_relid, d.source_type,
           CASE WHEN l.source_id IS NULL THEN t.cdc_mode ELSE ''DUCKLAKE_CHANGE_FEED'' END,
           d.columns_used
      FROM pgtrickle.pgt_dependencies AS d
      LEFT JOIN pgtrickle.pgt_change_tracking AS t USING (source_relid)
      LEFT JOIN pgtrickle.pgt_ducklake_sources AS l
        ON d.source_schema = ''pgtrickle_state'' AND d.source_name = format(''landed_%s'', l.source_id)
     WHERE d.pgt_id = pgtrickle.find_stream_table($1, $2)
       AND NOT (d.source_type = ''VIEW'' AND EXISTS (
                SELECT FROM pgtrickle.pgt_ducklake_sources AS v
                 WHERE v.landing_schema = d.source_schema AND v.landing_name = d.source_name))
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.list_sources(text, name[]) IS
    ''What a stream table reads, and how changes of that are captured; NULL: they are looked for.'';

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
         WHERE s.pgt_schema <> ''pgtrickle_state''
    ), nodes AS (
        SELECT s.pgt_relid AS relid, format(''%I.%I'', s.pgt_schema, s.pgt_name) AS node,
               ''stream_table'' AS node_type, s.pgt_id, s.status, s.refresh_mode
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.pgt_schema <> ''pgtrickle_state''
         UNION ALL
        SELECT DISTINCT d.source_relid, format(''%I.%I'', d.source_schema, d.source_name),
               lower(d.source_type), NULL::bigint, NULL, NULL
          FROM reads AS d
         WHERE d.source_relid NOT IN (SELECT s.pgt_relid FROM pgtrickle.pgt_stream_tables AS s)
    ), tree AS (
        -- From what nothing reads down to the tables; a table that is read twice stands there twice.
        -- A circle that nothing else reads begins with its first member, and ends above it.
        SELECT n.*, 0 AS depth, ARRAY[n.node] AS path, true AS last, '''' AS indent
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
               t.indent || CASE WHEN t.depth = 0 THEN '''' WHEN t.last THEN ''    '' ELSE ''│   '' END
          FROM tree AS t
          JOIN reads AS d ON d.pgt_id = t.pgt_id
          JOIN nodes AS n ON n.relid = d.source_relid
         WHERE n.node <> ALL (t.path)
    )
    SELECT t.indent || CASE WHEN t.depth = 0 THEN '''' WHEN t.last THEN ''└── '' ELSE ''├── '' END
                    || t.node,
           t.node, t.node_type, t.depth, t.status, t.refresh_mode
      FROM tree AS t
     ORDER BY t.path
$$;

COMMENT ON FUNCTION pgtrickle.dependency_tree() IS
    ''What stream tables read, as a tree: each stands above its sources.'';

CREATE OR REPLACE FUNCTION pgtrickle.pgt_scc_status()
RETURNS TABLE (scc_id bigint, member_count integer, members text[],
               last_iterations integer, last_converged_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.scc_id, count(*)::integer,
           array_agg(format(''%I.%I'', s.pgt_schema, s.pgt_name) ORDER BY s.pgt_id),
           max(s.last_fixpoint_iterations), min(s.data_timestamp)
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.scc_id IS NOT NULL
     GROUP BY s.scc_id
     ORDER BY s.scc_id
$$;

COMMENT ON FUNCTION pgtrickle.pgt_scc_status() IS
    ''The circles of stream tables: their members, how many rounds their latest fixpoint took, and the moment it shows.'';

CREATE OR REPLACE FUNCTION pgtrickle.refresh_efficiency()
RETURNS TABLE (name text, total_refreshes bigint, differential_count bigint, full_count bigint,
               no_data_count bigint, avg_differential_ms double precision,
               avg_full_ms double precision, avg_changed_rows double precision,
               speedup double precision)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(''%I.%I'', s.pgt_schema, s.pgt_name), count(*),
           count(*) FILTER (WHERE h.action = ''DIFFERENTIAL''),
           count(*) FILTER (WHERE h.action IN (''FULL'', ''REINITIALIZE'')),
           count(*) FILTER (WHERE h.action = ''NO_DATA''),
           avg(h.actual_ms) FILTER (WHERE h.action = ''DIFFERENTIAL''),
           avg(h.actual_ms) FILTER (WHERE h.action IN (''FULL'', ''REINITIALIZE'')),
           avg(h.changed_rows::double precision) FILTER (WHERE h.action = ''DIFFERENTIAL''),
           avg(h.actual_ms) FILTER (WHERE h.action IN (''FULL'', ''REINITIALIZE''))
               / nullif(avg(h.actual_ms) FILTER (WHERE h.action = ''DIFFERENTIAL''), 0)
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pgtrickle.pgt_refresh_history AS h USING (pgt_id)
     WHERE h.status = ''COMPLETED'' AND s.pgt_schema <> ''pgtrickle_state''
     GROUP BY s.pgt_id
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.refresh_efficiency() IS
    ''How often each stream table followed its changes and how often it was recomputed, and what
either took; the speed-up is FULL divided by DIFFERENTIAL.'';

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
               avg(CASE WHEN h.status = ''FAILED'' THEN 1.0 ELSE 0.0 END)::double precision AS failed
          FROM pgtrickle.pgt_refresh_history AS h
         WHERE h.start_time > statement_timestamp() - make_interval(secs => window_hours * 3600)
           AND h.end_time IS NOT NULL
         GROUP BY h.pgt_id
    )
    SELECT format(''%I.%I'', s.pgt_schema, s.pgt_name), coalesce(r.number, 0), r.took[1],
           r.took[2],
           extract(epoch FROM clock_timestamp() - s.data_timestamp)::double precision, r.failed,
           -- One failure in a hundred is what may happen.
           greatest(1 - r.failed / 0.01, 0)
      FROM pgtrickle.pgt_stream_tables AS s LEFT JOIN recent AS r USING (pgt_id)
     WHERE s.pgt_schema <> ''pgtrickle_state''
     ORDER BY 1;
END
$$;

COMMENT ON FUNCTION pgtrickle.sla_summary(double precision) IS
    ''How long refreshes took, how old the contents are, how many failed, and which share of an
error budget of one in a hundred is left.'';

CREATE OR REPLACE FUNCTION pgtrickle.running_refreshes()
RETURNS TABLE (name text, daemon text, running_since timestamptz, stage text, rows_read bigint,
               rows_staged bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(''%I.%I'', s.pgt_schema, s.pgt_name), l.owner, l.acquired_at, p.stage, p.rows_read,
           p.rows_staged
      FROM pgtrickle.pgt_leases AS l
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
      -- What was left by a process that died began before.
      LEFT JOIN pgtrickle.pgt_refresh_progress AS p
        ON p.pgt_id = l.pgt_id AND p.updated_at >= l.acquired_at
     WHERE l.expires_at > clock_timestamp() AND s.pgt_schema <> ''pgtrickle_state''
     ORDER BY l.acquired_at, 1
$$;

COMMENT ON FUNCTION pgtrickle.running_refreshes() IS
    ''Which stream tables are worked on now, by whom, since when and, if it is a large refresh, how
far that is.'';

CREATE OR REPLACE FUNCTION pgtrickle.stream_table_spec(name text, schemas name[] DEFAULT current_schemas(false))
RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
               ''name'', format(''%I.%I'', s.pgt_schema, s.pgt_name), ''query'', s.original_query,
               ''search_path'', s.query_search_path, ''schedule'', s.schedule,
               ''refresh_mode'', s.refresh_mode, ''cdc_mode'', s.requested_cdc_mode,
               ''max_delta_fraction'', s.max_delta_fraction, ''tier'', s.tier, ''fuse'', s.fuse,
               ''fuse_ceiling'', s.fuse_ceiling, ''fuse_sensitivity'', s.fuse_sensitivity,
               ''diamond_consistency'', s.diamond_consistency,
               ''diamond_schedule_policy'', s.diamond_schedule_policy, ''owner'', s.owner_role,
               ''sink'', CASE WHEN k.pgt_id IS NOT NULL THEN ''ducklake'' END,
               ''ducklake_sink_path'', k.sink_path,
               ''ducklake_table'', quote_ident(k.lake_schema) || ''.'' || quote_ident(k.lake_table),
               ''ducklake_partition_by'', k.partition_by)
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN pgtrickle.pgt_ducklake_sinks AS k ON k.pgt_id = s.pgt_id
     WHERE s.pgt_id = pgtrickle.find_stream_table($1, $2)
$$;

COMMENT ON FUNCTION pgtrickle.stream_table_spec(text, name[]) IS
    ''The definition of a stream table as JSON.'';

-- Nothing is dropped: what reads the stream table stays, and running it twice changes nothing.
CREATE OR REPLACE FUNCTION pgtrickle.export_definition(name text, schemas name[] DEFAULT current_schemas(false))
RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(E''SET search_path = %s;\n''
                  ''CALL pgtrickle.create_or_replace_stream_table(%L, %L, schedule => %L, refresh_mode => %L%s%s%s%s%s%s%s);\n''
                  ''CALL pgtrickle.alter_stream_table(%L, tier => %L, max_delta_fraction => %L, fuse => %L%s%s);\n'',
                  coalesce(nullif(spec ->> ''search_path'', ''''), ''''''''''''), spec ->> ''name'',
                  spec ->> ''query'', spec ->> ''schedule'', spec ->> ''refresh_mode'',
                  '', cdc_mode => '' || quote_literal(spec ->> ''cdc_mode''),
                  '', diamond_consistency => '' || quote_literal(spec ->> ''diamond_consistency''),
                  '', diamond_schedule_policy => '' || quote_literal(spec ->> ''diamond_schedule_policy''),
                  '', sink => '' || quote_literal(spec ->> ''sink''),
                  '', ducklake_table => '' || quote_literal(spec ->> ''ducklake_table''),
                  '', ducklake_sink_path => '' || quote_literal(spec ->> ''ducklake_sink_path''),
                  '', ducklake_partition_by => '' || quote_literal(spec ->> ''ducklake_partition_by''),
                  spec ->> ''name'', spec ->> ''tier'', coalesce(spec ->> ''max_delta_fraction'', ''default''),
                  spec ->> ''fuse'', '', fuse_ceiling => '' || (spec ->> ''fuse_ceiling''),
                  '', fuse_sensitivity => '' || (spec ->> ''fuse_sensitivity''))
      FROM pgtrickle.stream_table_spec($1, $2) AS spec
$$;

COMMENT ON FUNCTION pgtrickle.export_definition(text, name[]) IS
    ''The statements that create a stream table, in this database or another, or make it like this again.'';

CREATE OR REPLACE FUNCTION pgtrickle.version()
RETURNS TABLE (catalog_version integer, server_version text, daemon_running boolean,
               extension_version text, library_version text, pg_major_version integer)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT (SELECT max(v.version) FROM pgtrickle.pgt_schema_version AS v),
           current_setting(''server_version''), pgtrickle.is_served(),
           (SELECT a.package FROM pgtrickle.pgt_sql_api AS a ORDER BY a.applied_at DESC LIMIT 1),
           (SELECT d.package FROM pgtrickle.pgt_daemons AS d ORDER BY d.seen_at DESC LIMIT 1),
           current_setting(''server_version_num'')::integer / 10000
$$;

COMMENT ON FUNCTION pgtrickle.version() IS
    ''The version of the catalog and of the server, whether a daemon runs, which version of the package
last migrated the catalog, and which one the daemon seen last runs.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('65_explanations', 'c429d97b1713383082bd14767dda8f654ed150c19a663fd6b236d50297e42cc2', '-- Explanations that the daemon gives

CREATE OR REPLACE PROCEDURE pgtrickle.explain_stream_table(
    name pg_catalog.text,
    format pg_catalog.text DEFAULT ''text'',
    INOUT result pg_catalog.text DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
    answer pg_catalog.jsonb;
BEGIN
    CALL pgtrickle.await_request(''explain_stream_table'', pg_catalog.jsonb_build_object(
        ''name'', explain_stream_table.name,
        ''format'', explain_stream_table.format), answer, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
    -- The text of a JSON string.
    result := pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0;
END
$$;

COMMENT ON PROCEDURE pgtrickle.explain_stream_table(
    text, text, text) IS
    ''Show how a stream table is maintained: as text, json or dot.'';

-- For people, who would see the lines of a result padded to the longest of them.
CREATE OR REPLACE PROCEDURE pgtrickle.explain(name pg_catalog.text)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
    answer  pg_catalog.jsonb;
BEGIN
    CALL pgtrickle.await_request(''explain_stream_table'', pg_catalog.jsonb_build_object(
        ''name'', explain.name, ''format'', ''text''), answer, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
    -- The text of a JSON string.
    RAISE INFO USING MESSAGE = pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0;
END
$$;

COMMENT ON PROCEDURE pgtrickle.explain(text) IS
    ''Print how a stream table is maintained, as a message: in psql, line by line.'';

CREATE OR REPLACE FUNCTION pgtrickle.explain_st(name text, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (property text, value text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT one.property, one.value
      FROM pgtrickle.pgt_stream_tables AS s
     CROSS JOIN LATERAL (
               SELECT count(*) FILTER (WHERE h.status = ''COMPLETED'') AS refreshes,
                      count(*) FILTER (WHERE h.status = ''FAILED'') AS failures,
                      round(avg(h.actual_ms) FILTER (WHERE h.action = ''DIFFERENTIAL'')) AS differential,
                      round(avg(h.actual_ms) FILTER (WHERE h.action = ''FULL'')) AS complete
                 FROM (SELECT * FROM pgtrickle.pgt_refresh_history AS r
                        WHERE r.pgt_id = s.pgt_id ORDER BY r.start_time DESC LIMIT 100) AS h) AS past
     CROSS JOIN LATERAL (VALUES
               (1, ''name'', format(''%I.%I'', s.pgt_schema, s.pgt_name)),
               (2, ''query'', s.original_query),
               (3, ''defining_query'', s.defining_query),
               (4, ''schedule'', s.schedule),
               (5, ''refresh_mode'', s.refresh_mode),
               (6, ''effective_refresh_mode'', s.effective_refresh_mode),
               (7, ''downgrade_reason'', s.downgrade_reason),
               (8, ''status'', s.status),
               (9, ''sources'', (SELECT string_agg(format(''%I.%I (%s)'', d.source_schema, d.source_name,
                                                        lower(d.source_type)), '', ''
                                                 ORDER BY d.source_schema, d.source_name)
                                 FROM pgtrickle.pgt_dependencies AS d WHERE d.pgt_id = s.pgt_id)),
               (10, ''state_tables'', (SELECT string_agg(c.relname, '', '' ORDER BY c.relname)
                                       FROM pg_class AS c
                                      WHERE c.relnamespace = ''pgtrickle_state''::regnamespace
                                        AND c.relkind = ''r''
                                        AND c.relname ~ format(''^st_%s_'', s.pgt_id))),
               (11, ''frontier'', s.frontier #>> ''{pg,snapshot}''),
               (12, ''data_timestamp'', s.data_timestamp::text),
               (13, ''last_refreshes'', past.refreshes::text),
               (14, ''last_failures'', past.failures::text),
               (15, ''avg_differential_ms'', past.differential::text),
               (16, ''avg_full_ms'', past.complete::text),
               (17, ''last_error'', s.last_error_message)
           ) AS one (place, property, value)
     WHERE s.pgt_id = pgtrickle.find_stream_table(explain_st.name, explain_st.schemas)
     ORDER BY one.place
$$;

COMMENT ON FUNCTION pgtrickle.explain_st(text, name[]) IS
    ''Everything about one stream table in rows: query, mode, sources, state, frontier, its last 100 refreshes.'';

CREATE OR REPLACE FUNCTION pgtrickle.explain_dag(format text DEFAULT ''mermaid'')
RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    drawn text;
BEGIN
    IF explain_dag.format IS NULL OR explain_dag.format NOT IN (''mermaid'', ''dot'') THEN
        RAISE EXCEPTION ''the format "%" does not exist'', explain_dag.format
              USING ERRCODE = ''ST501'', HINT = ''Choose mermaid or dot.'';
    END IF;
    WITH nodes AS (
        SELECT s.pgt_relid AS relid, format(''%I.%I'', s.pgt_schema, s.pgt_name) AS label,
               true AS maintained
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.pgt_schema <> ''pgtrickle_state''
         UNION ALL
        SELECT DISTINCT d.source_relid, format(''%I.%I'', d.source_schema, d.source_name), false
          FROM pgtrickle.pgt_dependencies AS d
          JOIN pgtrickle.pgt_stream_tables AS r USING (pgt_id)
         WHERE r.pgt_schema <> ''pgtrickle_state''
           AND d.source_relid NOT IN (SELECT s.pgt_relid FROM pgtrickle.pgt_stream_tables AS s)
    ), lines (place, line) AS (
        SELECT 1, CASE explain_dag.format
                      WHEN ''dot'' THEN format(''  n%s [label="%s", shape=%s];'', n.relid,
                           replace(replace(n.label, ''\'', ''\\''), ''"'', ''\"''),
                           CASE WHEN n.maintained THEN ''box'' ELSE ''ellipse'' END)
                      WHEN ''mermaid'' THEN format(
                           CASE WHEN n.maintained THEN ''  n%s["%s"]'' ELSE ''  n%s(["%s"])'' END,
                           n.relid, replace(replace(n.label, ''#'', ''#35;''), ''"'', ''#quot;'')) END
          FROM nodes AS n
         UNION ALL
        SELECT 2, format(CASE explain_dag.format WHEN ''dot'' THEN ''  n%s -> n%s;''
                                                 ELSE ''  n%s --> n%s'' END,
                         d.source_relid, s.pgt_relid)
          FROM pgtrickle.pgt_dependencies AS d
          JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
         WHERE s.pgt_schema <> ''pgtrickle_state''
    )
    SELECT string_agg(line, E''\n'' ORDER BY place, line) INTO drawn FROM lines;
    RETURN concat_ws(E''\n'', CASE explain_dag.format WHEN ''dot'' THEN ''digraph stream_tables {''
                                                    ELSE ''graph LR'' END,
                     drawn, CASE explain_dag.format WHEN ''dot'' THEN ''}'' END);
END
$$;

COMMENT ON FUNCTION pgtrickle.explain_dag(text) IS
    ''The graph of sources and stream tables, drawn as mermaid or dot.'';

CREATE OR REPLACE PROCEDURE pgtrickle.explain_delta(
    name pg_catalog.text,
    INOUT result pg_catalog.text DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
    answer pg_catalog.jsonb;
BEGIN
    CALL pgtrickle.await_request(''explain_delta'', pg_catalog.jsonb_build_object(
        ''name'', explain_delta.name), answer, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
    -- The text of a JSON string.
    result := pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0;
END
$$;

COMMENT ON PROCEDURE pgtrickle.explain_delta(text, text) IS
    ''The statements by which the engine computes a change of a stream table.'';

CREATE OR REPLACE PROCEDURE pgtrickle.explain_query_rewrite(
    query pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''explain_query_rewrite'', pg_catalog.jsonb_build_object(
        ''query'', explain_query_rewrite.query), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.explain_query_rewrite(text, jsonb) IS
    ''What each pass makes of a query: as PostgreSQL binds it, as algebra, as stages.'';

-- These need what only the daemon has: see 40_requests.sql.
CREATE OR REPLACE PROCEDURE pgtrickle.diamond_groups(INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(
        ''diamond_groups'', pg_catalog.jsonb_build_object(), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.diamond_groups(jsonb) IS
    ''Which stream tables are refreshed together, in which order, and whether with the fastest or the slowest.'';

CREATE OR REPLACE PROCEDURE pgtrickle.diagnose_errors(
    name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''diagnose_errors'', pg_catalog.jsonb_build_object(
        ''name'', diagnose_errors.name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.diagnose_errors(text, jsonb) IS
    ''The latest errors of a stream table, what each means and what to do.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('70_scheduling', 'e88010124efe6c6d9fdd123d104f525dc2da23cd02e7758c1b3e1a190fe94420', '-- Holding the scheduler back: gates, watermarks, pauses, the drain, groups, fuses

-- Sources are given as regclass: the caller''s session reads the name, as it does in a query.
CREATE OR REPLACE FUNCTION pgtrickle.may_act_on(relations oid[])
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM pg_namespace AS n
                    WHERE n.nspname = ''pgtrickle'' AND pg_has_role(n.nspowner, ''USAGE''))
        OR (SELECT coalesce(bool_and(coalesce(pg_has_role(c.relowner, ''USAGE''), false)), false)
              FROM unnest(relations) AS one (oid) LEFT JOIN pg_class AS c USING (oid))
$$;

COMMENT ON FUNCTION pgtrickle.may_act_on(oid[]) IS
    ''Whether the caller can act as the owner of all these relations, or as that of the catalog.'';

CREATE OR REPLACE FUNCTION pgtrickle.check_may_act_on(relations oid[])
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one oid;
BEGIN
    FOREACH one IN ARRAY relations LOOP
        IF NOT pgtrickle.may_act_on(ARRAY[one]) THEN
            RAISE EXCEPTION ''must be owner of table "%"'', one::regclass
                  USING ERRCODE = ''ST206'', HINT = ''Connect as a member of the role that owns it.'';
        END IF;
    END LOOP;
END
$$;

COMMENT ON FUNCTION pgtrickle.check_may_act_on(oid[]) IS
    ''Fail unless the caller can act as the owner of all these relations.'';

-- The scheduler compares every group with its watermarks in every pass.
CREATE OR REPLACE FUNCTION pgtrickle.check_may_group(sources oid[])
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (SELECT count(*) FROM (SELECT FROM pgtrickle.pgt_watermark_groups AS g
                               WHERE g.source_relids && sources LIMIT 100) AS known) >= 100 THEN
        RAISE EXCEPTION ''sources of the watermark group are in 100 groups, as many as there may be''
              USING ERRCODE = ''ST606'',
                    HINT = ''Drop one: SELECT pgtrickle.drop_watermark_group(...).'';
    END IF;
    RETURN true;
END
$$;

COMMENT ON FUNCTION pgtrickle.check_may_group(oid[]) IS
    ''Fail if sources are in as many watermark groups as they may be; a policy asks.'';

-- Operators write these tables themselves, as far as they own the sources.
DROP POLICY IF EXISTS pgt_source_gates_of_own ON pgtrickle.pgt_source_gates;
CREATE POLICY pgt_source_gates_of_own ON pgtrickle.pgt_source_gates
    USING (pgtrickle.may_act_on(ARRAY[source_relid]))
    WITH CHECK (pgtrickle.may_act_on(ARRAY[source_relid]) AND gated_by = current_user);

DROP POLICY IF EXISTS pgt_watermarks_of_own ON pgtrickle.pgt_watermarks;
CREATE POLICY pgt_watermarks_of_own ON pgtrickle.pgt_watermarks
    USING (pgtrickle.may_act_on(ARRAY[source_relid]))
    WITH CHECK (pgtrickle.may_act_on(ARRAY[source_relid]) AND advanced_by = current_user);

DROP POLICY IF EXISTS pgt_watermark_groups_of_own ON pgtrickle.pgt_watermark_groups;
CREATE POLICY pgt_watermark_groups_of_own ON pgtrickle.pgt_watermark_groups
    USING (pgtrickle.may_act_on(source_relids))
    WITH CHECK (pgtrickle.may_act_on(source_relids) AND pgtrickle.check_may_group(source_relids));

CREATE OR REPLACE FUNCTION pgtrickle.gate_source(source regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pgtrickle.check_may_act_on(ARRAY[source::oid]);
    INSERT INTO pgtrickle.pgt_source_gates AS g (source_relid) VALUES (source)
        ON CONFLICT (source_relid) DO UPDATE
       SET gated = true, gated_at = now(), gated_by = current_user;
END
$$;

COMMENT ON FUNCTION pgtrickle.gate_source(regclass) IS
    ''Let the scheduler leave alone what reads a source, while that is being loaded.'';

CREATE OR REPLACE FUNCTION pgtrickle.ungate_source(source regclass)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pgtrickle.check_may_act_on(ARRAY[source::oid]);
    UPDATE pgtrickle.pgt_source_gates
       SET gated = false, ungated_at = now(), gated_by = current_user
     WHERE source_relid = source AND gated;
    RETURN FOUND;
END
$$;

COMMENT ON FUNCTION pgtrickle.ungate_source(regclass) IS
    ''Let the scheduler go on with what reads a source; false if it was not gated.'';

CREATE OR REPLACE FUNCTION pgtrickle.bootstrap_gate_status()
RETURNS TABLE (source_table text, gated boolean, gated_at timestamptz, ungated_at timestamptz,
               gated_by text, gate_duration interval, affected_stream_tables text[])
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN c.oid IS NULL THEN g.source_relid::text
                ELSE format(''%I.%I'', n.nspname, c.relname) END, g.gated,
           g.gated_at, g.ungated_at, g.gated_by,
           CASE WHEN g.gated THEN clock_timestamp() ELSE g.ungated_at END - g.gated_at,
           ARRAY(SELECT format(''%I.%I'', s.pgt_schema, s.pgt_name)
                   FROM pgtrickle.pgt_dependencies AS d
                   JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
                  WHERE d.source_relid = g.source_relid AND s.pgt_schema <> ''pgtrickle_state''
                  ORDER BY 1)
      FROM pgtrickle.pgt_source_gates AS g
      LEFT JOIN pg_class AS c ON c.oid = g.source_relid
      LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.bootstrap_gate_status() IS
    ''Which sources are or were gated, how long, and which stream tables read them.'';

CREATE OR REPLACE FUNCTION pgtrickle.advance_watermark(source regclass, watermark timestamptz)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pgtrickle.check_may_act_on(ARRAY[source::oid]);
    INSERT INTO pgtrickle.pgt_watermarks AS w (source_relid, watermark)
    VALUES (source, advance_watermark.watermark)
        ON CONFLICT (source_relid) DO UPDATE
       SET watermark = excluded.watermark,
           updated_at = CASE WHEN w.watermark = excluded.watermark THEN w.updated_at
                             ELSE now() END,
           advanced_by = current_user
     WHERE w.watermark <= excluded.watermark;
    IF NOT FOUND THEN
        RAISE EXCEPTION ''the watermark of "%" cannot go back to %'',
              source, advance_watermark.watermark
              USING ERRCODE = ''ST501'', HINT = ''Give a later moment, or the same.'';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.advance_watermark(regclass, timestamptz) IS
    ''Say up to when a source is complete; it never goes back.'';

CREATE OR REPLACE FUNCTION pgtrickle.create_watermark_group(
    group_name text, sources regclass[], tolerance_secs double precision DEFAULT 0)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    members oid[] := ARRAY(SELECT DISTINCT one::oid FROM unnest(sources) AS one WHERE one IS NOT NULL);
    made    bigint;
BEGIN
    IF cardinality(members) < 2 OR tolerance_secs IS NULL OR NOT tolerance_secs >= 0 THEN
        RAISE EXCEPTION ''the watermark group "%" needs two sources and a tolerance of 0 or more'',
              create_watermark_group.group_name
              USING ERRCODE = ''ST501'', HINT = ''Name at least two different sources.'';
    END IF;
    PERFORM pgtrickle.check_may_act_on(members);
    -- A group of somebody else may have the name and not be seen.
    INSERT INTO pgtrickle.pgt_watermark_groups AS g (group_name, source_relids, tolerance_secs)
    VALUES (create_watermark_group.group_name, members, create_watermark_group.tolerance_secs)
    RETURNING g.group_id INTO made;
    RETURN made;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION ''the watermark group "%" already exists'', create_watermark_group.group_name
          USING ERRCODE = ''ST501'', HINT = ''Drop it first, or choose another name.'';
END
$$;

COMMENT ON FUNCTION pgtrickle.create_watermark_group(text, regclass[], double precision) IS
    ''Let what reads several of these sources wait until their watermarks agree, up to a tolerance.'';

CREATE OR REPLACE FUNCTION pgtrickle.drop_watermark_group(group_name text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO pgtrickle.acts (act, name)
    VALUES (''drop_watermark_group'', drop_watermark_group.group_name);
    IF NOT FOUND THEN
        RAISE EXCEPTION ''there is no watermark group "%" of sources that you own'',
              left(drop_watermark_group.group_name, 255)
              USING ERRCODE = ''ST501'',
                    HINT = ''List them with: SELECT * FROM pgtrickle.watermark_status().'';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.drop_watermark_group(text) IS ''Forget a watermark group.'';

CREATE OR REPLACE FUNCTION pgtrickle.watermarks()
RETURNS TABLE (source_table text, watermark timestamptz, updated_at timestamptz, advanced_by text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN c.oid IS NULL THEN w.source_relid::text
                ELSE format(''%I.%I'', n.nspname, c.relname) END, w.watermark,
           w.updated_at, w.advanced_by
      FROM pgtrickle.pgt_watermarks AS w
      LEFT JOIN pg_class AS c ON c.oid = w.source_relid
      LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.watermarks() IS ''Up to when each source is said to be complete.'';

CREATE OR REPLACE FUNCTION pgtrickle.watermark_status()
RETURNS TABLE (group_name text, sources text[], tolerance_secs double precision,
               min_watermark timestamptz, max_watermark timestamptz, lag_secs double precision,
               aligned boolean, sources_with_watermark bigint, sources_total bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT g.group_name,
           ARRAY(SELECT format(''%I.%I'', n.nspname, c.relname)
                   FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                  WHERE c.oid = ANY (g.source_relids) ORDER BY 1),
           g.tolerance_secs, min(w.watermark), max(w.watermark),
           extract(epoch FROM max(w.watermark) - min(w.watermark)),
           -- As the scheduler asks.
           coalesce(max(w.watermark) - min(w.watermark)
                        <= g.tolerance_secs * interval ''1 second'', true),
           count(w.source_relid), cardinality(g.source_relids)
      FROM pgtrickle.pgt_watermark_groups AS g
      LEFT JOIN pgtrickle.pgt_watermarks AS w ON w.source_relid = ANY (g.source_relids)
     GROUP BY g.group_id
     ORDER BY g.group_name
$$;

COMMENT ON FUNCTION pgtrickle.watermark_status() IS
    ''The watermark groups, how far their watermarks are apart, and whether that is within the tolerance.'';

-- No SET clause, because it commits: the scheduler must see it.
CREATE OR REPLACE PROCEDURE pgtrickle.drain(
    timeout_s pg_catalog.float8 DEFAULT 60, INOUT result pg_catalog.bool DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    began   pg_catalog.timestamptz := pg_catalog.clock_timestamp();
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.find_transaction_block(failure);
    IF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code,
              MESSAGE = ''the scheduler cannot be drained in a transaction block'',
              DETAIL = ''The scheduler sees that only when it has been committed.'',
              HINT = ''COMMIT or ROLLBACK first, then CALL.'';
    END IF;
    INSERT INTO pgtrickle.pgt_scheduler_pauses (pgt_id) VALUES (NULL) ON CONFLICT DO NOTHING;
    LOOP
        COMMIT;
        result := pgtrickle.is_drained();
        EXIT WHEN result OR pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) began
            OPERATOR(pg_catalog.>=) pg_catalog.make_interval(secs => timeout_s);
        PERFORM pg_catalog.pg_sleep(0.1);
    END LOOP;
END
$$;

COMMENT ON PROCEDURE pgtrickle.drain(double precision, boolean) IS
    ''Let the scheduler begin nothing more, and wait for what is in flight; false if that takes longer than the timeout.'';

CREATE OR REPLACE FUNCTION pgtrickle.undrain()
RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (
        DELETE FROM pgtrickle.pgt_scheduler_pauses WHERE pgt_id IS NULL RETURNING pgt_id
    )
    SELECT EXISTS (SELECT FROM gone)
$$;

COMMENT ON FUNCTION pgtrickle.undrain() IS
    ''Let the scheduler begin again; false if it was not drained.'';

CREATE OR REPLACE FUNCTION pgtrickle.is_drained()
RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_scheduler_pauses WHERE pgt_id IS NULL)
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_leases WHERE expires_at > clock_timestamp())
$$;

COMMENT ON FUNCTION pgtrickle.is_drained() IS
    ''Whether the scheduler was told to begin nothing more, and nothing is in flight.'';

-- Of stream tables: asked for as requests, for which the daemon looks who owns them.
CREATE OR REPLACE PROCEDURE pgtrickle.pause_scheduler(
    nodes pg_catalog.text[],
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''pause_scheduler'', pg_catalog.jsonb_build_object(
        ''names'', pause_scheduler.nodes), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.pause_scheduler(text[], jsonb) IS
    ''Let the scheduler leave stream tables alone; a refresh in progress comes to its end.'';

CREATE OR REPLACE PROCEDURE pgtrickle.resume_scheduler(
    nodes pg_catalog.text[],
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''resume_scheduler'', pg_catalog.jsonb_build_object(
        ''names'', resume_scheduler.nodes), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.resume_scheduler(text[], jsonb) IS
    ''Let the scheduler go on with stream tables that were paused.'';

-- A group is out of step by those of its sources that have a watermark at all.  It concerns what
-- reads several of its sources, directly or through others.
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
        HAVING max(w.watermark) - min(w.watermark) > g.tolerance_secs * interval ''1 second''
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
        SELECT d.pgt_id, ''the source '' || g.source_relid::regclass || '' is gated''
          FROM pgtrickle.pgt_source_gates AS g
          JOIN pgtrickle.pgt_dependencies AS d ON d.source_relid = g.source_relid
         WHERE g.gated
         UNION ALL
        SELECT r.pgt_id, ''the watermarks of the group '' || a.group_name || '' are out of step''
          FROM astray AS a JOIN reads AS r ON r.relid = ANY (a.source_relids)
         GROUP BY r.pgt_id, a.group_name
        HAVING count(*) > 1
         UNION ALL
        SELECT s.pgt_id, CASE WHEN p.pgt_id IS NULL THEN ''the scheduler is drained''
                              ELSE ''the stream table is paused'' END
          FROM pgtrickle.pgt_scheduler_pauses AS p
          JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = p.pgt_id OR p.pgt_id IS NULL
         UNION ALL
        SELECT s.pgt_id, ''its fuse has blown: '' || s.fuse_reason
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.fuse_blown_at IS NOT NULL
    )
    SELECT h.pgt_id, format(''%I.%I'', s.pgt_schema, s.pgt_name), h.reason
      FROM held AS h JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE s.pgt_schema <> ''pgtrickle_state''
     ORDER BY 2, 3
$$;

COMMENT ON FUNCTION pgtrickle.list_holds() IS
    ''Which stream tables the scheduler leaves alone, and each reason why.'';

-- What is left out is decided by the daemon, as it is for the client and the command.
CREATE OR REPLACE PROCEDURE pgtrickle.create_refresh_group(
    group_name pg_catalog.text,
    members pg_catalog.text[],
    isolation pg_catalog.text DEFAULT NULL,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''create_refresh_group'', pg_catalog.jsonb_build_object(
        ''group_name'', create_refresh_group.group_name,
        ''names'', create_refresh_group.members,
        ''isolation'', create_refresh_group.isolation), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_refresh_group(text, text[], text, jsonb) IS
    ''Put stream tables into a group: they are refreshed at one moment and committed together; with''
    '' read_committed, each on its own.'';

CREATE OR REPLACE PROCEDURE pgtrickle.drop_refresh_group(
    group_name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''drop_refresh_group'', pg_catalog.jsonb_build_object(
        ''group_name'', drop_refresh_group.group_name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.drop_refresh_group(text, jsonb) IS ''Forget a refresh group.'';

CREATE OR REPLACE FUNCTION pgtrickle.refresh_groups()
RETURNS TABLE (group_name text, members text[], isolation text, created_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT g.group_name,
           ARRAY(SELECT format(''%I.%I'', s.pgt_schema, s.pgt_name)
                   FROM pgtrickle.pgt_stream_tables AS s
                  WHERE s.pgt_relid = ANY (g.member_oids) ORDER BY 1),
           g.isolation, g.created_at
      FROM pgtrickle.pgt_refresh_groups AS g
     ORDER BY g.group_name
$$;

COMMENT ON FUNCTION pgtrickle.refresh_groups() IS ''The refresh groups and their members.'';

CREATE OR REPLACE FUNCTION pgtrickle.fuse_status()
RETURNS TABLE (name text, fuse_mode text, fuse_state text, fuse_ceiling bigint,
               fuse_sensitivity double precision, blown_at timestamptz, blow_reason text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(''%I.%I'', s.pgt_schema, s.pgt_name), s.fuse,
           CASE WHEN s.fuse_blown_at IS NOT NULL THEN ''blown'' WHEN s.fuse = ''off'' THEN ''disabled''
                WHEN s.fuse_bridged THEN ''bridged'' ELSE ''armed'' END,
           s.fuse_ceiling, s.fuse_sensitivity, s.fuse_blown_at, s.fuse_reason
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema <> ''pgtrickle_state''
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.fuse_status() IS
    ''The fuse of each stream table: armed, blown, disabled, or bridged for the next refresh.'';

CREATE OR REPLACE PROCEDURE pgtrickle.reset_fuse(
    name pg_catalog.text,
    action pg_catalog.text DEFAULT ''apply'',
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''reset_fuse'', pg_catalog.jsonb_build_object(
        ''name'', reset_fuse.name,
        ''action'', reset_fuse.action), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.reset_fuse(text, text, jsonb) IS
    ''After a fuse has blown: let the next refresh apply what it found, or reinitialize.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('75_lakes', '998c201600c2433362092ffe00342fb136b9d532e3df538f675d50b35b56229b', '-- Lakes: sinks, lake tables as sources, and where catalogs went

CREATE OR REPLACE FUNCTION pgtrickle.ducklake_sink_status()
RETURNS TABLE (stream_table text, lake_table text, status text, attempt_count integer,
               snapshot_id bigint, last_delivered_at timestamptz, next_attempt_at timestamptz,
               deliveries bigint, rows_written bigint, rows_deleted bigint,
               bytes_written bigint, last_error text, failing_since timestamptz, remedy text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT format(''%I.%I'', t.pgt_schema, t.pgt_name), format(''%I.%I'', s.lake_schema, s.lake_table),
           COALESCE(o.status, CASE WHEN d.deliveries > 0 THEN ''DELIVERED'' ELSE ''PENDING'' END),
           COALESCE(o.attempt_count, 0), d.snapshot_id, d.last_delivered_at, o.next_attempt_at,
           d.deliveries, d.rows_written, d.rows_deleted, d.bytes_written, o.last_error,
           o.failing_since,
           CASE o.status
               WHEN ''FAILED_RETRYABLE'' THEN
                   concat_ws('' '', nullif(o.last_hint, ''''), ''It is tried again by itself.'')
               WHEN ''FAILED_PERMANENT'' THEN
                   concat_ws('' '', nullif(o.last_hint, ''''), format(
                       ''Then run: pgtrickle sink retry %I.%I.'', t.pgt_schema, t.pgt_name))
           END
      FROM pgtrickle.pgt_ducklake_sinks AS s
      JOIN pgtrickle.pgt_stream_tables AS t USING (pgt_id)
      LEFT JOIN pgtrickle.pgt_ducklake_sink_delivery AS o
        ON o.stream_table_id = s.pgt_id AND o.status <> ''DELIVERED''
     CROSS JOIN LATERAL (
               SELECT max(finished_at) AS last_delivered_at, count(*) AS deliveries,
                      max(p.snapshot_id) AS snapshot_id,
                      COALESCE(sum(rows_written), 0)::bigint AS rows_written,
                      COALESCE(sum(rows_deleted), 0)::bigint AS rows_deleted,
                      COALESCE(sum(bytes_written), 0)::bigint AS bytes_written
                 FROM pgtrickle.pgt_ducklake_sink_delivery AS p
                WHERE p.stream_table_id = s.pgt_id AND p.status = ''DELIVERED'') AS d
     ORDER BY 1;
END;

COMMENT ON FUNCTION pgtrickle.ducklake_sink_status() IS
    ''Each sink: whether the lake is up to date, what has been delivered, what went wrong last, since
when, and what to do about it.'';

-- In this order: those that wait for somebody, then those that are tried again.
CREATE OR REPLACE FUNCTION pgtrickle.find_failing_sinks()
RETURNS TABLE (stream_table text, lasting boolean, detail text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT n.name, o.status = ''FAILED_PERMANENT'',
           format(''%s: failing since %s, %s attempts, %s: %s'',
                  n.name, to_char(o.failing_since, ''YYYY-MM-DD HH24:MI:SS TZ''), o.attempt_count,
                  CASE WHEN o.status = ''FAILED_PERMANENT'' THEN ''given up''
                       ELSE to_char(o.next_attempt_at, ''"next at" HH24:MI:SS'') END,
                  concat_ws('' '', o.last_error || ''.'', nullif(o.last_hint, ''''),
                            CASE WHEN o.status = ''FAILED_PERMANENT''
                                 THEN format(''Then run: pgtrickle sink retry %s.'', n.name) END))
      FROM pgtrickle.pgt_ducklake_sink_delivery AS o
      JOIN pgtrickle.pgt_ducklake_sinks AS s ON s.pgt_id = o.stream_table_id
      JOIN pgtrickle.pgt_stream_tables AS t ON t.pgt_id = o.stream_table_id,
           format(''%I.%I'', t.pgt_schema, t.pgt_name) AS n (name)
     WHERE o.status IN (''FAILED_RETRYABLE'', ''FAILED_PERMANENT'')
     ORDER BY 2 DESC, 1
$$;

COMMENT ON FUNCTION pgtrickle.find_failing_sinks() IS
    ''Copies in the lake whose last delivery failed: since when, how often, what to do about it.'';

CREATE OR REPLACE PROCEDURE pgtrickle.attach_ducklake_table(
    name pg_catalog.text,
    lake_table pg_catalog.text,
    columns pg_catalog.text[] DEFAULT NULL,
    catalog_schema pg_catalog.text DEFAULT NULL,
    compaction_policy pg_catalog.text DEFAULT NULL,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''attach_ducklake_table'', pg_catalog.jsonb_build_object(
        ''name'', attach_ducklake_table.name,
        ''lake_table'', attach_ducklake_table.lake_table,
        ''columns'', attach_ducklake_table.columns,
        ''catalog_schema'', attach_ducklake_table.catalog_schema,
        ''compaction_policy'', attach_ducklake_table.compaction_policy), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.attach_ducklake_table(text, text, text[], text, text, jsonb) IS
    ''Let PostgreSQL follow a table of the lake, under this name, so that stream tables can read it.'';

CREATE OR REPLACE PROCEDURE pgtrickle.detach_ducklake_table(
    name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''detach_ducklake_table'', pg_catalog.jsonb_build_object(
        ''name'', detach_ducklake_table.name), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.detach_ducklake_table(text, jsonb) IS
    ''Follow a table of the lake no longer, and drop its rows; no stream table may read it.'';

CREATE OR REPLACE FUNCTION pgtrickle.ducklake_sources()
RETURNS TABLE (landing text, lake_table text, catalog_schema text, columns text[],
               compaction_policy text, snapshot_id bigint, followed_at timestamptz,
               last_error text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT format(''%I.%I'', s.landing_schema, s.landing_name),
           format(''%I.%I'', s.lake_schema, s.lake_table), s.catalog_schema,
           ARRAY(SELECT c.value ->> ''name''
                   FROM jsonb_array_elements(s.columns) WITH ORDINALITY AS c (value, place)
                  ORDER BY c.place),
           s.compaction_policy, s.snapshot_id, s.followed_at, s.last_error
      FROM pgtrickle.pgt_ducklake_sources AS s
     ORDER BY 1;
END;

COMMENT ON FUNCTION pgtrickle.ducklake_sources() IS
    ''Each lake table that is followed: under which name, up to which snapshot, what went wrong last.'';

-- The address of the server is the client''s to know; what a DSN says of passwords is left out.
CREATE OR REPLACE FUNCTION pgtrickle.ducklake_catalogs()
RETURNS TABLE (catalog_schema text, data_path text, sinks bigint, sources bigint, attach text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.catalog_schema, min(c.data_path), sum(c.sinks), sum(c.sources),
           format(''ATTACH ''''ducklake:postgres:%s'''' AS lake (METADATA_SCHEMA ''''%s'''');'',
                  replace(CASE WHEN c.catalog_dsn = ''''
                               THEN ''dbname='' || CASE WHEN current_database() ~ ''^[A-Za-z0-9_.-]+$''
                                                      THEN current_database()
                                                      ELSE '''''''' || regexp_replace(current_database(),
                                                                   ''([''''\\])'', ''\\\1'', ''g'') || '''''''' END
                               ELSE btrim(regexp_replace(c.catalog_dsn,
                                                         ''(ssl)?password\s*=\s*\$\{ENV:[^}]*\}'', '''', ''g''))
                          END, '''''''', ''''''''''''),
                  replace(c.catalog_schema, '''''''', ''''''''''''))
      FROM (SELECT s.catalog_dsn, s.catalog_schema, s.data_path, 1::bigint AS sinks, 0::bigint AS sources
              FROM pgtrickle.pgt_ducklake_sinks AS s
             UNION ALL
            SELECT '''', l.catalog_schema, l.data_path, 0, 1
              FROM pgtrickle.pgt_ducklake_sources AS l) AS c
     GROUP BY c.catalog_dsn, c.catalog_schema
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.ducklake_catalogs() IS
    ''Where the catalogs of lakes are, and the line with which DuckDB attaches each; add the host.'';

CREATE OR REPLACE PROCEDURE pgtrickle.move_ducklake_catalog(
    to_schema pg_catalog.text DEFAULT NULL,
    from_schema pg_catalog.text DEFAULT NULL,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.await_request(''move_ducklake_catalog'', pg_catalog.jsonb_build_object(
        ''to_schema'', move_ducklake_catalog.to_schema,
        ''from_schema'', move_ducklake_catalog.from_schema), result, failure);
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message, HINT = failure.hint;
    END IF;
END
$$;

COMMENT ON PROCEDURE pgtrickle.move_ducklake_catalog(text, text, jsonb) IS
    ''Move the tables of a lake''''s catalog to another schema, with everything that names them.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('80_health', '9c7076e0498a6404f145afad4d2552c92099124389a1c73d5a4f16b67eb85388', '-- Health, in rows and in one word

CREATE OR REPLACE FUNCTION pgtrickle.health_check()
RETURNS TABLE (check_name text, severity text, detail text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH tables AS (
        SELECT format(''%I.%I'', i.pgt_schema, i.pgt_name) AS name, i.* FROM pgtrickle.stream_tables_info AS i
    ), found (check_name, severity, detail) AS (
        SELECT ''daemon'', ''CRITICAL'', ''no daemon serves this database; start one with: pgtrickle run''
         WHERE NOT pgtrickle.is_served() AND EXISTS (SELECT FROM tables)
         UNION ALL
        SELECT ''suspended'', ''CRITICAL'', string_agg(t.name, '', '' ORDER BY t.name)
          FROM tables AS t WHERE t.status IN (''SUSPENDED'', ''ERROR'') HAVING count(*) > 0
         UNION ALL
        SELECT ''errors'', ''WARNING'', string_agg(t.name || '': '' || t.last_error_message, ''; '' ORDER BY t.name)
          FROM tables AS t WHERE t.failing HAVING count(*) > 0
         UNION ALL
        SELECT ''drained'', ''WARNING'', ''the scheduler begins nothing; SELECT pgtrickle.undrain() ends that''
         WHERE EXISTS (SELECT FROM pgtrickle.pgt_scheduler_pauses AS p WHERE p.pgt_id IS NULL)
         UNION ALL
        SELECT ''fuses'', ''WARNING'',
               string_agg(format(''%I.%I: %s'', s.pgt_schema, s.pgt_name, s.fuse_reason), ''; ''
                          ORDER BY s.pgt_schema, s.pgt_name)
          FROM pgtrickle.pgt_stream_tables AS s WHERE s.fuse_blown_at IS NOT NULL HAVING count(*) > 0
         UNION ALL
        SELECT ''stale'', ''WARNING'', string_agg(t.name, '', '' ORDER BY t.name)
          FROM tables AS t WHERE t.stale AND t.status = ''ACTIVE'' HAVING count(*) > 0
         UNION ALL
        SELECT ''reinitialize'', ''WARNING'', string_agg(t.name, '', '' ORDER BY t.name)
          FROM tables AS t WHERE t.needs_reinit HAVING count(*) > 0
         UNION ALL
        SELECT ''capture'', ''WARNING'', string_agg(c.source_table || '': '' || c.alert, '', '' ORDER BY c.source_table, c.alert)
          FROM pgtrickle.check_cdc_health() AS c WHERE c.alert IS NOT NULL HAVING count(*) > 0
         UNION ALL
        SELECT ''sinks'', CASE WHEN bool_or(f.lasting) THEN ''CRITICAL'' ELSE ''WARNING'' END,
               string_agg(f.detail, ''; '' ORDER BY f.lasting DESC, f.stream_table)
          FROM pgtrickle.find_failing_sinks() AS f HAVING count(*) > 0
         UNION ALL
        SELECT ''lake'', ''WARNING'',
               string_agg(format(''%I.%I: %s'', l.landing_schema, l.landing_name, l.last_error), ''; ''
                          ORDER BY l.landing_schema, l.landing_name)
          FROM pgtrickle.pgt_ducklake_sources AS l WHERE l.last_error IS NOT NULL HAVING count(*) > 0
    )
    SELECT k.name, coalesce(f.severity, ''OK''), coalesce(f.detail, '''')
      FROM unnest(ARRAY[''daemon'', ''drained'', ''suspended'', ''fuses'', ''errors'', ''stale'', ''reinitialize'',
                        ''capture'', ''sinks'', ''lake''])
           WITH ORDINALITY AS k (name, n)
      LEFT JOIN found AS f ON f.check_name = k.name
     ORDER BY k.n
$$;

COMMENT ON FUNCTION pgtrickle.health_check() IS
    ''What is checked, and what is wrong: OK, WARNING or CRITICAL.'';

CREATE OR REPLACE VIEW pgtrickle.quick_health AS
    SELECT CASE WHEN NOT EXISTS (SELECT FROM pgtrickle.stream_tables_info) THEN ''EMPTY''
                WHEN bool_or(severity = ''CRITICAL'') THEN ''CRITICAL''
                WHEN bool_or(severity = ''WARNING'') THEN ''WARNING'' ELSE ''OK'' END AS status,
           (SELECT count(*) FROM pgtrickle.stream_tables_info) AS stream_tables,
           string_agg(check_name || '': '' || detail, ''; '') FILTER (WHERE severity <> ''OK'') AS detail
      FROM pgtrickle.health_check();

COMMENT ON VIEW pgtrickle.quick_health IS ''EMPTY, OK, WARNING or CRITICAL, in one row.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('85_subscriptions', '6eec9c6e244298effb2cc36ec76bff0bc52c68dba728b2b8c2a73f75b3c1aeac', '-- Subscriptions: channels that are told of refreshes

-- What is done with the owner''s rights for whoever inserts here.  A function with its owner''s
-- rights cannot tell who calls it; the default of a column that nobody may write can.  The rows
-- that are changed are never the caller''s to update, and so not his to lock.
CREATE OR REPLACE VIEW pgtrickle.acts AS
    SELECT NULL::text AS act, NULL::bigint AS stream_table, NULL::text AS name, NULL::oid AS caller
     WHERE false;

COMMENT ON VIEW pgtrickle.acts IS
    ''Always empty: what is inserted is done at once, for the role that inserts it.'';

ALTER VIEW pgtrickle.acts ALTER COLUMN caller
    SET DEFAULT pg_catalog.to_regrole(pg_catalog.quote_ident(current_user))::pg_catalog.oid;

-- Readers see their own.
DROP POLICY IF EXISTS pgt_subscriptions_see_own ON pgtrickle.pgt_subscriptions;
CREATE POLICY pgt_subscriptions_see_own ON pgtrickle.pgt_subscriptions FOR SELECT
    USING (pg_catalog.pg_has_role(subscriber_oid, ''USAGE''));

CREATE OR REPLACE FUNCTION pgtrickle.perform_act()
RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    relation oid;
    catalog  oid := (SELECT n.nspowner FROM pg_namespace AS n WHERE n.nspname = ''pgtrickle'');
BEGIN
    IF NEW.act = ''subscribe'' THEN
        SELECT s.pgt_relid INTO relation
          FROM pgtrickle.pgt_stream_tables AS s WHERE s.pgt_id = NEW.stream_table;
        IF NOT coalesce(has_any_column_privilege(NEW.caller, relation, ''SELECT''), false) THEN
            RAISE EXCEPTION ''the role % may not read the stream table %'',
                  NEW.caller::regrole, relation::regclass
                  USING ERRCODE = ''ST303'', HINT = ''GRANT SELECT on it to the role first.'';
        END IF;
        IF NEW.name IS NULL OR octet_length(NEW.name) NOT BETWEEN 1 AND 63
           OR NEW.name ~ ''[[:cntrl:]]'' OR starts_with(NEW.name, ''pg_trickle'') THEN
            RAISE EXCEPTION ''the channel "%" cannot be subscribed to'', left(NEW.name, 63)
                  USING ERRCODE = ''ST605'',
                        HINT = ''A channel has 1 to 63 bytes and no control characters; those that ''
                               ''begin with pg_trickle are ours.'';
        END IF;
        -- A channel that nobody who exists has subscribed is free.
        DELETE FROM pgtrickle.pgt_subscriptions AS s
         WHERE s.channel = NEW.name
           AND NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.oid = s.subscriber_oid);
        IF EXISTS (SELECT FROM pgtrickle.pgt_subscriptions AS s
                    WHERE s.channel = NEW.name
                      AND NOT pg_has_role(NEW.caller, s.subscriber_oid, ''USAGE'')) THEN
            RAISE EXCEPTION ''the channel "%" belongs to another role'', NEW.name
                  USING ERRCODE = ''ST605'', HINT = ''Choose another channel.'';
        END IF;
        IF (SELECT count(*) FROM pgtrickle.pgt_subscriptions AS s
             WHERE s.pgt_id = NEW.stream_table AND s.subscriber_oid = NEW.caller
               AND s.channel <> NEW.name) >= 20 THEN
            RAISE EXCEPTION ''the role % has 20 channels on this stream table, as many as one may'',
                  NEW.caller::regrole
                  USING ERRCODE = ''ST606'', HINT = ''End one: SELECT pgtrickle.unsubscribe(...).'';
        END IF;
        INSERT INTO pgtrickle.pgt_subscriptions (pgt_id, channel, created_by, subscriber_oid)
        VALUES (NEW.stream_table, NEW.name, pg_get_userbyid(NEW.caller), NEW.caller)
            ON CONFLICT DO NOTHING;
    ELSIF NEW.act = ''unsubscribe'' THEN
        DELETE FROM pgtrickle.pgt_subscriptions AS s
         WHERE s.pgt_id = NEW.stream_table AND s.channel = NEW.name
           AND (pg_has_role(NEW.caller, s.subscriber_oid, ''USAGE'')
                OR pg_has_role(NEW.caller, catalog, ''USAGE''));
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    ELSIF NEW.act = ''drop_watermark_group'' THEN
        DELETE FROM pgtrickle.pgt_watermark_groups AS g
         WHERE g.group_name = NEW.name
           AND (pg_has_role(NEW.caller, catalog, ''USAGE'')
                OR NOT EXISTS (
                    SELECT FROM unnest(g.source_relids) AS one (oid)
                      LEFT JOIN pg_class AS c USING (oid)
                     WHERE NOT coalesce(pg_has_role(NEW.caller, c.relowner, ''USAGE''), false)));
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    ELSE
        RAISE EXCEPTION ''there is no act "%"'', left(NEW.act, 63)
              USING ERRCODE = ''ST605'', HINT = ''Call the functions of the schema pgtrickle.'';
    END IF;
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION pgtrickle.perform_act() IS
    ''Do what was inserted into pgtrickle.acts, if the role that inserted it may.'';

DROP TRIGGER IF EXISTS perform_act ON pgtrickle.acts;
CREATE TRIGGER perform_act INSTEAD OF INSERT ON pgtrickle.acts
    FOR EACH ROW EXECUTE FUNCTION pgtrickle.perform_act();

CREATE OR REPLACE FUNCTION pgtrickle.subscribe(
    stream_table text, channel text, schemas name[] DEFAULT current_schemas(false))
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO pgtrickle.acts (act, stream_table, name)
    VALUES (''subscribe'', pgtrickle.find_stream_table($1, $3), $2)
$$;

COMMENT ON FUNCTION pgtrickle.subscribe(text, text, name[]) IS
    ''Let a channel of one''''s own be told of each refresh that changes a stream table.'';

CREATE OR REPLACE FUNCTION pgtrickle.unsubscribe(
    stream_table text, channel text, schemas name[] DEFAULT current_schemas(false))
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO pgtrickle.acts (act, stream_table, name)
    VALUES (''unsubscribe'',
            pgtrickle.find_stream_table(unsubscribe.stream_table, unsubscribe.schemas),
            unsubscribe.channel);
    RETURN FOUND;
END
$$;

COMMENT ON FUNCTION pgtrickle.unsubscribe(text, text, name[]) IS
    ''Tell a channel of one''''s own no more; false if it was not told before.'';

CREATE OR REPLACE FUNCTION pgtrickle.list_subscriptions()
RETURNS TABLE (stream_table text, channel text, created_at timestamptz, created_by text,
               notified_at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(''%I.%I'', t.pgt_schema, t.pgt_name), s.channel, s.created_at, s.created_by,
           s.notified_at
      FROM pgtrickle.pgt_subscriptions AS s
      JOIN pgtrickle.stream_tables_info AS t USING (pgt_id)
     ORDER BY 1, 2
$$;

COMMENT ON FUNCTION pgtrickle.list_subscriptions() IS
    ''Which channels of one''''s own are told of which stream tables; the owner of the catalog sees all.'';

-- One notice tells of several refreshes that come soon after one another; its counts are of all.
-- What is held back is told by the next refresh or by tell_pending, whichever comes first.
CREATE OR REPLACE FUNCTION pgtrickle.tell_subscribers(
    stream_table bigint, refresh bigint, inserted bigint, deleted bigint, coalesce_ms integer)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    told integer;
BEGIN
    UPDATE pgtrickle.pgt_subscriptions AS s
       SET pending_refresh_id = refresh, pending_inserted = s.pending_inserted + inserted,
           pending_deleted = s.pending_deleted + deleted
     WHERE s.pgt_id = stream_table;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT count(*) INTO told FROM pgtrickle.tell_pending(stream_table, coalesce_ms);
    RETURN told;
END
$$;

COMMENT ON FUNCTION pgtrickle.tell_subscribers(bigint, bigint, bigint, bigint, integer) IS
    ''Tell the channels of a stream table of a refresh, in its own transaction.'';

-- Who may not read the stream table any more is not told, and nothing is kept for him.
CREATE OR REPLACE FUNCTION pgtrickle.tell_pending(stream_table bigint, coalesce_ms integer)
RETURNS SETOF text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH due AS (
        SELECT s.pgt_id, s.channel, s.pending_refresh_id, s.pending_inserted, s.pending_deleted,
               format(''%I.%I'', t.pgt_schema, t.pgt_name) AS name,
               EXISTS (SELECT FROM pg_roles AS r
                        WHERE r.oid = s.subscriber_oid
                          AND has_any_column_privilege(r.oid, t.pgt_relid, ''SELECT'')) AS allowed
          FROM pgtrickle.pgt_subscriptions AS s
          JOIN pgtrickle.pgt_stream_tables AS t USING (pgt_id)
         WHERE s.pending_refresh_id IS NOT NULL
           AND (stream_table IS NULL OR s.pgt_id = stream_table)
           AND (SELECT pgtrickle.may_notify())
           -- What lies in the future was noted before the clock was set back.
           AND (s.notified_at IS NULL OR s.notified_at > clock_timestamp()
                OR s.notified_at <= clock_timestamp() - make_interval(secs => coalesce_ms / 1000.0))
           FOR NO KEY UPDATE OF s
    ), told AS (
        UPDATE pgtrickle.pgt_subscriptions AS s
           SET notified_at = clock_timestamp(), pending_refresh_id = NULL, pending_inserted = 0,
               pending_deleted = 0
          FROM due WHERE s.pgt_id = due.pgt_id AND s.channel = due.channel
        RETURNING due.*
    )
    SELECT channel
      FROM told, pg_notify(channel, json_build_object(
               ''name'', name, ''refresh_id'', pending_refresh_id,
               ''inserted_count'', pending_inserted, ''deleted_count'', pending_deleted)::text)
     WHERE allowed
$$;

COMMENT ON FUNCTION pgtrickle.tell_pending(bigint, integer) IS
    ''Tell what was held back for long enough, of one stream table or of all; return the channels.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('90_settings', '387f9d951c12041c5c258ffb6a490a44615ea9c2e09213147510c3ccc48d2940', '-- Settings that the database holds

CREATE OR REPLACE FUNCTION pgtrickle.set_setting(name text, value text, author text DEFAULT current_user)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known  record;
    number double precision;
    fits   boolean := true;
BEGIN
    SELECT s.* INTO known FROM pgtrickle.pgt_settings AS s WHERE s.name = set_setting.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION ''there is no setting "%"'', set_setting.name
              USING ERRCODE = ''ST501'',
                    HINT = ''List them with: SELECT * FROM pgtrickle.show_settings().'';
    END IF;
    IF set_setting.value IS NOT NULL THEN
        IF known.type IN (''int'', ''float'') THEN
            fits := set_setting.value ~ CASE known.type WHEN ''int'' THEN ''^-?[0-9]{1,18}$''
                                        ELSE ''^-?[0-9]{1,18}(\.[0-9]{1,18})?$'' END;
            number := CASE WHEN fits THEN set_setting.value::double precision END;
            fits := fits AND coalesce(number >= known.low, true)
                    AND coalesce(number <= known.high, true);
        ELSIF known.type = ''bool'' THEN
            fits := lower(set_setting.value) IN (''true'', ''on'', ''1'', ''false'', ''off'', ''0'');
        ELSIF known.choices <> ''{}'' THEN
            fits := set_setting.value = ANY (known.choices);
        END IF;
        IF NOT fits THEN
            RAISE EXCEPTION ''the setting "%" cannot be "%"'', set_setting.name, set_setting.value
                  USING ERRCODE = ''ST501'', HINT = format(
                      ''It is of the type %s%s%s.'', known.type,
                      '', from '' || known.low || coalesce('' to '' || known.high, ''''),
                      '', one of '' || nullif(array_to_string(known.choices, '', ''), ''''));
        END IF;
    END IF;
    UPDATE pgtrickle.pgt_settings AS s
       SET value = set_setting.value, updated_at = clock_timestamp(), updated_by = author
     WHERE s.name = set_setting.name;
END
$$;

COMMENT ON FUNCTION pgtrickle.set_setting(text, text, text) IS
    ''Give a setting a value for this database, NULL: its default; processes read it when they start.'';

CREATE OR REPLACE FUNCTION pgtrickle.show_settings()
RETURNS TABLE (name text, value text, source text, default_value text, unit text,
               low double precision, high double precision, choices text[], doc text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.name, coalesce(own.value, s.value, s.default_value),
           CASE WHEN own.value IS NOT NULL THEN ''session'' WHEN s.value IS NOT NULL THEN ''table''
                ELSE ''default'' END,
           s.default_value, s.unit, s.low, s.high, s.choices, s.doc
      FROM pgtrickle.pgt_settings AS s,
           nullif(current_setting(''pg_trickle.'' || s.name, true), '''') AS own (value)
     ORDER BY s.name
$$;

COMMENT ON FUNCTION pgtrickle.show_settings() IS
    ''Every setting, its value as far as the database has it, and where that comes from.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('95_migrate', 'bb4e6c5750b6ab5d61da10f5b50b5fc0b26c7a5eafab263452560a518b0f90d9', '-- Mending the catalog from SQL

CREATE OR REPLACE FUNCTION pgtrickle.describe_api()
RETURNS TABLE (object text, definition text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_describe_object(''pg_proc''::regclass, p.oid, 0),
           md5(concat_ws(chr(1), pg_get_functiondef(p.oid), p.proowner, p.proacl::text,
                         obj_description(p.oid, ''pg_proc'')))
      FROM pg_proc AS p WHERE p.pronamespace = ''pgtrickle''::regnamespace
     UNION ALL
    SELECT pg_describe_object(''pg_class''::regclass, c.oid, 0),
           md5(concat_ws(chr(1), CASE c.relkind WHEN ''v'' THEN pg_get_viewdef(c.oid) END, c.relowner,
                         c.relacl::text, c.reloptions, obj_description(c.oid, ''pg_class'')))
      FROM pg_class AS c
     WHERE c.relnamespace = ''pgtrickle''::regnamespace AND c.relkind IN (''r'', ''v'')
     UNION ALL
    SELECT pg_describe_object(''pg_trigger''::regclass, t.oid, 0),
           md5(concat_ws(chr(1), pg_get_triggerdef(t.oid), t.tgenabled))
      FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
     WHERE c.relnamespace = ''pgtrickle''::regnamespace AND NOT t.tgisinternal
     UNION ALL
    SELECT pg_describe_object(''pg_policy''::regclass, p.oid, 0),
           md5(concat_ws(chr(1), p.polcmd, p.polpermissive, p.polroles,
                         pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)))
      FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
     WHERE c.relnamespace = ''pgtrickle''::regnamespace
$$;

COMMENT ON FUNCTION pgtrickle.describe_api() IS
    ''Everything in the catalog that runs, and a hash of each.'';

-- The text is the one that a client has recorded: SQL cannot know a newer one.
CREATE OR REPLACE FUNCTION pgtrickle.migrate()
RETURNS TABLE (object text, action text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    owner  name;
    before jsonb;
    texts  text[];
    one    text;
BEGIN
    SELECT pg_get_userbyid(n.nspowner) INTO owner FROM pg_namespace AS n WHERE n.nspname = ''pgtrickle'';
    -- Whatever is made belongs to the role that makes it.
    IF current_user <> owner THEN
        RAISE EXCEPTION ''only "%", who owns the catalog, may migrate it'', owner
              USING ERRCODE = ''insufficient_privilege'', HINT = format(''Connect as %I.'', owner);
    END IF;
    LOCK TABLE pgtrickle.pgt_schema_version IN SHARE ROW EXCLUSIVE MODE;
    SELECT jsonb_object_agg(d.object, d.definition) INTO before FROM pgtrickle.describe_api() AS d;
    SELECT array_agg(a.content ORDER BY a.name) INTO texts FROM pgtrickle.pgt_sql_api AS a;
    FOREACH one IN ARRAY texts LOOP
        EXECUTE one;
    END LOOP;
    RETURN QUERY
    SELECT d.object, CASE WHEN before ? d.object THEN ''restored'' ELSE ''created'' END
      FROM pgtrickle.describe_api() AS d
     WHERE before ->> d.object IS DISTINCT FROM d.definition
     ORDER BY 1;
END
$$;

COMMENT ON FUNCTION pgtrickle.migrate() IS
    ''Make every function, procedure, view, policy and trigger of the catalog again as it was last
migrated; return what was missing or different. A newer version comes with: pgtrickle migrate.'';
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('97_access', '9c4b7fa0136679875a7e299ffd5a4cb743eea934ab9d87ac875bee987b2c4b47', '-- Levels of access: what each comes to, and who gives it

-- What each level comes to.  Functions are named without their arguments.
DELETE FROM pgtrickle.pgt_grants;

INSERT INTO pgtrickle.pgt_grants (level, privilege, target)
SELECT CASE WHEN p.proname = ANY (l.readers) THEN ''reader'' ELSE ''operator'' END, ''EXECUTE'',
       format(''%s %s'', CASE p.prokind WHEN ''p'' THEN ''PROCEDURE'' ELSE ''FUNCTION'' END,
              p.oid::regprocedure)
  FROM (VALUES (
           ARRAY[''bootstrap_gate_status'', ''change_buffer_sizes'', ''check_cdc_health'',
                 ''daemons'', ''dependency_tree'', ''ducklake_catalogs'', ''ducklake_sink_status'',
                 ''ducklake_sources'', ''explain_dag'', ''explain_refresh_mode'', ''explain_st'',
                 ''export_definition'', ''find_stream_table'', ''fuse_status'',
                 ''get_refresh_history'', ''get_staleness'', ''health_check'', ''is_drained'',
                 ''is_served'', ''list_holds'', ''list_sources'', ''list_subscriptions'',
                 ''parse_duration_seconds'', ''pgt_scc_status'', ''pgt_status'',
                 ''refresh_efficiency'', ''refresh_groups'', ''refresh_timeline'',
                 ''request_queue'', ''running_refreshes'', ''show_settings'', ''sla_summary'',
                 ''stream_table_spec'', ''version'', ''watermark_status'', ''watermarks''],
           ARRAY[''advance_watermark'', ''alter_stream_table'', ''attach_ducklake_table'',
                 ''await_request'', ''bulk_alter_stream_tables'', ''bulk_create'',
                 ''bulk_drop_stream_tables'', ''cancel_request'', ''check_may_act_on'',
                 ''check_may_ask'', ''check_may_group'', ''create_or_replace_stream_table'',
                 ''create_refresh_group'', ''create_stream_table'',
                 ''create_stream_table_if_not_exists'', ''create_watermark_group'',
                 ''detach_ducklake_table'', ''diagnose_errors'', ''diamond_groups'',
                 ''drop_refresh_group'', ''drop_stream_table'', ''drop_watermark_group'',
                 ''explain'', ''explain_delta'', ''explain_query_rewrite'',
                 ''explain_stream_table'', ''find_obstacle'', ''find_transaction_block'',
                 ''follow_request'', ''gate_source'', ''may_act_on'', ''move_ducklake_catalog'',
                 ''pause_scheduler'', ''perform_request'', ''refresh_stream_table'',
                 ''refusal_of_commit'', ''rename_stream_table'', ''repair_stream_table'',
                 ''reset_fuse'', ''resume_scheduler'', ''resume_stream_table'', ''submit_request'',
                 ''subscribe'', ''ungate_source'', ''unsubscribe'', ''validate_query'',
                 ''verify_stream_table'', ''write_and_refresh'']
       )) AS l (readers, operators)
  JOIN pg_proc AS p ON p.proname = ANY (l.readers || l.operators)
 WHERE p.pronamespace = ''pgtrickle''::regnamespace
 UNION ALL
VALUES (''reader'', ''USAGE'', ''SCHEMA pgtrickle''),
       (''reader'', ''SELECT'', ''TABLE pgtrickle.pgt_dependencies''),
       (''reader'', ''SELECT (delivery_id, stream_table_id, refresh_id, status, attempt_count,''
        '' failing_since, next_attempt_at, last_error, last_hint)'',
        ''TABLE pgtrickle.pgt_ducklake_sink_delivery''),
       (''reader'', ''SELECT (pgt_id, lake_schema, lake_table)'',
        ''TABLE pgtrickle.pgt_ducklake_sinks''),
       (''reader'', ''SELECT'', ''TABLE pgtrickle.pgt_ducklake_sources''),
       (''reader'', ''SELECT'', ''TABLE pgtrickle.pgt_refresh_history''),
       (''reader'', ''SELECT'', ''TABLE pgtrickle.pgt_schema_version''),
       (''reader'', ''SELECT'', ''TABLE pgtrickle.pgt_settings''),
       (''reader'', ''SELECT'', ''TABLE pgtrickle.pgt_stream_tables''),
       (''reader'', ''SELECT'', ''TABLE pgtrickle.pgt_subscriptions''),
       (''reader'', ''SELECT'', ''TABLE pgtrickle.quick_health''),
       (''reader'', ''SELECT'', ''TABLE pgtrickle.stream_tables_info''),
       (''operator'', ''INSERT (act, stream_table, name)'', ''TABLE pgtrickle.acts''),
       (''operator'', ''SELECT, INSERT, UPDATE (seen_at, cancelled_at)'',
        ''TABLE pgtrickle.pgt_request_signs''),
       (''operator'', ''SELECT, INSERT (verb, arguments, seen_at)'',
        ''TABLE pgtrickle.pgt_requests''),
       (''operator'', ''SELECT, INSERT, UPDATE (gated, gated_at, ungated_at, gated_by)'',
        ''TABLE pgtrickle.pgt_source_gates''),
       (''operator'', ''SELECT, INSERT'', ''TABLE pgtrickle.pgt_watermark_groups''),
       (''operator'', ''SELECT, INSERT, UPDATE (watermark, updated_at, advanced_by)'',
        ''TABLE pgtrickle.pgt_watermarks''),
       (''operator'', ''SELECT'', ''TABLE pgtrickle.requests'');

CREATE OR REPLACE FUNCTION pgtrickle.grant_access(role name, level text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one record;
BEGIN
    IF grant_access.level NOT IN (''reader'', ''operator'', ''admin'') THEN
        RAISE EXCEPTION ''there is no level of access "%"'', grant_access.level
              USING ERRCODE = ''ST501'', HINT = ''Choose reader, operator or admin.'';
    END IF;
    -- Default privileges of the database may have opened the tables to all who can reach them.
    REVOKE ALL ON ALL TABLES IN SCHEMA pgtrickle FROM PUBLIC;
    REVOKE ALL ON ALL ROUTINES IN SCHEMA pgtrickle FROM PUBLIC;
    FOR one IN
        SELECT g.privilege, g.target FROM pgtrickle.pgt_grants AS g
         WHERE g.level = ''reader'' OR grant_access.level <> ''reader''
    LOOP
        EXECUTE format(''GRANT %s ON %s TO %I'', one.privilege, one.target, role);
    END LOOP;
    IF grant_access.level = ''admin'' THEN
        -- Whoever creates stream tables lets the daemon run queries with its rights.
        EXECUTE format(''GRANT %I TO %I'',
                       (SELECT pg_get_userbyid(n.nspowner) FROM pg_namespace AS n
                         WHERE n.nspname = ''pgtrickle''), role);
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.grant_access(name, text) IS
    ''Let a role look (reader), ask the daemon and subscribe (operator), or act as the owner of the
catalog (admin).'';

CREATE OR REPLACE FUNCTION pgtrickle.revoke_access(role name)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format(''REVOKE ALL ON ALL TABLES IN SCHEMA pgtrickle FROM %I'', role);
    EXECUTE format(''REVOKE ALL ON ALL ROUTINES IN SCHEMA pgtrickle FROM %I'', role);
    EXECUTE format(''REVOKE ALL ON SCHEMA pgtrickle FROM %I'', role);
END
$$;

COMMENT ON FUNCTION pgtrickle.revoke_access(name) IS
    ''Take every access to the schema pgtrickle from a role, but not a membership.'';

-- A routine that was made anew has lost who may call it, and default privileges may have opened what
-- is new: give each role again what its level comes to.
DO $$
DECLARE
    one record;
BEGIN
    REVOKE ALL ON ALL TABLES IN SCHEMA pgtrickle FROM PUBLIC;
    REVOKE ALL ON ALL ROUTINES IN SCHEMA pgtrickle FROM PUBLIC;
    FOR one IN
        SELECT pg_get_userbyid(a.grantee) AS role,
               CASE WHEN EXISTS (
                        SELECT FROM pg_attribute AS v, aclexplode(v.attacl) AS asks
                         WHERE v.attrelid = ''pgtrickle.pgt_requests''::regclass AND v.attname = ''verb''
                           AND asks.grantee = a.grantee AND asks.privilege_type = ''INSERT'')
                    THEN ''operator'' ELSE ''reader'' END AS level
          FROM pg_class AS c, aclexplode(c.relacl) AS a
         WHERE c.oid = ''pgtrickle.pgt_schema_version''::regclass
           AND a.privilege_type = ''SELECT'' AND a.grantee NOT IN (c.relowner, 0)
           -- Default privileges give rights on tables, too, and no level of access.
           AND EXISTS (SELECT FROM pg_namespace AS n, aclexplode(n.nspacl) AS enters
                        WHERE n.nspname = ''pgtrickle'' AND enters.grantee = a.grantee
                          AND enters.privilege_type = ''USAGE'')
    LOOP
        PERFORM pgtrickle.grant_access(one.role, one.level);
    END LOOP;
END
$$;
', '0.1.0', '2026-11-18 01:46:05.439453+00');
INSERT INTO pgtrickle.pgt_sql_api VALUES ('99_known_settings', 'f858eeb3fe95e22e671237948b982f2d2162e165eec2931cb8df68e4a184e3fc', '
INSERT INTO pgtrickle.pgt_settings AS s
    (name, type, default_value, unit, low, high, choices, doc)
VALUES (''lease_seconds'', ''float'', ''30.0'', ''s'', 1, 86400, ARRAY[]::text[], ''How long a refresh may go without a sign of life before another may take over.''),
       (''differential_max_change_ratio'', ''float'', ''0.5'', ''share'', 0, 1, ARRAY[]::text[], ''Under AUTO, the share of changed rows among a query''''s source rows above which a refresh recomputes in full, whatever it is predicted to cost; an updated row counts once. A stream table''''s own max_delta_fraction comes first.''),
       (''cost_model_safety_margin'', ''float'', ''0.9'', '''', 0, 1, ARRAY[]::text[], ''Under AUTO, a refresh recomputes in full where that is predicted to take less than this share of what following the changes is predicted to take; 0: never for its cost.''),
       (''force_full_refresh'', ''bool'', ''false'', '''', NULL, NULL, ARRAY[]::text[], ''Under AUTO, recompute in full at every refresh.''),
       (''max_concurrent_refreshes'', ''int'', ''4'', '''', 1, 64, ARRAY[]::text[], ''How many refreshes `pgtrickle run` works on at a time.''),
       (''per_database_worker_quota'', ''int'', ''0'', '''', 0, 64, ARRAY[]::text[], ''How many of them one database may have, kept in its own settings table; 0: all.''),
       (''auto_backoff'', ''bool'', ''true'', '''', NULL, NULL, ARRAY[]::text[], ''Refresh a stream table half as often after three refreshes in a row that took longer than its schedule, down to an eighth, until one takes no longer.''),
       (''event_wakeup'', ''bool'', ''true'', '''', NULL, NULL, ARRAY[]::text[], ''Let a captured change wake `pgtrickle run`, where it has a session of its own on the server; otherwise it looks for changes when they are due.''),
       (''fuse_default_ceiling'', ''int'', ''0'', '''', 0, NULL, ARRAY[]::text[], ''Changed rows above which the fuse of a stream table blows that has no ceiling of its own; 0: none.''),
       (''allow_circular'', ''bool'', ''false'', '''', NULL, NULL, ARRAY[]::text[], ''Let a new query of a stream table close a circle of stream tables that read one another, if all their queries are monotone; those that are there are refreshed anyway.''),
       (''max_fixpoint_iterations'', ''int'', ''100'', '''', 1, 1000000, ARRAY[]::text[], ''After how many rounds the refresh of a circle gives up that still finds rows.''),
       (''planning_timeout_seconds'', ''float'', ''10.0'', ''s'', 0.05, 3600, ARRAY[]::text[], ''How long PostgreSQL may take to plan a query while it is bound or compiled; one that takes longer is refused.''),
       (''max_consecutive_errors'', ''int'', ''3'', '''', 0, 1000, ARRAY[]::text[], ''After how many errors in a row that do not heal by themselves `pgtrickle run` suspends a stream table; 0: never.''),
       (''suspend_after_seconds'', ''float'', ''300.0'', ''s'', 0, 86400, ARRAY[]::text[], ''How long errors in a row must last, from the first to the latest, before they suspend a stream table; 0: max_consecutive_errors alone decides.''),
       (''history_retention_days'', ''int'', ''90'', ''days'', 0, 36500, ARRAY[]::text[], ''How long the history keeps a refresh; 0: for ever.''),
       (''history_prune_interval_seconds'', ''float'', ''60.0'', ''s'', 1, 86400, ARRAY[]::text[], ''How often `pgtrickle run` looks for history to delete.''),
       (''read_connections'', ''int'', ''4'', '''', 1, 64, ARRAY[]::text[], ''How many connections read side by side during one refresh.''),
       (''large_read_bytes'', ''int'', ''33554432'', ''bytes'', 1, NULL, ARRAY[]::text[], ''Size of one input of a refresh (a table, a window of changes, what a bounded read brings) from which Spark''''s executors read it in parts, side by side, and write the result themselves. A smaller one passes through the memory of this process.''),
       (''spark_driver_memory'', ''str'', ''2g'', '''', NULL, NULL, ARRAY[]::text[], ''The heap of Spark''''s driver, as Spark writes sizes; with a local master the executors live in it too.''),
       (''spark_class_archive'', ''bool'', ''true'', '''', NULL, NULL, ARRAY[]::text[], ''Keep an archive of the classes that Spark''''s JVM loads in the user''''s cache directory (some 150 MB): Spark then starts in half the time. It is written when Spark stops for the first time, which takes some seconds, or by a process of its own beside a daemon.''),
       (''refresh_stall_seconds'', ''float'', ''600.0'', ''s'', 0, 86400, ARRAY[]::text[], ''After how long without any progress (no job, stage or task that ends, no row that moves, no processor time) what Spark does for a refresh is ended, and Spark started anew if it does not answer; 0: never.''),
       (''shutdown_seconds'', ''float'', ''30.0'', ''s'', 1, 3600, ARRAY[]::text[], ''Within how long `pgtrickle run` ends after a signal, whatever hangs. Refreshes in progress have the first half to finish and are cancelled then.''),
       (''driver_result_bytes'', ''int'', ''134217728'', ''bytes'', 1048576, NULL, ARRAY[]::text[], ''Size up to which the result of a stage passes through the driver; a larger one is computed again and written by the executors.''),
       (''progress_seconds'', ''float'', ''2.0'', ''s'', 0.05, 3600, ARRAY[]::text[], ''How often a large refresh tells how far it is.''),
       (''matview_polling'', ''bool'', ''true'', '''', NULL, NULL, ARRAY[]::text[], ''Accept materialized views as sources; each refresh reads all their rows to learn whether they changed.''),
       (''foreign_table_polling'', ''bool'', ''false'', '''', NULL, NULL, ARRAY[]::text[], ''Accept foreign tables as sources; each refresh reads all their rows to learn whether they changed.''),
       (''trim_rows'', ''int'', ''1000000'', ''rows'', 1, NULL, ARRAY[]::text[], ''How many consumed changes one refresh deletes at most.''),
       (''cdc_mode'', ''str'', ''trigger'', '''', NULL, NULL, ARRAY[]::text[], ''How changes are captured: by `trigger`, from the `wal`, or `auto`, which reads the log where all it needs is in place. A stream table''''s own cdc_mode comes first.''),
       (''wal_max_changes_per_poll'', ''int'', ''100000'', '''', 1, NULL, ARRAY[]::text[], ''After how many messages a read of the log ends with the transaction it is in.''),
       (''wal_transition_timeout_seconds'', ''float'', ''300.0'', ''s'', 1, 86400, ARRAY[]::text[], ''How long creating the logical slot may wait for transactions that are open.''),
       (''wal_heartbeat_seconds'', ''float'', ''10.0'', ''s'', 0.1, 3600, ARRAY[]::text[], ''How often `pgtrickle run` reads the log although nothing is due, so that the server need not keep it.''),
       (''slot_lag_warning_threshold_mb'', ''int'', ''100'', ''MB'', 1, NULL, ARRAY[]::text[], ''How much log the slot may hold back before a warning.''),
       (''slot_lag_critical_threshold_mb'', ''int'', ''1024'', ''MB'', 1, NULL, ARRAY[]::text[], ''How much log the slot may hold back before the matter is critical.''),
       (''change_buffer_durability'', ''str'', ''logged'', '''', NULL, NULL, ARRAY[''unlogged'', ''logged'', ''sync'']::text[], ''What a crash of the server leaves of new change buffers: all (logged), all and the writer has waited for the disk whatever its synchronous_commit (sync), or nothing (unlogged): cheaper, and each crash makes stream tables start anew.''),
       (''compact_threshold'', ''int'', ''100000'', '''', 0, NULL, ARRAY[]::text[], ''Rows of a change buffer from which changes that undo one another are taken out of it; 0: never.''),
       (''buffer_alert_threshold'', ''int'', ''1000000'', '''', 1, NULL, ARRAY[]::text[], ''Rows of a change buffer from which an alert is sent to the channel pg_trickle_alert.''),
       (''max_buffer_rows'', ''int'', ''0'', ''rows'', 0, NULL, ARRAY[]::text[], ''Rows of a change buffer above which stream tables that are behind no longer hold it up and start anew instead, or writers are slowed down (enforce_backpressure); 0: no limit.''),
       (''enforce_backpressure'', ''bool'', ''false'', '''', NULL, NULL, ARRAY[]::text[], ''Slow writers down while a change buffer is above max_buffer_rows, instead of letting stream tables start anew.''),
       (''backpressure_consecutive_limit'', ''int'', ''3'', '''', 1, 1000, ARRAY[]::text[], ''How often in a row a buffer is found above its limit before something is done.''),
       (''backpressure_delay_ms'', ''int'', ''20'', ''ms'', 1, 10000, ARRAY[]::text[], ''How long back pressure holds up each statement that writes to a source.''),
       (''notify_coalesce_ms'', ''int'', ''250'', ''ms'', 0, 5000, ARRAY[]::text[], ''How long after a notice the next one to the same subscriber waits, to tell of all refreshes meanwhile at once; 0: each refresh is told by itself.''),
       (''requests_per_caller'', ''int'', ''100'', '''', 1, 100000, ARRAY[]::text[], ''How many requests of one role may wait at a time, kept in the settings table; those who can act as the owner of the catalog may have any number.''),
       (''ducklake_catalog_schema'', ''str'', ''ducklake'', '''', NULL, NULL, ARRAY[]::text[], ''The schema of PostgreSQL that holds the DuckLake catalog; new sinks take it down.''),
       (''ducklake_catalog_dsn'', ''str'', '''', '''', NULL, NULL, ARRAY[]::text[], ''In which database the DuckLake catalog is; empty: in this one. New sinks take it down as it stands here, and look up ${ENV:NAME} in it whenever they connect; a password must be written so.''),
       (''ducklake_sink_failure_mode'', ''str'', ''warn'', '''', NULL, NULL, ARRAY[''warn'', ''error'']::text[], ''What a delivery to the lake that fails does to its refresh: nothing, and the lake catches up later (warn), or it fails too (error).''),
       (''ducklake_sink_max_retries'', ''int'', ''3'', '''', 0, 1000, ARRAY[]::text[], ''How often a delivery that failed for a reason which does not pass by itself is tried again before someone must ask; storage and networks are waited for as long as it takes.''),
       (''ducklake_sink_retry_seconds'', ''float'', ''1.0'', ''s'', 0, 3600, ARRAY[]::text[], ''How long the first retry waits at most; each later one waits twice as long.''),
       (''ducklake_sink_longest_retry_seconds'', ''float'', ''300.0'', ''s'', 0, 86400, ARRAY[]::text[], ''How long a retry waits at most, however often the delivery failed.''),
       (''ducklake_compaction_policy'', ''str'', ''fallback'', '''', NULL, NULL, ARRAY[''fallback'', ''error'']::text[], ''What is done when the lake has forgotten the snapshot up to which an attached table was read: all its rows are compared (fallback), or that is an error (error); newly attached tables take it down.''),
       (''ducklake_file_mode'', ''str'', ''0600'', '''', NULL, NULL, ARRAY[''0600'', ''0640'', ''0644'', ''0660'', ''0664'']::text[], ''Who may read the local files of copies in the lake, as an octal mode; directories are open to the same. 0640 or 0644 where DuckDB reads them as another user of the system.''),
       (''ducklake_read_paths'', ''str'', '''', '''', NULL, NULL, ARRAY[]::text[], ''Further directories, with commas in between, in which files of attached lake tables may lie beside the data path of their lake.''),
       (''ducklake_maintain_seconds'', ''float'', ''600.0'', ''s'', 0, 31536000, ARRAY[]::text[], ''How often a daemon merges the small files of a copy in the lake and removes what nobody needs; 0: never.''),
       (''ducklake_file_seconds'', ''float'', ''86400.0'', ''s'', 1, 31536000, ARRAY[]::text[], ''The age from which a daemon removes files of the lake that no snapshot needs; longer than any reader or writer takes.''),
       (''ducklake_keep_seconds'', ''float'', ''0.0'', ''s'', 0, 31536000, ARRAY[]::text[], ''The age from which a daemon forgets snapshots of the lake; 0: never.''),
       (''lock_wait_seconds'', ''float'', ''60.0'', ''s'', 1, 86400, ARRAY[]::text[], ''How long create, drop, alter and others go on asking for a lock that somebody has, a tenth of a second at a time so that nobody has to wait behind them, before they give up.'')
    ON CONFLICT (name) DO UPDATE
   SET type = excluded.type, default_value = excluded.default_value, unit = excluded.unit,
       low = excluded.low, high = excluded.high, choices = excluded.choices, doc = excluded.doc;
', '0.1.0', '2026-11-18 01:46:05.439453+00');

--
-- Data for Name: pgt_stream_tables; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_stream_tables OVERRIDING SYSTEM VALUE VALUES (3, 17316, 'app', 'moods', 'SELECT DISTINCT mood
   FROM app.customers', 'SELECT DISTINCT mood FROM app.customers', '"$user", public', '1h', 'AUTO', 'DIFFERENTIAL', NULL, 'ACTIVE', true, false, '{"pg": {"snapshot": "783:783:", "database_oid": 16387, "system_identifier": "7709321824052911531"}}', '2026-11-18 01:46:08.555465+00', '2026-11-18 01:46:08.660528+00', 0, NULL, NULL, '{"rows": {}, "files": {"17197": "17197"}}', 'frozen_owner', '2026-11-18 01:46:08.432558+00', '2026-11-18 01:46:08.58626+00', NULL, '{}', NULL, NULL, NULL, 'hot', 'off', NULL, NULL, NULL, NULL, false, 0, NULL, NULL, '{"objects": [{"oid": 17197, "kind": "table", "name": "app.customers", "class": "relation", "owner": "frozen_owner", "direct": true, "owner_oid": 16384, "candidates": ""}]}', NULL, NULL, '[]');
INSERT INTO pgtrickle.pgt_stream_tables OVERRIDING SYSTEM VALUE VALUES (2, 17300, 'app', 'large', 'SELECT id,
    amount
   FROM app.orders
  WHERE (amount > (4)::numeric)', 'SELECT id, amount FROM app.orders WHERE amount > 4', '"$user", public', '1h', 'AUTO', 'DIFFERENTIAL', NULL, 'ACTIVE', true, false, '{"pg": {"snapshot": "774:774:", "database_oid": 16387, "system_identifier": "7709321824052911531"}}', '2026-11-18 01:46:08.35246+00', '2026-11-18 01:46:08.392714+00', 0, NULL, NULL, '{"rows": {}, "files": {"17206": "17206"}}', 'frozen_owner', '2026-11-18 01:46:08.218868+00', '2026-11-18 01:46:09.461706+00', NULL, '{}', 'TRIGGER', NULL, NULL, 'cold', 'on', 1000, NULL, NULL, NULL, false, 0, NULL, NULL, '{"objects": [{"oid": 17206, "kind": "table", "name": "app.orders", "class": "relation", "owner": "frozen_owner", "direct": true, "owner_oid": 16384, "candidates": ""}]}', NULL, NULL, '[]');
INSERT INTO pgtrickle.pgt_stream_tables OVERRIDING SYSTEM VALUE VALUES (4, 17344, 'app', 'best', 'SELECT max(total) AS total
   FROM app.revenue', 'SELECT max(total) AS total FROM app.revenue', '"$user", public', '1h', 'AUTO', 'DIFFERENTIAL', NULL, 'ACTIVE', true, false, '{"pg": {"snapshot": "792:792:", "database_oid": 16387, "system_identifier": "7709321824052911531"}}', '2026-11-18 01:46:09.031761+00', '2026-11-18 01:46:09.16493+00', 0, NULL, NULL, '{"rows": {}, "files": {"17216": "17216"}}', 'frozen_owner', '2026-11-18 01:46:08.760144+00', '2026-11-18 01:46:09.063911+00', NULL, '{}', NULL, NULL, NULL, 'hot', 'off', NULL, NULL, NULL, NULL, false, 0, NULL, NULL, '{"objects": [{"oid": 17216, "kind": "table", "name": "app.revenue", "class": "relation", "owner": "frozen_owner", "direct": true, "owner_oid": 16384, "candidates": ""}]}', NULL, NULL, '[]');
INSERT INTO pgtrickle.pgt_stream_tables OVERRIDING SYSTEM VALUE VALUES (1, 17216, 'app', 'revenue', 'SELECT c.region,
    sum(o.amount) AS total,
    count(*) AS n
   FROM (app.orders o
     JOIN app.customers c ON ((c.id = o.customer)))
  GROUP BY c.region', 'SELECT c.region, sum(o.amount) AS total, count(*) AS n FROM app.orders AS o JOIN app.customers AS c ON c.id = o.customer GROUP BY c.region', '"$user", public', '1h', 'AUTO', 'DIFFERENTIAL', NULL, 'ACTIVE', true, false, '{"pg": {"snapshot": "797:797:", "database_oid": 16387, "system_identifier": "7709321824052911531"}}', '2026-11-18 01:46:09.247841+00', '2026-11-18 01:46:09.36426+00', 0, NULL, NULL, '{"rows": {}, "files": {"17197": "17197", "17206": "17206"}}', 'frozen_owner', '2026-11-18 01:46:07.433768+00', '2026-11-18 01:46:09.271038+00', NULL, '{}', NULL, NULL, NULL, 'hot', 'off', NULL, NULL, NULL, NULL, false, 0, NULL, NULL, '{"objects": [{"oid": 17197, "kind": "table", "name": "app.customers", "class": "relation", "owner": "frozen_owner", "direct": true, "owner_oid": 16384, "candidates": ""}, {"oid": 17206, "kind": "table", "name": "app.orders", "class": "relation", "owner": "frozen_owner", "direct": true, "owner_oid": 16384, "candidates": ""}]}', NULL, NULL, '[]');

--
-- Data for Name: pgt_subscriptions; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_subscriptions VALUES (1, 'revenue_changed', '2026-11-18 01:46:09.517116+00', 'frozen_owner', NULL, NULL, 0, 0, 16384);

--
-- Data for Name: pgt_successors; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_unlogged_buffers; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_wal_slots; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--



--
-- Data for Name: pgt_watermark_groups; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_watermark_groups OVERRIDING SYSTEM VALUE VALUES (1, 'both', '{17206,17197}', 0, '2026-11-18 01:46:09.490157+00');

--
-- Data for Name: pgt_watermarks; Type: TABLE DATA; Schema: pgtrickle; Owner: -
--

INSERT INTO pgtrickle.pgt_watermarks VALUES (17206, '2024-02-29 00:00:00+00', '2026-11-18 01:46:09.488426+00', 'frozen_owner');

--
-- Data for Name: changes_17197; Type: TABLE DATA; Schema: pgtrickle_changes; Owner: -
--

INSERT INTO pgtrickle_changes.changes_17197 VALUES ('795', 3, -1, 'north', NULL);
INSERT INTO pgtrickle_changes.changes_17197 VALUES ('795', 3, 1, 'west', NULL);

--
-- Data for Name: changes_17197_settled; Type: TABLE DATA; Schema: pgtrickle_changes; Owner: -
--



--
-- Data for Name: changes_17206; Type: TABLE DATA; Schema: pgtrickle_changes; Owner: -
--

INSERT INTO pgtrickle_changes.changes_17206 VALUES ('795', 2, 1, 7.00, 5);
INSERT INTO pgtrickle_changes.changes_17206 VALUES ('795', 3, 1, 1.00, 6);
INSERT INTO pgtrickle_changes.changes_17206 VALUES ('795', 1, -1, 2.50, 4);

--
-- Data for Name: changes_17206_settled; Type: TABLE DATA; Schema: pgtrickle_changes; Owner: -
--



--
-- Data for Name: changes_17216; Type: TABLE DATA; Schema: pgtrickle_changes; Owner: -
--

INSERT INTO pgtrickle_changes.changes_17216 VALUES ('797', -1, 17.50);
INSERT INTO pgtrickle_changes.changes_17216 VALUES ('797', -1, 25.00);
INSERT INTO pgtrickle_changes.changes_17216 VALUES ('797', 1, 32.00);
INSERT INTO pgtrickle_changes.changes_17216 VALUES ('797', 1, 10.00);
INSERT INTO pgtrickle_changes.changes_17216 VALUES ('797', 1, 6.00);

--
-- Data for Name: changes_17216_settled; Type: TABLE DATA; Schema: pgtrickle_changes; Owner: -
--



--
-- Data for Name: st_1_group_1; Type: TABLE DATA; Schema: pgtrickle_state; Owner: -
--

INSERT INTO pgtrickle_state.st_1_group_1 VALUES ('west', 2, 2, 6.00);
INSERT INTO pgtrickle_state.st_1_group_1 VALUES ('south', 2, 2, 32.00);
INSERT INTO pgtrickle_state.st_1_group_1 VALUES ('north', 1, 1, 10.00);

--
-- Data for Name: st_3_group_1; Type: TABLE DATA; Schema: pgtrickle_state; Owner: -
--

INSERT INTO pgtrickle_state.st_3_group_1 VALUES ('bad', 1);
INSERT INTO pgtrickle_state.st_3_group_1 VALUES (NULL, 1);
INSERT INTO pgtrickle_state.st_3_group_1 VALUES ('good', 1);

--
-- Data for Name: st_4_group_1; Type: TABLE DATA; Schema: pgtrickle_state; Owner: -
--

INSERT INTO pgtrickle_state.st_4_group_1 VALUES (2, 25.00);

--
-- Data for Name: st_4_group_1_v1; Type: TABLE DATA; Schema: pgtrickle_state; Owner: -
--

INSERT INTO pgtrickle_state.st_4_group_1_v1 VALUES (17.50, 1);
INSERT INTO pgtrickle_state.st_4_group_1_v1 VALUES (25.00, 1);

SELECT pg_catalog.setval('pgtrickle.pgt_ducklake_provenance_provenance_id_seq', 1, false);

SELECT pg_catalog.setval('pgtrickle.pgt_ducklake_sink_delivery_delivery_id_seq', 1, false);

SELECT pg_catalog.setval('pgtrickle.pgt_ducklake_sources_source_id_seq', 1, false);

SELECT pg_catalog.setval('pgtrickle.pgt_lease_tokens', 5, true);

SELECT pg_catalog.setval('pgtrickle.pgt_refresh_groups_group_id_seq', 1, true);

SELECT pg_catalog.setval('pgtrickle.pgt_refresh_history_refresh_id_seq', 5, true);

SELECT pg_catalog.setval('pgtrickle.pgt_requests_request_id_seq', 1, true);

SELECT pg_catalog.setval('pgtrickle.pgt_stream_tables_pgt_id_seq', 4, true);

SELECT pg_catalog.setval('pgtrickle.pgt_watermark_groups_group_id_seq', 1, true);

SELECT pg_catalog.setval('pgtrickle_changes.bell_0', 0, false);

SELECT pg_catalog.setval('pgtrickle_changes.bell_1', 0, false);

SELECT pg_catalog.setval('pgtrickle_changes.bell_2', 0, false);

SELECT pg_catalog.setval('pgtrickle_changes.bell_3', 0, false);

SELECT pg_catalog.setval('pgtrickle_changes.bell_4', 0, false);

SELECT pg_catalog.setval('pgtrickle_changes.bell_5', 0, false);

SELECT pg_catalog.setval('pgtrickle_changes.bell_6', 0, false);

SELECT pg_catalog.setval('pgtrickle_changes.bell_7', 0, false);

ALTER TABLE ONLY app.customers
    ADD CONSTRAINT customers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY app.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgtrickle.pgt_change_tracking
    ADD CONSTRAINT pgt_change_tracking_pkey PRIMARY KEY (source_relid);

ALTER TABLE ONLY pgtrickle.pgt_daemons
    ADD CONSTRAINT pgt_daemons_pkey PRIMARY KEY (daemon);

ALTER TABLE ONLY pgtrickle.pgt_dependencies
    ADD CONSTRAINT pgt_dependencies_pkey PRIMARY KEY (pgt_id, source_relid);

ALTER TABLE ONLY pgtrickle.pgt_ducklake_intents
    ADD CONSTRAINT pgt_ducklake_intents_pkey PRIMARY KEY (pgt_id);

ALTER TABLE ONLY pgtrickle.pgt_ducklake_moves
    ADD CONSTRAINT pgt_ducklake_moves_pkey PRIMARY KEY (catalog_dsn, from_schema);

ALTER TABLE ONLY pgtrickle.pgt_ducklake_provenance
    ADD CONSTRAINT pgt_ducklake_provenance_pkey PRIMARY KEY (provenance_id);

ALTER TABLE ONLY pgtrickle.pgt_ducklake_sink_delivery
    ADD CONSTRAINT pgt_ducklake_sink_delivery_pkey PRIMARY KEY (delivery_id);

ALTER TABLE ONLY pgtrickle.pgt_ducklake_sinks
    ADD CONSTRAINT pgt_ducklake_sinks_one_writer_a_lake_table UNIQUE (catalog_dsn, catalog_schema, lake_schema, lake_table);

ALTER TABLE ONLY pgtrickle.pgt_ducklake_sinks
    ADD CONSTRAINT pgt_ducklake_sinks_pkey PRIMARY KEY (pgt_id);

ALTER TABLE ONLY pgtrickle.pgt_ducklake_sources
    ADD CONSTRAINT pgt_ducklake_sources_one_a_name UNIQUE (landing_schema, landing_name);

ALTER TABLE ONLY pgtrickle.pgt_ducklake_sources
    ADD CONSTRAINT pgt_ducklake_sources_pkey PRIMARY KEY (source_id);

ALTER TABLE ONLY pgtrickle.pgt_grants
    ADD CONSTRAINT pgt_grants_pkey PRIMARY KEY (level, target);

ALTER TABLE ONLY pgtrickle.pgt_leader
    ADD CONSTRAINT pgt_leader_pkey PRIMARY KEY (only_one);

ALTER TABLE ONLY pgtrickle.pgt_leases
    ADD CONSTRAINT pgt_leases_one_per_token UNIQUE (token);

ALTER TABLE ONLY pgtrickle.pgt_leases
    ADD CONSTRAINT pgt_leases_pkey PRIMARY KEY (pgt_id);

ALTER TABLE ONLY pgtrickle.pgt_locks
    ADD CONSTRAINT pgt_locks_pkey PRIMARY KEY (purpose, relid);

ALTER TABLE ONLY pgtrickle.pgt_refresh_groups
    ADD CONSTRAINT pgt_refresh_groups_group_name_key UNIQUE (group_name);

ALTER TABLE ONLY pgtrickle.pgt_refresh_groups
    ADD CONSTRAINT pgt_refresh_groups_pkey PRIMARY KEY (group_id);

ALTER TABLE ONLY pgtrickle.pgt_refresh_history
    ADD CONSTRAINT pgt_refresh_history_pkey PRIMARY KEY (refresh_id);

ALTER TABLE ONLY pgtrickle.pgt_refresh_progress
    ADD CONSTRAINT pgt_refresh_progress_pkey PRIMARY KEY (pgt_id);

ALTER TABLE ONLY pgtrickle.pgt_request_servers
    ADD CONSTRAINT pgt_request_servers_pkey PRIMARY KEY (server);

ALTER TABLE ONLY pgtrickle.pgt_request_signs
    ADD CONSTRAINT pgt_request_signs_pkey PRIMARY KEY (request_id);

ALTER TABLE ONLY pgtrickle.pgt_requests
    ADD CONSTRAINT pgt_requests_pkey PRIMARY KEY (request_id);

ALTER TABLE ONLY pgtrickle.pgt_scheduler_pauses
    ADD CONSTRAINT pgt_scheduler_pauses_pgt_id_key UNIQUE (pgt_id);

ALTER TABLE ONLY pgtrickle.pgt_schema_version
    ADD CONSTRAINT pgt_schema_version_pkey PRIMARY KEY (version);

ALTER TABLE ONLY pgtrickle.pgt_settings
    ADD CONSTRAINT pgt_settings_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pgtrickle.pgt_source_gates
    ADD CONSTRAINT pgt_source_gates_pkey PRIMARY KEY (source_relid);

ALTER TABLE ONLY pgtrickle.pgt_sql_api
    ADD CONSTRAINT pgt_sql_api_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pgtrickle.pgt_stream_tables
    ADD CONSTRAINT pgt_stream_tables_one_per_name UNIQUE (pgt_schema, pgt_name);

ALTER TABLE ONLY pgtrickle.pgt_stream_tables
    ADD CONSTRAINT pgt_stream_tables_one_per_relation UNIQUE (pgt_relid);

ALTER TABLE ONLY pgtrickle.pgt_stream_tables
    ADD CONSTRAINT pgt_stream_tables_pkey PRIMARY KEY (pgt_id);

ALTER TABLE ONLY pgtrickle.pgt_subscriptions
    ADD CONSTRAINT pgt_subscriptions_pkey PRIMARY KEY (pgt_id, channel);

ALTER TABLE ONLY pgtrickle.pgt_successors
    ADD CONSTRAINT pgt_successors_pkey PRIMARY KEY (pgt_id);

ALTER TABLE ONLY pgtrickle.pgt_unlogged_buffers
    ADD CONSTRAINT pgt_unlogged_buffers_pkey PRIMARY KEY (source_relid);

ALTER TABLE ONLY pgtrickle.pgt_wal_slots
    ADD CONSTRAINT pgt_wal_slots_pkey PRIMARY KEY (slot_name);

ALTER TABLE ONLY pgtrickle.pgt_watermark_groups
    ADD CONSTRAINT pgt_watermark_groups_group_name_key UNIQUE (group_name);

ALTER TABLE ONLY pgtrickle.pgt_watermark_groups
    ADD CONSTRAINT pgt_watermark_groups_pkey PRIMARY KEY (group_id);

ALTER TABLE ONLY pgtrickle.pgt_watermarks
    ADD CONSTRAINT pgt_watermarks_pkey PRIMARY KEY (source_relid);

CREATE INDEX best_hash_record_extended_idx ON app.best USING btree (hash_record_extended(ROW(total), (0)::bigint));

CREATE INDEX large_hash_record_extended_idx ON app.large USING btree (hash_record_extended(ROW(id, amount), (0)::bigint));

CREATE INDEX moods_hash_record_extended_idx ON app.moods USING btree (hash_record_extended(ROW(mood), (0)::bigint));

CREATE INDEX revenue_hash_record_extended_idx ON app.revenue USING btree (hash_record_extended(ROW(region, total, n), (0)::bigint));

CREATE INDEX pgt_capture_gaps_by_source ON pgtrickle.pgt_capture_gaps USING btree (source_relid);

CREATE UNIQUE INDEX pgt_capture_gaps_once ON pgtrickle.pgt_capture_gaps USING btree (source_relid, xid) WHERE (pgt_id IS NULL);

CREATE INDEX pgt_dependencies_by_source ON pgtrickle.pgt_dependencies USING btree (source_relid);

CREATE INDEX pgt_ducklake_sink_delivery_by_table ON pgtrickle.pgt_ducklake_sink_delivery USING btree (stream_table_id, started_at DESC);

CREATE UNIQUE INDEX pgt_ducklake_sink_delivery_one_open_a_table ON pgtrickle.pgt_ducklake_sink_delivery USING btree (stream_table_id) WHERE (status <> 'DELIVERED'::text);

CREATE INDEX pgt_refresh_history_by_start ON pgtrickle.pgt_refresh_history USING btree (start_time);

CREATE INDEX pgt_refresh_history_by_stream_table ON pgtrickle.pgt_refresh_history USING btree (pgt_id, start_time DESC);

CREATE INDEX pgt_refresh_history_measured ON pgtrickle.pgt_refresh_history USING btree (pgt_id, action, refresh_id DESC) WHERE (cost IS NOT NULL);

CREATE INDEX pgt_requests_by_caller ON pgtrickle.pgt_requests USING btree (caller_oid, started_at);

CREATE INDEX pgt_requests_open ON pgtrickle.pgt_requests USING btree (request_id) WHERE (status = ANY (ARRAY['QUEUED'::text, 'RUNNING'::text]));

CREATE INDEX pgt_requests_waiting ON pgtrickle.pgt_requests USING btree (caller_oid) WHERE (status = 'QUEUED'::text);

CREATE UNIQUE INDEX pgt_scheduler_pauses_drained ON pgtrickle.pgt_scheduler_pauses USING btree (((pgt_id IS NULL))) WHERE (pgt_id IS NULL);

CREATE INDEX pgt_subscriptions_pending ON pgtrickle.pgt_subscriptions USING btree (notified_at) WHERE (pending_refresh_id IS NOT NULL);

CREATE UNIQUE INDEX pgt_wal_slots_only_one ON pgtrickle.pgt_wal_slots USING btree ((true));

CREATE INDEX changes_17197_settled___xid_idx ON pgtrickle_changes.changes_17197_settled USING btree (__xid);

CREATE INDEX changes_17206_settled___xid_idx ON pgtrickle_changes.changes_17206_settled USING btree (__xid);

CREATE INDEX changes_17216_settled___xid_idx ON pgtrickle_changes.changes_17216_settled USING btree (__xid);

CREATE INDEX st_1_group_1_hash_record_extended_idx ON pgtrickle_state.st_1_group_1 USING btree (hash_record_extended(ROW(c_region_key), (0)::bigint));

CREATE INDEX st_3_group_1_hash_record_extended_idx ON pgtrickle_state.st_3_group_1 USING btree (hash_record_extended(ROW(mood), (0)::bigint));

CREATE INDEX st_4_group_1_v1_revenue_total_in_idx ON pgtrickle_state.st_4_group_1_v1 USING btree (revenue_total_in);

CREATE TRIGGER pgtrickle_capture_delete AFTER DELETE ON app.customers REFERENCING OLD TABLE AS __old FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17197_delete();

ALTER TABLE app.customers ENABLE ALWAYS TRIGGER pgtrickle_capture_delete;

CREATE TRIGGER pgtrickle_capture_delete AFTER DELETE ON app.orders REFERENCING OLD TABLE AS __old FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17206_delete();

ALTER TABLE app.orders ENABLE ALWAYS TRIGGER pgtrickle_capture_delete;

CREATE TRIGGER pgtrickle_capture_delete AFTER DELETE ON app.revenue REFERENCING OLD TABLE AS __old FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17216_delete();

ALTER TABLE app.revenue ENABLE ALWAYS TRIGGER pgtrickle_capture_delete;

CREATE TRIGGER pgtrickle_capture_insert AFTER INSERT ON app.customers REFERENCING NEW TABLE AS __new FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17197_insert();

ALTER TABLE app.customers ENABLE ALWAYS TRIGGER pgtrickle_capture_insert;

CREATE TRIGGER pgtrickle_capture_insert AFTER INSERT ON app.orders REFERENCING NEW TABLE AS __new FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17206_insert();

ALTER TABLE app.orders ENABLE ALWAYS TRIGGER pgtrickle_capture_insert;

CREATE TRIGGER pgtrickle_capture_insert AFTER INSERT ON app.revenue REFERENCING NEW TABLE AS __new FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17216_insert();

ALTER TABLE app.revenue ENABLE ALWAYS TRIGGER pgtrickle_capture_insert;

CREATE TRIGGER pgtrickle_capture_truncate AFTER TRUNCATE ON app.customers FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17197_truncate();

ALTER TABLE app.customers ENABLE ALWAYS TRIGGER pgtrickle_capture_truncate;

CREATE TRIGGER pgtrickle_capture_truncate AFTER TRUNCATE ON app.orders FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17206_truncate();

ALTER TABLE app.orders ENABLE ALWAYS TRIGGER pgtrickle_capture_truncate;

CREATE TRIGGER pgtrickle_capture_truncate AFTER TRUNCATE ON app.revenue FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17216_truncate();

ALTER TABLE app.revenue ENABLE ALWAYS TRIGGER pgtrickle_capture_truncate;

CREATE TRIGGER pgtrickle_capture_update AFTER UPDATE ON app.customers REFERENCING OLD TABLE AS __old NEW TABLE AS __new FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17197_update();

ALTER TABLE app.customers ENABLE ALWAYS TRIGGER pgtrickle_capture_update;

CREATE TRIGGER pgtrickle_capture_update AFTER UPDATE ON app.orders REFERENCING OLD TABLE AS __old NEW TABLE AS __new FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17206_update();

ALTER TABLE app.orders ENABLE ALWAYS TRIGGER pgtrickle_capture_update;

CREATE TRIGGER pgtrickle_capture_update AFTER UPDATE ON app.revenue REFERENCING OLD TABLE AS __old NEW TABLE AS __new FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle_changes.capture_17216_update();

ALTER TABLE app.revenue ENABLE ALWAYS TRIGGER pgtrickle_capture_update;

CREATE TRIGGER pgtrickle_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON app.best FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle.refuse_write();

CREATE TRIGGER pgtrickle_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON app.large FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle.refuse_write();

CREATE TRIGGER pgtrickle_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON app.moods FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle.refuse_write();

CREATE TRIGGER pgtrickle_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON app.revenue FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle.refuse_write();

CREATE TRIGGER forget_gaps AFTER DELETE ON pgtrickle.pgt_change_tracking FOR EACH ROW EXECUTE FUNCTION pgtrickle.forget_gaps();

CREATE TRIGGER perform_act INSTEAD OF INSERT ON pgtrickle.acts FOR EACH ROW EXECUTE FUNCTION pgtrickle.perform_act();

ALTER TABLE ONLY pgtrickle.pgt_capture_gaps
    ADD CONSTRAINT pgt_capture_gaps_pgt_id_fkey FOREIGN KEY (pgt_id) REFERENCES pgtrickle.pgt_stream_tables(pgt_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgtrickle.pgt_dependencies
    ADD CONSTRAINT pgt_dependencies_pgt_id_fkey FOREIGN KEY (pgt_id) REFERENCES pgtrickle.pgt_stream_tables(pgt_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgtrickle.pgt_ducklake_intents
    ADD CONSTRAINT pgt_ducklake_intents_pgt_id_fkey FOREIGN KEY (pgt_id) REFERENCES pgtrickle.pgt_ducklake_sinks(pgt_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgtrickle.pgt_ducklake_sink_delivery
    ADD CONSTRAINT pgt_ducklake_sink_delivery_stream_table_id_fkey FOREIGN KEY (stream_table_id) REFERENCES pgtrickle.pgt_stream_tables(pgt_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgtrickle.pgt_ducklake_sinks
    ADD CONSTRAINT pgt_ducklake_sinks_pgt_id_fkey FOREIGN KEY (pgt_id) REFERENCES pgtrickle.pgt_stream_tables(pgt_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgtrickle.pgt_leases
    ADD CONSTRAINT pgt_leases_pgt_id_fkey FOREIGN KEY (pgt_id) REFERENCES pgtrickle.pgt_stream_tables(pgt_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgtrickle.pgt_refresh_history
    ADD CONSTRAINT pgt_refresh_history_pgt_id_fkey FOREIGN KEY (pgt_id) REFERENCES pgtrickle.pgt_stream_tables(pgt_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgtrickle.pgt_refresh_progress
    ADD CONSTRAINT pgt_refresh_progress_pgt_id_fkey FOREIGN KEY (pgt_id) REFERENCES pgtrickle.pgt_stream_tables(pgt_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgtrickle.pgt_scheduler_pauses
    ADD CONSTRAINT pgt_scheduler_pauses_pgt_id_fkey FOREIGN KEY (pgt_id) REFERENCES pgtrickle.pgt_stream_tables(pgt_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgtrickle.pgt_subscriptions
    ADD CONSTRAINT pgt_subscriptions_pgt_id_fkey FOREIGN KEY (pgt_id) REFERENCES pgtrickle.pgt_stream_tables(pgt_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgtrickle.pgt_successors
    ADD CONSTRAINT pgt_successors_pgt_id_fkey FOREIGN KEY (pgt_id) REFERENCES pgtrickle.pgt_stream_tables(pgt_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgtrickle.pgt_unlogged_buffers
    ADD CONSTRAINT pgt_unlogged_buffers_source_relid_fkey FOREIGN KEY (source_relid) REFERENCES pgtrickle.pgt_change_tracking(source_relid) ON DELETE CASCADE;

ALTER TABLE pgtrickle.pgt_request_signs ENABLE ROW LEVEL SECURITY;

CREATE POLICY pgt_request_signs_of_own ON pgtrickle.pgt_request_signs USING ((EXISTS ( SELECT
   FROM pgtrickle.pgt_requests r
  WHERE (r.request_id = pgt_request_signs.request_id))));

ALTER TABLE pgtrickle.pgt_requests ENABLE ROW LEVEL SECURITY;

CREATE POLICY pgt_requests_ask ON pgtrickle.pgt_requests FOR INSERT WITH CHECK (pgtrickle.check_may_ask(caller_oid));

CREATE POLICY pgt_requests_see_own ON pgtrickle.pgt_requests FOR SELECT USING ((caller_oid = (to_regrole(quote_ident((CURRENT_USER)::text)))::oid));

ALTER TABLE pgtrickle.pgt_source_gates ENABLE ROW LEVEL SECURITY;

CREATE POLICY pgt_source_gates_of_own ON pgtrickle.pgt_source_gates USING (pgtrickle.may_act_on(ARRAY[source_relid])) WITH CHECK ((pgtrickle.may_act_on(ARRAY[source_relid]) AND (gated_by = CURRENT_USER)));

ALTER TABLE pgtrickle.pgt_subscriptions ENABLE ROW LEVEL SECURITY;

CREATE POLICY pgt_subscriptions_see_own ON pgtrickle.pgt_subscriptions FOR SELECT USING (pg_has_role(subscriber_oid, 'USAGE'::text));

ALTER TABLE pgtrickle.pgt_watermark_groups ENABLE ROW LEVEL SECURITY;

CREATE POLICY pgt_watermark_groups_of_own ON pgtrickle.pgt_watermark_groups USING (pgtrickle.may_act_on(source_relids)) WITH CHECK ((pgtrickle.may_act_on(source_relids) AND pgtrickle.check_may_group(source_relids)));

ALTER TABLE pgtrickle.pgt_watermarks ENABLE ROW LEVEL SECURITY;

CREATE POLICY pgt_watermarks_of_own ON pgtrickle.pgt_watermarks USING (pgtrickle.may_act_on(ARRAY[source_relid])) WITH CHECK ((pgtrickle.may_act_on(ARRAY[source_relid]) AND (advanced_by = CURRENT_USER)));

GRANT USAGE ON SCHEMA pgtrickle TO frozen_reader;
GRANT USAGE ON SCHEMA pgtrickle TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.advance_watermark(source regclass, watermark timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.advance_watermark(source regclass, watermark timestamp with time zone) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.alter_stream_table(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN status text, IN cdc_mode text, IN max_delta_fraction text, IN tier text, IN fuse text, IN fuse_ceiling bigint, IN fuse_sensitivity double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.alter_stream_table(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN status text, IN cdc_mode text, IN max_delta_fraction text, IN tier text, IN fuse text, IN fuse_ceiling bigint, IN fuse_sensitivity double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.ask_column_types(relation oid, numbers smallint[], rows text) FROM PUBLIC;

REVOKE ALL ON PROCEDURE pgtrickle.attach_ducklake_table(IN name text, IN lake_table text, IN columns text[], IN catalog_schema text, IN compaction_policy text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.attach_ducklake_table(IN name text, IN lake_table text, IN columns text[], IN catalog_schema text, IN compaction_policy text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.await_request(IN verb text, IN arguments jsonb, INOUT result jsonb, INOUT failure pgtrickle.pgt_failure) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.await_request(IN verb text, IN arguments jsonb, INOUT result jsonb, INOUT failure pgtrickle.pgt_failure) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.bootstrap_gate_status() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.bootstrap_gate_status() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.bootstrap_gate_status() TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.bulk_alter_stream_tables(IN names text[], IN params jsonb, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.bulk_alter_stream_tables(IN names text[], IN params jsonb, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.bulk_create(IN definitions jsonb, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.bulk_create(IN definitions jsonb, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.bulk_drop_stream_tables(IN names text[], INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.bulk_drop_stream_tables(IN names text[], INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.cancel_request(request bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.cancel_request(request bigint) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.change_buffer_sizes() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.change_buffer_sizes() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.change_buffer_sizes() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.check_cdc_health() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.check_cdc_health() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.check_cdc_health() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.check_may_act_on(relations oid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.check_may_act_on(relations oid[]) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.check_may_ask(role oid) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.check_may_ask(role oid) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.check_may_group(sources oid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.check_may_group(sources oid[]) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.create_or_replace_stream_table(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN initialize boolean, IN cdc_mode text, IN max_delta_fraction double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.create_or_replace_stream_table(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN initialize boolean, IN cdc_mode text, IN max_delta_fraction double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.create_refresh_group(IN group_name text, IN members text[], IN isolation text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.create_refresh_group(IN group_name text, IN members text[], IN isolation text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.create_stream_table(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN initialize boolean, IN cdc_mode text, IN max_delta_fraction double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.create_stream_table(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN initialize boolean, IN cdc_mode text, IN max_delta_fraction double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.create_stream_table_if_not_exists(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN initialize boolean, IN cdc_mode text, IN max_delta_fraction double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.create_stream_table_if_not_exists(IN name text, IN query text, IN schedule text, IN refresh_mode text, IN initialize boolean, IN cdc_mode text, IN max_delta_fraction double precision, IN diamond_consistency text, IN diamond_schedule_policy text, IN sink text, IN ducklake_sink_path text, IN ducklake_table text, IN ducklake_partition_by text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.create_watermark_group(group_name text, sources regclass[], tolerance_secs double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.create_watermark_group(group_name text, sources regclass[], tolerance_secs double precision) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.daemons() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.daemons() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.daemons() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.dependency_tree() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.dependency_tree() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.dependency_tree() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.describe_api() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.describe_files(relation oid) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.describe_layout(relation oid) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.describe_source(relation oid, columns_used text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.describe_stream_table(stream_table bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.describe_types(types oid[]) FROM PUBLIC;

REVOKE ALL ON PROCEDURE pgtrickle.detach_ducklake_table(IN name text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.detach_ducklake_table(IN name text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.diagnose_errors(IN name text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.diagnose_errors(IN name text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.diamond_groups(INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.diamond_groups(INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.drain(IN timeout_s double precision, INOUT result boolean) FROM PUBLIC;

REVOKE ALL ON PROCEDURE pgtrickle.drop_refresh_group(IN group_name text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.drop_refresh_group(IN group_name text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.drop_stream_table(IN name text, IN cascade boolean, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.drop_stream_table(IN name text, IN cascade boolean, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.drop_watermark_group(group_name text) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.drop_watermark_group(group_name text) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.ducklake_catalogs() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.ducklake_catalogs() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.ducklake_catalogs() TO frozen_operator;

GRANT SELECT(delivery_id) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_reader;
GRANT SELECT(delivery_id) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_operator;

GRANT SELECT(stream_table_id) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_reader;
GRANT SELECT(stream_table_id) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_operator;

GRANT SELECT(refresh_id) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_reader;
GRANT SELECT(refresh_id) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_operator;

GRANT SELECT(status) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_reader;
GRANT SELECT(status) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_operator;

GRANT SELECT(attempt_count) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_reader;
GRANT SELECT(attempt_count) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_operator;

GRANT SELECT(next_attempt_at) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_reader;
GRANT SELECT(next_attempt_at) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_operator;

GRANT SELECT(last_error) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_reader;
GRANT SELECT(last_error) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_operator;

GRANT SELECT(failing_since) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_reader;
GRANT SELECT(failing_since) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_operator;

GRANT SELECT(last_hint) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_reader;
GRANT SELECT(last_hint) ON TABLE pgtrickle.pgt_ducklake_sink_delivery TO frozen_operator;

GRANT SELECT(pgt_id) ON TABLE pgtrickle.pgt_ducklake_sinks TO frozen_reader;
GRANT SELECT(pgt_id) ON TABLE pgtrickle.pgt_ducklake_sinks TO frozen_operator;

GRANT SELECT(lake_schema) ON TABLE pgtrickle.pgt_ducklake_sinks TO frozen_reader;
GRANT SELECT(lake_schema) ON TABLE pgtrickle.pgt_ducklake_sinks TO frozen_operator;

GRANT SELECT(lake_table) ON TABLE pgtrickle.pgt_ducklake_sinks TO frozen_reader;
GRANT SELECT(lake_table) ON TABLE pgtrickle.pgt_ducklake_sinks TO frozen_operator;

GRANT SELECT ON TABLE pgtrickle.pgt_stream_tables TO frozen_reader;
GRANT SELECT ON TABLE pgtrickle.pgt_stream_tables TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.ducklake_sink_status() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.ducklake_sink_status() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.ducklake_sink_status() TO frozen_operator;

GRANT SELECT ON TABLE pgtrickle.pgt_ducklake_sources TO frozen_reader;
GRANT SELECT ON TABLE pgtrickle.pgt_ducklake_sources TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.ducklake_sources() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.ducklake_sources() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.ducklake_sources() TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.explain(IN name text) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.explain(IN name text) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.explain_dag(format text) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.explain_dag(format text) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.explain_dag(format text) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.explain_delta(IN name text, INOUT result text) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.explain_delta(IN name text, INOUT result text) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.explain_query_rewrite(IN query text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.explain_query_rewrite(IN query text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.explain_refresh_mode(name text, schemas name[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.explain_refresh_mode(name text, schemas name[]) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.explain_refresh_mode(name text, schemas name[]) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.explain_st(name text, schemas name[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.explain_st(name text, schemas name[]) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.explain_st(name text, schemas name[]) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.explain_stream_table(IN name text, IN format text, INOUT result text) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.explain_stream_table(IN name text, IN format text, INOUT result text) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.export_definition(name text, schemas name[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.export_definition(name text, schemas name[]) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.export_definition(name text, schemas name[]) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.find_base_type(type oid) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.find_failing_sinks() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.find_idle(stream_tables bigint[], compare_shapes bigint[]) FROM PUBLIC;

REVOKE ALL ON PROCEDURE pgtrickle.find_obstacle(INOUT failure pgtrickle.pgt_failure) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.find_obstacle(INOUT failure pgtrickle.pgt_failure) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.find_stream_table(name text, schemas name[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.find_stream_table(name text, schemas name[]) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.find_stream_table(name text, schemas name[]) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.find_transaction_block(INOUT failure pgtrickle.pgt_failure) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.find_transaction_block(INOUT failure pgtrickle.pgt_failure) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.follow_request(request bigint, INOUT shown integer, stop boolean, OUT ended boolean, OUT news text[], OUT outcome jsonb, OUT nap double precision, OUT code text, OUT message text, OUT detail text, OUT hint text) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.follow_request(request bigint, INOUT shown integer, stop boolean, OUT ended boolean, OUT news text[], OUT outcome jsonb, OUT nap double precision, OUT code text, OUT message text, OUT detail text, OUT hint text) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.forget_gaps() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.fuse_status() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.fuse_status() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.fuse_status() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.gate_source(source regclass) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.gate_source(source regclass) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.get_refresh_history(name text, max_rows integer, schemas name[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.get_refresh_history(name text, max_rows integer, schemas name[]) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.get_refresh_history(name text, max_rows integer, schemas name[]) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.get_staleness(name text, schemas name[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.get_staleness(name text, schemas name[]) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.get_staleness(name text, schemas name[]) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.grant_access(role name, level text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.hash_functions(known jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.health_check() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.health_check() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.health_check() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.is_drained() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.is_drained() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.is_drained() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.is_served() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.is_served() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.is_served() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.lies_here(frontier jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.list_gaps(stream_tables bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.list_holds() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.list_holds() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.list_holds() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.list_members(relation oid) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.list_renamed() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.list_reshaped(relations oid[], with_parents boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.list_sources(name text, schemas name[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.list_sources(name text, schemas name[]) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.list_sources(name text, schemas name[]) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.list_subscriptions() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.list_subscriptions() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.list_subscriptions() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.may_act_on(relations oid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.may_act_on(relations oid[]) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.may_notify() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.migrate() FROM PUBLIC;

REVOKE ALL ON PROCEDURE pgtrickle.move_ducklake_catalog(IN to_schema text, IN from_schema text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.move_ducklake_catalog(IN to_schema text, IN from_schema text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.name_columns(relation oid, numbers smallint[], rows text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.note_crashes() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.note_gap(relation oid, reason text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.notify(channel text, payload text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.open_guard(relation regclass) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.parse_duration_seconds(duration text) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.parse_duration_seconds(duration text) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.parse_duration_seconds(duration text) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.pause_scheduler(IN nodes text[], INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.pause_scheduler(IN nodes text[], INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.perform_act() FROM PUBLIC;

REVOKE ALL ON PROCEDURE pgtrickle.perform_request(IN verb text, IN arguments jsonb, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.perform_request(IN verb text, IN arguments jsonb, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.pgt_scc_status() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.pgt_scc_status() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.pgt_scc_status() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.pgt_status() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.pgt_status() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.pgt_status() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.refresh_efficiency() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.refresh_efficiency() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.refresh_efficiency() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.refresh_groups() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.refresh_groups() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.refresh_groups() TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.refresh_stream_table(IN name text, IN "full" boolean, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.refresh_stream_table(IN name text, IN "full" boolean, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.refresh_timeline(max_rows integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.refresh_timeline(max_rows integer) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.refresh_timeline(max_rows integer) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.refusal_of_commit() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.refusal_of_commit() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.refuse_lake_write() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.refuse_write() FROM PUBLIC;

REVOKE ALL ON PROCEDURE pgtrickle.rename_stream_table(IN name text, IN new_name text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.rename_stream_table(IN name text, IN new_name text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.repair_stream_table(IN name text, INOUT result text) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.repair_stream_table(IN name text, INOUT result text) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.request_queue() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.request_queue() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.request_queue() TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.reset_fuse(IN name text, IN action text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.reset_fuse(IN name text, IN action text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.resume_scheduler(IN nodes text[], INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.resume_scheduler(IN nodes text[], INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.resume_stream_table(IN name text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.resume_stream_table(IN name text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.revoke_access(role name) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.running_refreshes() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.running_refreshes() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.running_refreshes() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.set_setting(name text, value text, author text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.show_settings() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.show_settings() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.show_settings() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.sla_summary(window_hours double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.sla_summary(window_hours double precision) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.sla_summary(window_hours double precision) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.stream_table_spec(name text, schemas name[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.stream_table_spec(name text, schemas name[]) TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.stream_table_spec(name text, schemas name[]) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.submit_request(verb text, arguments jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.submit_request(verb text, arguments jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.subscribe(stream_table text, channel text, schemas name[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.subscribe(stream_table text, channel text, schemas name[]) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.tell_pending(stream_table bigint, coalesce_ms integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.tell_subscribers(stream_table bigint, refresh bigint, inserted bigint, deleted bigint, coalesce_ms integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.trusts(relation oid, role oid) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.undrain() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.ungate_source(source regclass) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.ungate_source(source regclass) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.unsubscribe(stream_table text, channel text, schemas name[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.unsubscribe(stream_table text, channel text, schemas name[]) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.validate_query(IN query text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.validate_query(IN query text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.verify_stream_table(IN name text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.verify_stream_table(IN name text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.version() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.version() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.version() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.watch_ddl() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle.watermark_status() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.watermark_status() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.watermark_status() TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.watermarks() FROM PUBLIC;
GRANT ALL ON FUNCTION pgtrickle.watermarks() TO frozen_reader;
GRANT ALL ON FUNCTION pgtrickle.watermarks() TO frozen_operator;

REVOKE ALL ON PROCEDURE pgtrickle.write_and_refresh(IN sql text, IN stream_table_name text, INOUT result jsonb) FROM PUBLIC;
GRANT ALL ON PROCEDURE pgtrickle.write_and_refresh(IN sql text, IN stream_table_name text, INOUT result jsonb) TO frozen_operator;

REVOKE ALL ON FUNCTION pgtrickle.write_changes(relation oid, buffer text, names text[], numbers smallint[], captured oid[], present oid[], rows text, weight integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17197_delete() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17197_insert() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17197_truncate() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17197_update() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17206_delete() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17206_insert() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17206_truncate() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17206_update() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17216_delete() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17216_insert() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17216_truncate() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgtrickle_changes.capture_17216_update() FROM PUBLIC;

GRANT INSERT(act) ON TABLE pgtrickle.acts TO frozen_operator;

GRANT INSERT(stream_table) ON TABLE pgtrickle.acts TO frozen_operator;

GRANT INSERT(name) ON TABLE pgtrickle.acts TO frozen_operator;

GRANT SELECT ON TABLE pgtrickle.pgt_dependencies TO frozen_reader;
GRANT SELECT ON TABLE pgtrickle.pgt_dependencies TO frozen_operator;

GRANT SELECT ON TABLE pgtrickle.pgt_refresh_history TO frozen_reader;
GRANT SELECT ON TABLE pgtrickle.pgt_refresh_history TO frozen_operator;

GRANT SELECT,INSERT ON TABLE pgtrickle.pgt_request_signs TO frozen_operator;

GRANT UPDATE(seen_at) ON TABLE pgtrickle.pgt_request_signs TO frozen_operator;

GRANT UPDATE(cancelled_at) ON TABLE pgtrickle.pgt_request_signs TO frozen_operator;

GRANT SELECT ON TABLE pgtrickle.pgt_requests TO frozen_operator;

GRANT INSERT(verb) ON TABLE pgtrickle.pgt_requests TO frozen_operator;

GRANT INSERT(arguments) ON TABLE pgtrickle.pgt_requests TO frozen_operator;

GRANT INSERT(seen_at) ON TABLE pgtrickle.pgt_requests TO frozen_operator;

GRANT SELECT ON TABLE pgtrickle.pgt_schema_version TO frozen_reader;
GRANT SELECT ON TABLE pgtrickle.pgt_schema_version TO frozen_operator;

GRANT SELECT ON TABLE pgtrickle.pgt_settings TO frozen_reader;
GRANT SELECT ON TABLE pgtrickle.pgt_settings TO frozen_operator;

GRANT SELECT,INSERT ON TABLE pgtrickle.pgt_source_gates TO frozen_operator;

GRANT UPDATE(gated) ON TABLE pgtrickle.pgt_source_gates TO frozen_operator;

GRANT UPDATE(gated_at) ON TABLE pgtrickle.pgt_source_gates TO frozen_operator;

GRANT UPDATE(ungated_at) ON TABLE pgtrickle.pgt_source_gates TO frozen_operator;

GRANT UPDATE(gated_by) ON TABLE pgtrickle.pgt_source_gates TO frozen_operator;

GRANT SELECT ON TABLE pgtrickle.pgt_subscriptions TO frozen_reader;
GRANT SELECT ON TABLE pgtrickle.pgt_subscriptions TO frozen_operator;

GRANT SELECT,INSERT ON TABLE pgtrickle.pgt_watermark_groups TO frozen_operator;

GRANT SELECT,INSERT ON TABLE pgtrickle.pgt_watermarks TO frozen_operator;

GRANT UPDATE(watermark) ON TABLE pgtrickle.pgt_watermarks TO frozen_operator;

GRANT UPDATE(updated_at) ON TABLE pgtrickle.pgt_watermarks TO frozen_operator;

GRANT UPDATE(advanced_by) ON TABLE pgtrickle.pgt_watermarks TO frozen_operator;

GRANT SELECT ON TABLE pgtrickle.stream_tables_info TO frozen_reader;
GRANT SELECT ON TABLE pgtrickle.stream_tables_info TO frozen_operator;

GRANT SELECT ON TABLE pgtrickle.quick_health TO frozen_reader;
GRANT SELECT ON TABLE pgtrickle.quick_health TO frozen_operator;

GRANT SELECT ON TABLE pgtrickle.requests TO frozen_operator;

--
-- PostgreSQL database dump complete
--


