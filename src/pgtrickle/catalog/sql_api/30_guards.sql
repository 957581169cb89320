-- Guards of stream tables and lake tables, and the comments on stream tables

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

COMMENT ON FUNCTION pgtrickle.refuse_write() IS 'The guard of stream tables.';

-- As for stream tables: who follows the lake says which table it writes to.
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

COMMENT ON FUNCTION pgtrickle.refuse_lake_write() IS 'The guard of rows that come from the lake.';

-- Instead of the setting alone.  The lock keeps what is found here as it is until the commit; a
-- transaction that keeps to an older snapshot has to take it before that.
CREATE OR REPLACE FUNCTION pgtrickle.open_guard(relation regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    strange text;
    remedy  text;
BEGIN
    EXECUTE format('LOCK TABLE ONLY %s IN ROW EXCLUSIVE MODE', relation);
    -- Nearly always the guard itself is all there is.
    IF EXISTS (SELECT FROM pg_class AS c
                WHERE c.oid = relation AND NOT c.relhasrules AND NOT c.relrowsecurity)
       AND NOT EXISTS (SELECT FROM pg_trigger AS t
                        WHERE t.tgrelid = relation AND NOT t.tgisinternal AND t.tgenabled <> 'D'
                          AND (t.tgqual IS NOT NULL OR t.tgtype & 1 = 1
                               OR t.tgfoid <> 'pgtrickle.refuse_write()'::regprocedure)) THEN
        PERFORM set_config('pg_trickle.refreshing', relation::oid::text, true);
        RETURN;
    END IF;
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

CREATE OR REPLACE FUNCTION pgtrickle.describe_stream_table(stream_table bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    ours   CONSTANT text := 'pgtrickle stream table';
    one    record;
    wanted text;
BEGIN
    SELECT s.pgt_relid::regclass AS relation, s.schedule, obj_description(c.oid, 'pg_class') AS current,
           btrim(regexp_replace(s.original_query, '\s+', ' ', 'g')) AS query
      INTO one
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pg_class AS c ON c.oid = s.pgt_relid
     WHERE s.pgt_id = stream_table AND s.pgt_schema <> 'pgtrickle_state';
    wanted := format('%s, schedule %s, query: %s', ours, one.schedule,
                     CASE WHEN length(one.query) > 1000 THEN left(one.query, 997) || '...'
                          ELSE one.query END);
    -- What somebody wrote himself stays.
    IF FOUND AND wanted IS DISTINCT FROM one.current
       AND (one.current IS NULL OR starts_with(one.current, ours)) THEN
        EXECUTE format('COMMENT ON TABLE %s IS %L', one.relation, wanted);
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.describe_stream_table(bigint) IS
    'Let the comment of a stream table name its schedule and its query, unless somebody wrote another.';
