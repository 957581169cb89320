-- 0029 · pre · let the event triggers look at what a command touched
--
-- Why:   they described every source of every stream table at every command of the database.
-- Reads: nothing but watch_ddl() calls list_reshaped().
-- Locks: CREATE FUNCTION only.
-- Undo:  restore watch_ddl() and list_reshaped(oid[]) from migration 11, then
--        DROP FUNCTION pgtrickle.list_reshaped(oid[], boolean);

-- Every command of the database comes here, temporary tables of applications among them: the cost
-- must follow what the command touched, and what many stream tables read is described once.
CREATE FUNCTION pgtrickle.list_reshaped(relations oid[], with_parents boolean)
RETURNS TABLE (stream_table bigint, name text, source text)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE touched (relid) AS (
        SELECT unnest(relations)
         UNION
        SELECT i.inhparent FROM touched JOIN pg_inherits AS i ON i.inhrelid = touched.relid
    ), used AS (
        SELECT DISTINCT d.source_relid, d.columns_used
          FROM pgtrickle.pgt_dependencies AS d
         WHERE relations IS NULL OR d.source_relid IN (SELECT relid FROM touched)
            OR with_parents AND EXISTS (SELECT FROM pg_class AS c
                                         WHERE c.oid = d.source_relid AND c.relhassubclass)
    ), described AS MATERIALIZED (
        SELECT source_relid, columns_used,
               pgtrickle.describe_source(source_relid, columns_used) AS now
          FROM used
    )
    SELECT s.pgt_id, format('%I.%I', s.pgt_schema, s.pgt_name),
           format('%I.%I', d.source_schema, d.source_name)
      FROM described AS n
      JOIN pgtrickle.pgt_dependencies AS d
        ON d.source_relid = n.source_relid AND d.columns_used = n.columns_used
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE d.schema_fingerprint IS DISTINCT FROM n.now
     UNION ALL
    SELECT s.pgt_id, format('%I.%I', s.pgt_schema, s.pgt_name), was.value ->> 0
      FROM pgtrickle.pgt_stream_tables AS s, jsonb_each(s.function_hashes) AS was
     WHERE relations IS NULL AND s.function_hashes <> '{}'
       AND was.value IS DISTINCT FROM pgtrickle.hash_functions(s.function_hashes) -> was.key
$$;

COMMENT ON FUNCTION pgtrickle.list_reshaped(oid[], boolean) IS
    'Stream tables whose sources are not what they were: of these relations, also of those with'
    ' heirs (a dropped heir names no parent), or of all.';

-- It must never make a statement fail that it only watches.  A refresh finds the change in any case;
-- what is noted here is noted for readers of the catalog and for those who listen.
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
                PERFORM pg_notify('pg_trickle_alert', json_build_object(
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

DROP FUNCTION pgtrickle.list_reshaped(oid[]);

REVOKE ALL ON FUNCTION pgtrickle.list_reshaped(oid[], boolean) FROM PUBLIC;
