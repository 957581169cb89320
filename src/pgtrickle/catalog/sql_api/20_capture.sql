-- Capture: what triggers call, gaps, and the health of change data capture

-- Capture triggers know their table by the numbers of its columns.  Where a trigger finds another
-- table than it was made for, it asks these functions for its statements.  They go by the server's
-- caches and not by queries of the catalog, which in a REPEATABLE READ transaction may be older
-- than the table that is being written.
CREATE OR REPLACE FUNCTION pgtrickle.name_columns(relation oid, numbers int2[], rows text)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    -- The columns of a relation are aliased in order, and those that were dropped are not there.
    SELECT rows || ' AS r' || coalesce(' (' || string_agg('c' || n, ', ' ORDER BY n) || ')', '')
      FROM generate_series(1, (SELECT max(one) FROM unnest(numbers) AS one)) AS n
     WHERE has_column_privilege(relation, n::int2, 'SELECT') IS NOT NULL
$$;

COMMENT ON FUNCTION pgtrickle.name_columns(oid, int2[], text) IS
    'Write a FROM item that names the columns of a relation by their numbers: c1, c2, ...';

CREATE OR REPLACE FUNCTION pgtrickle.ask_column_types(relation oid, numbers int2[], rows text)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 'SELECT ARRAY[' || coalesce(string_agg(
               CASE WHEN has_column_privilege(relation, n, 'SELECT') IS NULL THEN 'NULL'
                    ELSE 'pg_catalog.pg_typeof(r.c' || n || ')::pg_catalog.oid' END,
               ', ' ORDER BY place), '') || ']::pg_catalog.oid[] FROM '
           || pgtrickle.name_columns(relation, numbers, rows) || ' LIMIT 1'
      FROM unnest(numbers) WITH ORDINALITY AS one (n, place)
$$;

COMMENT ON FUNCTION pgtrickle.ask_column_types(oid, int2[], text) IS
    'Write the query that tells the types columns have now; of no rows there is no answer.';

CREATE OR REPLACE FUNCTION pgtrickle.find_base_type(type oid)
RETURNS oid
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    base oid;
BEGIN
    LOOP
        SELECT t.typbasetype INTO base FROM pg_type AS t WHERE t.oid = type AND t.typtype = 'd';
        EXIT WHEN base IS NULL;
        type := base;
    END LOOP;
    RETURN type;
END
$$;

COMMENT ON FUNCTION pgtrickle.find_base_type(oid) IS 'What a domain is based on in the end.';

-- A column that is gone or has another type stays NULL: whoever reads it starts anew, because its
-- number or type or the file of its table is another one.  Types that are stored alike may change
-- into one another and back without any of that, so their values are kept.
CREATE OR REPLACE FUNCTION pgtrickle.write_changes(
    relation oid, buffer text, names text[], numbers int2[], captured oid[], present oid[],
    rows text, weight int
)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(
               'INSERT INTO %s (__xid, __weight%s) SELECT pg_catalog.pg_current_xact_id(), %s%s FROM %s',
               buffer, coalesce(string_agg(', ' || quote_ident(name), '' ORDER BY n), ''),
               weight, coalesce(string_agg(', r.c' || n, '' ORDER BY n), ''),
               pgtrickle.name_columns(relation, numbers, rows))
      FROM unnest(names, numbers, captured) AS one (name, n, was)
      JOIN unnest(numbers, present) AS other (n, found) USING (n),
           pgtrickle.find_base_type(found) AS now
     WHERE was = now
        OR EXISTS (SELECT FROM pg_cast AS c
                    WHERE c.castsource = now AND c.casttarget = was
                      AND c.castmethod = 'b' AND c.castcontext IN ('a', 'i'))
$$;

COMMENT ON FUNCTION pgtrickle.write_changes(oid, text, text[], int2[], oid[], oid[], text, int) IS
    'Write the statement that copies rows of a relation into its change buffer.';

-- Once a transaction.  By the table and not by a setting, which the writer could have made himself.
CREATE OR REPLACE FUNCTION pgtrickle.note_gap(relation oid, reason text)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, reason) VALUES (relation, reason)
        ON CONFLICT DO NOTHING
$$;

COMMENT ON FUNCTION pgtrickle.note_gap(oid, text) IS
    'Note that this transaction changes a source and is not captured.';

-- In PL/pgSQL, which plans what it runs: a standby cannot even plan a query of an unlogged table.
CREATE OR REPLACE FUNCTION pgtrickle.is_emptied(source oid)
RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN false;
    END IF;
    RETURN NOT EXISTS (SELECT FROM pgtrickle.pgt_unlogged_buffers AS u
                        WHERE u.source_relid = is_emptied.source);
END
$$;

COMMENT ON FUNCTION pgtrickle.is_emptied(oid) IS
    'Whether a crash has emptied the unlogged buffer of a source; a standby does not know.';

CREATE OR REPLACE FUNCTION pgtrickle.list_gaps(stream_tables bigint[])
RETURNS TABLE (stream_table bigint, source text, reason text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gaps (relid, only_for, xid, reason) AS (
        SELECT t.source_relid, NULL::bigint, NULL::xid8, 'its capture is paused'
          FROM pgtrickle.pgt_change_tracking AS t WHERE t.paused_at IS NOT NULL
         UNION ALL
        SELECT t.source_relid, NULL, NULL, 'a crash emptied its buffer'
          FROM pgtrickle.pgt_change_tracking AS t
         WHERE t.durability = 'unlogged' AND pgtrickle.is_emptied(t.source_relid)
         UNION ALL
        SELECT g.source_relid, g.pgt_id, g.xid, g.reason FROM pgtrickle.pgt_capture_gaps AS g
         UNION ALL
        -- A frontier never goes back by itself; but a user may restore what a backup holds.
        SELECT t.source_relid, s.pgt_id, NULL, 'its frontier is older than its buffer'
          FROM pgtrickle.pgt_change_tracking AS t
          JOIN pgtrickle.pgt_dependencies AS d USING (source_relid)
          JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
         WHERE s.pgt_id = ANY (stream_tables)
           AND pg_snapshot_xmax((s.frontier #>> '{pg,snapshot}')::pg_snapshot) < t.trimmed_before
    )
    SELECT DISTINCT s.pgt_id, d.source_schema || '.' || d.source_name, gaps.reason
      FROM gaps
      JOIN pgtrickle.pgt_dependencies AS d ON d.source_relid = gaps.relid
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = d.pgt_id
     WHERE s.pgt_id = ANY (stream_tables) AND (gaps.only_for IS NULL OR gaps.only_for = s.pgt_id)
       AND (gaps.xid IS NULL OR s.frontier IS NULL OR NOT pg_visible_in_snapshot(
                gaps.xid, (s.frontier #>> '{pg,snapshot}')::pg_snapshot))
$$;

COMMENT ON FUNCTION pgtrickle.list_gaps(bigint[]) IS
    'Sources with changes after the frontier of a stream table that no buffer holds, and why.';

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

COMMENT ON FUNCTION pgtrickle.note_crashes() IS
    'Turn the loss of unlogged buffers by a crash into gaps; return the sources.';

CREATE OR REPLACE FUNCTION pgtrickle.forget_gaps()
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

CREATE OR REPLACE TRIGGER forget_gaps AFTER DELETE ON pgtrickle.pgt_change_tracking
    FOR EACH ROW EXECUTE FUNCTION pgtrickle.forget_gaps();

-- The queue of notifications is one for the whole server.  It is emptied by those who listen, and
-- one that listens in an open transaction lets it grow to its limit; then every transaction fails
-- that has something to say.  So nothing is said from the half on: what fails is ours alone.
CREATE OR REPLACE FUNCTION pgtrickle.may_notify()
RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT pg_notification_queue_usage() < 0.5 $$;

COMMENT ON FUNCTION pgtrickle.may_notify() IS
    'Whether the queue of notifications has room enough for those that can be done without.';

CREATE OR REPLACE FUNCTION pgtrickle.notify(channel text, payload text)
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

-- One row a trouble; a source without any has one row with alert NULL.
CREATE OR REPLACE FUNCTION pgtrickle.check_cdc_health()
RETURNS TABLE (source_relid oid, source_table text, cdc_mode text, durability text,
               buffer_bytes bigint, consumers bigint, alert text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH sources AS (
        SELECT t.*,
               to_regclass('pgtrickle_changes.' || quote_ident(t.buffer_name)) AS buffer,
               to_regclass('pgtrickle_changes.' || quote_ident(t.buffer_name || '_settled')) AS settled,
               EXISTS (SELECT FROM pg_class AS c WHERE c.oid = t.source_relid) AS present
          FROM pgtrickle.pgt_change_tracking AS t
    ), triggers AS (
        SELECT s.source_relid, c.oid AS member,
               (SELECT count(*) FROM pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid
                 WHERE g.tgrelid = c.oid AND p.pronamespace = 'pgtrickle_changes'::regnamespace
                   AND p.proname ~ ('^capture_' || s.source_relid
                                    || '_(\d+_)?(insert|update|delete|truncate)$')) AS there,
               (SELECT count(*) FROM pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid
                 WHERE g.tgrelid = c.oid AND p.pronamespace = 'pgtrickle_changes'::regnamespace
                   AND starts_with(p.proname, 'capture_' || s.source_relid || '_')
                   AND g.tgenabled NOT IN ('O', 'A')) AS disabled
          FROM sources AS s, pgtrickle.list_members(s.source_relid) AS one
          JOIN pg_class AS c ON c.oid = one AND c.relkind = 'r'
         WHERE s.cdc_mode = 'TRIGGER'
    ), alerts AS (
        SELECT s.source_relid, 'source_missing' AS alert FROM sources AS s WHERE NOT present
         UNION ALL
        SELECT s.source_relid, 'buffer_missing' FROM sources AS s
         WHERE s.buffer IS NULL OR s.settled IS NULL
         UNION ALL
        SELECT DISTINCT t.source_relid, 'triggers_missing' FROM triggers AS t WHERE t.there < 4
         UNION ALL
        SELECT DISTINCT t.source_relid, 'triggers_disabled' FROM triggers AS t WHERE t.disabled > 0
         UNION ALL
        SELECT s.source_relid, 'paused' FROM sources AS s WHERE s.paused_at IS NOT NULL
         UNION ALL
        SELECT s.source_relid, 'emptied_by_crash' FROM sources AS s
         WHERE s.durability = 'unlogged' AND pgtrickle.is_emptied(s.source_relid)
         UNION ALL
        SELECT s.source_relid, 'buffer_growth' FROM sources AS s WHERE s.alerted_at IS NOT NULL
         UNION ALL
        SELECT s.source_relid, 'writers_delayed' FROM sources AS s WHERE s.delay_ms > 0
         UNION ALL
        SELECT DISTINCT d.source_relid, 'gap'
          FROM pgtrickle.pgt_dependencies AS d
          JOIN pgtrickle.list_gaps(ARRAY(SELECT pgt_id FROM pgtrickle.pgt_stream_tables)) AS g
            ON g.stream_table = d.pgt_id AND g.source = d.source_schema || '.' || d.source_name
    )
    SELECT s.source_relid, s.source_schema || '.' || s.source_name, s.cdc_mode,
           coalesce(s.durability, 'logged'),
           coalesce(pg_relation_size(s.buffer), 0) + coalesce(pg_relation_size(s.settled), 0),
           (SELECT count(*) FROM pgtrickle.pgt_dependencies AS d
             WHERE d.source_relid = s.source_relid),
           a.alert
      FROM sources AS s LEFT JOIN alerts AS a USING (source_relid)
     ORDER BY 2, 7
$$;

COMMENT ON FUNCTION pgtrickle.check_cdc_health() IS
    'Every captured source, with a row for each thing that is wrong with its capture.';

CREATE OR REPLACE FUNCTION pgtrickle.change_buffer_sizes()
RETURNS TABLE (source_table text, source_oid oid, cdc_mode text, consumers bigint,
               pending_rows bigint, buffer_bytes bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one    record;
    buffer regclass;
BEGIN
    FOR one IN
        SELECT t.source_schema, t.source_name, t.source_relid, t.cdc_mode, t.buffer_name,
               (SELECT count(*) FROM pgtrickle.pgt_dependencies AS d
                 WHERE d.source_relid = t.source_relid) AS consumers
          FROM pgtrickle.pgt_change_tracking AS t
         ORDER BY t.source_schema, t.source_name
    LOOP
        source_table := format('%I.%I', one.source_schema, one.source_name);
        source_oid := one.source_relid;
        cdc_mode := one.cdc_mode;
        consumers := one.consumers;
        buffer := to_regclass(format('pgtrickle_changes.%I', one.buffer_name));
        pending_rows := NULL;
        buffer_bytes := NULL;
        IF buffer IS NOT NULL THEN
            EXECUTE format('SELECT count(*) FROM %s', buffer) INTO pending_rows;
            -- A buffer has a child for what some consumer has read already.
            SELECT sum(pg_total_relation_size(member)) INTO buffer_bytes
              FROM pgtrickle.list_members(buffer) AS member;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON FUNCTION pgtrickle.change_buffer_sizes() IS
    'The number and size of the captured changes of each source; reads the buffers to count them.';
