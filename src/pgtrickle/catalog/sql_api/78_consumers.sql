-- Consumer groups: which consumer deals with which entries of an outbox
--
-- One consumer of a group has the next entries at a time, so their order is kept.  It has them until
-- it commits or its lease expires; then any consumer gets all that were not committed, once more.

DROP POLICY IF EXISTS pgt_consumer_groups_of_own ON pgtrickle.pgt_consumer_groups;
CREATE POLICY pgt_consumer_groups_of_own ON pgtrickle.pgt_consumer_groups FOR SELECT
    USING (pg_catalog.pg_has_role(owner_oid, 'USAGE'));
DROP POLICY IF EXISTS pgt_consumer_offsets_of_own ON pgtrickle.pgt_consumer_offsets;
CREATE POLICY pgt_consumer_offsets_of_own ON pgtrickle.pgt_consumer_offsets FOR SELECT
    USING (group_id IN (SELECT g.group_id FROM pgtrickle.pgt_consumer_groups AS g));
DROP POLICY IF EXISTS pgt_consumer_leases_of_own ON pgtrickle.pgt_consumer_leases;
CREATE POLICY pgt_consumer_leases_of_own ON pgtrickle.pgt_consumer_leases FOR SELECT
    USING (group_id IN (SELECT g.group_id FROM pgtrickle.pgt_consumer_groups AS g));
DROP POLICY IF EXISTS pgt_consumers_of_own ON pgtrickle.pgt_consumers;
CREATE POLICY pgt_consumers_of_own ON pgtrickle.pgt_consumers FOR SELECT
    USING (group_id IN (SELECT g.group_id FROM pgtrickle.pgt_consumer_groups AS g));

-- As pgtrickle.acts: the default of a column tells who inserts; the last three are the answer.
CREATE OR REPLACE VIEW pgtrickle.consumer_acts AS
    SELECT NULL::text AS act, NULL::text AS group_name, NULL::text AS consumer,
           NULL::bigint AS stream_table, NULL::bigint AS number, NULL::double precision AS seconds,
           NULL::text AS word, NULL::oid AS caller, NULL::bigint AS first_id,
           NULL::bigint AS last_id, NULL::timestamptz AS expires_at
     WHERE false;

COMMENT ON VIEW pgtrickle.consumer_acts IS
    'Always empty: what is inserted is done at once, for the role that inserts it.';

ALTER VIEW pgtrickle.consumer_acts ALTER COLUMN caller
    SET DEFAULT pg_catalog.to_regrole(pg_catalog.quote_ident(current_user))::pg_catalog.oid;

CREATE OR REPLACE FUNCTION pgtrickle.create_group(act pgtrickle.consumer_acts)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    outbox  record;
    made    bigint;
BEGIN
    SELECT s.pgt_relid, s.pgt_id, c.last_id INTO outbox
      FROM pgtrickle.pgt_stream_tables AS s JOIN pgtrickle.pgt_outbox_config AS c USING (pgt_id)
     WHERE s.pgt_id = act.stream_table AND s.has_outbox;
    -- Who cannot read the changes cannot have them kept.
    IF NOT coalesce(has_table_privilege(act.caller, outbox.pgt_relid, 'SELECT'), false) THEN
        RAISE EXCEPTION 'the role % may not read the changes of this stream table',
              act.caller::regrole
              USING ERRCODE = 'ST303', HINT = 'GRANT SELECT on it to the role first.';
    END IF;
    IF act.group_name IS NULL OR octet_length(act.group_name) NOT BETWEEN 1 AND 200
       OR act.group_name ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'a consumer group cannot be called "%"', left(act.group_name, 63)
              USING ERRCODE = 'ST803', HINT = 'A name has 1 to 200 bytes and no control characters.';
    END IF;
    IF act.word IS NULL OR act.word NOT IN ('latest', 'earliest') THEN
        RAISE EXCEPTION 'a consumer group cannot begin at "%"', left(act.word, 63)
              USING ERRCODE = 'ST501', HINT = 'Choose latest or earliest.';
    END IF;
    IF (SELECT count(*) FROM pgtrickle.pgt_consumer_groups AS g
         WHERE g.pgt_id = outbox.pgt_id AND g.owner_oid = act.caller) >= 100 THEN
        RAISE EXCEPTION 'the role % has 100 consumer groups of this outbox, as many as one may',
              act.caller::regrole
              USING ERRCODE = 'ST606', HINT = 'Drop one: SELECT pgtrickle.drop_consumer_group(...).';
    END IF;
    INSERT INTO pgtrickle.pgt_consumer_groups (group_name, pgt_id, owner_oid, auto_offset_reset)
    VALUES (act.group_name, outbox.pgt_id, act.caller, act.word)
        ON CONFLICT DO NOTHING
    RETURNING group_id INTO made;
    IF made IS NULL THEN
        RAISE EXCEPTION 'the consumer group "%" already exists', act.group_name
              USING ERRCODE = 'ST803', HINT = 'Choose another name.';
    END IF;
    -- After the insert: an entry that is numbered from now on is kept for the group.
    INSERT INTO pgtrickle.pgt_consumer_offsets (group_id, committed_id)
    SELECT made, CASE act.word WHEN 'latest' THEN c.last_id
                               ELSE pgtrickle.first_outbox_id(c.pgt_id) - 1 END
      FROM pgtrickle.pgt_outbox_config AS c WHERE c.pgt_id = outbox.pgt_id;
END
$$;

COMMENT ON FUNCTION pgtrickle.create_group(pgtrickle.consumer_acts) IS
    'Create a consumer group, if the role may read the outbox.';

-- How far a lease reaches: so many entries, and what a consumer can take at once.
CREATE OR REPLACE FUNCTION pgtrickle.find_batch(stream_table bigint, after_id bigint, batch bigint)
RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT max(e.outbox_id)
      FROM (SELECT o.outbox_id, row_number() OVER w AS place,
                   sum(coalesce(pg_column_size(o.changes), 0)) OVER w AS bytes
              FROM pgtrickle.pgt_outbox_entries AS o
             WHERE o.pgt_id = $1 AND o.outbox_id > $2 AND o.outbox_id <= $2 + $3
            WINDOW w AS (ORDER BY o.outbox_id)) AS e
     WHERE e.place = 1 OR e.bytes <= 64000000
$$;

COMMENT ON FUNCTION pgtrickle.find_batch(bigint, bigint, bigint) IS
    'The last entry of a batch: of so many entries, and with 64 MB of changes at most.';

CREATE OR REPLACE FUNCTION pgtrickle.perform_consumer_act()
RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s'
AS $$
DECLARE
    catalog  oid := (SELECT n.nspowner FROM pg_namespace AS n WHERE n.nspname = 'pgtrickle');
    mine     record;
    lease    pgtrickle.pgt_consumer_leases;
    done     bigint;
    outbox   record;
    held     boolean;
BEGIN
    IF NEW.act = 'create' THEN
        PERFORM pgtrickle.create_group(NEW);
        RETURN NEW;
    END IF;
    SELECT g.group_id, g.pgt_id INTO mine
      FROM pgtrickle.pgt_consumer_groups AS g
     WHERE g.group_name = NEW.group_name
       AND (pg_has_role(NEW.caller, g.owner_oid, 'USAGE') OR pg_has_role(NEW.caller, catalog, 'USAGE'));
    IF NOT FOUND THEN
        IF NEW.act = 'drop' AND NEW.word = 'if exists' THEN
            RETURN NULL;
        END IF;
        RAISE EXCEPTION 'the role % has no consumer group "%"', NEW.caller::regrole,
              left(NEW.group_name, 63)
              USING ERRCODE = 'ST803',
                    HINT = 'Create it: SELECT pgtrickle.create_consumer_group(name, outbox).';
    END IF;
    IF NEW.act IN ('poll', 'commit', 'extend', 'heartbeat') THEN
        IF NEW.consumer IS NULL OR octet_length(NEW.consumer) NOT BETWEEN 1 AND 200 THEN
            RAISE EXCEPTION 'a consumer cannot be called "%"', left(NEW.consumer, 63)
                  USING ERRCODE = 'ST803', HINT = 'A name has 1 to 200 bytes.';
        END IF;
    END IF;
    IF NEW.act IN ('poll', 'extend')
       AND (NEW.seconds IS NULL OR NOT NEW.seconds > 0 OR NEW.seconds > 86400) THEN
        RAISE EXCEPTION 'entries cannot be leased for % seconds', NEW.seconds
              USING ERRCODE = 'ST501', HINT = 'Give a number above 0, up to 86,400.';
    END IF;
    IF NEW.act = 'poll' THEN
        IF NEW.number IS NULL OR NEW.number NOT BETWEEN 1 AND 10000 THEN
            RAISE EXCEPTION 'a batch cannot have % entries', NEW.number
                  USING ERRCODE = 'ST501', HINT = 'Give a number from 1 to 10,000.';
        END IF;
        -- Whoever is being served is not waited for.
        SELECT o.committed_id INTO done FROM pgtrickle.pgt_consumer_offsets AS o
         WHERE o.group_id = mine.group_id FOR UPDATE SKIP LOCKED;
        held := NOT FOUND;
    ELSE
        SELECT o.committed_id INTO done FROM pgtrickle.pgt_consumer_offsets AS o
         WHERE o.group_id = mine.group_id FOR UPDATE;
    END IF;
    IF NEW.act IN ('poll', 'commit', 'extend', 'heartbeat') AND NOT coalesce(held, false) THEN
        INSERT INTO pgtrickle.pgt_consumers AS c (group_id, consumer)
        SELECT mine.group_id, NEW.consumer
         WHERE (SELECT count(*) FROM pgtrickle.pgt_consumers AS n WHERE n.group_id = mine.group_id) < 1000
            ON CONFLICT (group_id, consumer) DO UPDATE SET heartbeat_at = clock_timestamp();
        DELETE FROM pgtrickle.pgt_consumers AS c
         WHERE c.group_id = mine.group_id AND c.heartbeat_at < clock_timestamp() - interval '7 days';
    END IF;
    SELECT l.* INTO lease FROM pgtrickle.pgt_consumer_leases AS l WHERE l.group_id = mine.group_id;
    IF NEW.act = 'poll' THEN
        IF held OR (lease.consumer <> NEW.consumer AND lease.expires_at > clock_timestamp()) THEN
            RETURN NEW;
        END IF;
        PERFORM pgtrickle.seal_outbox(mine.pgt_id);
        SELECT c.last_id, pgtrickle.first_outbox_id(c.pgt_id) AS first_id INTO outbox
          FROM pgtrickle.pgt_outbox_config AS c WHERE c.pgt_id = mine.pgt_id;
        IF done + 1 < outbox.first_id OR done > outbox.last_id THEN
            RAISE EXCEPTION 'the group "%" has dealt with entry %, and the outbox has % to %',
                  NEW.group_name, done, outbox.first_id, outbox.last_id
                  USING ERRCODE = 'ST802',
                        HINT = 'Take the contents and pgtrickle.outbox_position() in one snapshot, and go on '
                               'from there: SELECT pgtrickle.seek_offset(...).';
        END IF;
        NEW.last_id := pgtrickle.find_batch(mine.pgt_id, done, NEW.number);
        IF NEW.last_id IS NULL THEN
            DELETE FROM pgtrickle.pgt_consumer_leases AS l WHERE l.group_id = mine.group_id;
            RETURN NEW;
        END IF;
        NEW.first_id := done + 1;
        NEW.stream_table := mine.pgt_id;
        NEW.expires_at := clock_timestamp() + make_interval(secs => NEW.seconds);
        INSERT INTO pgtrickle.pgt_consumer_leases AS l
            (group_id, consumer, first_id, last_id, expires_at)
        VALUES (mine.group_id, NEW.consumer, NEW.first_id, NEW.last_id, NEW.expires_at)
            ON CONFLICT (group_id) DO UPDATE
           SET consumer = excluded.consumer, first_id = excluded.first_id,
               last_id = excluded.last_id, expires_at = excluded.expires_at,
               leased_at = clock_timestamp();
    ELSIF NEW.act IN ('commit', 'extend') THEN
        -- A lease that has expired and that nobody has taken is still good.
        IF lease.consumer IS DISTINCT FROM NEW.consumer
           AND NOT (NEW.act = 'commit' AND NEW.number = done) THEN
            RAISE EXCEPTION 'the consumer "%" of the group "%" has no lease any more',
                  left(NEW.consumer, 63), NEW.group_name
                  USING ERRCODE = 'ST804',
                        DETAIL = format('Entries up to %s have been dealt with.', done),
                        HINT = 'Poll again. Give a longer visibility_seconds, or extend the lease in time.';
        END IF;
        IF NEW.act = 'extend' THEN
            NEW.expires_at := clock_timestamp() + make_interval(secs => NEW.seconds);
            UPDATE pgtrickle.pgt_consumer_leases AS l SET expires_at = NEW.expires_at
             WHERE l.group_id = mine.group_id;
            RETURN NEW;
        END IF;
        IF NEW.number IS NULL OR NEW.number < done OR NEW.number > coalesce(lease.last_id, done) THEN
            RAISE EXCEPTION 'the consumer "%" cannot commit entry %: it has % to %',
                  left(NEW.consumer, 63), NEW.number, done + 1, coalesce(lease.last_id, done)
                  USING ERRCODE = 'ST804', HINT = 'Commit the last entry that it has dealt with.';
        END IF;
        UPDATE pgtrickle.pgt_consumer_offsets AS o
           SET committed_id = NEW.number, committed_at = clock_timestamp()
         WHERE o.group_id = mine.group_id;
        DELETE FROM pgtrickle.pgt_consumer_leases AS l
         WHERE l.group_id = mine.group_id AND l.last_id <= NEW.number;
        UPDATE pgtrickle.pgt_consumer_leases AS l SET first_id = NEW.number + 1
         WHERE l.group_id = mine.group_id;
    ELSIF NEW.act = 'seek' THEN
        SELECT c.last_id, pgtrickle.first_outbox_id(c.pgt_id) AS first_id INTO outbox
          FROM pgtrickle.pgt_outbox_config AS c WHERE c.pgt_id = mine.pgt_id;
        IF NEW.number IS NULL OR NEW.number NOT BETWEEN outbox.first_id - 1 AND outbox.last_id THEN
            RAISE EXCEPTION 'the group "%" cannot go on after entry %: the outbox has % to %',
                  NEW.group_name, NEW.number, outbox.first_id, outbox.last_id
                  USING ERRCODE = 'ST802', HINT = 'Give the entry after which it is to go on.';
        END IF;
        UPDATE pgtrickle.pgt_consumer_offsets AS o
           SET committed_id = NEW.number, committed_at = clock_timestamp()
         WHERE o.group_id = mine.group_id;
        DELETE FROM pgtrickle.pgt_consumer_leases AS l WHERE l.group_id = mine.group_id;
    ELSIF NEW.act = 'drop' THEN
        DELETE FROM pgtrickle.pgt_consumer_groups AS g WHERE g.group_id = mine.group_id;
    ELSIF NEW.act IS DISTINCT FROM 'heartbeat' THEN
        RAISE EXCEPTION 'there is no act "%"', left(NEW.act, 63)
              USING ERRCODE = 'ST605', HINT = 'Call the functions of the schema pgtrickle.';
    END IF;
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION pgtrickle.perform_consumer_act() IS
    'Do what was inserted into pgtrickle.consumer_acts, if the role that inserted it may.';

DROP TRIGGER IF EXISTS perform_consumer_act ON pgtrickle.consumer_acts;
CREATE TRIGGER perform_consumer_act INSTEAD OF INSERT ON pgtrickle.consumer_acts
    FOR EACH ROW EXECUTE FUNCTION pgtrickle.perform_consumer_act();

CREATE OR REPLACE FUNCTION pgtrickle.create_consumer_group(
    name text, outbox text, auto_offset_reset text DEFAULT 'latest',
    schemas name[] DEFAULT current_schemas(false))
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO pgtrickle.consumer_acts (act, group_name, stream_table, word)
    VALUES ('create', $1, pgtrickle.check_outbox($2, $4), $3)
$$;

COMMENT ON FUNCTION pgtrickle.create_consumer_group(text, text, text, name[]) IS
    'Create a group of consumers of an outbox, which begins after its latest entry or with its earliest.';

CREATE OR REPLACE FUNCTION pgtrickle.drop_consumer_group(name text, if_exists boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO pgtrickle.consumer_acts (act, group_name, word)
    VALUES ('drop', drop_consumer_group.name,
            CASE WHEN drop_consumer_group.if_exists THEN 'if exists' END);
    RETURN FOUND;
END
$$;

COMMENT ON FUNCTION pgtrickle.drop_consumer_group(text, boolean) IS
    'Drop a consumer group; the outbox keeps nothing for it any more.';

CREATE OR REPLACE FUNCTION pgtrickle.poll_outbox(
    group_name text, consumer text, batch integer DEFAULT 100,
    visibility_seconds double precision DEFAULT 30)
RETURNS TABLE (outbox_id bigint, refresh_id bigint, action text, reset boolean, frontier jsonb,
               data_timestamp timestamptz, created_at timestamptz, schema_version integer,
               inserted bigint, updated bigint, deleted bigint, changes jsonb,
               lease_expires_at timestamptz)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    lease record;
BEGIN
    INSERT INTO pgtrickle.consumer_acts AS a (act, group_name, consumer, number, seconds)
    VALUES ('poll', poll_outbox.group_name, poll_outbox.consumer, poll_outbox.batch,
            poll_outbox.visibility_seconds)
    RETURNING a.stream_table, a.first_id, a.last_id, a.expires_at INTO lease;
    IF lease.first_id IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT e.outbox_id, e.refresh_id, e.action, e.reset, e.frontier, e.data_timestamp, e.created_at,
           e.schema_version, e.inserted, e.updated, e.deleted, e.changes, lease.expires_at
      FROM pgtrickle.pgt_outbox_entries AS e
     WHERE e.pgt_id = lease.stream_table
       AND e.outbox_id BETWEEN lease.first_id AND lease.last_id
     ORDER BY e.outbox_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the role % may not read every row of the stream table any more', current_user
              USING ERRCODE = 'ST303', HINT = 'GRANT SELECT on it to the role.';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.poll_outbox(text, text, integer, double precision) IS
    'The next entries of a group, leased to one of its consumers; none while another one has them.';

CREATE OR REPLACE FUNCTION pgtrickle.commit_offset(group_name text, consumer text, outbox_id bigint)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO pgtrickle.consumer_acts (act, group_name, consumer, number)
    VALUES ('commit', $1, $2, $3)
$$;

COMMENT ON FUNCTION pgtrickle.commit_offset(text, text, bigint) IS
    'Say that a consumer has dealt with all entries up to one; nobody in its group gets them again.';

CREATE OR REPLACE FUNCTION pgtrickle.extend_lease(
    group_name text, consumer text, seconds double precision DEFAULT 30)
RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    expires timestamptz;
BEGIN
    INSERT INTO pgtrickle.consumer_acts AS a (act, group_name, consumer, seconds)
    VALUES ('extend', extend_lease.group_name, extend_lease.consumer, extend_lease.seconds)
    RETURNING a.expires_at INTO expires;
    RETURN expires;
END
$$;

COMMENT ON FUNCTION pgtrickle.extend_lease(text, text, double precision) IS
    'Keep the entries that a consumer has for so many seconds from now.';

CREATE OR REPLACE FUNCTION pgtrickle.seek_offset(group_name text, outbox_id bigint)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO pgtrickle.consumer_acts (act, group_name, number) VALUES ('seek', $1, $2)
$$;

COMMENT ON FUNCTION pgtrickle.seek_offset(text, bigint) IS
    'Let a group go on after an entry, earlier or later; whoever has a lease loses it.';

CREATE OR REPLACE FUNCTION pgtrickle.consumer_heartbeat(group_name text, consumer text)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO pgtrickle.consumer_acts (act, group_name, consumer) VALUES ('heartbeat', $1, $2)
$$;

COMMENT ON FUNCTION pgtrickle.consumer_heartbeat(text, text) IS
    'Say that a consumer lives, as its polls and commits do, too.';

CREATE OR REPLACE FUNCTION pgtrickle.consumer_lag(group_name text DEFAULT NULL)
RETURNS TABLE (group_name text, stream_table text, committed_id bigint, last_id bigint,
               lag_entries bigint, lag_changes bigint, lag_seconds double precision,
               leased_to text, lease_expires_at timestamptz, consumers bigint,
               heartbeat_at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT g.group_name, format('%I.%I', s.pgt_schema, s.pgt_name), o.committed_id, c.last_id,
           c.last_id - o.committed_id, coalesce(e.changes, 0),
           coalesce(extract(epoch FROM clock_timestamp() - e.oldest_at), 0)::double precision,
           l.consumer, l.expires_at, n.consumers, n.heartbeat_at
      FROM pgtrickle.pgt_consumer_groups AS g
      JOIN pgtrickle.pgt_consumer_offsets AS o USING (group_id)
      JOIN pgtrickle.pgt_outbox_config AS c USING (pgt_id)
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
      LEFT JOIN pgtrickle.pgt_consumer_leases AS l
             ON l.group_id = g.group_id AND l.expires_at > clock_timestamp()
     CROSS JOIN LATERAL (
               SELECT sum(x.inserted + x.updated + x.deleted)::bigint AS changes,
                      min(x.created_at) AS oldest_at
                 FROM pgtrickle.pgt_outbox_entries AS x
                WHERE x.pgt_id = g.pgt_id AND x.outbox_id > o.committed_id) AS e
     CROSS JOIN LATERAL (
               SELECT count(*) AS consumers, max(x.heartbeat_at) AS heartbeat_at
                 FROM pgtrickle.pgt_consumers AS x WHERE x.group_id = g.group_id) AS n
     WHERE $1 IS NULL OR g.group_name = $1
     ORDER BY g.group_name
$$;

COMMENT ON FUNCTION pgtrickle.consumer_lag(text) IS
    'How far your consumer groups are behind: entries, changes, and the age of the oldest.';
