-- Subscriptions: channels that are told of refreshes

-- What is done with the owner's rights for whoever inserts here.  A function with its owner's
-- rights cannot tell who calls it; the default of a column that nobody may write can.  The rows
-- that are changed are never the caller's to update, and so not his to lock.
CREATE OR REPLACE VIEW pgtrickle.acts AS
    SELECT NULL::text AS act, NULL::bigint AS stream_table, NULL::text AS name, NULL::oid AS caller
     WHERE false;

COMMENT ON VIEW pgtrickle.acts IS
    'Always empty: what is inserted is done at once, for the role that inserts it.';

ALTER VIEW pgtrickle.acts ALTER COLUMN caller
    SET DEFAULT pg_catalog.to_regrole(pg_catalog.quote_ident(current_user))::pg_catalog.oid;

-- Readers see their own.
DROP POLICY IF EXISTS pgt_subscriptions_see_own ON pgtrickle.pgt_subscriptions;
CREATE POLICY pgt_subscriptions_see_own ON pgtrickle.pgt_subscriptions FOR SELECT
    USING (pg_catalog.pg_has_role(subscriber_oid, 'USAGE'));

CREATE OR REPLACE FUNCTION pgtrickle.perform_act()
RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    relation oid;
    catalog  oid := (SELECT n.nspowner FROM pg_namespace AS n WHERE n.nspname = 'pgtrickle');
BEGIN
    IF NEW.act = 'subscribe' THEN
        SELECT s.pgt_relid INTO relation
          FROM pgtrickle.pgt_stream_tables AS s WHERE s.pgt_id = NEW.stream_table;
        IF NOT coalesce(has_any_column_privilege(NEW.caller, relation, 'SELECT'), false) THEN
            RAISE EXCEPTION 'the role % may not read the stream table %',
                  NEW.caller::regrole, relation::regclass
                  USING ERRCODE = 'ST303', HINT = 'GRANT SELECT on it to the role first.';
        END IF;
        IF NEW.name IS NULL OR octet_length(NEW.name) NOT BETWEEN 1 AND 63
           OR NEW.name ~ '[[:cntrl:]]' OR starts_with(NEW.name, 'pg_trickle') THEN
            RAISE EXCEPTION 'the channel "%" cannot be subscribed to', left(NEW.name, 63)
                  USING ERRCODE = 'ST605',
                        HINT = 'A channel has 1 to 63 bytes and no control characters; those that '
                               'begin with pg_trickle are ours.';
        END IF;
        -- A channel that nobody who exists has subscribed is free.
        DELETE FROM pgtrickle.pgt_subscriptions AS s
         WHERE s.channel = NEW.name
           AND NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.oid = s.subscriber_oid);
        IF EXISTS (SELECT FROM pgtrickle.pgt_subscriptions AS s
                    WHERE s.channel = NEW.name
                      AND NOT pg_has_role(NEW.caller, s.subscriber_oid, 'USAGE')) THEN
            RAISE EXCEPTION 'the channel "%" belongs to another role', NEW.name
                  USING ERRCODE = 'ST605', HINT = 'Choose another channel.';
        END IF;
        IF (SELECT count(*) FROM pgtrickle.pgt_subscriptions AS s
             WHERE s.pgt_id = NEW.stream_table AND s.subscriber_oid = NEW.caller
               AND s.channel <> NEW.name) >= 20 THEN
            RAISE EXCEPTION 'the role % has 20 channels on this stream table, as many as one may',
                  NEW.caller::regrole
                  USING ERRCODE = 'ST606', HINT = 'End one: SELECT pgtrickle.unsubscribe(...).';
        END IF;
        INSERT INTO pgtrickle.pgt_subscriptions (pgt_id, channel, created_by, subscriber_oid)
        VALUES (NEW.stream_table, NEW.name, pg_get_userbyid(NEW.caller), NEW.caller)
            ON CONFLICT DO NOTHING;
    ELSIF NEW.act = 'unsubscribe' THEN
        DELETE FROM pgtrickle.pgt_subscriptions AS s
         WHERE s.pgt_id = NEW.stream_table AND s.channel = NEW.name
           AND (pg_has_role(NEW.caller, s.subscriber_oid, 'USAGE')
                OR pg_has_role(NEW.caller, catalog, 'USAGE'));
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    ELSIF NEW.act = 'drop_watermark_group' THEN
        DELETE FROM pgtrickle.pgt_watermark_groups AS g
         WHERE g.group_name = NEW.name
           AND (pg_has_role(NEW.caller, catalog, 'USAGE')
                OR NOT EXISTS (
                    SELECT FROM unnest(g.source_relids) AS one (oid)
                      LEFT JOIN pg_class AS c USING (oid)
                     WHERE NOT coalesce(pg_has_role(NEW.caller, c.relowner, 'USAGE'), false)));
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    ELSE
        RAISE EXCEPTION 'there is no act "%"', left(NEW.act, 63)
              USING ERRCODE = 'ST605', HINT = 'Call the functions of the schema pgtrickle.';
    END IF;
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION pgtrickle.perform_act() IS
    'Do what was inserted into pgtrickle.acts, if the role that inserted it may.';

DROP TRIGGER IF EXISTS perform_act ON pgtrickle.acts;
CREATE TRIGGER perform_act INSTEAD OF INSERT ON pgtrickle.acts
    FOR EACH ROW EXECUTE FUNCTION pgtrickle.perform_act();

CREATE OR REPLACE FUNCTION pgtrickle.subscribe(
    stream_table text, channel text, schemas name[] DEFAULT current_schemas(false))
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO pgtrickle.acts (act, stream_table, name)
    VALUES ('subscribe', pgtrickle.find_stream_table($1, $3), $2)
$$;

COMMENT ON FUNCTION pgtrickle.subscribe(text, text, name[]) IS
    'Send a notification to one of your channels at each refresh that changes a stream table.';

CREATE OR REPLACE FUNCTION pgtrickle.unsubscribe(
    stream_table text, channel text, schemas name[] DEFAULT current_schemas(false))
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO pgtrickle.acts (act, stream_table, name)
    VALUES ('unsubscribe',
            pgtrickle.find_stream_table(unsubscribe.stream_table, unsubscribe.schemas),
            unsubscribe.channel);
    RETURN FOUND;
END
$$;

COMMENT ON FUNCTION pgtrickle.unsubscribe(text, text, name[]) IS
    'Send no more notifications to one of your channels; false if it had no subscription.';

CREATE OR REPLACE FUNCTION pgtrickle.list_subscriptions()
RETURNS TABLE (stream_table text, channel text, created_at timestamptz, created_by text,
               notified_at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', t.pgt_schema, t.pgt_name), s.channel, s.created_at, s.created_by,
           s.notified_at
      FROM pgtrickle.pgt_subscriptions AS s
      JOIN pgtrickle.stream_tables_info AS t USING (pgt_id)
     ORDER BY 1, 2
$$;

COMMENT ON FUNCTION pgtrickle.list_subscriptions() IS
    'Your channels and the stream tables that each follows; the owner of the catalog sees all.';

-- One notice tells of several refreshes that come soon after one another; its counts are of all.
-- What is held back is told by the next refresh or by tell_pending, whichever comes first.
CREATE OR REPLACE FUNCTION pgtrickle.tell_subscribers(
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

-- Who may not read the stream table any more is not told, and nothing is kept for him.
CREATE OR REPLACE FUNCTION pgtrickle.tell_pending(stream_table bigint, coalesce_ms integer)
RETURNS SETOF text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH due AS (
        SELECT s.pgt_id, s.channel, s.pending_refresh_id, s.pending_inserted, s.pending_deleted,
               format('%I.%I', t.pgt_schema, t.pgt_name) AS name,
               EXISTS (SELECT FROM pg_roles AS r
                        WHERE r.oid = s.subscriber_oid
                          AND has_any_column_privilege(r.oid, t.pgt_relid, 'SELECT')) AS allowed
          FROM pgtrickle.pgt_subscriptions AS s
          JOIN pgtrickle.pgt_stream_tables AS t USING (pgt_id)
         WHERE s.pending_refresh_id IS NOT NULL
           AND (stream_table IS NULL OR s.pgt_id = stream_table)
           AND (SELECT pgtrickle.may_notify())
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
     WHERE allowed
$$;

COMMENT ON FUNCTION pgtrickle.tell_pending(bigint, integer) IS
    'Tell what was held back for long enough, of one stream table or of all; return the channels.';
