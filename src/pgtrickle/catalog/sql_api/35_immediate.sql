-- What the triggers of stream tables with refresh_mode IMMEDIATE share

CREATE OR REPLACE FUNCTION pgtrickle.take_turns(stream_table bigint, slots integer[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own   CONSTANT xid8 := pg_current_xact_id();
    wanted integer[] := slots;
BEGIN
    -- Who has the turn keeps it until the commit.
    IF cardinality(wanted) > 1 THEN
        -- In one order, so that two writers cannot wait for each other.
        wanted := ARRAY(
            SELECT t.slot FROM pgtrickle.pgt_immediate_turns AS t
             WHERE t.pgt_id = stream_table AND t.slot = ANY (slots) AND t.xid IS DISTINCT FROM own);
        PERFORM FROM pgtrickle.pgt_immediate_turns AS t
          WHERE t.pgt_id = stream_table AND t.slot = ANY (wanted)
          ORDER BY t.slot FOR NO KEY UPDATE;
    END IF;
    UPDATE pgtrickle.pgt_immediate_turns AS t SET xid = own
     WHERE t.pgt_id = stream_table AND t.slot = ANY (wanted) AND t.xid IS DISTINCT FROM own;
END
$$;

COMMENT ON FUNCTION pgtrickle.take_turns(bigint, integer[]) IS
    'Wait until no other transaction changes these groups of a stream table, or the whole of it.';

CREATE OR REPLACE FUNCTION pgtrickle.is_immediate_ready(stream_table bigint, locked oid)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found boolean;
BEGIN
    -- Whoever says that it is not ready waits for this lock.  Who has a turn needs none.
    IF locked <> 0 THEN
        IF NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = locked) THEN
            RETURN false;
        END IF;
        EXECUTE format('LOCK TABLE ONLY %s IN ROW EXCLUSIVE MODE', locked::regclass);
    END IF;
    IF current_setting('transaction_isolation') = 'read committed' THEN
        SELECT i.ready INTO found FROM pgtrickle.pgt_immediate AS i WHERE i.pgt_id = stream_table;
    ELSE
        -- What the snapshot shows may be over: to lock the row fails if it is.
        SELECT i.ready INTO found FROM pgtrickle.pgt_immediate AS i WHERE i.pgt_id = stream_table
           FOR KEY SHARE;
    END IF;
    RETURN coalesce(found, false);
END
$$;

COMMENT ON FUNCTION pgtrickle.is_immediate_ready(bigint, oid) IS
    'Whether writers keep a stream table up to date.';

CREATE OR REPLACE FUNCTION pgtrickle.begin_write(stream_table bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pgtrickle.take_turns(stream_table, '{0}');
    IF NOT pgtrickle.is_immediate_ready(stream_table, 0) THEN
        RETURN false;
    END IF;
    INSERT INTO pgtrickle.pgt_immediate_open AS o (pgt_id, xid, started, ended)
    VALUES (stream_table, pg_current_xact_id(), 1, 0)
        ON CONFLICT (pgt_id, xid) DO UPDATE SET started = o.started + 1;
    RETURN true;
END
$$;

COMMENT ON FUNCTION pgtrickle.begin_write(bigint) IS
    'Note that a statement begins to write a source of a stream table that has several.';

CREATE OR REPLACE FUNCTION pgtrickle.end_write(stream_table bigint)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    number integer;
BEGIN
    DELETE FROM pgtrickle.pgt_immediate_open AS o
     WHERE o.pgt_id = stream_table AND o.xid = pg_current_xact_id() AND o.started = o.ended + 1
    RETURNING o.started INTO number;
    IF number IS NULL THEN
        UPDATE pgtrickle.pgt_immediate_open AS o SET ended = o.ended + 1
         WHERE o.pgt_id = stream_table AND o.xid = pg_current_xact_id();
    END IF;
    RETURN coalesce(number, 0);
END
$$;

COMMENT ON FUNCTION pgtrickle.end_write(bigint) IS
    'Note that a statement has written a source; returns how many it wrote if this was the last, else 0.';

CREATE OR REPLACE FUNCTION pgtrickle.describe_immediate_source(relation oid, columns text[])
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- In PL/pgSQL, whose plans last as long as the session: writers ask at each statement.
    RETURN (
        SELECT format('%I.%I %s %s %s %s', n.nspname, c.relname,
                      has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE'),
                      c.relrowsecurity AND row_security_active(c.oid),
                      (SELECT string_agg(concat_ws(':', a.attname, a.atttypid, a.atttypmod,
                                                   a.attcollation), ',' ORDER BY a.attname)
                         FROM pg_attribute AS a
                        WHERE a.attrelid = c.oid AND a.attname = ANY (columns) AND a.attnum > 0
                          AND NOT a.attisdropped),
                      CASE WHEN c.relhassubclass
                           THEN (SELECT string_agg(member::text, ',')
                                   FROM pgtrickle.list_members(c.oid) AS member) END)
          FROM pg_class AS c
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE c.oid = relation);
END
$$;

COMMENT ON FUNCTION pgtrickle.describe_immediate_source(oid, text[]) IS
    'What the functions of an IMMEDIATE stream table take for granted of a source.';

CREATE OR REPLACE FUNCTION pgtrickle.find_misfit(stream_table bigint)
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (
        SELECT format('%s is not as it was', s.source_relid::regclass)
          FROM pgtrickle.pgt_immediate_sources AS s
         WHERE s.pgt_id = stream_table
           AND s.shape IS DISTINCT FROM
               pgtrickle.describe_immediate_source(s.source_relid, s.columns)
         UNION ALL
        SELECT 'a function that its query calls is gone'
          FROM pgtrickle.pgt_stream_tables AS s,
               jsonb_object_keys(s.function_hashes) AS f (number)
         WHERE s.pgt_id = stream_table
           AND NOT EXISTS (SELECT FROM pg_proc AS p WHERE p.oid = f.number::oid)
         LIMIT 1);
END
$$;

COMMENT ON FUNCTION pgtrickle.find_misfit(bigint) IS
    'Why the functions of an IMMEDIATE stream table cannot follow a change; NULL if they can.';

CREATE OR REPLACE FUNCTION pgtrickle.defer_immediate(stream_table bigint, reason text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    relation regclass;
BEGIN
    SELECT s.pgt_relid::regclass INTO relation
      FROM pgtrickle.pgt_stream_tables AS s WHERE s.pgt_id = stream_table;
    -- Others may be following a change of theirs now.
    IF EXISTS (SELECT FROM pg_class AS c WHERE c.oid = relation) THEN
        EXECUTE format('LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE', relation);
    END IF;
    UPDATE pgtrickle.pgt_immediate AS i
       SET ready = false, reason = defer_immediate.reason, noted_at = clock_timestamp()
     WHERE i.pgt_id = stream_table AND i.ready;
    IF FOUND THEN
        DELETE FROM pgtrickle.pgt_immediate_open AS o
         WHERE o.pgt_id = stream_table AND o.xid = pg_current_xact_id();
        RAISE WARNING 'the stream table "%" is not up to date until it is refreshed', relation
              USING DETAIL = reason, HINT = format('Run: pgtrickle refresh %s', relation);
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.defer_immediate(bigint, text) IS
    'Let no writer follow its changes any more: the next refresh computes the stream table anew.';

CREATE OR REPLACE FUNCTION pgtrickle.refuse_or_defer(stream_table bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one record;
BEGIN
    SELECT i.max_rows, i.excess, s.pgt_relid::regclass AS relation INTO one
      FROM pgtrickle.pgt_immediate AS i JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE i.pgt_id = stream_table;
    IF one.excess = 'error' THEN
        RAISE EXCEPTION 'the statement changes more than % rows, which the stream table "%" may not follow',
                        one.max_rows, one.relation
              USING ERRCODE = 'ST420',
                    HINT = 'Write fewer rows at once, raise the setting immediate_max_delta_rows, or set'
                           ' immediate_excess to defer; then refresh the stream table.';
    END IF;
    PERFORM pgtrickle.defer_immediate(
        stream_table, format('a statement changed more than immediate_max_delta_rows = %s rows',
                             one.max_rows));
END
$$;

COMMENT ON FUNCTION pgtrickle.refuse_or_defer(bigint) IS
    'What becomes of a statement that changes too many rows: an error, or a refresh later.';

-- Transactions that were rolled back have counted, too.
CREATE OR REPLACE FUNCTION pgtrickle.immediate_status()
RETURNS TABLE (name text, ready boolean, reason text, lock_mode text, lock_reason text,
               statements bigint, rows_inserted bigint, rows_deleted bigint)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), i.ready AND m.misfit IS NULL,
           CASE WHEN i.ready THEN m.misfit ELSE i.reason END, i.lock_mode, i.lock_reason,
           coalesce(pg_sequence_last_value(
                        to_regclass(format('pgtrickle_state.st_%s_statements', i.pgt_id))) + 1, 0),
           pg_stat_get_tuples_inserted(s.pgt_relid), pg_stat_get_tuples_deleted(s.pgt_relid)
      FROM pgtrickle.pgt_immediate AS i
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     CROSS JOIN LATERAL pgtrickle.find_misfit(i.pgt_id) AS m (misfit)
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.immediate_status() IS
    'The IMMEDIATE stream tables: whether writers maintain them now, how they lock, and what they wrote.';
