-- Snapshots of stream tables: their guard and their list

-- The table outlives the stream table and its entry; then it is a table like any other.
CREATE OR REPLACE FUNCTION pgtrickle.refuse_snapshot_write()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM pgtrickle.locate_snapshots() AS l WHERE l.relid = TG_RELID) THEN
        RAISE EXCEPTION '"%.%" is a snapshot of a stream table: % is refused',
                        TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP
              USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Copy its rows into a table of your own, or drop it with: pgtrickle snapshot drop.';
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.refuse_snapshot_write() IS 'The guard of snapshots.';

-- An oid means nothing in another database than the one of the frontier: there the name counts.  Those
-- whose rows a lake has are only names, and have no relid.
CREATE OR REPLACE FUNCTION pgtrickle.locate_snapshots()
RETURNS TABLE (snapshot_id bigint, relid oid, schema_name text, table_name text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT n.snapshot_id, c.oid, p.nspname::text, c.relname::text
      FROM pgtrickle.pgt_snapshots AS n
      JOIN pg_class AS c
        ON c.relkind = 'r'
       AND c.oid = CASE WHEN pgtrickle.lies_here(n.frontier) THEN n.snapshot_relid
                        ELSE (SELECT o.oid FROM pg_class AS o
                                JOIN pg_namespace AS q ON q.oid = o.relnamespace
                               WHERE q.nspname = n.snapshot_schema AND o.relname = n.snapshot_table)
                        END
      JOIN pg_namespace AS p ON p.oid = c.relnamespace
     WHERE n.snapshot_relid IS NOT NULL
     UNION ALL
    SELECT n.snapshot_id, NULL, n.snapshot_schema, n.snapshot_table
      FROM pgtrickle.pgt_snapshots AS n
     WHERE n.snapshot_relid IS NULL
$$;

COMMENT ON FUNCTION pgtrickle.locate_snapshots() IS
    'The tables of snapshots, as far as they exist, and the snapshots that are in lakes.';

-- The catalog of a lake is looked at only if it cannot run code of others with the rights of this
-- role: its table is plain, and of this role, of the catalog's or of a superuser.
CREATE OR REPLACE FUNCTION pgtrickle.loss_of_snapshot(snapshot bigint)
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    kept    record;
    listing regclass;
    there   boolean;
BEGIN
    SELECT l.catalog_schema, l.lake_snapshot_id INTO kept
      FROM pgtrickle.pgt_lake_snapshots AS l WHERE l.snapshot_id = loss_of_snapshot.snapshot;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    listing := to_regclass(format('%I.ducklake_snapshot', kept.catalog_schema));
    IF listing IS NULL THEN
        RETURN format('there is no lake in the schema %s any more', kept.catalog_schema);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_class AS c
                     JOIN pg_attribute AS a ON a.attrelid = c.oid
                    WHERE c.oid = listing AND c.relkind = 'r' AND NOT c.relhasrules
                      AND NOT c.relrowsecurity AND a.attname = 'snapshot_id'
                      AND a.atttypid = 'bigint'::regtype
                      AND pgtrickle.trusts('pgtrickle.pgt_snapshots'::regclass, c.relowner)
                      AND has_table_privilege(c.oid, 'SELECT')) THEN
        RETURN NULL;  -- a restore looks closer
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s AS s WHERE s.snapshot_id = $1)', listing)
       INTO there USING kept.lake_snapshot_id;
    RETURN CASE WHEN NOT there
                THEN format('snapshot %s of the lake has expired', kept.lake_snapshot_id) END;
END
$$;

COMMENT ON FUNCTION pgtrickle.loss_of_snapshot(bigint) IS
    'Why a snapshot cannot be restored, as far as the catalog of its lake tells; NULL: it can.';

-- As the next refresh will find it (see list_gaps); NULL: it continues.
CREATE OR REPLACE FUNCTION pgtrickle.gap_of_snapshot(snapshot bigint)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN NOT pgtrickle.lies_here(n.frontier)
                THEN 'the database was restored or cloned elsewhere'
                WHEN n.needs_reinit THEN 'it holds no state'
                ELSE coalesce(
                    (SELECT min(g.reason) FROM pgtrickle.pgt_snapshot_gaps AS g
                      WHERE g.snapshot_id = n.snapshot_id),
                    (SELECT 'its frontier is older than a buffer'
                       FROM pgtrickle.pgt_dependencies AS d
                       JOIN pgtrickle.pgt_change_tracking AS t USING (source_relid)
                      WHERE d.pgt_id = n.pgt_id AND t.trimmed_before
                            > pg_snapshot_xmax((n.frontier #>> '{pg,snapshot}')::pg_snapshot)
                      LIMIT 1)) END
      FROM pgtrickle.pgt_snapshots AS n WHERE n.snapshot_id = gap_of_snapshot.snapshot
$$;

COMMENT ON FUNCTION pgtrickle.gap_of_snapshot(bigint) IS
    'Why the refresh after a restore reinitializes.';

CREATE OR REPLACE FUNCTION pgtrickle.list_snapshots(
    name text DEFAULT NULL, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (stream_table text, snapshot_schema text, snapshot_table text,
               created_at timestamptz, data_timestamp timestamptz, row_count bigint,
               size_bytes bigint, frontier jsonb, version integer, gap text,
               lake_table text, lake_snapshot bigint, restorable boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), t.schema_name, t.table_name, n.created_at,
           n.data_timestamp, n.row_count,
           coalesce(pg_total_relation_size(t.relid), 0) + coalesce((
               SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class AS c
                WHERE c.relnamespace = 'pgtrickle_state'::regnamespace AND c.relkind = 'r'
                  AND starts_with(c.relname::text, format('snapshot_%s_', n.snapshot_id))), 0),
           n.frontier, n.snapshot_version,
           coalesce(lost.reason, pgtrickle.gap_of_snapshot(n.snapshot_id)),
           CASE WHEN l.snapshot_id IS NOT NULL
                THEN format('%I.%I', l.lake_schema, l.lake_table) END,
           l.lake_snapshot_id, lost.reason IS NULL
      FROM pgtrickle.pgt_snapshots AS n
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = n.pgt_id
      JOIN pgtrickle.locate_snapshots() AS t ON t.snapshot_id = n.snapshot_id
      LEFT JOIN pgtrickle.pgt_lake_snapshots AS l ON l.snapshot_id = n.snapshot_id
     CROSS JOIN LATERAL (SELECT pgtrickle.loss_of_snapshot(n.snapshot_id)) AS lost (reason)
     WHERE list_snapshots.name IS NULL
        OR s.pgt_id = pgtrickle.find_stream_table(list_snapshots.name, schemas)
     ORDER BY n.created_at, n.snapshot_id
$$;

COMMENT ON FUNCTION pgtrickle.list_snapshots(text, name[]) IS
    'Snapshots of all stream tables or of one; gap says why the refresh after a restore reinitializes,'
    ' or why there can be no restore.';
