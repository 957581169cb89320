-- 0041 · pre · let no writer fail because of capture, and no refresh because nobody listens
--
-- Why:   NOTIFY fails while its queue is full; noting a gap failed or disturbed serializable writers.
-- Reads: an earlier version notes gaps as before and notifies without asking.
-- Locks: ACCESS EXCLUSIVE on pgt_capture_gaps, briefly.
-- Undo:  DROP the new functions and the index; restore note_gap, note_crashes (0013), tell_pending (0023).

-- Nothing is read and nothing else is locked when a writer notes a gap.  A gap of a source that is
-- followed no longer concerns nobody, and is deleted with its record.
ALTER TABLE pgtrickle.pgt_capture_gaps DROP CONSTRAINT pgt_capture_gaps_source_relid_fkey;

DELETE FROM pgtrickle.pgt_capture_gaps AS g
 USING pgtrickle.pgt_capture_gaps AS other
 WHERE g.source_relid = other.source_relid AND g.xid = other.xid
   AND g.pgt_id IS NULL AND other.pgt_id IS NULL AND g.ctid > other.ctid;

CREATE UNIQUE INDEX pgt_capture_gaps_once ON pgtrickle.pgt_capture_gaps (source_relid, xid)
    WHERE pgt_id IS NULL;

CREATE OR REPLACE FUNCTION pgtrickle.note_gap(relation oid, reason text)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, reason) VALUES (relation, reason)
        ON CONFLICT DO NOTHING
$$;

CREATE OR REPLACE FUNCTION pgtrickle.note_crashes()
RETURNS SETOF oid
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH noticed AS (
        INSERT INTO pgtrickle.pgt_unlogged_buffers
        SELECT t.source_relid FROM pgtrickle.pgt_change_tracking AS t
         WHERE t.durability = 'unlogged'
           AND t.source_relid NOT IN (SELECT u.source_relid FROM pgtrickle.pgt_unlogged_buffers AS u)
            ON CONFLICT DO NOTHING
        RETURNING source_relid
    ), noted AS (
        INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, reason)
        SELECT n.source_relid, 'a crash emptied its buffer' FROM noticed AS n
            ON CONFLICT DO NOTHING
    )
    SELECT n.source_relid FROM noticed AS n
$$;

CREATE FUNCTION pgtrickle.forget_gaps()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM pgtrickle.pgt_capture_gaps AS g WHERE g.source_relid = OLD.source_relid;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.forget_gaps() IS
    'Delete the gaps of a source together with the record of its capture.';

CREATE TRIGGER forget_gaps AFTER DELETE ON pgtrickle.pgt_change_tracking
    FOR EACH ROW EXECUTE FUNCTION pgtrickle.forget_gaps();

-- The queue of notifications is one for the whole server.  It is emptied by those who listen, and
-- one that listens in an open transaction lets it grow to its limit; then every transaction fails
-- that has something to say.  So nothing is said from the half on: what fails is ours alone.
CREATE FUNCTION pgtrickle.may_notify()
RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT pg_notification_queue_usage() < 0.5 $$;

COMMENT ON FUNCTION pgtrickle.may_notify() IS
    'Whether the queue of notifications has room enough for those that can be done without.';

CREATE FUNCTION pgtrickle.notify(channel text, payload text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT pgtrickle.may_notify() THEN
        RAISE LOG 'pgtrickle: the queue of notifications is filling up, not told to %: %',
                  channel, payload;
        RETURN false;
    END IF;
    PERFORM pg_notify(channel, payload);
    RETURN true;
END
$$;

COMMENT ON FUNCTION pgtrickle.notify(text, text) IS
    'Notify while the queue has room; tell whether it had, and write to the server''s log if not.';

-- What cannot be told now stays pending.
CREATE OR REPLACE FUNCTION pgtrickle.tell_pending(stream_table bigint, coalesce_ms integer)
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
$$;

REVOKE ALL ON FUNCTION pgtrickle.forget_gaps(), pgtrickle.may_notify(),
    pgtrickle.notify(text, text) FROM PUBLIC;

-- The next refresh writes the capture functions anew.
UPDATE pgtrickle.pgt_change_tracking SET layout = NULL;
