-- 0023 · pre · create subscriptions
--
-- Why:   applications listen on a channel of their own for changes of the stream tables they show.
-- Reads: an earlier version refreshes without telling subscribers.
-- Locks: CREATE TABLE; the foreign key takes SHARE ROW EXCLUSIVE on pgt_stream_tables, briefly.
-- Undo:  DROP TABLE pgtrickle.pgt_subscriptions; DROP the functions below.

CREATE TABLE pgtrickle.pgt_subscriptions (
    pgt_id             bigint      NOT NULL
                                   REFERENCES pgtrickle.pgt_stream_tables ON DELETE CASCADE,
    channel            text        NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    created_by         text        NOT NULL,
    notified_at        timestamptz,
    pending_refresh_id bigint,
    pending_inserted   bigint      NOT NULL DEFAULT 0,
    pending_deleted    bigint      NOT NULL DEFAULT 0,

    PRIMARY KEY (pgt_id, channel),
    CONSTRAINT pgt_subscriptions_channel_fits CHECK (octet_length(channel) BETWEEN 1 AND 63),
    CONSTRAINT pgt_subscriptions_pending_not_negative
        CHECK (pending_inserted >= 0 AND pending_deleted >= 0)
);

CREATE INDEX pgt_subscriptions_pending ON pgtrickle.pgt_subscriptions (notified_at)
    WHERE pending_refresh_id IS NOT NULL;

COMMENT ON TABLE pgtrickle.pgt_subscriptions IS
    'Channels that are told of each refresh that changed a stream table.';
COMMENT ON COLUMN pgtrickle.pgt_subscriptions.pending_refresh_id IS
    'The latest refresh that has not been told yet; the counts are of all since the last notice.';

-- One notice tells of several refreshes that come soon after one another; its counts are of all.
-- What is held back is told by the next refresh or by tell_pending, whichever comes first.
CREATE FUNCTION pgtrickle.tell_subscribers(
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
    'Tell the channels of a stream table of a refresh, in its own transaction.';

CREATE FUNCTION pgtrickle.tell_pending(stream_table bigint, coalesce_ms integer)
RETURNS SETOF text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH due AS (
        SELECT s.pgt_id, s.channel, s.pending_refresh_id, s.pending_inserted, s.pending_deleted,
               format('%I.%I', t.pgt_schema, t.pgt_name) AS name
          FROM pgtrickle.pgt_subscriptions AS s
          JOIN pgtrickle.pgt_stream_tables AS t USING (pgt_id)
         WHERE s.pending_refresh_id IS NOT NULL
           AND (stream_table IS NULL OR s.pgt_id = stream_table)
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
$$;

COMMENT ON FUNCTION pgtrickle.tell_pending(bigint, integer) IS
    'Tell what was held back for long enough, of one stream table or of all; return the channels.';

CREATE FUNCTION pgtrickle.subscribe(
    stream_table text, channel text, schemas name[] DEFAULT current_schemas(false),
    subscriber text DEFAULT current_user)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF subscribe.channel IS NULL OR octet_length(subscribe.channel) NOT BETWEEN 1 AND 63
       OR starts_with(subscribe.channel, 'pg_trickle') THEN
        RAISE EXCEPTION 'the channel "%" cannot be subscribed to', subscribe.channel
              USING ERRCODE = 'ST605',
                    HINT = 'A channel has 1 to 63 bytes; those that begin with pg_trickle are ours.';
    END IF;
    INSERT INTO pgtrickle.pgt_subscriptions (pgt_id, channel, created_by)
    VALUES (pgtrickle.find_stream_table(stream_table, schemas), subscribe.channel, subscriber)
        ON CONFLICT DO NOTHING;
END
$$;

COMMENT ON FUNCTION pgtrickle.subscribe(text, text, name[], text) IS
    'Let a channel be told of each refresh that changes a stream table.';

CREATE FUNCTION pgtrickle.unsubscribe(
    stream_table text, channel text, schemas name[] DEFAULT current_schemas(false))
RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (
        DELETE FROM pgtrickle.pgt_subscriptions AS s
         WHERE s.pgt_id = pgtrickle.find_stream_table($1, $3) AND s.channel = $2
        RETURNING s.channel
    )
    SELECT EXISTS (SELECT FROM gone)
$$;

COMMENT ON FUNCTION pgtrickle.unsubscribe(text, text, name[]) IS
    'Tell a channel no more; false if it was not told before.';

CREATE FUNCTION pgtrickle.list_subscriptions()
RETURNS TABLE (stream_table text, channel text, created_at timestamptz, created_by text,
               notified_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', t.pgt_schema, t.pgt_name), s.channel, s.created_at, s.created_by,
           s.notified_at
      FROM pgtrickle.pgt_subscriptions AS s
      JOIN pgtrickle.pgt_stream_tables AS t USING (pgt_id)
     ORDER BY 1, 2
$$;

COMMENT ON FUNCTION pgtrickle.list_subscriptions() IS 'Which channels are told of which stream tables.';

REVOKE ALL ON pgtrickle.pgt_subscriptions FROM PUBLIC;
REVOKE ALL ON FUNCTION
    pgtrickle.tell_subscribers(bigint, bigint, bigint, bigint, integer),
    pgtrickle.tell_pending(bigint, integer), pgtrickle.subscribe(text, text, name[], text),
    pgtrickle.unsubscribe(text, text, name[]), pgtrickle.list_subscriptions() FROM PUBLIC;
