-- Stream tables from SQL: create, alter, refresh, verify, drop

-- Each writes a request and waits (see 40_requests.sql).  They commit, so they have no SET clause, and every
-- name in them is qualified.  create_stream_table, its kin and alter_stream_table take every option: they are
-- made by catalog/option_routines.py.
CREATE OR REPLACE PROCEDURE pgtrickle.rename_stream_table(
    name pg_catalog.text,
    new_name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
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

COMMENT ON PROCEDURE pgtrickle.rename_stream_table(text, text, jsonb) IS
    'Give a stream table another name or, with schema.name, another schema; all that reads it follows.';

CREATE OR REPLACE PROCEDURE pgtrickle.drop_stream_table(
    name pg_catalog.text,
    cascade pg_catalog.bool DEFAULT false,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
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

COMMENT ON PROCEDURE pgtrickle.drop_stream_table(
    text, boolean, jsonb) IS
    'Drop a stream table; with cascade also what reads it.';

CREATE OR REPLACE PROCEDURE pgtrickle.refresh_stream_table(
    name pg_catalog.text,
    "full" pg_catalog.bool DEFAULT false,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
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

COMMENT ON PROCEDURE pgtrickle.refresh_stream_table(
    text, boolean, jsonb) IS
    'Bring a stream table up to date; with "full" by recomputing it.';

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

COMMENT ON PROCEDURE pgtrickle.write_and_refresh(text, text, jsonb) IS
    'Run a statement, commit it, and wait until a stream table shows what it did.';

CREATE OR REPLACE PROCEDURE pgtrickle.resume_stream_table(
    name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
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

COMMENT ON PROCEDURE pgtrickle.resume_stream_table(
    text, jsonb) IS
    'Let a suspended stream table be refreshed again.';

CREATE OR REPLACE PROCEDURE pgtrickle.repair_stream_table(
    name pg_catalog.text,
    INOUT result pg_catalog.text DEFAULT NULL)
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

COMMENT ON PROCEDURE pgtrickle.repair_stream_table(
    text, text) IS
    'Restore the capture, the guard and the status of a stream table; the next refresh reloads it.';

CREATE OR REPLACE PROCEDURE pgtrickle.verify_stream_table(
    name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
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

COMMENT ON PROCEDURE pgtrickle.verify_stream_table(
    text, jsonb) IS
    'Compare a stream table with PostgreSQL''s own answer to its query.';

CREATE OR REPLACE PROCEDURE pgtrickle.validate_query(
    query pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
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

COMMENT ON PROCEDURE pgtrickle.validate_query(
    text, jsonb) IS
    'Tell whether and how a query could be maintained, and every reason why not.';

CREATE OR REPLACE PROCEDURE pgtrickle.bulk_create(
    definitions pg_catalog.jsonb,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
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

COMMENT ON PROCEDURE pgtrickle.bulk_create(
    jsonb, jsonb) IS
    'Create several stream tables, all or none.';

CREATE OR REPLACE PROCEDURE pgtrickle.bulk_alter_stream_tables(
    names pg_catalog.text[],
    params pg_catalog.jsonb,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
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

COMMENT ON PROCEDURE pgtrickle.bulk_alter_stream_tables(
    text[], jsonb, jsonb) IS
    'Change several stream tables alike.';

CREATE OR REPLACE PROCEDURE pgtrickle.bulk_drop_stream_tables(
    names pg_catalog.text[],
    INOUT result pg_catalog.jsonb DEFAULT NULL)
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

COMMENT ON PROCEDURE pgtrickle.bulk_drop_stream_tables(
    text[], jsonb) IS
    'Drop several stream tables, in this order.';
