-- What consoles show of stream tables and requests, one statement each

CREATE OR REPLACE FUNCTION pgtrickle.console_tables()
RETURNS TABLE (pgt_id bigint, name text, status text, refresh_mode text,
               effective_refresh_mode text, engine text, schedule text, tier text,
               is_populated boolean, needs_reinit boolean, age_s double precision,
               target_s double precision, interval_s double precision, stale boolean,
               failing boolean, consecutive_errors integer, last_error_message text,
               last_refresh_at timestamptz, live_rows bigint, owner_role text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
    SELECT i.pgt_id, format('%I.%I', i.pgt_schema, i.pgt_name), i.status, i.refresh_mode,
           i.effective_refresh_mode, i.engine, i.schedule, i.tier, i.is_populated, i.needs_reinit,
           extract(epoch FROM i.staleness)::double precision, v.deadline_seconds,
           e.seconds, coalesce(i.stale, false), i.failing,
           i.consecutive_errors, i.last_error_message, i.last_refresh_at,
           -- As of the last ANALYZE or autovacuum; counting would read the tables.
           nullif(greatest(c.reltuples, -1), -1)::bigint, i.owner_role
      FROM pgtrickle.stream_tables_info AS i
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = i.pgt_id
      JOIN pgtrickle.effective_intervals AS e ON e.pgt_id = i.pgt_id
      LEFT JOIN pgtrickle.pgt_service_levels AS v ON v.pgt_id = i.pgt_id
      LEFT JOIN pg_class AS c ON c.oid = s.pgt_relid
     ORDER BY i.pgt_schema, i.pgt_name
$$;

COMMENT ON FUNCTION pgtrickle.console_tables() IS
    'Every stream table as a console lists it: its age beside its service level and its interval.';

-- A reader sees what waits and for whom, not what was said: arguments may hold queries of others.
-- The ended ones are many; each of the two kinds is found by an index.
CREATE OR REPLACE FUNCTION pgtrickle.console_requests(max_rows integer DEFAULT 100)
RETURNS TABLE (request_id bigint, verb text, stream_table text, caller text, status text,
               requested_at timestamptz, started_at timestamptz, ended_at timestamptz,
               error_code text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH bound (rows) AS (
        SELECT least(greatest(console_requests.max_rows, 0), 1000)
    ), found AS (
        (SELECT r.request_id FROM pgtrickle.pgt_requests AS r
          WHERE r.status IN ('QUEUED', 'RUNNING')
          ORDER BY r.request_id DESC LIMIT (SELECT b.rows FROM bound AS b))
         UNION
        (SELECT r.request_id FROM pgtrickle.pgt_requests AS r
          ORDER BY r.request_id DESC LIMIT (SELECT b.rows FROM bound AS b))
    )
    SELECT r.request_id, r.verb, left(r.arguments ->> 'name', 255), r.caller, r.status,
           r.requested_at, r.started_at, r.ended_at, r.error ->> 'code'
      FROM found JOIN pgtrickle.pgt_requests AS r ON r.request_id = found.request_id
     ORDER BY r.status NOT IN ('QUEUED', 'RUNNING'), r.request_id DESC
     LIMIT (SELECT b.rows FROM bound AS b)
$$;

COMMENT ON FUNCTION pgtrickle.console_requests(integer) IS
    'The requests of all callers, those that are open first: who asked for what, and how far it is.';
