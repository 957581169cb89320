-- What sources and queries are made of: shapes, types, functions, renames

CREATE OR REPLACE FUNCTION pgtrickle.list_members(relation oid)
RETURNS SETOF oid
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE tree (relid) AS (
        SELECT relation
         UNION
        SELECT i.inhrelid
          FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.relid AND NOT i.inhdetachpending
    )
    SELECT relid FROM tree ORDER BY relid
$$;

COMMENT ON FUNCTION pgtrickle.list_members(oid) IS
    'A relation and all its partitions or child tables, at any depth: whose rows a query of it sees.';

CREATE OR REPLACE FUNCTION pgtrickle.describe_files(relation oid)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN count(*) = 1 THEN min(c.relfilenode::text)
                ELSE md5(string_agg(c.oid || ':' || c.relfilenode, ',' ORDER BY c.oid)) END
      FROM pgtrickle.list_members(relation) AS member
      JOIN pg_class AS c ON c.oid = member
$$;

COMMENT ON FUNCTION pgtrickle.describe_files(oid) IS
    'Which files store a relation and its members: other files mean that the rows were rewritten.';

CREATE OR REPLACE FUNCTION pgtrickle.describe_layout(relation oid)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT md5(string_agg(
               c.oid || ':' || c.relfilenode || ':' || (
                   SELECT string_agg(a.attnum || ' ' || a.atttypid, ',' ORDER BY a.attnum)
                     FROM pg_attribute AS a
                    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
               ), ';' ORDER BY c.oid))
      FROM pgtrickle.list_members(relation) AS member
      JOIN pg_class AS c ON c.oid = member
$$;

COMMENT ON FUNCTION pgtrickle.describe_layout(oid) IS
    'The files and column numbers for which the capture functions of a relation are written.';

CREATE OR REPLACE FUNCTION pgtrickle.trusts(relation oid, role oid)
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

CREATE OR REPLACE FUNCTION pgtrickle.describe_types(types oid[])
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- With the types they consist of; PostgreSQL's own do not change.
    RETURN (
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
          FROM used JOIN pg_type AS t ON t.oid = used.type AND t.oid >= 16384);
END
$$;

COMMENT ON FUNCTION pgtrickle.describe_types(oid[]) IS
    'A hash over the definitions of user-defined types; NULL if there are none.';

-- In PL/pgSQL, like the next ones, which keeps its plans.
CREATE OR REPLACE FUNCTION pgtrickle.hash_functions(known jsonb)
RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (
        SELECT coalesce(jsonb_object_agg(p.oid::text, jsonb_build_array(
                   p.oid::regprocedure::text,
                   -- Its owner, privileges, cost and comment do not change what it answers.
                   md5(concat_ws(chr(1), p.prosrc, p.probin, p.prosqlbody, p.prolang, p.provolatile,
                                 p.proisstrict, p.prosecdef, p.proretset, p.prorettype, p.proconfig,
                                 a.aggtransfn, a.aggfinalfn, a.agginitval, a.aggkind, a.aggcombinefn,
                                 a.aggserialfn, a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn,
                                 a.aggmfinalfn, a.aggfinalextra, a.aggmfinalextra, a.aggfinalmodify,
                                 a.aggmfinalmodify, a.aggsortop, a.aggtranstype, a.aggmtranstype,
                                 a.aggminitval))
               )), '{}')
          FROM pg_proc AS p
          LEFT JOIN pg_aggregate AS a ON a.aggfnoid = p.oid
         WHERE p.oid = ANY (ARRAY(SELECT jsonb_object_keys(known))::oid[]));
END
$$;

COMMENT ON FUNCTION pgtrickle.hash_functions(jsonb) IS
    'Name and hash, by oid, of those functions among the keys that exist.';

-- In plpgsql, which keeps its plans: this runs for each source of each refresh.
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
       AND (a.attname = ANY (columns_used) OR '' = ANY (columns_used));
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

COMMENT ON FUNCTION pgtrickle.describe_source(oid, text[]) IS
    'What a stream table relies on in a source, as parts with a hash each; NULL if it is gone. '
    'An empty name among the columns means all of them.';

CREATE OR REPLACE FUNCTION pgtrickle.lies_here(frontier jsonb)
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT frontier #>> '{pg,system_identifier}' = (SELECT y.system_identifier::text
                                                      FROM pg_control_system() AS y)
           AND frontier #>> '{pg,database_oid}' = (SELECT b.oid::text FROM pg_database AS b
                                                    WHERE b.datname = current_database())
$$;

COMMENT ON FUNCTION pgtrickle.lies_here(jsonb) IS
    'Whether a frontier is of this database; else the oids on record with it mean nothing here.';

-- After a restore the oid on record may be another table's, so a name is followed only where the
-- oids are of this database.  Without a frontier that is so if nothing has the old name.
CREATE OR REPLACE FUNCTION pgtrickle.list_renamed()
RETURNS TABLE (pgt_id bigint, old_schema text, old_name text, new_schema text, new_name text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.pgt_id, s.pgt_schema, s.pgt_name, n.nspname::text, c.relname::text
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pg_class AS c ON c.oid = s.pgt_relid AND c.relkind = 'r'
      JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE (s.pgt_schema <> n.nspname OR s.pgt_name <> c.relname)
       AND s.pgt_schema <> 'pgtrickle_state' AND n.nspname <> 'pgtrickle_state'
       AND CASE WHEN s.frontier IS NOT NULL THEN pgtrickle.lies_here(s.frontier)
                ELSE NOT EXISTS (SELECT FROM pg_class AS o
                                   JOIN pg_namespace AS p ON p.oid = o.relnamespace
                                  WHERE p.nspname = s.pgt_schema AND o.relname = s.pgt_name) END
       -- The name of one whose table is gone is free only when that one was dropped.
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_stream_tables AS g
                        WHERE g.pgt_schema = n.nspname AND g.pgt_name = c.relname
                          AND NOT EXISTS (SELECT FROM pg_class AS o WHERE o.oid = g.pgt_relid))
$$;

COMMENT ON FUNCTION pgtrickle.list_renamed() IS
    'The stream tables whose tables have other names by now than the catalog knows.';

-- Every command of the database comes here, temporary tables of applications among them: the cost
-- must follow what the command touched, and what many stream tables read is described once.
CREATE OR REPLACE FUNCTION pgtrickle.list_reshaped(relations oid[], with_parents boolean)
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
    ' child tables (a dropped child table names no parent), or of all.';

-- It must never make a statement fail that it only watches, not even by a full queue of notifications.
-- A refresh finds the change in any case; what is noted here is noted for readers of the catalog and
-- for those who listen.
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

COMMENT ON FUNCTION pgtrickle.watch_ddl() IS
    'Note or, with pg_trickle.block_source_ddl, refuse commands that change what a query relies on.';

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
            -- By its name, not by its oid: if it has been dropped meanwhile, that is an undefined
            -- table.
            relation := CASE WHEN pg_relation_size(settled) = 0 THEN 'ONLY ' ELSE '' END
                        || format('pgtrickle_changes.changes_%s', source.relid);
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

-- In PL/pgSQL: a session keeps the plan, which takes longer to make than to run.
CREATE OR REPLACE FUNCTION pgtrickle.list_disturbances(stream_table_id integer)
RETURNS SETOF text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- By oid, in the database that the record was made in: elsewhere everything is compared anyway.
    RETURN QUERY
    SELECT CASE WHEN o.class IS NULL THEN 'its query was bound again'
                WHEN now.owner <> o.owner_oid
                THEN format('the owner of %s changed', o.name) END
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN jsonb_to_recordset(
               CASE WHEN NOT s.bound ? 'again' THEN s.bound -> 'objects' END)
            AS o (class text, oid oid, name text, owner_oid oid, direct boolean, candidates text)
        ON true
      LEFT JOIN LATERAL (
           SELECT c.relowner AS owner, '' AS candidates,
                  format('%I.%I', n.nspname, c.relname) AS name
             FROM pg_class AS c
             JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE o.class = 'relation' AND c.oid = o.oid
            UNION ALL
           SELECT p.proowner, (
                      SELECT md5(string_agg(q.oid::text, ' ' ORDER BY q.oid))
                        FROM pg_proc AS q
                       WHERE q.proname = p.proname AND q.pronamespace = p.pronamespace), o.name
             FROM pg_proc AS p WHERE o.class = 'function' AND p.oid = o.oid
            UNION ALL
           SELECT x.oprowner, (
                      SELECT md5(string_agg(q.oid::text, ' ' ORDER BY q.oid))
                        FROM pg_operator AS q
                       WHERE q.oprname = x.oprname AND q.oprnamespace = x.oprnamespace), o.name
             FROM pg_operator AS x WHERE o.class = 'operator' AND x.oid = o.oid
            UNION ALL
           SELECT t.typowner, '', o.name FROM pg_type AS t
            WHERE o.class = 'type' AND t.oid = o.oid) AS now ON true
     WHERE s.pgt_id = list_disturbances.stream_table_id AND s.bound IS NOT NULL
       AND (s.bound ? 'again'
            OR now.owner <> o.owner_oid OR now.candidates <> o.candidates OR now.name <> o.name
            OR (now.owner IS NULL AND o.class IN ('function', 'operator', 'type')));
END
$$;

COMMENT ON FUNCTION pgtrickle.list_disturbances(integer) IS
    'What has changed about the objects that a query is bound to; NULL: it must be bound again.';

CREATE OR REPLACE FUNCTION pgtrickle.find_unreadable(relations oid[], columns text[])
RETURNS TABLE (kind text, name text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- What PostgreSQL checks when a relation is read: its schema, and each column or any of them.
    RETURN QUERY
    SELECT CASE WHEN s.usable THEN 'table' ELSE 'schema' END,
           CASE WHEN s.usable THEN format('%I.%I', n.nspname, c.relname)
                ELSE quote_ident(n.nspname) END
      FROM ROWS FROM (unnest(relations), unnest(columns)) AS r (relid, attname)
      JOIN pg_class AS c ON c.oid = r.relid
      JOIN pg_namespace AS n ON n.oid = c.relnamespace
     CROSS JOIN LATERAL has_schema_privilege(n.oid, 'USAGE') AS s (usable)
      LEFT JOIN pg_attribute AS a ON a.attrelid = r.relid AND a.attname = r.attname
     WHERE NOT s.usable
        OR CASE WHEN a.attnum IS NULL
                THEN NOT has_any_column_privilege(r.relid, 'SELECT')
                ELSE NOT has_column_privilege(r.relid, a.attnum, 'SELECT') END
     LIMIT 1;
END
$$;

COMMENT ON FUNCTION pgtrickle.find_unreadable(oid[], text[]) IS
    'The first relation or schema that the current role may not read, of pairs of a relation and a'
    ' column; a column that is NULL stands for any.';

CREATE OR REPLACE FUNCTION pgtrickle.list_files(relations oid[], named oid[], buffers name[])
RETURNS TABLE (object text, file text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT c.oid::text, CASE WHEN c.relhassubclass THEN pgtrickle.describe_files(c.oid)
                             ELSE c.relfilenode::text END
      FROM pg_class AS c WHERE c.oid = ANY(relations)
     UNION ALL
    SELECT 'name of ' || c.oid::text, format('%I.%I', n.nspname, c.relname)
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.oid = ANY(named)
     UNION ALL
    SELECT c.oid::text, c.relfilenode::text
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = 'pgtrickle_changes' AND c.relname = ANY(buffers);
END
$$;

COMMENT ON FUNCTION pgtrickle.list_files(oid[], oid[], name[]) IS
    'The files of relations and of change buffers, and the names of relations.';
