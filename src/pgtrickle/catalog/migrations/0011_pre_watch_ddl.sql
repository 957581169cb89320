-- 0011 · pre · create the functions of the event triggers that watch changes of sources
--
-- Why:   where a role may have event triggers, a change of a source is noticed, or refused, at once.
-- Reads: nothing before this version calls the functions.
-- Locks: CREATE FUNCTION only.
-- Undo:  DROP FUNCTION pgtrickle.watch_ddl(), pgtrickle.list_reshaped(oid[]) CASCADE;

CREATE FUNCTION pgtrickle.list_reshaped(relations oid[])
RETURNS TABLE (stream_table bigint, name text, source text)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.pgt_id, format('%I.%I', s.pgt_schema, s.pgt_name),
           format('%I.%I', d.source_schema, d.source_name)
      FROM pgtrickle.pgt_dependencies AS d
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE (relations IS NULL OR d.source_relid = ANY (relations)
            OR EXISTS (SELECT FROM pgtrickle.list_members(d.source_relid) AS member
                        WHERE member = ANY (relations)))
       AND d.schema_fingerprint
           IS DISTINCT FROM pgtrickle.describe_source(d.source_relid, d.columns_used)
     UNION ALL
    SELECT s.pgt_id, format('%I.%I', s.pgt_schema, s.pgt_name), was.value ->> 0
      FROM pgtrickle.pgt_stream_tables AS s, jsonb_each(s.function_hashes) AS was
     WHERE relations IS NULL AND s.function_hashes <> '{}'
       AND was.value IS DISTINCT FROM pgtrickle.hash_functions(s.function_hashes) -> was.key
$$;

COMMENT ON FUNCTION pgtrickle.list_reshaped(oid[]) IS
    'Stream tables whose sources are not what they were, of these relations or of all.';

-- It must never make a statement fail that it only watches.  A refresh finds the change in any case;
-- what is noted here is noted for readers of the catalog and for those who listen.
CREATE FUNCTION pgtrickle.watch_ddl()
RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    block     boolean := coalesce(current_setting('pg_trickle.block_source_ddl', true), '')
                         IN ('on', 'true', 'yes', '1');
    relations oid[];
    one       record;
    blocked   record;
BEGIN
    BEGIN
        IF TG_EVENT = 'ddl_command_end' THEN
            SELECT CASE WHEN bool_and(classid = 'pg_class'::regclass) THEN array_agg(objid) END
              INTO relations FROM pg_event_trigger_ddl_commands();
        END IF;
        FOR one IN SELECT * FROM pgtrickle.list_reshaped(relations) LOOP
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

COMMENT ON FUNCTION pgtrickle.watch_ddl() IS
    'Note or, with pg_trickle.block_source_ddl, refuse commands that change what a query relies on.';

REVOKE ALL ON FUNCTION pgtrickle.list_reshaped(oid[]), pgtrickle.watch_ddl() FROM PUBLIC;
