-- 0042 · pre · believe no setting of a writer, and run no code of others while a refresh writes
--
-- Why:   a setting opened the guard to every writer; triggers of others ran with a refresh's rights.
-- Reads: an earlier version asks nobody for strange triggers; fingerprints of sources still fit.
-- Locks: none that last.
-- Undo:  DROP the new functions; restore refuse_write (0010), refuse_lake_write (0036) and the rest.

-- A setting is anybody's to make.  It opens the guard only for those who can act as the owner of the
-- table, who could as well disable the trigger.
CREATE OR REPLACE FUNCTION pgtrickle.refuse_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('pg_trickle.refreshing', true) IS DISTINCT FROM TG_RELID::text
       OR NOT EXISTS (SELECT FROM pg_class AS c
                       WHERE c.oid = TG_RELID AND pg_has_role(c.relowner, 'USAGE')) THEN
        RAISE EXCEPTION '"%.%" is a stream table: % is refused', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP
              USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Change its sources and refresh it, or drop it with: pgtrickle drop.';
    END IF;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION pgtrickle.refuse_lake_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('pg_trickle.refreshing', true) IS DISTINCT FROM TG_RELID::text
       OR NOT EXISTS (SELECT FROM pg_class AS c
                       WHERE c.oid = TG_RELID AND pg_has_role(c.relowner, 'USAGE')) THEN
        RAISE EXCEPTION '"%.%" holds the rows of a lake table: % is refused',
                        TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP
              USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Write to the table in the lake; its changes are followed.';
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION pgtrickle.trusts(relation oid, role oid)
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT role = c.relowner OR role = n.nspowner
           OR (SELECT r.rolsuper FROM pg_roles AS r WHERE r.oid = role)
           OR pg_has_role(role, current_user, 'MEMBER')
      FROM pg_class AS c, pg_namespace AS n
     WHERE c.oid = relation AND n.nspname = 'pgtrickle'
$$;

COMMENT ON FUNCTION pgtrickle.trusts(oid, oid) IS
    'Whether code of a role may run while a stream table is written: that of its owner, of the'
    ' catalog''s, of superusers, and of those who can act as the current role.';

-- Instead of the setting alone.  The lock keeps what is found here as it is until the commit; a
-- transaction that keeps to an older snapshot has to take it before that.
CREATE FUNCTION pgtrickle.open_guard(relation regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    strange text;
    remedy  text;
BEGIN
    EXECUTE format('LOCK TABLE ONLY %s IN ROW EXCLUSIVE MODE', relation);
    SELECT format('the trigger "%s" of a role that is not trusted', t.tgname),
           format('DROP TRIGGER %I ON %s', t.tgname, relation)
      INTO strange, remedy
      FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
     WHERE t.tgrelid = relation AND NOT t.tgisinternal AND t.tgenabled <> 'D'
       AND (NOT pgtrickle.trusts(relation, p.proowner)
            OR (t.tgqual IS NOT NULL AND EXISTS (
                    SELECT FROM pg_depend AS d
                      LEFT JOIN pg_proc AS f
                        ON d.refclassid = 'pg_proc'::regclass AND f.oid = d.refobjid
                      LEFT JOIN pg_operator AS o
                        ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
                     WHERE d.classid = 'pg_trigger'::regclass AND d.objid = t.oid
                       AND NOT pgtrickle.trusts(relation, coalesce(f.proowner, o.oprowner)))))
     ORDER BY t.tgname LIMIT 1;
    IF strange IS NULL THEN
        -- Whoever made it: what is written must be what was computed.
        SELECT format('the trigger "%s", which can change rows before they are written', t.tgname),
               format('DROP TRIGGER %I ON %s', t.tgname, relation)
          INTO strange, remedy
          FROM pg_trigger AS t
         WHERE t.tgrelid = relation AND NOT t.tgisinternal AND t.tgenabled <> 'D'
           AND t.tgtype & 3 = 3
         ORDER BY t.tgname LIMIT 1;
    END IF;
    IF strange IS NULL THEN
        SELECT format('the rule "%s"', r.rulename), format('DROP RULE %I ON %s', r.rulename, relation)
          INTO strange, remedy
          FROM pg_rewrite AS r WHERE r.ev_class = relation
         ORDER BY r.rulename LIMIT 1;
    END IF;
    IF strange IS NULL AND row_security_active(relation) THEN
        strange := format('row security that hides rows from "%s"', current_user);
        remedy := format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', relation);
    END IF;
    IF strange IS NOT NULL THEN
        RAISE EXCEPTION 'the stream table "%" has %', relation, strange
              USING ERRCODE = 'ST309',
                    HINT = format('Look at it, then run: %s;', remedy);
    END IF;
    PERFORM set_config('pg_trickle.refreshing', relation::oid::text, true);
END
$$;

COMMENT ON FUNCTION pgtrickle.open_guard(regclass) IS
    'Let this transaction write to a stream table, unless code of others would run or rows are hidden.';

REVOKE ALL ON FUNCTION pgtrickle.trusts(oid, oid), pgtrickle.open_guard(regclass) FROM PUBLIC;

-- As in 0009, and whether a crash would empty a source.
CREATE OR REPLACE FUNCTION pgtrickle.describe_source(relation oid, columns_used text[])
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    source     pg_class%ROWTYPE;
    columns    text;
    types      oid[];
    found_text text;
    described  text;
BEGIN
    SELECT c.* INTO source FROM pg_class AS c WHERE c.oid = relation;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF source.relkind = 'v' THEN
        SELECT 'definition=' || md5(v.ev_action::text) INTO described
          FROM pg_rewrite AS v WHERE v.ev_class = relation AND v.rulename = '_RETURN';
        RETURN described;
    END IF;
    -- NOT NULL and defaults are left out on purpose: they do not change what a stored row means.
    SELECT string_agg(concat_ws(' ', a.attnum, quote_ident(a.attname), a.atttypid, a.atttypmod,
                                a.attcollation), ',' ORDER BY a.attnum),
           array_agg(a.atttypid) FILTER (WHERE a.atttypid >= 16384)
      INTO columns, types
      FROM pg_attribute AS a
     WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
       AND a.attname = ANY (columns_used);
    described := 'columns=' || md5(coalesce(columns, ''));
    IF types IS NOT NULL THEN
        described := described || ' types=' || pgtrickle.describe_types(types);
    END IF;
    IF source.relrowsecurity THEN
        SELECT md5(string_agg(concat_ws(chr(1), p.polname, p.polcmd, p.polpermissive, p.polroles,
                                        p.polqual, p.polwithcheck), chr(2) ORDER BY p.oid))
          INTO found_text FROM pg_policy AS p WHERE p.polrelid = relation;
        described := described || ' policies=' || source.relforcerowsecurity
                     || coalesce(found_text, '');
    END IF;
    IF source.relhassubclass OR source.relispartition THEN
        SELECT md5(string_agg(member::text, ',' ORDER BY member)) INTO found_text
          FROM pgtrickle.list_members(relation) AS member;
        described := described || ' partitions=' || found_text;
    END IF;
    IF source.relpersistence = 'u' OR (source.relhassubclass AND EXISTS (
           SELECT FROM pgtrickle.list_members(relation) AS member
             JOIN pg_class AS c ON c.oid = member AND c.relpersistence = 'u')) THEN
        described := described || ' unlogged=yes';
    END IF;
    IF EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = relation AND NOT i.inhdetachpending)
    THEN
        described := described || ' parent=yes';
    END IF;
    IF EXISTS (SELECT FROM pgtrickle.list_members(relation) AS member
                 JOIN pg_subscription_rel AS s ON s.srrelid = member) THEN
        described := described || ' replication=yes';
    END IF;
    RETURN described;
END
$$;

-- As in 0029, but a full queue of notifications does not make the command fail that is watched.
CREATE OR REPLACE FUNCTION pgtrickle.watch_ddl()
RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    block     boolean := coalesce(current_setting('pg_trickle.block_source_ddl', true), '')
                         IN ('on', 'true', 'yes', '1');
    relations oid[];
    other     boolean;
    one       record;
    blocked   record;
BEGIN
    BEGIN
        IF TG_EVENT = 'ddl_command_end' THEN
            SELECT array_agg(objid), bool_or(classid <> 'pg_class'::regclass)
              INTO relations, other FROM pg_event_trigger_ddl_commands()
             WHERE coalesce(schema_name, '') NOT IN
                   ('pg_temp', 'pgtrickle', 'pgtrickle_changes', 'pgtrickle_state');
        ELSE
            SELECT array_agg(objid),
                   bool_or(original AND object_type IN ('function', 'type', 'domain', 'policy',
                           'domain constraint', 'schema', 'extension', 'collation', 'cast'))
              INTO relations, other FROM pg_event_trigger_dropped_objects()
             WHERE NOT is_temporary AND coalesce(schema_name, '') NOT IN
                   ('pgtrickle', 'pgtrickle_changes', 'pgtrickle_state')
               AND (original OR classid = 'pg_class'::regclass);
        END IF;
        IF relations IS NULL THEN
            RETURN;
        END IF;
        FOR one IN SELECT * FROM pgtrickle.list_reshaped(
            CASE WHEN NOT other THEN relations END, TG_EVENT = 'sql_drop'
        ) LOOP
            blocked := one;
            EXIT WHEN block;
            PERFORM FROM pgtrickle.pgt_stream_tables AS s
              WHERE s.pgt_id = one.stream_table AND NOT s.needs_reinit
                FOR NO KEY UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE pgtrickle.pgt_stream_tables SET needs_reinit = true
                 WHERE pgt_id = one.stream_table;
                PERFORM pgtrickle.notify('pg_trickle_alert', json_build_object(
                    'event', 'reinitialize_needed', 'name', one.name,
                    'source', one.source)::text);
            END IF;
        END LOOP;
    EXCEPTION WHEN OTHERS THEN
        RAISE WARNING 'pgtrickle could not watch this command: %', SQLERRM;
        RETURN;
    END;
    IF block AND blocked IS NOT NULL THEN
        RAISE EXCEPTION 'the stream table % reads %: % is refused', blocked.name, blocked.source, TG_TAG
              USING ERRCODE = 'dependent_objects_still_exist',
                    HINT = 'Drop the stream table first, or allow it: '
                           'SET pg_trickle.block_source_ddl = off.';
    END IF;
END
$$;
