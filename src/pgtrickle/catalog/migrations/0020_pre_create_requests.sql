-- 0020 · pre · create the queue of requests
--
-- Why:   SQL sessions ask the daemon for what only it can do, and wait for the answer.
-- Reads: nothing before this version reads or writes the new tables.
-- Locks: CREATE only.
-- Undo:  DROP TABLE pgtrickle.pgt_requests, pgtrickle.pgt_request_servers CASCADE; DROP the
--        functions and procedures below.

CREATE TABLE pgtrickle.pgt_requests (
    request_id   bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    verb         text        NOT NULL,
    arguments    jsonb       NOT NULL,
    -- Nobody may write this column: whoever inserts the row is who asks.
    caller       text        NOT NULL DEFAULT current_user,
    schemas      text[]      NOT NULL DEFAULT current_schemas(false),
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at      timestamptz,
    cancelled_at timestamptz,
    status       text        NOT NULL DEFAULT 'QUEUED',
    server       text,
    started_at   timestamptz,
    ended_at     timestamptz,
    notices      text[]      NOT NULL DEFAULT '{}',
    result       jsonb,
    error        jsonb,

    CONSTRAINT pgt_requests_status_known
        CHECK (status IN ('QUEUED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED')),
    CONSTRAINT pgt_requests_failed_has_error CHECK (status <> 'FAILED' OR error IS NOT NULL),
    CONSTRAINT pgt_requests_arguments_have_names CHECK (jsonb_typeof(arguments) = 'object')
);

-- The daemon looks here every moment; ended requests are the many.
CREATE INDEX pgt_requests_open ON pgtrickle.pgt_requests (request_id)
    WHERE status IN ('QUEUED', 'RUNNING');

COMMENT ON TABLE pgtrickle.pgt_requests IS
    'What sessions ask the daemon to do, and what came of it.';
COMMENT ON COLUMN pgtrickle.pgt_requests.schemas IS
    'The search path of the caller: where names without a schema are looked for.';
COMMENT ON COLUMN pgtrickle.pgt_requests.seen_at IS
    'When the caller last looked for the answer; NULL: nobody waits for it.';
COMMENT ON COLUMN pgtrickle.pgt_requests.cancelled_at IS
    'When the caller no longer wanted it.';

ALTER TABLE pgtrickle.pgt_requests ENABLE ROW LEVEL SECURITY;
CREATE POLICY pgt_requests_ask ON pgtrickle.pgt_requests FOR INSERT WITH CHECK (true);
CREATE POLICY pgt_requests_see_own ON pgtrickle.pgt_requests FOR SELECT
    USING (caller = current_user);
CREATE POLICY pgt_requests_follow_own ON pgtrickle.pgt_requests FOR UPDATE
    USING (caller = current_user);

CREATE TABLE pgtrickle.pgt_request_servers (
    server  text        PRIMARY KEY,
    beat_at timestamptz NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_request_servers IS
    'The daemons that execute requests, and when each last showed a sign of life.';

-- Default privileges must not open what only grant_access opens.
REVOKE ALL ON pgtrickle.pgt_requests, pgtrickle.pgt_request_servers FROM PUBLIC;

CREATE FUNCTION pgtrickle.is_served()
RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_request_servers
                    WHERE beat_at > clock_timestamp() - interval '10 seconds')
$$;

COMMENT ON FUNCTION pgtrickle.is_served() IS 'Whether a daemon executes requests.';

CREATE FUNCTION pgtrickle.check_served()
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT pgtrickle.is_served() THEN
        RAISE EXCEPTION 'no pgtrickle daemon serves the database "%"', current_database()
              USING ERRCODE = 'ST601', HINT = 'Start one with: pgtrickle run --dsn ...';
    END IF;
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RAISE EXCEPTION 'a request cannot be made and awaited in a transaction block'
              USING ERRCODE = 'ST605',
                    DETAIL = 'The daemon sees a request only when it has been committed.',
                    HINT = 'Commit first, or use autocommit; or ask without waiting: '
                           'SELECT pgtrickle.submit_request(...).';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.check_served() IS
    'Fail unless a request would be seen by a daemon.';

-- One look at a request: a sign of life, and what there is to tell.  `ended` says that there is
-- no more to wait for; `code` is then the SQLSTATE to raise, or NULL.
CREATE FUNCTION pgtrickle.follow_request(
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
    SELECT r.status, r.notices, r.result, r.error, r.requested_at, r.seen_at
      INTO known FROM pgtrickle.pgt_requests AS r WHERE r.request_id = request;
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
        UPDATE pgtrickle.pgt_requests SET cancelled_at = clock_timestamp()
         WHERE request_id = request;
    ELSIF known.seen_at < clock_timestamp() - interval '1 second' THEN
        UPDATE pgtrickle.pgt_requests SET seen_at = clock_timestamp() WHERE request_id = request;
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.follow_request(bigint, integer, boolean) IS
    'Look at a request for its caller, or cancel it.';

-- No SET clause, because it commits: so every name is qualified and nothing is computed here.
CREATE PROCEDURE pgtrickle.perform_request(
    verb pg_catalog.text, arguments pg_catalog.jsonb, INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    request pg_catalog.int8;
    step    record;
    shown   pg_catalog.int4 := 0;
    stopped pg_catalog.bool := false;
    news    pg_catalog.text;
BEGIN
    PERFORM pgtrickle.check_served();
    INSERT INTO pgtrickle.pgt_requests (verb, arguments, seen_at)
    VALUES (perform_request.verb, perform_request.arguments, pg_catalog.clock_timestamp())
    RETURNING request_id INTO request;
    COMMIT;  -- fails in a transaction block: use pgtrickle.submit_request() there
    LOOP
        SELECT * INTO step FROM pgtrickle.follow_request(request, shown, stopped);
        COMMIT;
        FOREACH news IN ARRAY step.news LOOP
            RAISE NOTICE USING MESSAGE = news;
        END LOOP;
        EXIT WHEN step.ended;
        shown := step.shown;
        BEGIN
            PERFORM pg_catalog.pg_sleep(step.nap);
        EXCEPTION WHEN query_canceled THEN
            stopped := true;
        END;
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

COMMENT ON PROCEDURE pgtrickle.perform_request(text, jsonb, jsonb) IS
    'Ask the daemon for something, wait until it is done, pass on what it says.';

-- No SET clause: the row takes the search path of the session down.
CREATE FUNCTION pgtrickle.submit_request(verb pg_catalog.text, arguments pg_catalog.jsonb)
RETURNS pg_catalog.int8
LANGUAGE sql VOLATILE
AS $$
    INSERT INTO pgtrickle.pgt_requests (verb, arguments) VALUES (verb, arguments)
    RETURNING request_id
$$;

COMMENT ON FUNCTION pgtrickle.submit_request(text, jsonb) IS
    'Ask the daemon for something and do not wait: it begins when the transaction has committed.';

CREATE FUNCTION pgtrickle.cancel_request(request bigint)
RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH cancelled AS (
        UPDATE pgtrickle.pgt_requests SET cancelled_at = clock_timestamp()
         WHERE request_id = request AND status IN ('QUEUED', 'RUNNING') AND cancelled_at IS NULL
        RETURNING request_id
    )
    SELECT EXISTS (SELECT FROM cancelled)
$$;

COMMENT ON FUNCTION pgtrickle.cancel_request(bigint) IS
    'Take back a request of one''s own; false if it has ended, or was taken back before.';

CREATE VIEW pgtrickle.requests WITH (security_invoker = true) AS
    SELECT request_id, verb, arguments, caller, requested_at, status, started_at, ended_at,
           cancelled_at IS NOT NULL AS cancelled, notices, result, error
      FROM pgtrickle.pgt_requests;

COMMENT ON VIEW pgtrickle.requests IS 'One''s own requests of the last day.';

REVOKE ALL ON pgtrickle.requests FROM PUBLIC;
REVOKE ALL ON FUNCTION pgtrickle.is_served(), pgtrickle.check_served(),
    pgtrickle.follow_request(bigint, integer, boolean), pgtrickle.submit_request(text, jsonb),
    pgtrickle.cancel_request(bigint) FROM PUBLIC;
REVOKE ALL ON PROCEDURE pgtrickle.perform_request(text, jsonb, jsonb) FROM PUBLIC;
