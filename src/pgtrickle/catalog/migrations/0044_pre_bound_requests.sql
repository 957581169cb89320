-- 0044 · pre · bound what others may write, and know callers by oid
--
-- Why:   an operator could fill the queue, lock what the daemon needs, and ask under another's name.
-- Reads: an earlier version does not see that a request was taken back: its column is not written.
-- Locks: ACCESS EXCLUSIVE on the tables of requests, gates, watermarks and settings, briefly.
-- Undo:  DROP the constraints, columns, tables and functions below; restore follow_request() and
--        cancel_request() from migration 20, the policies from 20 and 26, the rows of pgt_grants
--        from 24 and 26.

-- Who asks, also after his role got another name; a role of the same name is somebody else.
ALTER TABLE pgtrickle.pgt_requests ADD COLUMN caller_oid oid;
UPDATE pgtrickle.pgt_requests
   SET caller_oid = coalesce(pg_catalog.to_regrole(pg_catalog.quote_ident(caller))::oid, 0);
ALTER TABLE pgtrickle.pgt_requests
    ALTER COLUMN caller_oid
        SET DEFAULT pg_catalog.to_regrole(pg_catalog.quote_ident(current_user))::pg_catalog.oid,
    ALTER COLUMN caller_oid SET NOT NULL;

COMMENT ON COLUMN pgtrickle.pgt_requests.caller_oid IS
    'The role that asks; nobody may write this column. caller is the name that it had.';

DELETE FROM pgtrickle.pgt_requests
 WHERE octet_length(verb) > 63 OR octet_length(arguments::text) > 1048576
    OR cardinality(schemas) > 200
    OR jsonb_array_length(jsonb_path_query_array(arguments, '$.keyvalue()')) > 64;

ALTER TABLE pgtrickle.pgt_requests
    ADD CONSTRAINT pgt_requests_verb_short CHECK (octet_length(verb) <= 63),
    ADD CONSTRAINT pgt_requests_arguments_short CHECK (octet_length(arguments::text) <= 1048576),
    ADD CONSTRAINT pgt_requests_arguments_few CHECK (
        jsonb_typeof(arguments) <> 'object'
        OR jsonb_array_length(jsonb_path_query_array(arguments, '$.keyvalue()')) <= 64),
    ADD CONSTRAINT pgt_requests_schemas_few CHECK (cardinality(schemas) <= 200);

-- Whose turn it is, and how many a caller has waiting.
CREATE INDEX pgt_requests_by_caller ON pgtrickle.pgt_requests (caller_oid, started_at);
CREATE INDEX pgt_requests_waiting ON pgtrickle.pgt_requests (caller_oid) WHERE status = 'QUEUED';

-- What callers write while they wait.  Not in pgt_requests: who may update a row may lock it, and
-- the daemon would wait for him.  It only reads these.
CREATE TABLE pgtrickle.pgt_request_signs (
    request_id   bigint      PRIMARY KEY,
    seen_at      timestamptz,
    cancelled_at timestamptz
);

COMMENT ON TABLE pgtrickle.pgt_request_signs IS
    'When callers last looked for an answer, and whether they took their requests back.';

INSERT INTO pgtrickle.pgt_request_signs (request_id, seen_at, cancelled_at)
SELECT request_id, seen_at, cancelled_at FROM pgtrickle.pgt_requests
 WHERE status IN ('QUEUED', 'RUNNING');

COMMENT ON COLUMN pgtrickle.pgt_requests.seen_at IS
    'When the caller began to wait for the answer; NULL: nobody waits for it.';
COMMENT ON COLUMN pgtrickle.pgt_requests.cancelled_at IS 'No longer written: see pgt_request_signs.';

-- The policies of pgt_requests say whose requests these are.
ALTER TABLE pgtrickle.pgt_request_signs ENABLE ROW LEVEL SECURITY;
CREATE POLICY pgt_request_signs_of_own ON pgtrickle.pgt_request_signs
    USING (EXISTS (SELECT FROM pgtrickle.pgt_requests AS r
                    WHERE r.request_id OPERATOR(pg_catalog.=) pgt_request_signs.request_id));

CREATE FUNCTION pgtrickle.check_may_ask(role oid)
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

ALTER POLICY pgt_requests_ask ON pgtrickle.pgt_requests
    WITH CHECK (pgtrickle.check_may_ask(caller_oid));
ALTER POLICY pgt_requests_see_own ON pgtrickle.pgt_requests
    USING (caller_oid OPERATOR(pg_catalog.=)
           pg_catalog.to_regrole(pg_catalog.quote_ident(current_user))::pg_catalog.oid);
DROP POLICY pgt_requests_follow_own ON pgtrickle.pgt_requests;

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

CREATE OR REPLACE VIEW pgtrickle.requests WITH (security_invoker = true) AS
    SELECT r.request_id, r.verb, r.arguments, r.caller, r.requested_at, r.status, r.started_at,
           r.ended_at, s.cancelled_at IS NOT NULL AS cancelled, r.notices, r.result, r.error
      FROM pgtrickle.pgt_requests AS r
      LEFT JOIN pgtrickle.pgt_request_signs AS s USING (request_id);

-- Lengths first: what parse_ident makes of a million quotes takes minutes and cannot be cancelled.
CREATE OR REPLACE FUNCTION pgtrickle.find_stream_table(name text, schemas name[] DEFAULT current_schemas(false))
RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parts text[];
    found bigint;
BEGIN
    IF octet_length(find_stream_table.name) > 1024 OR cardinality(schemas) > 1000 THEN
        RAISE EXCEPTION 'a name of % bytes cannot name a stream table',
              octet_length(find_stream_table.name)
              USING ERRCODE = 'ST208', HINT = 'Write schema.name; each has 63 bytes at most.';
    END IF;
    parts := parse_ident(find_stream_table.name);
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

CREATE OR REPLACE FUNCTION pgtrickle.parse_duration_seconds(duration text)
RETURNS double precision
LANGUAGE sql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    -- Eighteen digits fit any sum that can be made of them.
    SELECT CASE WHEN octet_length(duration) <= 200
                 AND duration ~ '^\s*(\d{1,18}\s*[smhdw]\s*)+$' THEN (
        SELECT sum(part[1]::double precision * CASE part[2]
                       WHEN 's' THEN 1 WHEN 'm' THEN 60 WHEN 'h' THEN 3600
                       WHEN 'd' THEN 86400 ELSE 604800 END)
          FROM regexp_matches(duration, '(\d+)\s*([smhdw])', 'g') AS part) END
$$;

-- What operators write for sources of their own is computed with for everybody.
UPDATE pgtrickle.pgt_watermark_groups SET tolerance_secs = least(tolerance_secs, 1e9)
 WHERE tolerance_secs > 1e9;
DELETE FROM pgtrickle.pgt_watermark_groups
 WHERE octet_length(group_name) > 255 OR cardinality(source_relids) > 1000;
DELETE FROM pgtrickle.pgt_watermarks
 WHERE NOT watermark BETWEEN '0002-01-01 00:00+00' AND '9998-12-31 00:00+00'
    OR NOT isfinite(updated_at);
UPDATE pgtrickle.pgt_source_gates
   SET gated_at = CASE WHEN isfinite(gated_at) THEN gated_at ELSE now() END,
       ungated_at = CASE WHEN isfinite(ungated_at) THEN ungated_at END
 WHERE NOT isfinite(gated_at) OR NOT isfinite(ungated_at);

ALTER TABLE pgtrickle.pgt_watermark_groups
    ADD CONSTRAINT pgt_watermark_groups_name_short CHECK (octet_length(group_name) <= 255),
    ADD CONSTRAINT pgt_watermark_groups_sources_few CHECK (cardinality(source_relids) <= 1000),
    ADD CONSTRAINT pgt_watermark_groups_tolerance_finite CHECK (tolerance_secs <= 1e9);
ALTER TABLE pgtrickle.pgt_watermarks
    ADD CONSTRAINT pgt_watermarks_are_moments CHECK (
        watermark BETWEEN '0002-01-01 00:00+00' AND '9998-12-31 00:00+00'),
    ADD CONSTRAINT pgt_watermarks_updated_at_a_moment CHECK (
        updated_at BETWEEN '0002-01-01 00:00+00' AND '9998-12-31 00:00+00');
ALTER TABLE pgtrickle.pgt_source_gates
    ADD CONSTRAINT pgt_source_gates_gated_at_a_moment CHECK (
        gated_at BETWEEN '0002-01-01 00:00+00' AND '9998-12-31 00:00+00'),
    ADD CONSTRAINT pgt_source_gates_ungated_at_a_moment CHECK (
        ungated_at BETWEEN '0002-01-01 00:00+00' AND '9998-12-31 00:00+00');
UPDATE pgtrickle.pgt_settings SET value = NULL WHERE octet_length(value) > 8192;
ALTER TABLE pgtrickle.pgt_settings
    ADD CONSTRAINT pgt_settings_value_short CHECK (octet_length(value) <= 8192);

-- The scheduler compares every group with its watermarks in every pass.
CREATE FUNCTION pgtrickle.check_may_group(sources oid[])
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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

COMMENT ON FUNCTION pgtrickle.check_may_group(oid[]) IS
    'Fail if sources are in as many watermark groups as they may be; a policy asks.';

ALTER POLICY pgt_watermark_groups_of_own ON pgtrickle.pgt_watermark_groups
    USING (pgtrickle.may_act_on(source_relids))
    WITH CHECK (pgtrickle.may_act_on(source_relids) AND pgtrickle.check_may_group(source_relids));

-- Who may update or delete in a table may LOCK it, whatever its policies say; who may update some
-- columns may not.
UPDATE pgtrickle.pgt_grants
   SET privilege = 'SELECT, INSERT (verb, arguments, seen_at)'
 WHERE target = 'TABLE pgtrickle.pgt_requests';
UPDATE pgtrickle.pgt_grants
   SET privilege = 'SELECT, INSERT, UPDATE (gated, gated_at, ungated_at, gated_by)'
 WHERE target = 'TABLE pgtrickle.pgt_source_gates';
UPDATE pgtrickle.pgt_grants
   SET privilege = 'SELECT, INSERT, UPDATE (watermark, updated_at, advanced_by)'
 WHERE target = 'TABLE pgtrickle.pgt_watermarks';
INSERT INTO pgtrickle.pgt_grants (level, privilege, target)
VALUES ('operator', 'SELECT, INSERT, UPDATE (seen_at, cancelled_at)',
        'TABLE pgtrickle.pgt_request_signs'),
       ('operator', 'EXECUTE', 'FUNCTION pgtrickle.check_may_ask(oid)'),
       ('operator', 'EXECUTE', 'FUNCTION pgtrickle.check_may_group(oid[])');

REVOKE ALL ON pgtrickle.pgt_request_signs FROM PUBLIC;
REVOKE ALL ON FUNCTION pgtrickle.check_may_ask(oid), pgtrickle.check_may_group(oid[]) FROM PUBLIC;

-- Those who are operators already.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT DISTINCT a.grantee::regrole AS role
          FROM pg_class AS c, aclexplode(c.relacl) AS a
         WHERE c.oid = 'pgtrickle.pgt_requests'::regclass
           AND a.grantee <> c.relowner AND a.grantee <> 0
    LOOP
        EXECUTE format('REVOKE UPDATE, UPDATE (seen_at, cancelled_at) ON pgtrickle.pgt_requests'
                       ' FROM %s', one.role);
        EXECUTE format('REVOKE UPDATE ON pgtrickle.pgt_source_gates, pgtrickle.pgt_watermarks'
                       ' FROM %s', one.role);
        EXECUTE format('GRANT UPDATE (gated, gated_at, ungated_at, gated_by)'
                       ' ON pgtrickle.pgt_source_gates TO %s', one.role);
        EXECUTE format('GRANT UPDATE (watermark, updated_at, advanced_by)'
                       ' ON pgtrickle.pgt_watermarks TO %s', one.role);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE (seen_at, cancelled_at)'
                       ' ON pgtrickle.pgt_request_signs TO %s', one.role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION pgtrickle.check_may_ask(oid),'
                       ' pgtrickle.check_may_group(oid[]) TO %s', one.role);
    END LOOP;
END
$$;
