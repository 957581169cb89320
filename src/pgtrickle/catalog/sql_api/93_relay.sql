-- The relay: its pipelines, what they do, and the messages that receivers refuse

CREATE OR REPLACE FUNCTION pgtrickle.create_relay_pipeline(
    name text, stream_table text, sink text, options jsonb DEFAULT '{}',
    envelope text DEFAULT 'plain', start text DEFAULT 'snapshot', on_poison text DEFAULT 'block',
    sink_max_inflight integer DEFAULT 1000, max_failures integer DEFAULT 5,
    poll_ms integer DEFAULT 200, or_replace boolean DEFAULT false,
    schemas name[] DEFAULT current_schemas(false))
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    followed bigint := pgtrickle.find_stream_table($2, $12);
BEGIN
    IF $1 IS NULL OR $1 !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$' THEN
        RAISE EXCEPTION 'a pipeline cannot be called "%"', left($1, 80)
              USING ERRCODE = 'ST820',
                    HINT = 'Take up to 63 letters, digits, and _ . - after the first.';
    ELSIF jsonb_typeof($4) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'the options of the pipeline "%" are no object', $1
              USING ERRCODE = 'ST820', HINT = 'Give jsonb such as {"path": "/srv/changes.jsonl"}.';
    ELSIF $5 NOT IN ('plain', 'debezium', 'debezium_schema', 'cloudevents')
       OR $6 NOT IN ('snapshot', 'earliest', 'latest')
       OR $7 NOT IN ('block', 'dead_letter_key', 'dead_letter') THEN
        RAISE EXCEPTION 'the pipeline "%" has an unknown envelope, start or on_poison', $1
              USING ERRCODE = 'ST820',
                    HINT = 'envelope: plain, debezium, debezium_schema, cloudevents; start: snapshot, earliest, latest; '
                           'on_poison: block, dead_letter_key, dead_letter.';
    END IF;
    INSERT INTO pgtrickle.pgt_relay_pipelines AS p (pipeline, pgt_id, definition)
    VALUES ($1, followed, jsonb_build_object(
                'sink', $3, 'options', $4, 'envelope', $5, 'start', $6, 'on_poison', $7,
                'sink_max_inflight', $8, 'max_failures', $9, 'poll_ms', $10))
        ON CONFLICT (pipeline) DO UPDATE
       SET pgt_id = excluded.pgt_id, definition = excluded.definition,
           updated_at = clock_timestamp()
     WHERE $11;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the pipeline "%" already exists', $1
              USING ERRCODE = 'ST820', HINT = 'Choose another name, or set or_replace => true.';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.create_relay_pipeline(
    text, text, text, jsonb, text, text, text, integer, integer, integer, boolean, name[]) IS
    'Let relays deliver the changes of a stream table to a receiver.';

CREATE OR REPLACE FUNCTION pgtrickle.drop_relay_pipeline(name text, if_exists boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known boolean;
BEGIN
    DELETE FROM pgtrickle.pgt_relay_pipelines AS p WHERE p.pipeline = $1;
    known := FOUND;
    DELETE FROM pgtrickle.pgt_relay_states AS s WHERE s.pipeline = $1;
    known := known OR FOUND;
    DELETE FROM pgtrickle.pgt_relay_dead_letters AS d WHERE d.pipeline = $1;
    IF NOT known AND NOT $2 THEN
        RAISE EXCEPTION 'there is no pipeline "%"', left($1, 80)
              USING ERRCODE = 'ST821', HINT = 'Those that exist: SELECT * FROM pgtrickle.relay_status().';
    END IF;
    DELETE FROM pgtrickle.pgt_consumer_groups AS g WHERE g.group_name = 'relay:' || $1;
    RETURN known;
END
$$;

COMMENT ON FUNCTION pgtrickle.drop_relay_pipeline(text, boolean) IS
    'Drop a pipeline, with its place and its dead letters; what was delivered stays where it is.';

CREATE OR REPLACE FUNCTION pgtrickle.relay_status(name text DEFAULT NULL)
RETURNS TABLE (pipeline text, stream_table text, sink text, state text, since timestamptz,
               paused boolean, relay text, outbox_id bigint, last_id bigint, lag_entries bigint,
               lag_rows bigint, lag_seconds double precision, in_flight integer, messages bigint,
               retries bigint, dead_letters bigint, sent_at timestamptz, error_code text,
               error text, hint text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT n.pipeline, format('%I.%I', t.pgt_schema, t.pgt_name),
           coalesce(s.sink, p.definition ->> 'sink'),
           CASE WHEN s.pipeline IS NULL THEN 'new' WHEN s.paused THEN 'paused'
                WHEN s.state NOT IN ('new', 'blocked', 'failed', 'needs_snapshot')
                     AND coalesce(s.held_until, '-infinity') < clock_timestamp() THEN 'stopped'
                ELSE s.state END,
           s.since, coalesce(s.paused, false),
           CASE WHEN s.held_until > clock_timestamp() THEN s.holder END,
           s.outbox_id, c.last_id, behind.entries, behind.changes, behind.seconds,
           coalesce(s.in_flight, 0), coalesce(s.messages, 0), coalesce(s.retries, 0),
           (SELECT count(*) FROM pgtrickle.pgt_relay_dead_letters AS d WHERE d.pipeline = n.pipeline),
           s.sent_at, s.error_code, s.error, s.hint
      FROM (SELECT p.pipeline FROM pgtrickle.pgt_relay_pipelines AS p
             UNION SELECT s.pipeline FROM pgtrickle.pgt_relay_states AS s) AS n
      LEFT JOIN pgtrickle.pgt_relay_pipelines AS p USING (pipeline)
      LEFT JOIN pgtrickle.pgt_relay_states AS s USING (pipeline)
      LEFT JOIN pgtrickle.pgt_stream_tables AS t ON t.pgt_id = coalesce(s.pgt_id, p.pgt_id)
      LEFT JOIN pgtrickle.pgt_outbox_config AS c ON c.pgt_id = t.pgt_id
     CROSS JOIN LATERAL (
               SELECT count(*) AS entries,
                      coalesce(sum(e.inserted + e.updated + e.deleted), 0)::bigint AS changes,
                      coalesce(extract(epoch FROM clock_timestamp() - min(e.created_at)), 0)
                      ::double precision AS seconds
                 FROM pgtrickle.pgt_outbox_entries AS e
                WHERE e.pgt_id = t.pgt_id AND e.outbox_id > c.floor_id
                  AND e.outbox_id > coalesce(s.outbox_id - CASE WHEN s.in_contents THEN 0 ELSE 1 END, 0)
               ) AS behind
     WHERE $1 IS NULL OR n.pipeline = $1
     ORDER BY n.pipeline
$$;

COMMENT ON FUNCTION pgtrickle.relay_status(text) IS
    'The pipelines of relays: what each does, how far it is behind, and why it does not go on.';

CREATE OR REPLACE FUNCTION pgtrickle.pause_relay(name text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE pgtrickle.pgt_relay_states AS s SET paused = true WHERE s.pipeline = $1;
    IF NOT FOUND THEN
        INSERT INTO pgtrickle.pgt_relay_states AS s (pipeline, pgt_id, sink, paused)
        SELECT p.pipeline, p.pgt_id, coalesce(p.definition ->> 'sink', ''), true
          FROM pgtrickle.pgt_relay_pipelines AS p WHERE p.pipeline = $1
            ON CONFLICT (pipeline) DO UPDATE SET paused = true;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no pipeline "%"', left($1, 80)
                  USING ERRCODE = 'ST821',
                        HINT = 'Those that exist: SELECT * FROM pgtrickle.relay_status().';
        END IF;
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.pause_relay(text) IS
    'Let a pipeline deliver nothing until it is resumed; its outbox keeps the entries for it.';

CREATE OR REPLACE FUNCTION pgtrickle.resume_relay(name text, again boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE pgtrickle.pgt_relay_states AS s
       SET paused = false, wake = s.wake + 1,
           outbox_id = CASE WHEN $2 THEN NULL ELSE s.outbox_id END,
           in_contents = CASE WHEN $2 THEN NULL ELSE s.in_contents END,
           row_number = CASE WHEN $2 THEN NULL ELSE s.row_number END
     WHERE s.pipeline = $1;
    IF NOT FOUND AND NOT EXISTS (SELECT FROM pgtrickle.pgt_relay_pipelines AS p WHERE p.pipeline = $1) THEN
        RAISE EXCEPTION 'there is no pipeline "%"', left($1, 80)
              USING ERRCODE = 'ST821', HINT = 'Those that exist: SELECT * FROM pgtrickle.relay_status().';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.resume_relay(text, boolean) IS
    'Let a pipeline go on that is paused or blocked; again: from the contents of its stream table.';

CREATE OR REPLACE FUNCTION pgtrickle.relay_dead_letters(
    name text DEFAULT NULL, max_rows integer DEFAULT 100)
RETURNS TABLE (dead_letter_id bigint, pipeline text, message_id text, op text, key text, before text,
               after text, error_code text, error text, failed_at timestamptz,
               replay_at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT d.dead_letter_id, d.pipeline,
           format('%s:%s:%s%s', d.pgt_id, d.outbox_id, CASE WHEN d.in_contents THEN 's' END,
                  d.row_number),
           d.op, d.key, d.before, d.after, d.error_code, d.error, d.failed_at, d.replay_at
      FROM pgtrickle.pgt_relay_dead_letters AS d
     WHERE $1 IS NULL OR d.pipeline = $1
     ORDER BY d.dead_letter_id
     LIMIT $2
$$;

COMMENT ON FUNCTION pgtrickle.relay_dead_letters(text, integer) IS
    'The messages that receivers refused, with the later ones of their keys, oldest first.';

CREATE OR REPLACE FUNCTION pgtrickle.replay_dead_letters(
    name text, dead_letter_ids bigint[] DEFAULT NULL)
RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH wanted AS (
        UPDATE pgtrickle.pgt_relay_dead_letters AS d SET replay_at = clock_timestamp()
         WHERE d.pipeline = $1
           AND ($2 IS NULL OR d.dead_letter_id = ANY ($2)
                OR d.key IN (SELECT o.key FROM pgtrickle.pgt_relay_dead_letters AS o
                              WHERE o.pipeline = $1 AND o.dead_letter_id = ANY ($2)))
        RETURNING 1
    )
    SELECT count(*) FROM wanted
$$;

COMMENT ON FUNCTION pgtrickle.replay_dead_letters(text, bigint[]) IS
    'Let the relay deliver dead letters again, all or some, each with the others of its key.';
