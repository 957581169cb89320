-- 0021 · pre · create the procedures of the life of a stream table
--
-- Why:   stream tables are created, changed and dropped from any SQL session.
-- Reads: nothing before this version calls them.
-- Locks: CREATE only.
-- Undo:  DROP the procedures and functions below.

-- Each writes a request and waits (see 0020).  They commit, so they have no SET clause, and every
-- name in them is qualified.

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
        'diamond_schedule_policy', create_stream_table.diamond_schedule_policy), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, jsonb) IS
    'Create a stream table and, unless initialize is false, load it.';

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
        'diamond_schedule_policy', create_stream_table_if_not_exists.diamond_schedule_policy), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_stream_table_if_not_exists(
    text, text, text, text, boolean, text, double precision, text, text, jsonb) IS
    'The same, unless there is one of this name: that stays as it is.';

CREATE PROCEDURE pgtrickle.create_or_replace_stream_table(
    name pg_catalog.text,
    query pg_catalog.text,
    schedule pg_catalog.text DEFAULT 'calculated',
    refresh_mode pg_catalog.text DEFAULT 'AUTO',
    initialize pg_catalog.bool DEFAULT true,
    cdc_mode pg_catalog.text DEFAULT NULL,
    max_delta_fraction pg_catalog.float8 DEFAULT NULL,
    diamond_consistency pg_catalog.text DEFAULT NULL,
    diamond_schedule_policy pg_catalog.text DEFAULT NULL,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('create_or_replace_stream_table', pg_catalog.jsonb_build_object(
        'name', create_or_replace_stream_table.name,
        'query', create_or_replace_stream_table.query,
        'schedule', create_or_replace_stream_table.schedule,
        'refresh_mode', create_or_replace_stream_table.refresh_mode,
        'initialize', create_or_replace_stream_table.initialize,
        'cdc_mode', create_or_replace_stream_table.cdc_mode,
        'max_delta_fraction', create_or_replace_stream_table.max_delta_fraction,
        'diamond_consistency', create_or_replace_stream_table.diamond_consistency,
        'diamond_schedule_policy', create_or_replace_stream_table.diamond_schedule_policy), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.create_or_replace_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, jsonb) IS
    'Create a stream table, or alter the one of this name so that it is maintained like this.';

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
        'diamond_schedule_policy', alter_stream_table.diamond_schedule_policy), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.alter_stream_table(
    text, text, text, text, text, text, text, text, text, bigint, double precision, text, text,
    jsonb) IS
    'Change how a stream table is maintained; what is NULL stays. A max_delta_fraction of ''default'' leaves it to the setting.';

CREATE PROCEDURE pgtrickle.drop_stream_table(
    name pg_catalog.text,
    cascade pg_catalog.bool DEFAULT false,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('drop_stream_table', pg_catalog.jsonb_build_object(
        'name', drop_stream_table.name,
        'cascade', drop_stream_table.cascade), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.drop_stream_table(
    text, boolean, jsonb) IS
    'Drop a stream table; with cascade also what reads it.';

CREATE PROCEDURE pgtrickle.refresh_stream_table(
    name pg_catalog.text,
    "full" pg_catalog.bool DEFAULT false,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('refresh_stream_table', pg_catalog.jsonb_build_object(
        'name', refresh_stream_table.name,
        'full', refresh_stream_table."full"), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.refresh_stream_table(
    text, boolean, jsonb) IS
    'Bring a stream table up to date; with "full" by recomputing it.';

CREATE PROCEDURE pgtrickle.resume_stream_table(
    name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('resume_stream_table', pg_catalog.jsonb_build_object(
        'name', resume_stream_table.name), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.resume_stream_table(
    text, jsonb) IS
    'Let a suspended stream table be refreshed again.';

CREATE PROCEDURE pgtrickle.repair_stream_table(
    name pg_catalog.text,
    INOUT result pg_catalog.text DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    answer pg_catalog.jsonb;
BEGIN
    CALL pgtrickle.perform_request('repair_stream_table', pg_catalog.jsonb_build_object(
        'name', repair_stream_table.name), answer);
    -- The text of a JSON string.
    result := pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0;
END
$$;

COMMENT ON PROCEDURE pgtrickle.repair_stream_table(
    text, text) IS
    'Mend the capture, the guard and the status of a stream table; it then starts anew.';

CREATE PROCEDURE pgtrickle.verify_stream_table(
    name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('verify_stream_table', pg_catalog.jsonb_build_object(
        'name', verify_stream_table.name), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.verify_stream_table(
    text, jsonb) IS
    'Compare a stream table with PostgreSQL''s own answer to its query.';

CREATE PROCEDURE pgtrickle.explain_stream_table(
    name pg_catalog.text,
    format pg_catalog.text DEFAULT 'text',
    INOUT result pg_catalog.text DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    answer pg_catalog.jsonb;
BEGIN
    CALL pgtrickle.perform_request('explain_stream_table', pg_catalog.jsonb_build_object(
        'name', explain_stream_table.name,
        'format', explain_stream_table.format), answer);
    -- The text of a JSON string.
    result := pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0;
END
$$;

COMMENT ON PROCEDURE pgtrickle.explain_stream_table(
    text, text, text) IS
    'Show how a stream table is maintained: as text, json or dot.';

CREATE PROCEDURE pgtrickle.validate_query(
    query pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('validate_query', pg_catalog.jsonb_build_object(
        'query', validate_query.query), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.validate_query(
    text, jsonb) IS
    'Tell whether and how a query could be maintained, and every reason why not.';

CREATE PROCEDURE pgtrickle.bulk_create(
    definitions pg_catalog.jsonb,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('bulk_create', pg_catalog.jsonb_build_object(
        'definitions', bulk_create.definitions), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.bulk_create(
    jsonb, jsonb) IS
    'Create several stream tables, all or none.';

CREATE PROCEDURE pgtrickle.bulk_alter_stream_tables(
    names pg_catalog.text[],
    params pg_catalog.jsonb,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('bulk_alter_stream_tables', pg_catalog.jsonb_build_object(
        'names', bulk_alter_stream_tables.names,
        'params', bulk_alter_stream_tables.params), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.bulk_alter_stream_tables(
    text[], jsonb, jsonb) IS
    'Change several stream tables alike.';

CREATE PROCEDURE pgtrickle.bulk_drop_stream_tables(
    names pg_catalog.text[],
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('bulk_drop_stream_tables', pg_catalog.jsonb_build_object(
        'names', bulk_drop_stream_tables.names), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.bulk_drop_stream_tables(
    text[], jsonb) IS
    'Drop several stream tables, in this order.';

-- Not one transaction: the daemon sees what was written when it has been committed.
CREATE PROCEDURE pgtrickle.write_and_refresh(
    sql pg_catalog.text,
    stream_table_name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pgtrickle.check_served();
    EXECUTE write_and_refresh.sql;
    COMMIT;
    CALL pgtrickle.refresh_stream_table(write_and_refresh.stream_table_name, false, result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.write_and_refresh(text, text, jsonb) IS
    'Run a statement, commit it, and wait until a stream table shows what it did.';

REVOKE ALL ON PROCEDURE pgtrickle.create_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.create_stream_table_if_not_exists(
    text, text, text, text, boolean, text, double precision, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.create_or_replace_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.alter_stream_table(
    text, text, text, text, text, text, text, text, text, bigint, double precision, text, text,
    jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.drop_stream_table(
    text, boolean, jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.refresh_stream_table(
    text, boolean, jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.resume_stream_table(
    text, jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.repair_stream_table(
    text, text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.verify_stream_table(
    text, jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.explain_stream_table(
    text, text, text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.validate_query(
    text, jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.bulk_create(
    jsonb, jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.bulk_alter_stream_tables(
    text[], jsonb, jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.bulk_drop_stream_tables(
    text[], jsonb) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.write_and_refresh(text, text, jsonb) FROM PUBLIC;
