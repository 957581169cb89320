-- 0010 · pre · refuse writes to stream tables by anyone but a refresh
--
-- Why:   a row that is changed by hand makes a stream table wrong, and nobody would notice.
-- Reads: the earlier version cannot write to guarded stream tables; upgrade every process.
-- Locks: SHARE ROW EXCLUSIVE on each stream table, briefly.
-- Undo:  DROP FUNCTION pgtrickle.refuse_write() CASCADE;

-- A refresh says which table it writes to; the word counts for its transaction alone.
CREATE FUNCTION pgtrickle.refuse_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('pg_trickle.refreshing', true) IS DISTINCT FROM TG_RELID::text THEN
        RAISE EXCEPTION '"%.%" is a stream table: % is refused', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP
              USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Change its sources and refresh it, or drop it with: pgtrickle drop.';
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.refuse_write() IS 'The guard of stream tables.';

REVOKE ALL ON FUNCTION pgtrickle.refuse_write() FROM PUBLIC;

DO $$
DECLARE
    stream_table regclass;
BEGIN
    FOR stream_table IN
        SELECT c.oid FROM pgtrickle.pgt_stream_tables AS s JOIN pg_class AS c ON c.oid = s.pgt_relid
    LOOP
        EXECUTE format('CREATE TRIGGER pgtrickle_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE'
                       ' ON %s FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle.refuse_write()',
                       stream_table);
    END LOOP;
END
$$;
