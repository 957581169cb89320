-- 0006 · pre · create the function that finds stream tables with nothing to do
--
-- Why:   a thousand idle stream tables are looked at in one round trip, not one by one.
-- Reads: nothing before this version calls the function.
-- Locks: CREATE FUNCTION only.
-- Undo:  DROP FUNCTION pgtrickle.find_idle(bigint[], bigint[]);

-- Every doubt counts as something to do: the ordinary refresh then finds out, and says what.
-- Comparing the columns of tables takes as long as all the rest, so the caller says for which to
-- do it now; views are always compared, because another definition means other contents.
-- STABLE, so that all of it sees one snapshot.  The time limit keeps a buffer that is being
-- altered from holding up the stream tables that do not read it.
CREATE FUNCTION pgtrickle.find_idle(stream_tables bigint[], compare_shapes bigint[])
RETURNS SETOF bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
AS $$
DECLARE
    source   record;
    buffer   regclass;
    settled  regclass;
    relation text;
    stirred  boolean;
    unseen   bigint[];
    seen     bigint[] := '{}';
    busy     bigint[] := '{}';
BEGIN
    FOR source IN
        WITH wanted AS MATERIALIZED (
            SELECT s.pgt_id, s.plan -> 'files' AS files,
                   s.pgt_id IN (SELECT unnest(compare_shapes)) AS compare,
                   (s.frontier #>> '{pg,snapshot}')::pg_snapshot AS snapshot
              FROM pgtrickle.pgt_stream_tables AS s
             WHERE s.pgt_id = ANY (stream_tables)
               AND s.status = 'ACTIVE' AND s.is_populated AND NOT s.needs_reinit
               AND s.consecutive_errors = 0
               AND s.owner_role IN (SELECT r.rolname FROM pg_roles AS r
                                     WHERE pg_has_role(r.oid, 'USAGE'))
               AND s.frontier #>> '{pg,system_identifier}'
                   = (SELECT c.system_identifier::text FROM pg_control_system() AS c)
               AND s.frontier #>> '{pg,database_oid}'
                   = (SELECT b.oid::text FROM pg_database AS b WHERE b.datname = current_database())
               AND s.pgt_id NOT IN (SELECT l.pgt_id FROM pgtrickle.pgt_leases AS l
                                     WHERE l.expires_at > clock_timestamp())
        ), reads AS (
            -- The shape is what capture/fingerprint.py hashes; NULL where the source is gone or
            -- was stored anew.  Subqueries and not joins: their cost cannot be misjudged.
            SELECT w.pgt_id, w.snapshot, d.source_relid, d.source_type = 'VIEW' AS is_view,
                   d.schema_fingerprint,
                   CASE WHEN d.source_type = 'VIEW' THEN (
                            SELECT encode(sha256(convert_to(v.ev_action::text, 'UTF8')), 'hex')
                              FROM pg_rewrite AS v
                             WHERE v.ev_class = d.source_relid AND v.rulename = '_RETURN')
                        WHEN (SELECT w.files IS NULL
                                     OR w.files ->> c.oid::text = c.relfilenode::text
                                FROM pg_class AS c WHERE c.oid = d.source_relid)
                        THEN CASE WHEN NOT w.compare THEN d.schema_fingerprint ELSE (
                            SELECT encode(sha256(convert_to(coalesce(jsonb_agg(
                                       jsonb_build_array(a.attnum, a.attname, tn.nspname, t.typname,
                                                         a.atttypmod, cn.nspname, co.collname)
                                       ORDER BY a.attnum), '[]')::text, 'UTF8')), 'hex')
                              FROM pg_attribute AS a
                              JOIN pg_type AS t ON t.oid = a.atttypid
                              JOIN pg_namespace AS tn ON tn.oid = t.typnamespace
                              LEFT JOIN pg_collation AS co ON co.oid = a.attcollation
                              LEFT JOIN pg_namespace AS cn ON cn.oid = co.collnamespace
                             WHERE a.attrelid = d.source_relid AND a.attnum > 0
                               AND NOT a.attisdropped AND a.attname = ANY (d.columns_used)) END
                   END AS shape
              FROM wanted AS w
              LEFT JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = w.pgt_id
             -- A frontier ahead of the server belongs to a history that was undone.
             WHERE pg_snapshot_xmax(w.snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
        )
        SELECT source_relid AS relid, is_view, array_agg(pgt_id) AS ids,
               array_agg(snapshot) AS frontiers, min(pg_snapshot_xmax(snapshot)) AS newest,
               string_agg(nullif(split_part(snapshot::text, ':', 3), ''), ',') AS in_progress,
               array_agg(pgt_id) FILTER (WHERE shape IS DISTINCT FROM schema_fingerprint) AS moved
          FROM reads
         GROUP BY source_relid, is_view
    LOOP
        seen := seen || source.ids;
        CONTINUE WHEN source.relid IS NULL;
        busy := busy || source.moved;
        CONTINUE WHEN source.is_view;
        BEGIN
            buffer := to_regclass(format('pgtrickle_changes.changes_%s', source.relid));
            settled := to_regclass(format('pgtrickle_changes.changes_%s_settled', source.relid));
            IF buffer IS NULL OR settled IS NULL THEN
                busy := busy || source.ids;
                CONTINUE;
            END IF;
            -- A file of no pages holds no row, and this is the usual case.
            CONTINUE WHEN pg_relation_size(buffer) = 0 AND pg_relation_size(settled) = 0;
            relation := CASE WHEN pg_relation_size(settled) = 0 THEN 'ONLY ' ELSE '' END || buffer;
            -- First for all consumers together: none has changes, as a rule.  In the simplest
            -- words, because it is planned anew for each buffer.
            EXECUTE format(
                'SELECT true FROM %s WHERE __xid >= $1 OR __xid = ANY ($2) LIMIT 1', relation
            ) INTO stirred
            USING source.newest, string_to_array(source.in_progress, ',')::xid8[];
            CONTINUE WHEN stirred IS NULL;
            EXECUTE format(
                'SELECT array_agg(id) FROM unnest($1, $2) AS c (id, frontier) WHERE EXISTS ('
                'SELECT FROM %s AS b WHERE b.__xid >= pg_snapshot_xmin(c.frontier)'
                ' AND NOT pg_visible_in_snapshot(b.__xid, c.frontier))',
                relation
            ) INTO unseen USING source.ids, source.frontiers;
            busy := busy || unseen;
        EXCEPTION
            WHEN undefined_table OR lock_not_available OR insufficient_privilege THEN
                busy := busy || source.ids;
        END;
    END LOOP;
    RETURN QUERY SELECT unnest(seen) EXCEPT SELECT unnest(busy);
END
$$;

COMMENT ON FUNCTION pgtrickle.find_idle(bigint[], bigint[]) IS
    'Which of these stream tables have nothing to do: no source changed since the frontier, in its
rows or its shape, and nothing else calls for a refresh.';

REVOKE ALL ON FUNCTION pgtrickle.find_idle(bigint[], bigint[]) FROM PUBLIC;
