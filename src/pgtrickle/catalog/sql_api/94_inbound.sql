-- Inbound pipelines of relays: what goes from where into which inbox

CREATE OR REPLACE FUNCTION pgtrickle.create_inbound_pipeline(
    name text, inbox text, origin text, options jsonb DEFAULT '{}', start text DEFAULT 'earliest',
    on_unreadable text DEFAULT 'dead_letter', max_inflight integer DEFAULT 1000,
    max_pending integer DEFAULT 100000, poll_ms integer DEFAULT 200,
    or_replace boolean DEFAULT false, schemas name[] DEFAULT current_schemas(false))
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted bigint := pgtrickle.find_inbox($2, $11);
BEGIN
    IF $1 IS NULL OR $1 !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$' THEN
        RAISE EXCEPTION 'a pipeline cannot be called "%"', left($1, 80)
              USING ERRCODE = 'ST820',
                    HINT = 'Take up to 63 letters, digits, and _ . - after the first.';
    ELSIF jsonb_typeof($4) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'the options of the pipeline "%" are no object', $1
              USING ERRCODE = 'ST820', HINT = 'Give jsonb such as {"stream": "payments"}.';
    ELSIF $5 NOT IN ('earliest', 'latest') OR $6 NOT IN ('dead_letter', 'block') THEN
        RAISE EXCEPTION 'the pipeline "%" has an unknown start or on_unreadable', $1
              USING ERRCODE = 'ST820',
                    HINT = 'start: earliest, latest; on_unreadable: dead_letter, block.';
    END IF;
    INSERT INTO pgtrickle.pgt_inbound_pipelines AS p (pipeline, inbox_id, definition)
    VALUES ($1, wanted, jsonb_build_object(
                'origin', $3, 'options', $4, 'start', $5, 'on_unreadable', $6,
                'max_inflight', $7, 'max_pending', $8, 'poll_ms', $9))
        ON CONFLICT (pipeline) DO UPDATE
       SET inbox_id = excluded.inbox_id, definition = excluded.definition,
           updated_at = clock_timestamp()
     WHERE $10;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the pipeline "%" already exists', $1
              USING ERRCODE = 'ST820', HINT = 'Choose another name, or set or_replace => true.';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.create_inbound_pipeline(
    text, text, text, jsonb, text, text, integer, integer, integer, boolean, name[]) IS
    'Let relays receive the messages of a broker into an inbox.';

CREATE OR REPLACE FUNCTION pgtrickle.drop_inbound_pipeline(name text, if_exists boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known boolean;
BEGIN
    DELETE FROM pgtrickle.pgt_inbound_pipelines AS p WHERE p.pipeline = $1;
    known := FOUND;
    DELETE FROM pgtrickle.pgt_inbound_states AS s WHERE s.pipeline = $1;
    known := known OR FOUND;
    DELETE FROM pgtrickle.pgt_inbound_dead_letters AS d WHERE d.pipeline = $1;
    IF NOT known AND NOT $2 THEN
        RAISE EXCEPTION 'there is no inbound pipeline "%"', left($1, 80)
              USING ERRCODE = 'ST821', HINT = 'Those that exist: SELECT * FROM pgtrickle.inbound_status().';
    END IF;
    RETURN known;
END
$$;

COMMENT ON FUNCTION pgtrickle.drop_inbound_pipeline(text, boolean) IS
    'Drop an inbound pipeline, with its place and its dead letters; what it received stays.';

CREATE OR REPLACE FUNCTION pgtrickle.inbound_status(name text DEFAULT NULL)
RETURNS TABLE (pipeline text, inbox text, origin text, state text, since timestamptz, paused boolean,
               relay text, messages bigint, duplicates bigint, dead_letters bigint, lag bigint,
               retries bigint, received_at timestamptz, error_code text, error text, hint text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT n.pipeline,
           coalesce((SELECT format('%I.%I', x.nspname, c.relname)
                       FROM pg_class AS c JOIN pg_namespace AS x ON x.oid = c.relnamespace
                      WHERE c.oid = i.relid), format('%I.%I', i.schema_name, i.inbox_name)),
           coalesce(s.origin, p.definition ->> 'origin'),
           CASE WHEN s.pipeline IS NULL THEN 'new' WHEN s.paused THEN 'paused'
                WHEN s.state NOT IN ('new', 'blocked', 'failed', 'lost')
                     AND coalesce(s.held_until, '-infinity') < clock_timestamp() THEN 'stopped'
                ELSE s.state END,
           s.since, coalesce(s.paused, false),
           CASE WHEN s.held_until > clock_timestamp() THEN s.holder END,
           coalesce(s.messages, 0), coalesce(s.duplicates, 0),
           (SELECT count(*) FROM pgtrickle.pgt_inbound_dead_letters AS d
             WHERE d.pipeline = n.pipeline),
           s.lag, coalesce(s.retries, 0), s.received_at, s.error_code, s.error, s.hint
      FROM (SELECT p.pipeline FROM pgtrickle.pgt_inbound_pipelines AS p
             UNION SELECT s.pipeline FROM pgtrickle.pgt_inbound_states AS s) AS n
      LEFT JOIN pgtrickle.pgt_inbound_pipelines AS p USING (pipeline)
      LEFT JOIN pgtrickle.pgt_inbound_states AS s USING (pipeline)
      LEFT JOIN pgtrickle.pgt_inboxes AS i ON i.inbox_id = coalesce(s.inbox_id, p.inbox_id)
     WHERE $1 IS NULL OR n.pipeline = $1
     ORDER BY n.pipeline
$$;

COMMENT ON FUNCTION pgtrickle.inbound_status(text) IS
    'The inbound pipelines of relays: what each does, and why it does not go on.';

CREATE OR REPLACE FUNCTION pgtrickle.pause_inbound(name text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO pgtrickle.pgt_inbound_states AS s (pipeline, inbox_id, origin, paused)
    SELECT p.pipeline, p.inbox_id, coalesce(p.definition ->> 'origin', ''), true
      FROM pgtrickle.pgt_inbound_pipelines AS p WHERE p.pipeline = $1
        ON CONFLICT DO NOTHING;
    UPDATE pgtrickle.pgt_inbound_states AS s SET paused = true WHERE s.pipeline = $1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no inbound pipeline "%"', left($1, 80)
              USING ERRCODE = 'ST821', HINT = 'Those that exist: SELECT * FROM pgtrickle.inbound_status().';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.pause_inbound(text) IS
    'Let an inbound pipeline receive nothing until it is resumed.';

CREATE OR REPLACE FUNCTION pgtrickle.resume_inbound(name text, again boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE pgtrickle.pgt_inbound_states AS s SET paused = false, wake = s.wake + 1
     WHERE s.pipeline = $1;
    IF NOT FOUND
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_inbound_pipelines AS p WHERE p.pipeline = $1) THEN
        RAISE EXCEPTION 'there is no inbound pipeline "%"', left($1, 80)
              USING ERRCODE = 'ST821', HINT = 'Those that exist: SELECT * FROM pgtrickle.inbound_status().';
    END IF;
    IF $2 THEN
        DELETE FROM pgtrickle.pgt_inbound_places AS o WHERE o.pipeline = $1;
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.resume_inbound(text, boolean) IS
    'Let an inbound pipeline go on; again: from where it would begin, and ids keep messages single.';

CREATE OR REPLACE FUNCTION pgtrickle.inbound_dead_letters(
    name text DEFAULT NULL, max_rows integer DEFAULT 100)
RETURNS TABLE (dead_letter_id bigint, pipeline text, message_id text, key bytea, value bytea,
               headers jsonb, error_code text, error text, failed_at timestamptz,
               replay_at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT d.dead_letter_id, d.pipeline, d.message_id, d.key, d.value, d.headers, d.error_code,
           d.error, d.failed_at, d.replay_at
      FROM pgtrickle.pgt_inbound_dead_letters AS d
     WHERE $1 IS NULL OR d.pipeline = $1
     ORDER BY d.dead_letter_id
     LIMIT $2
$$;

COMMENT ON FUNCTION pgtrickle.inbound_dead_letters(text, integer) IS
    'The messages of inbound pipelines that cannot be read, as they came, oldest first.';

CREATE OR REPLACE FUNCTION pgtrickle.replay_inbound_dead_letters(
    name text, dead_letter_ids bigint[] DEFAULT NULL)
RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH wanted AS (
        UPDATE pgtrickle.pgt_inbound_dead_letters AS d SET replay_at = clock_timestamp()
         WHERE d.pipeline = $1 AND ($2 IS NULL OR d.dead_letter_id = ANY ($2))
        RETURNING 1
    )
    SELECT count(*) FROM wanted
$$;

COMMENT ON FUNCTION pgtrickle.replay_inbound_dead_letters(text, bigint[]) IS
    'Let the relay read dead letters again, all or some, with the pipeline as it is defined now.';
