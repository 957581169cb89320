-- 0032 · pre · note a cancel whenever it comes
--
-- Why:   a statement cancelled while it looked, not while it slept, left its request to be done.
-- Reads: nothing but the procedures of requests call perform_request().
-- Locks: CREATE OR REPLACE PROCEDURE only.
-- Undo:  restore perform_request() from migration 20.

-- No SET clause, because it commits: so every name is qualified and nothing is computed here.
CREATE OR REPLACE PROCEDURE pgtrickle.perform_request(
    verb pg_catalog.text, arguments pg_catalog.jsonb, INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    request pg_catalog.int8;
    step    record;
    shown   pg_catalog.int4 := 0;
    nap     pg_catalog.float8 := 0;
    news    pg_catalog.text;
BEGIN
    PERFORM pgtrickle.check_served();
    INSERT INTO pgtrickle.pgt_requests (verb, arguments, seen_at)
    VALUES (perform_request.verb, perform_request.arguments, pg_catalog.clock_timestamp())
    RETURNING request_id INTO request;
    COMMIT;  -- fails in a transaction block: use pgtrickle.submit_request() there
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
    -- An option of RAISE cannot be NULL, and an empty one would be shown.
    IF step.code IS NULL THEN
        NULL;
    ELSIF step.detail IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = step.code, MESSAGE = step.message, HINT = step.hint;
    ELSIF step.hint IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = step.code, MESSAGE = step.message, DETAIL = step.detail;
    ELSE
        RAISE EXCEPTION USING ERRCODE = step.code, MESSAGE = step.message,
              DETAIL = step.detail, HINT = step.hint;
    END IF;
    result := step.outcome;
END
$$;
