-- 0009 · pre · compare more of what a stream table reads: types, policies, partitions, functions
--
-- Why:   an enum, a policy, a partition or a function changes what a query answers, like a column.
-- Reads: the earlier version takes the new fingerprints for changes, and starts anew.
-- Locks: ACCESS EXCLUSIVE on pgt_stream_tables, briefly: no row is rewritten.
-- Undo:  DROP the new column and functions; CREATE find_idle as in 0006.

ALTER TABLE pgtrickle.pgt_stream_tables
    ADD COLUMN function_hashes jsonb NOT NULL DEFAULT '{}';

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.function_hashes IS
    'The functions of users that the query calls: name and hash by oid.';

CREATE FUNCTION pgtrickle.hash_functions(known jsonb)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(jsonb_object_agg(p.oid::text, jsonb_build_array(
               p.oid::regprocedure::text,
               -- Its owner, privileges, cost and comment do not change what it answers.
               md5(concat_ws(chr(1), p.prosrc, p.probin, p.prosqlbody, p.prolang, p.provolatile,
                             p.proisstrict, p.prosecdef, p.proretset, p.prorettype, p.proconfig,
                             a.aggtransfn, a.aggfinalfn, a.agginitval))
           )), '{}')
      FROM jsonb_object_keys(known) AS called
      JOIN pg_proc AS p ON p.oid = called::oid
      LEFT JOIN pg_aggregate AS a ON a.aggfnoid = p.oid
$$;

COMMENT ON FUNCTION pgtrickle.hash_functions(jsonb) IS
    'Name and hash, by oid, of those functions among the keys that exist.';

CREATE FUNCTION pgtrickle.describe_types(types oid[])
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    -- With the types they consist of; PostgreSQL's own do not change.
    WITH RECURSIVE used (type) AS (
        SELECT unnest(types)
         UNION
        SELECT part.type
          FROM used JOIN pg_type AS t ON t.oid = used.type AND t.oid >= 16384,
       LATERAL (SELECT t.typelem UNION ALL SELECT t.typbasetype
                UNION ALL SELECT r.rngsubtype FROM pg_range AS r WHERE r.rngtypid = t.oid
                UNION ALL SELECT a.atttypid FROM pg_attribute AS a
                           WHERE a.attrelid = t.typrelid AND a.attnum > 0) AS part (type)
    )
    SELECT md5(string_agg(concat_ws(chr(1),
               t.oid, t.typname, t.typtype, t.typbasetype, t.typtypmod, t.typnotnull,
               (SELECT string_agg(e.enumlabel, chr(2) ORDER BY e.enumsortorder)
                  FROM pg_enum AS e WHERE e.enumtypid = t.oid),
               (SELECT string_agg(pg_get_constraintdef(k.oid), chr(2) ORDER BY k.oid)
                  FROM pg_constraint AS k WHERE k.contypid = t.oid),
               (SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod),
                                  chr(2) ORDER BY a.attnum)
                  FROM pg_attribute AS a
                 WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
           ), chr(3) ORDER BY t.oid))
      FROM used JOIN pg_type AS t ON t.oid = used.type AND t.oid >= 16384
$$;

COMMENT ON FUNCTION pgtrickle.describe_types(oid[]) IS
    'A hash over the definitions of user-defined types; NULL if there are none.';

-- In plpgsql, which keeps its plans: this runs for each source of each refresh.
CREATE FUNCTION pgtrickle.describe_source(relation oid, columns_used text[])
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

COMMENT ON FUNCTION pgtrickle.describe_source(oid, text[]) IS
    'What a stream table relies on in a source, as parts with a hash each; NULL if it is gone.';

REVOKE ALL ON FUNCTION pgtrickle.hash_functions(jsonb), pgtrickle.describe_types(oid[]),
    pgtrickle.describe_source(oid, text[]) FROM PUBLIC;

-- Where the old fingerprint still fits, nothing has changed so far.
UPDATE pgtrickle.pgt_dependencies AS d
   SET schema_fingerprint = pgtrickle.describe_source(d.source_relid, d.columns_used)
 WHERE d.schema_fingerprint = CASE
           WHEN d.source_type = 'VIEW' THEN (
               SELECT encode(sha256(convert_to(v.ev_action::text, 'UTF8')), 'hex')
                 FROM pg_rewrite AS v
                WHERE v.ev_class = d.source_relid AND v.rulename = '_RETURN')
           ELSE (
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
                  AND NOT a.attisdropped AND a.attname = ANY (d.columns_used)) END;

-- Every doubt counts as something to do: the ordinary refresh then finds out, and says what.
-- Comparing the columns of tables takes as long as all the rest, so the caller says for which to
-- do it now; views are always compared, because another definition means other contents.
-- STABLE, so that all of it sees one snapshot.  The time limit keeps a buffer that is being
-- altered from holding up the stream tables that do not read it.
CREATE OR REPLACE FUNCTION pgtrickle.find_idle(stream_tables bigint[], compare_shapes bigint[])
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
               AND (s.function_hashes = '{}'
                    OR s.function_hashes = pgtrickle.hash_functions(s.function_hashes))
               AND s.owner_role IN (SELECT r.rolname FROM pg_roles AS r
                                     WHERE pg_has_role(r.oid, 'USAGE'))
               AND s.frontier #>> '{pg,system_identifier}'
                   = (SELECT c.system_identifier::text FROM pg_control_system() AS c)
               AND s.frontier #>> '{pg,database_oid}'
                   = (SELECT b.oid::text FROM pg_database AS b WHERE b.datname = current_database())
               AND s.pgt_id NOT IN (SELECT l.pgt_id FROM pgtrickle.pgt_leases AS l
                                     WHERE l.expires_at > clock_timestamp())
        ), reads AS (
            -- The shape is NULL where the source is gone or was stored anew.  Subqueries and not
            -- joins: their cost cannot be misjudged.
            SELECT w.pgt_id, w.snapshot, d.source_relid, d.source_type = 'VIEW' AS is_view,
                   d.schema_fingerprint,
                   CASE WHEN d.source_type = 'VIEW'
                        THEN pgtrickle.describe_source(d.source_relid, d.columns_used)
                        -- What has no triggers is compared by the refresh.
                        WHEN d.source_type IN ('MATVIEW', 'FOREIGN_TABLE') THEN NULL
                        WHEN (SELECT w.files IS NULL
                                     OR w.files ->> c.oid::text
                                        = CASE WHEN c.relhassubclass
                                               THEN pgtrickle.describe_files(c.oid)
                                               ELSE c.relfilenode::text END
                                FROM pg_class AS c WHERE c.oid = d.source_relid)
                        THEN CASE WHEN w.compare
                                  THEN pgtrickle.describe_source(d.source_relid, d.columns_used)
                                  ELSE d.schema_fingerprint END
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
