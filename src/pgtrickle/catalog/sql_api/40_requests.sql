-- Requests: how a session asks the daemon, and waits for the answer

CREATE OR REPLACE FUNCTION pgtrickle.is_served()
RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_request_servers
                    WHERE beat_at > clock_timestamp() - interval '10 seconds')
$$;

COMMENT ON FUNCTION pgtrickle.is_served() IS
    'Whether a daemon executes requests.';

CREATE OR REPLACE FUNCTION pgtrickle.check_may_ask(role oid)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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

COMMENT ON FUNCTION pgtrickle.check_may_ask(oid) IS
    'Fail if a role has as many requests waiting as it may; the policy of pgt_requests asks.';

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

COMMENT ON FUNCTION pgtrickle.follow_request(bigint, integer, boolean) IS
    'Look at a request for its caller, or cancel it.';

-- No SET clause: the row takes the search path of the session down.
CREATE OR REPLACE FUNCTION pgtrickle.submit_request(verb pg_catalog.text, arguments pg_catalog.jsonb)
RETURNS pg_catalog.int8
LANGUAGE sql VOLATILE
AS $$
    INSERT INTO pgtrickle.pgt_requests (verb, arguments) VALUES (verb, arguments)
    RETURNING request_id
$$;

COMMENT ON FUNCTION pgtrickle.submit_request(text, jsonb) IS
    'Ask the daemon for something without waiting; it begins when the transaction has committed.';

CREATE OR REPLACE FUNCTION pgtrickle.cancel_request(request bigint)
RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
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

COMMENT ON FUNCTION pgtrickle.cancel_request(bigint) IS
    'Cancel one of your own requests; false if it has ended or was cancelled before.';

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
    'What the server says, in its language, to a COMMIT where there can be none.';

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
            failure := ROW ('ST605', 'a request cannot be made and awaited in a transaction block',
                'The daemon sees a request only when it has been committed.',
                'COMMIT or ROLLBACK first, then CALL; send one statement at a time (with psql: one for '
                'each -c), and use autocommit in drivers. Or ask without waiting: '
                'SELECT pgtrickle.submit_request(...).');
        END IF;
    END;
END
$$;

COMMENT ON PROCEDURE pgtrickle.find_transaction_block(pgtrickle.pgt_failure) IS
    'Find out whether a procedure is called where it cannot commit.';

CREATE OR REPLACE PROCEDURE pgtrickle.find_obstacle(INOUT failure pgtrickle.pgt_failure)
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

COMMENT ON PROCEDURE pgtrickle.find_obstacle(pgtrickle.pgt_failure) IS
    'Find out whether a request would be seen by a daemon.';

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

COMMENT ON PROCEDURE pgtrickle.await_request(text, jsonb, jsonb, pgtrickle.pgt_failure) IS
    'Ask the daemon for something, wait until it is done, and return the error that it ended with.';

CREATE OR REPLACE VIEW pgtrickle.requests WITH (security_invoker = true) AS
    SELECT r.request_id, r.verb, r.arguments, r.caller, r.requested_at, r.status, r.started_at,
           r.ended_at, s.cancelled_at IS NOT NULL AS cancelled, r.notices, r.result, r.error
      FROM pgtrickle.pgt_requests AS r
      LEFT JOIN pgtrickle.pgt_request_signs AS s USING (request_id);

COMMENT ON VIEW pgtrickle.requests IS
    'Your own requests of the last day.';

CREATE OR REPLACE FUNCTION pgtrickle.request_queue()
RETURNS TABLE (queued bigint, running bigint, oldest_queued_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(*) FILTER (WHERE r.status = 'QUEUED'),
           count(*) FILTER (WHERE r.status = 'RUNNING'),
           min(r.requested_at) FILTER (WHERE r.status = 'QUEUED')
      FROM pgtrickle.pgt_requests AS r
     WHERE r.status IN ('QUEUED', 'RUNNING')
$$;

COMMENT ON FUNCTION pgtrickle.request_queue() IS
    'How many requests of all callers wait for the daemon, and how many it executes.';

CREATE OR REPLACE FUNCTION pgtrickle.daemons()
RETURNS TABLE (daemon text, leads boolean, started_at timestamptz, seen_at timestamptz,
               package text, spark text)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT d.daemon,
           EXISTS (SELECT FROM pgtrickle.pgt_leader AS l
                    WHERE l.owner = d.daemon AND l.expires_at > clock_timestamp()),
           d.started_at, d.seen_at, d.package, d.spark
      FROM pgtrickle.pgt_daemons AS d
     WHERE d.seen_at > clock_timestamp() - interval '10 seconds'
     ORDER BY 2 DESC, d.started_at, d.daemon
$$;

COMMENT ON FUNCTION pgtrickle.daemons() IS
    'The daemons that run, with the versions of pgtrickle and of PySpark, the leading one first; the others are'
    ' ready to take over.';
