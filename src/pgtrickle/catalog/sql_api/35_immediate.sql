-- What the triggers of stream tables with refresh_mode IMMEDIATE share

-- Writers ask it in a query of their own by now.
DROP FUNCTION IF EXISTS pgtrickle.stamp_immediate(bigint);

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

-- Triggers of others may tell a row that is updated from one that is deleted and one that is inserted.
-- The caller holds a lock against new ones; one that is newer than a snapshot would not be seen.
CREATE OR REPLACE FUNCTION pgtrickle.changes_in_place(relation oid)
RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN current_setting('transaction_isolation') = 'read committed'
       AND EXISTS (SELECT FROM pg_class AS c
                    WHERE c.oid = relation AND NOT c.relhasrules AND NOT c.relrowsecurity)
       AND NOT EXISTS (SELECT FROM pg_trigger AS t
                        WHERE t.tgrelid = relation AND t.tgenabled <> 'D'
                          AND (t.tgqual IS NOT NULL
                               OR t.tgfoid <> 'pgtrickle.refuse_write()'::regprocedure));
END
$$;

COMMENT ON FUNCTION pgtrickle.changes_in_place(oid) IS
    'Whether nobody but the guard of a stream table can see how a row becomes another.';

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

CREATE OR REPLACE FUNCTION pgtrickle.describe_immediate_shape(relation oid, columns text[])
RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- In PL/pgSQL, whose plans last as long as the session: writers ask at each statement.  Names are
    -- not quoted: how they would be, the writer's settings decide.
    RETURN (
        SELECT ARRAY[CASE WHEN a.types IS NULL THEN '' ELSE pgtrickle.describe_types(a.types) END,
                     concat_ws(' ', length(n.nspname), n.nspname, c.relname, c.relowner,
                               has_table_privilege(c.oid, 'SELECT')
                               AND has_schema_privilege(n.oid, 'USAGE'),
                               c.relrowsecurity AND row_security_active(c.oid), a.columns,
                               CASE WHEN c.relhassubclass
                                    THEN (SELECT string_agg(member::text, ',')
                                            FROM pgtrickle.list_members(c.oid) AS member) END),
                     a.versions]
          FROM pg_class AS c
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
         CROSS JOIN LATERAL (
                   SELECT coalesce(string_agg(concat_ws(':', a.attname, a.atttypid, a.atttypmod,
                                                        a.attcollation), ',' ORDER BY a.attname), ''),
                          coalesce(string_agg(a.xmin::text, ' ' ORDER BY a.attname), ''),
                          array_agg(a.atttypid) FILTER (WHERE a.atttypid >= 16384)
                     FROM pg_attribute AS a
                    WHERE a.attrelid = c.oid AND a.attname = ANY (columns) AND a.attnum > 0
                      AND NOT a.attisdropped) AS a (columns, versions, types)
         WHERE c.oid = relation);
END
$$;

COMMENT ON FUNCTION pgtrickle.describe_immediate_shape(oid, text[]) IS
    'What the functions of an IMMEDIATE stream table take for granted of a source: types that are not'
    ' built in, everything else, and the versions of its columns.';

-- ALTER TABLE ... USING writes other values into the rows, and no trigger fires for that.  It changes
-- columns and files.  TRUNCATE and VACUUM FULL change files alone, defaults and NOT NULL columns alone.
CREATE OR REPLACE FUNCTION pgtrickle.is_reshaped(relation oid, columns text[], known text)
RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    was text[];
    now text[];
BEGIN
    IF NOT starts_with(known, '{') THEN
        RETURN true;  -- recorded by an earlier version
    END IF;
    was := known::text[];
    now := pgtrickle.describe_immediate_shape(relation, columns);
    RETURN was[1] IS DISTINCT FROM now[1] OR was[2] IS DISTINCT FROM now[2]
           OR (was[3] IS DISTINCT FROM now[3]
               AND was[4] IS DISTINCT FROM pgtrickle.describe_files(relation));
END
$$;

COMMENT ON FUNCTION pgtrickle.is_reshaped(oid, text[], text) IS
    'Whether a source is another than the one that was recorded, or its rows were written anew.';

-- The functions are parsed in the session of each writer: a type's owner may have made a cast since.
CREATE OR REPLACE FUNCTION pgtrickle.find_foreign_cast(stream_table bigint)
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    types oid[];
BEGIN
    types := ARRAY(
        SELECT (o.value ->> 'oid')::oid
          FROM pgtrickle.pgt_stream_tables AS s,
               jsonb_array_elements(s.bound -> 'objects') AS o
         WHERE s.pgt_id = stream_table AND o.value ->> 'class' = 'type'
         UNION
        SELECT a.atttypid
          FROM pgtrickle.pgt_immediate_sources AS i
          JOIN pg_attribute AS a ON a.attrelid = i.source_relid AND a.attname = ANY (i.columns)
         WHERE i.pgt_id = stream_table AND a.attnum > 0 AND a.atttypid >= 16384);
    IF types = '{}' THEN
        RETURN NULL;
    END IF;
    RETURN (
        WITH RECURSIVE mine (oid) AS (
            SELECT r.oid FROM pg_roles AS r WHERE r.rolname = current_user
             UNION
            SELECT m.roleid FROM pg_auth_members AS m JOIN mine ON m.member = mine.oid
        ), trusted (oid) AS (
            SELECT oid FROM mine
             UNION ALL
            SELECT oid FROM pg_roles WHERE rolsuper
             UNION ALL
            SELECT nspowner FROM pg_namespace WHERE nspname = 'pgtrickle'
        ), used (oid, owner) AS (
            SELECT u.oid, t.typowner
              FROM pg_type AS t
             CROSS JOIN LATERAL unnest(ARRAY[t.oid, t.typarray, t.typelem]) AS u (oid)
             WHERE t.oid = ANY (types) AND u.oid <> 0
        )
        SELECT format('the type %s has a cast of a role that is not trusted', format_type(u.oid, NULL))
          FROM used AS u
          JOIN pg_cast AS k ON k.castsource = u.oid OR k.casttarget = u.oid
          JOIN pg_proc AS p ON p.oid = k.castfunc
         WHERE p.proowner NOT IN (SELECT oid FROM trusted)
         UNION ALL
        -- Casts that are newer than the snapshot are not seen, and used.
        SELECT format('the type %s is of a role that is not trusted, and the transaction keeps to a'
                      ' snapshot', format_type(u.oid, NULL))
          FROM used AS u
         WHERE current_setting('transaction_isolation') <> 'read committed'
           AND u.owner NOT IN (SELECT oid FROM trusted)
         LIMIT 1);
END
$$;

COMMENT ON FUNCTION pgtrickle.find_foreign_cast(bigint) IS
    'Which type in the query of an IMMEDIATE stream table has a cast that would run code of others.';

-- PostgreSQL prints each argument with its type, so only a function whose declaration leaves the types
-- open has rivals that fit better.
CREATE OR REPLACE FUNCTION pgtrickle.find_unseen_rival(stream_table bigint)
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        RETURN NULL;
    END IF;
    -- Names are looked up in the present, not in the snapshot: NULL if there are several.
    RETURN (
        SELECT format('%s has other forms, and the transaction keeps to a snapshot', o.name)
          FROM pgtrickle.pgt_stream_tables AS s,
               jsonb_to_recordset(s.bound -> 'objects') AS o (class text, oid oid, name text)
          LEFT JOIN pg_proc AS p ON o.class = 'function' AND p.oid = o.oid
          LEFT JOIN pg_operator AS x ON o.class = 'operator' AND x.oid = o.oid
          JOIN pg_namespace AS n ON n.oid = coalesce(p.pronamespace, x.oprnamespace)
         WHERE s.pgt_id = stream_table
           AND EXISTS (SELECT FROM pg_type AS t
                        WHERE t.typtype = 'p'
                          AND (t.oid = ANY (p.proargtypes) OR t.oid IN (x.oprleft, x.oprright)))
           AND CASE WHEN p.oid IS NOT NULL
                    THEN to_regproc(format('%I.%I', n.nspname, p.proname))::oid
                    ELSE to_regoper(format('%I.%s', n.nspname, x.oprname))::oid END IS NULL
         LIMIT 1);
END
$$;

COMMENT ON FUNCTION pgtrickle.find_unseen_rival(bigint) IS
    'Which function or operator of an IMMEDIATE stream table may be hidden by one that is newer than'
    ' the snapshot.';

CREATE OR REPLACE FUNCTION pgtrickle.find_misfit(stream_table bigint)
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    misfit text;
    typed  boolean;
    ours   boolean;
BEGIN
    SELECT min(format('%s is not as it was', s.source_relid::regclass))
               FILTER (WHERE pgtrickle.is_reshaped(s.source_relid, s.columns, s.shape)),
           bool_or(NOT starts_with(s.shape, '{"",'))
      INTO misfit, typed
      FROM pgtrickle.pgt_immediate_sources AS s WHERE s.pgt_id = stream_table;
    IF misfit IS NOT NULL THEN
        RETURN misfit;
    END IF;
    -- Most queries name nothing but tables and what comes with PostgreSQL, which nobody replaces.
    SELECT s.function_hashes = '{}'
           AND NOT s.bound @? '$.objects[*] ? (@.class != "relation")' AND NOT s.bound ? 'again'
      INTO ours
      FROM pgtrickle.pgt_stream_tables AS s WHERE s.pgt_id = stream_table;
    IF ours AND NOT typed THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT 'a function that its query calls was replaced, or is gone'
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.pgt_id = stream_table AND s.function_hashes <> '{}'
           AND s.function_hashes <> pgtrickle.hash_functions(s.function_hashes)
         UNION ALL
        SELECT coalesce(change, 'a name in its query has other meanings by now')
          FROM pgtrickle.list_disturbances(stream_table::integer) AS change
         UNION ALL
        SELECT why FROM pgtrickle.find_foreign_cast(stream_table) AS why WHERE why IS NOT NULL
         UNION ALL
        SELECT why FROM pgtrickle.find_unseen_rival(stream_table) AS why WHERE why IS NOT NULL
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

CREATE OR REPLACE FUNCTION pgtrickle.may_follow(stream_table bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found  boolean;
    misfit text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- What the snapshot shows may be over: to lock the row fails if it is.
        PERFORM FROM pgtrickle.pgt_immediate AS i WHERE i.pgt_id = stream_table FOR KEY SHARE;
    END IF;
    SELECT i.ready INTO found FROM pgtrickle.pgt_immediate AS i WHERE i.pgt_id = stream_table;
    IF found IS NOT TRUE THEN
        RETURN false;
    END IF;
    IF lower(current_setting('pg_trickle.enabled', true)) IN ('off', 'false', 'no', '0') THEN
        misfit := 'pg_trickle.enabled was off';
    ELSE
        misfit := pgtrickle.find_misfit(stream_table);
    END IF;
    IF misfit IS NULL THEN
        RETURN true;
    END IF;
    PERFORM pgtrickle.defer_immediate(stream_table, misfit);
    RETURN false;
END
$$;

COMMENT ON FUNCTION pgtrickle.may_follow(bigint) IS
    'Whether writers keep a stream table up to date and its functions can follow a change; if these'
    ' cannot, it is not ready any more.';

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
SET quote_all_identifiers = off
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), i.ready AND m.misfit IS NULL,
           CASE WHEN i.ready THEN m.misfit ELSE i.reason END, i.lock_mode, i.lock_reason,
           coalesce(pg_sequence_last_value(
                        to_regclass(format('pgtrickle_state.st_%s_statements', i.pgt_id))) + 1, 0),
           pg_stat_get_tuples_inserted(s.pgt_relid) + pg_stat_get_tuples_updated(s.pgt_relid),
           pg_stat_get_tuples_deleted(s.pgt_relid) + pg_stat_get_tuples_updated(s.pgt_relid)
      FROM pgtrickle.pgt_immediate AS i
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     CROSS JOIN LATERAL pgtrickle.find_misfit(i.pgt_id) AS m (misfit)
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.immediate_status() IS
    'The IMMEDIATE stream tables: whether writers maintain them now, how they lock, and what they wrote.';
