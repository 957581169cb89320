-- Definitions of stream tables: everything that makes one again, as JSON and as a script
--
-- PostgreSQL writes the definitions of indexes, policies and the like, under a path on which nothing
-- of users is found: so every name in them is qualified.  Of each, the JSON keeps what follows the name
-- of the object and of its table; the statement is put together here, from those names.
--
-- These run with the rights of the caller, so that subscriptions of others stay theirs.

CREATE OR REPLACE FUNCTION pgtrickle.is_paused(stream_table bigint)
RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_scheduler_pauses AS p WHERE p.pgt_id = stream_table)
$$;

COMMENT ON FUNCTION pgtrickle.is_paused(bigint) IS
    'Whether somebody has paused a stream table; a drain pauses all, and none by itself.';

CREATE OR REPLACE FUNCTION pgtrickle.find_service_level(stream_table bigint)
RETURNS double precision
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT v.deadline_seconds FROM pgtrickle.pgt_service_levels AS v WHERE v.pgt_id = stream_table
$$;

COMMENT ON FUNCTION pgtrickle.find_service_level(bigint) IS
    'The age in seconds that the contents of a stream table must not exceed; NULL: none was promised.';

CREATE OR REPLACE FUNCTION pgtrickle.describe_outbox(stream_table bigint)
RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object('retention_hours', c.retention_hours,
                              'inline_threshold_rows', c.inline_threshold_rows)
      FROM pgtrickle.pgt_outbox_config AS c JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE c.pgt_id = stream_table AND s.has_outbox
$$;

COMMENT ON FUNCTION pgtrickle.describe_outbox(bigint) IS
    'What the outbox of a stream table keeps; NULL: it has none.';

-- A rename is on record when somebody has followed it.
CREATE OR REPLACE FUNCTION pgtrickle.present_name(stream_table bigint)
RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', coalesce(r.new_schema, s.pgt_schema), coalesce(r.new_name, s.pgt_name))
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN pgtrickle.list_renamed() AS r ON r.pgt_id = s.pgt_id
     WHERE s.pgt_id = stream_table
$$;

COMMENT ON FUNCTION pgtrickle.present_name(bigint) IS 'The name that a stream table has now.';

CREATE OR REPLACE FUNCTION pgtrickle.describe_grants(acl aclitem[], owner oid)
RETURNS TABLE (grantee text, privileges text[], grantable boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE a.grantee WHEN 0 THEN NULL ELSE r.rolname END,
           array_agg(a.privilege_type ORDER BY a.privilege_type), a.is_grantable
      FROM (SELECT x.grantee, x.privilege_type, bool_or(x.is_grantable) AS is_grantable
              FROM aclexplode(acl) AS x WHERE x.grantee <> owner GROUP BY 1, 2) AS a
      LEFT JOIN pg_roles AS r ON r.oid = a.grantee
     WHERE a.grantee = 0 OR r.oid IS NOT NULL
     GROUP BY a.grantee, r.rolname, a.is_grantable
     ORDER BY 1 NULLS FIRST, 3
$$;

COMMENT ON FUNCTION pgtrickle.describe_grants(aclitem[], oid) IS
    'The privileges of others than the owner, whoever granted them; without a grantee: of PUBLIC.';

-- What PostgreSQL knows of one table beyond its columns, in an order in which it can be made.
CREATE OR REPLACE FUNCTION pgtrickle.list_table_objects(relation oid)
RETURNS TABLE (place bigint, kind text, name text, definition text, more jsonb)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH t AS (
        SELECT c.oid, format('%I.%I', n.nspname, c.relname) AS name
          FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = relation
    ), found AS (
        SELECT 1 AS stage, 'constraint' AS kind, k.conname AS name,
               pg_get_constraintdef(k.oid) AS definition,
               jsonb_build_object('comment', obj_description(k.oid, 'pg_constraint')) AS more
          FROM t JOIN pg_constraint AS k ON k.conrelid = t.oid
         WHERE k.contype IN ('p', 'u', 'x', 'c', 'f') AND k.conparentid = 0
         UNION ALL
        -- The index that finds a row by its hash is made with the first rows.
        SELECT 2, 'index', i.relname,
               substr(d.definition, length(format('CREATE %sINDEX %I ON %s ',
                      CASE WHEN x.indisunique THEN 'UNIQUE ' END, i.relname, t.name)) + 1),
               jsonb_build_object('unique', nullif(x.indisunique, false),
                                  'comment', obj_description(i.oid, 'pg_class'))
          FROM t JOIN pg_index AS x ON x.indrelid = t.oid
          JOIN pg_class AS i ON i.oid = x.indexrelid,
               pg_get_indexdef(i.oid) AS d (definition)
         WHERE x.indisvalid AND d.definition NOT LIKE '%hash_record_extended(%'
           AND NOT EXISTS (SELECT FROM pg_constraint AS k
                            WHERE k.conindid = i.oid AND k.contype IN ('p', 'u', 'x'))
         UNION ALL
        SELECT 3, 'statistics', format('%I.%I', n.nspname, e.stxname),
               substr(pg_get_statisticsobjdef(e.oid),
                      length(format('CREATE STATISTICS %I.%I ', n.nspname, e.stxname)) + 1),
               jsonb_build_object('comment', obj_description(e.oid, 'pg_statistic_ext'))
          FROM t JOIN pg_statistic_ext AS e ON e.stxrelid = t.oid
          JOIN pg_namespace AS n ON n.oid = e.stxnamespace
         UNION ALL
        SELECT 4, 'policy', p.polname,
               concat('AS ', CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END, ' FOR ',
                      CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE'
                                    WHEN 'd' THEN 'DELETE' ELSE 'ALL' END, ' TO ',
                      (SELECT string_agg(CASE u.role WHEN 0 THEN 'PUBLIC'
                                                     ELSE quote_ident(pg_get_userbyid(u.role)) END,
                                         ', ' ORDER BY pg_get_userbyid(u.role))
                         FROM unnest(p.polroles) AS u (role)),
                      ' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')',
                      ' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')'),
               jsonb_build_object('roles', (SELECT jsonb_agg(r.rolname ORDER BY r.rolname)
                                              FROM pg_roles AS r WHERE r.oid = ANY (p.polroles)),
                                  'comment', obj_description(p.oid, 'pg_policy'))
          FROM t JOIN pg_policy AS p ON p.polrelid = t.oid
         UNION ALL
        -- Those of pgtrickle come with the stream table.
        SELECT 5, 'trigger', g.tgname,
               substr(d.definition, length(format('CREATE TRIGGER %I ', g.tgname)) + 1),
               jsonb_build_object('enabled', CASE g.tgenabled WHEN 'D' THEN 'DISABLE'
                                      WHEN 'R' THEN 'ENABLE REPLICA' WHEN 'A' THEN 'ENABLE ALWAYS' END,
                                  'comment', obj_description(g.oid, 'pg_trigger'))
          FROM t JOIN pg_trigger AS g ON g.tgrelid = t.oid JOIN pg_proc AS f ON f.oid = g.tgfoid
          JOIN pg_namespace AS n ON n.oid = f.pronamespace,
               pg_get_triggerdef(g.oid) AS d (definition)
         WHERE NOT g.tgisinternal AND g.tgconstraint = 0
           AND n.nspname NOT IN ('pgtrickle', 'pgtrickle_changes', 'pgtrickle_state')
    )
    -- A foreign key needs the key that it names, which may be of the same table.
    SELECT row_number() OVER (ORDER BY f.stage, starts_with(f.definition, 'FOREIGN KEY'), f.name),
           f.kind, f.name::text, f.definition, jsonb_strip_nulls(f.more)
      FROM found AS f
$$;

COMMENT ON FUNCTION pgtrickle.list_table_objects(oid) IS
    'What was added to a table: constraints, indexes, statistics, policies and triggers.';

CREATE OR REPLACE FUNCTION pgtrickle.describe_table(relation oid)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
               -- What describe_stream_table wrote, it writes again.
               'comment', (SELECT d.text FROM obj_description(c.oid, 'pg_class') AS d (text)
                            WHERE NOT starts_with(d.text, 'pgtrickle stream table')),
               'column_comments',
               (SELECT jsonb_agg(jsonb_build_object('column', a.attname, 'comment', d.text)
                                 ORDER BY a.attnum)
                  FROM pg_attribute AS a, col_description(a.attrelid, a.attnum) AS d (text)
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                   AND d.text IS NOT NULL),
               'storage_parameters',
               (SELECT jsonb_object_agg(o.option_name, o.option_value)
                  FROM pg_options_to_table(c.reloptions) AS o WHERE c.relkind <> 'v'),
               'objects',
               (SELECT jsonb_agg(jsonb_build_object('kind', o.kind, 'name', o.name,
                                                    'definition', o.definition) || o.more
                                 ORDER BY o.place)
                  FROM pgtrickle.list_table_objects(c.oid) AS o),
               'replica_identity',
               CASE WHEN c.relkind = 'r' THEN CASE c.relreplident
                        WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING' WHEN 'i' THEN 'INDEX' END END,
               'replica_index',
               (SELECT i.relname FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid
                 WHERE x.indrelid = c.oid AND x.indisreplident),
               'row_security', CASE WHEN c.relforcerowsecurity THEN 'forced'
                                    WHEN c.relrowsecurity THEN 'enabled' END,
               'grants',
               (SELECT jsonb_agg(g.entry ORDER BY g.number, g.place)
                  FROM (SELECT 0 AS number, row_number() OVER () AS place,
                               jsonb_build_object('to', e.grantee, 'privileges', e.privileges,
                                                  'grantable', nullif(e.grantable, false)) AS entry
                          FROM pgtrickle.describe_grants(c.relacl, c.relowner) AS e
                         UNION ALL
                        SELECT a.attnum, row_number() OVER (),
                               jsonb_build_object('to', e.grantee, 'privileges', e.privileges,
                                                  'column', a.attname,
                                                  'grantable', nullif(e.grantable, false))
                          FROM pg_attribute AS a,
                               pgtrickle.describe_grants(a.attacl, c.relowner) AS e
                         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS g)))
      FROM pg_class AS c
     WHERE c.oid = relation
$$;

COMMENT ON FUNCTION pgtrickle.describe_table(oid) IS
    'What was said of a table and added to it, as JSON; who owns it is left out.';

-- As a procedure of SQL records it: the schemas that are there, and the owner's in place of "$user".
CREATE OR REPLACE FUNCTION pgtrickle.resolve_path(search_path text, owner text)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(string_agg(quote_ident(n.nspname), ', ' ORDER BY m.place), '')
      FROM regexp_matches($1, '"((?:[^"]|"")*)"|([^\s,"]+)', 'g') WITH ORDINALITY AS m (parts, place),
           coalesce(replace(m.parts[1], '""', '"'), lower(m.parts[2])) AS w (word)
      JOIN pg_namespace AS n ON n.nspname = CASE w.word WHEN '$user' THEN owner ELSE w.word END
$$;

COMMENT ON FUNCTION pgtrickle.resolve_path(text, text) IS
    'The schemas of a search path that exist.';

CREATE OR REPLACE FUNCTION pgtrickle.describe_definition(stream_table bigint)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object('kind', 'stream table')
        || pgtrickle.stream_table_spec(present.name)
        || jsonb_build_object(
               'name', present.name,
               'search_path', pgtrickle.resolve_path(s.query_search_path, s.owner_role),
               'initialize', s.is_populated,
               -- What errors have suspended is tried again elsewhere.
               'status', CASE WHEN s.status = 'SUSPENDED' AND s.suspended_by IS NULL
                              THEN 'SUSPENDED' ELSE 'ACTIVE' END,
               'paused', pgtrickle.is_paused(s.pgt_id),
               'sources',
               (SELECT coalesce(jsonb_agg(n.name ORDER BY n.name), '[]')
                  FROM pgtrickle.pgt_dependencies AS d
                  LEFT JOIN pg_class AS c ON c.oid = d.source_relid
                  LEFT JOIN pg_namespace AS p ON p.oid = c.relnamespace,
                       format('%I.%I', d.source_schema, d.source_name) AS recorded (name),
                       -- In a restored database, oids are those of other relations.
                       coalesce(CASE WHEN NOT EXISTS (
                                     SELECT FROM pg_class AS o JOIN pg_namespace AS q ON q.oid = o.relnamespace
                                      WHERE q.nspname = d.source_schema AND o.relname = d.source_name)
                                     THEN quote_ident(p.nspname) || '.' || quote_ident(c.relname) END,
                                recorded.name) AS n (name)
                 WHERE d.pgt_id = s.pgt_id),
               'uses',
               (SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object(
                                    'kind', o.value ->> 'class', 'name', o.value ->> 'name')), '[]')
                  FROM jsonb_array_elements(s.bound -> 'objects') AS o (value)
                 WHERE o.value ->> 'class' <> 'relation'),
               'table', coalesce(
                   (SELECT pgtrickle.describe_table(o.oid)
                      FROM pg_class AS o JOIN pg_namespace AS q ON q.oid = o.relnamespace,
                           parse_ident(present.name) AS p (parts)
                     WHERE q.nspname = p.parts[1] AND o.relname = p.parts[2]), '{}'),
               'subscriptions',
               (SELECT coalesce(jsonb_agg(jsonb_build_object('channel', b.channel, 'role', r.rolname)
                                          ORDER BY b.channel), '[]')
                  FROM pgtrickle.pgt_subscriptions AS b JOIN pg_roles AS r ON r.oid = b.subscriber_oid
                 WHERE b.pgt_id = s.pgt_id))
        -- None applies to IMMEDIATE stream tables.
        || jsonb_strip_nulls(jsonb_build_object('sla_s', CASE WHEN s.refresh_mode <> 'IMMEDIATE'
               THEN pgtrickle.find_service_level(s.pgt_id) END,
               'outbox', pgtrickle.describe_outbox(s.pgt_id)))
      FROM pgtrickle.pgt_stream_tables AS s, pgtrickle.present_name(s.pgt_id) AS present (name)
     WHERE s.pgt_id = stream_table
$$;

COMMENT ON FUNCTION pgtrickle.describe_definition(bigint) IS
    'Everything that makes a stream table again, as JSON.';

-- Of one stream table: what holds it back, and the groups that it or its sources belong to.
CREATE OR REPLACE FUNCTION pgtrickle.describe_scheduling(stream_table bigint DEFAULT NULL)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH own AS (
        SELECT format('%I.%I', n.nspname, c.relname) AS name, c.oid = s.pgt_relid AS itself
          FROM pgtrickle.pgt_stream_tables AS s
          LEFT JOIN pgtrickle.pgt_dependencies AS d USING (pgt_id)
          JOIN pg_class AS c ON c.oid IN (s.pgt_relid, d.source_relid)
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE stream_table IS NULL OR s.pgt_id = stream_table
    )
    SELECT jsonb_build_object(
               'gates',
               (SELECT coalesce(jsonb_agg(g.source_table ORDER BY g.source_table), '[]')
                  FROM pgtrickle.bootstrap_gate_status() AS g
                 WHERE g.gated AND position('.' IN g.source_table) > 0
                   AND (stream_table IS NULL
                        OR g.source_table IN (SELECT o.name FROM own AS o WHERE NOT o.itself))),
               'watermarks',
               (SELECT coalesce(jsonb_agg(jsonb_build_object(
                           'source', w.source_table,
                           'watermark', to_char(w.watermark AT TIME ZONE 'UTC',
                                                'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
                           ORDER BY w.source_table), '[]')
                  FROM pgtrickle.watermarks() AS w
                 WHERE position('.' IN w.source_table) > 0
                   AND (stream_table IS NULL
                        OR w.source_table IN (SELECT o.name FROM own AS o WHERE NOT o.itself))),
               'watermark_groups',
               (SELECT coalesce(jsonb_agg(jsonb_build_object(
                           'name', g.group_name, 'sources', g.sources,
                           'tolerance_secs', g.tolerance_secs) ORDER BY g.group_name), '[]')
                  FROM pgtrickle.watermark_status() AS g
                 WHERE cardinality(g.sources) > 1
                   AND (stream_table IS NULL
                        OR EXISTS (SELECT FROM own AS o
                                    WHERE NOT o.itself AND o.name = ANY (g.sources)))),
               'refresh_groups',
               (SELECT coalesce(jsonb_agg(jsonb_build_object(
                           'name', g.group_name, 'members', g.members,
                           'isolation', g.isolation) ORDER BY g.group_name), '[]')
                  FROM pgtrickle.refresh_groups() AS g
                 WHERE cardinality(g.members) > 1
                   AND (stream_table IS NULL
                        OR EXISTS (SELECT FROM own AS o WHERE o.itself AND o.name = ANY (g.members)))))
$$;

COMMENT ON FUNCTION pgtrickle.describe_scheduling(bigint) IS
    'Gates, watermarks and groups as JSON: all, or those that concern one stream table.';

-- A view that reads stream tables, and that stream tables read, has to be made between them.
CREATE OR REPLACE FUNCTION pgtrickle.describe_view(relation oid)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
               'kind', 'view', 'name', format('%I.%I', n.nspname, c.relname),
               'definition',
               concat('(' || (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
                                FROM pg_attribute AS a
                               WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) || ') ',
                      'WITH (' || (SELECT string_agg(format('%I = %L', o.option_name, o.option_value), ', '
                                                     ORDER BY o.option_name)
                                     FROM pg_options_to_table(c.reloptions) AS o) || ') ',
                      'AS', rtrim(pg_get_viewdef(c.oid), ';')),
               'table', pgtrickle.describe_table(c.oid))
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.oid = relation
$$;

COMMENT ON FUNCTION pgtrickle.describe_view(oid) IS 'The definition of a view, as JSON.';

-- Members of a circle are first made with their columns and without rows: then each can be read by the
-- others, and gets its query.
CREATE OR REPLACE FUNCTION pgtrickle.describe_placeholder(stream_table bigint)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
               'kind', 'placeholder', 'name', pgtrickle.present_name(s.pgt_id), 'query',
               (SELECT format('SELECT %s WHERE false', string_agg(
                           format('NULL::%s%s AS %I', format_type(a.atttypid, a.atttypmod),
                                  CASE WHEN a.attcollation <> 0
                                       THEN ' COLLATE ' || a.attcollation::regcollation END,
                                  a.attname), ', ' ORDER BY a.attnum))
                  FROM pg_attribute AS a
                 WHERE a.attrelid = s.pgt_relid AND a.attnum > 0 AND NOT a.attisdropped
                   AND a.attgenerated = ''))
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_id = stream_table
$$;

COMMENT ON FUNCTION pgtrickle.describe_placeholder(bigint) IS
    'The definition with which a member of a circle can be made before the others, as JSON.';

-- Each after what it reads; of those that could be next, the first by name.
CREATE OR REPLACE FUNCTION pgtrickle.list_definitions()
RETURNS SETOF jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    left_over oid[];
    half_made oid[] := '{}';
    reads     jsonb;
    one       record;
BEGIN
    -- By relation, what it reads of the others: stream tables, and the views between them.
    WITH RECURSIVE tables AS (
        SELECT s.pgt_relid AS relid, s.pgt_id, s.pgt_schema, s.pgt_name,
               s.frontier IS NULL OR pgtrickle.lies_here(s.frontier) AS settled
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.pgt_schema <> 'pgtrickle_state'
    ), arrows (reader, source) AS (
        -- What was not refreshed since the database was restored has the oids of the other database.
        SELECT t.relid, coalesce(named.relid, d.source_relid)
          FROM pgtrickle.pgt_dependencies AS d
          JOIN tables AS t USING (pgt_id)
          LEFT JOIN LATERAL (
               SELECT coalesce((SELECT o.relid FROM tables AS o
                                 WHERE o.pgt_schema = d.source_schema AND o.pgt_name = d.source_name),
                               (SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                                 WHERE n.nspname = d.source_schema AND c.relname = d.source_name))
               ) AS named (relid) ON NOT t.settled
    ), views (relid) AS (
        SELECT a.source FROM arrows AS a JOIN pg_class AS c ON c.oid = a.source AND c.relkind = 'v'
         UNION
        SELECT d.refobjid
          FROM views AS v
          JOIN pg_rewrite AS r ON r.ev_class = v.relid
          JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                             AND d.refclassid = 'pg_class'::regclass
          JOIN pg_class AS c ON c.oid = d.refobjid AND c.relkind = 'v'
    ), views_read (reader, source) AS (
        SELECT DISTINCT v.relid, d.refobjid
          FROM views AS v
          JOIN pg_rewrite AS r ON r.ev_class = v.relid
          JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                             AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> v.relid
    ), between_them (relid) AS (
        SELECT v.reader FROM views_read AS v JOIN tables AS t ON t.relid = v.source
         UNION
        SELECT v.reader FROM views_read AS v JOIN between_them AS b ON b.relid = v.source
    ), nodes AS (
        SELECT t.relid FROM tables AS t UNION SELECT b.relid FROM between_them AS b
    )
    SELECT coalesce(array_agg(n.relid ORDER BY p.nspname, c.relname), '{}'),
           jsonb_object_agg(n.relid::text,
               (SELECT coalesce(jsonb_agg(DISTINCT a.source::text), '[]')
                  FROM (SELECT * FROM arrows UNION SELECT * FROM views_read) AS a
                 WHERE a.reader = n.relid AND a.source IN (SELECT relid FROM nodes)))
      INTO left_over, reads
      FROM nodes AS n LEFT JOIN pg_class AS c ON c.oid = n.relid
      LEFT JOIN pg_namespace AS p ON p.oid = c.relnamespace;
    WHILE cardinality(left_over) > 0 LOOP
        -- What is made in half will do for the members of its own circle, and for views.
        SELECT o.relid, s.pgt_id, false AS half INTO one
          FROM unnest(left_over) WITH ORDINALITY AS o (relid, place)
          LEFT JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_relid = o.relid
         WHERE NOT EXISTS (
                   SELECT FROM jsonb_array_elements_text(reads -> o.relid::text) AS needed (relid)
                     LEFT JOIN pgtrickle.pgt_stream_tables AS n ON n.pgt_relid = needed.relid::oid
                    WHERE needed.relid::oid = ANY (left_over)
                      AND NOT (needed.relid::oid = ANY (half_made)
                               AND (s.pgt_id IS NULL OR n.scc_id IS NOT DISTINCT FROM s.scc_id)))
         ORDER BY o.place LIMIT 1;
        IF NOT FOUND THEN
            SELECT o.relid, s.pgt_id, true AS half INTO one
              FROM unnest(left_over) WITH ORDINALITY AS o (relid, place)
              JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_relid = o.relid
             WHERE s.scc_id IS NOT NULL AND o.relid <> ALL (half_made)
             ORDER BY s.scc_id, o.place LIMIT 1;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'these relations read one another: %', left_over::regclass[]
                      USING ERRCODE = 'ST901', HINT = 'Report this: the catalog does not call them a circle.';
            END IF;
        END IF;
        IF one.half THEN
            half_made := half_made || one.relid;
            RETURN NEXT pgtrickle.describe_placeholder(one.pgt_id);
        ELSE
            left_over := array_remove(left_over, one.relid);
            RETURN NEXT CASE WHEN one.pgt_id IS NULL THEN pgtrickle.describe_view(one.relid)
                             ELSE pgtrickle.describe_definition(one.pgt_id) END;
        END IF;
    END LOOP;
END
$$;

COMMENT ON FUNCTION pgtrickle.list_definitions() IS
    'All definitions as JSON, in an order in which they can be made.';

CREATE OR REPLACE FUNCTION pgtrickle.list_access()
RETURNS TABLE (role text, level text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_get_userbyid(a.grantee),
           CASE WHEN EXISTS (
                    SELECT FROM pg_attribute AS v, aclexplode(v.attacl) AS asks
                     WHERE v.attrelid = 'pgtrickle.pgt_requests'::regclass AND v.attname = 'verb'
                       AND asks.grantee = a.grantee AND asks.privilege_type = 'INSERT')
                THEN 'operator' ELSE 'reader' END
      FROM pg_class AS c, aclexplode(c.relacl) AS a
     WHERE c.oid = 'pgtrickle.pgt_schema_version'::regclass
       AND a.privilege_type = 'SELECT' AND a.grantee NOT IN (c.relowner, 0)
       -- Default privileges give rights on tables, too, and no level of access.
       AND EXISTS (SELECT FROM pg_namespace AS n, aclexplode(n.nspacl) AS enters
                    WHERE n.nspname = 'pgtrickle' AND enters.grantee = a.grantee
                      AND enters.privilege_type = 'USAGE')
       AND EXISTS (SELECT FROM pg_roles AS r WHERE r.oid = a.grantee)
$$;

COMMENT ON FUNCTION pgtrickle.list_access() IS 'The roles that have a level of access.';

CREATE OR REPLACE FUNCTION pgtrickle.describe_database()
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
               'settings',
               (SELECT coalesce(jsonb_object_agg(s.name, s.value), '{}')
                  FROM pgtrickle.pgt_settings AS s WHERE s.value IS NOT NULL),
               'access',
               (SELECT coalesce(jsonb_agg(jsonb_build_object('role', a.role, 'level', a.level)
                                          ORDER BY a.role), '[]')
                  FROM pgtrickle.list_access() AS a),
               'lake_tables',
               (SELECT coalesce(jsonb_agg(jsonb_build_object(
                           'name', l.landing, 'lake_table', l.lake_table, 'columns', l.columns,
                           'catalog_schema', l.catalog_schema,
                           'compaction_policy', l.compaction_policy) ORDER BY l.landing), '[]')
                  FROM pgtrickle.ducklake_sources() AS l),
               'items', (SELECT coalesce(jsonb_agg(d.item ORDER BY d.place), '[]')
                           FROM pgtrickle.list_definitions() WITH ORDINALITY AS d (item, place)))
        || pgtrickle.describe_scheduling()
$$;

COMMENT ON FUNCTION pgtrickle.describe_database() IS
    'Every definition of this database, its settings and who may use it, as JSON.';

-- Scripts

CREATE OR REPLACE FUNCTION pgtrickle.quote_name(name text)
RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT string_agg(quote_ident(p.part), '.' ORDER BY p.place)
      FROM unnest(parse_ident(name)) WITH ORDINALITY AS p (part, place)
$$;

COMMENT ON FUNCTION pgtrickle.quote_name(text) IS
    'The same name with its parts quoted; fails if it is no name.';

CREATE OR REPLACE FUNCTION pgtrickle.write_block(condition text, statement text)
RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 'DO ' || CASE WHEN position('$do$' IN body) = 0 THEN concat('$do$ ', body, ' $do$')
                         ELSE quote_literal(body) END
      FROM format('%sBEGIN IF %s THEN %s; END IF; END',
                  CASE WHEN starts_with(statement, 'CALL ') THEN 'DECLARE answer jsonb; ' END,
                  condition, statement) AS body
$$;

COMMENT ON FUNCTION pgtrickle.write_block(text, text) IS
    'A statement that runs another one if a condition holds; a call may name its result answer.';

-- Each is one statement, of a kind that its beginning settles.  Where PostgreSQL has no IF NOT EXISTS,
-- there is a condition.
CREATE OR REPLACE FUNCTION pgtrickle.write_object(relation text, object jsonb)
RETURNS TABLE (statement text, condition text)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    kind   text := object ->> 'kind';
    called text := object ->> 'name';
    rest   text := object ->> 'definition';
BEGIN
    CASE kind
    WHEN 'constraint' THEN
        statement := format('ALTER TABLE %s ADD CONSTRAINT %I %s', relation, called, rest);
        condition := format('NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = %L::regclass'
                            ' AND conname = %L)', relation, called);
    WHEN 'index' THEN
        statement := format('CREATE %sINDEX IF NOT EXISTS %I ON %s %s',
                            CASE WHEN (object -> 'unique')::boolean THEN 'UNIQUE ' END,
                            called, relation, rest);
    WHEN 'statistics' THEN
        called := pgtrickle.quote_name(called);
        statement := format('CREATE STATISTICS IF NOT EXISTS %s %s', called, rest);
    WHEN 'policy' THEN
        statement := format('CREATE POLICY %I ON %s %s', called, relation, rest);
        condition := format('NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = %L::regclass'
                            ' AND polname = %L)', relation, called);
    WHEN 'trigger' THEN
        statement := format('CREATE OR REPLACE TRIGGER %I %s', called, rest);
    ELSE
        RAISE EXCEPTION 'there is no kind of object "%"', kind
              USING ERRCODE = 'ST223', HINT = 'Dump the definitions again.';
    END CASE;
    RETURN NEXT;
    condition := NULL;
    IF object ->> 'enabled' IN ('DISABLE', 'ENABLE REPLICA', 'ENABLE ALWAYS') THEN
        statement := format('ALTER TABLE %s %s TRIGGER %I', relation, object ->> 'enabled', called);
        RETURN NEXT;
    END IF;
    IF object ? 'comment' THEN
        statement := format('COMMENT ON %s IS %L', CASE kind
            WHEN 'index' THEN format('INDEX %I.%I', (parse_ident(relation))[1], called)
            WHEN 'statistics' THEN 'STATISTICS ' || called
            ELSE format('%s %I ON %s', upper(kind), called, relation) END, object ->> 'comment');
        RETURN NEXT;
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.write_object(text, jsonb) IS
    'The statements that add something to a table.';

CREATE OR REPLACE FUNCTION pgtrickle.write_removal(relation text, object jsonb)
RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE object ->> 'kind'
               WHEN 'constraint' THEN format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', r.name, o.name)
               WHEN 'index' THEN format('DROP INDEX IF EXISTS %I.%I', (parse_ident(relation))[1], o.name)
               WHEN 'statistics' THEN format('DROP STATISTICS IF EXISTS %s', pgtrickle.quote_name(o.name))
               WHEN 'policy' THEN format('DROP POLICY IF EXISTS %I ON %s', o.name, r.name)
               WHEN 'trigger' THEN format('DROP TRIGGER IF EXISTS %I ON %s', o.name, r.name) END
      FROM pgtrickle.quote_name(relation) AS r (name), (SELECT object ->> 'name') AS o (name)
$$;

COMMENT ON FUNCTION pgtrickle.write_removal(text, jsonb) IS
    'The statement that drops something that was added to a table.';

-- Rows are hidden before anybody is let in.
CREATE OR REPLACE FUNCTION pgtrickle.write_table(name text, kind text, described jsonb)
RETURNS TABLE (statement text, condition text)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    relation text := pgtrickle.quote_name(name);
    one      jsonb;
BEGIN
    IF described ? 'comment' THEN
        statement := format('COMMENT ON %s %s IS %L', CASE kind WHEN 'view' THEN 'VIEW' ELSE 'TABLE' END,
                            relation, described ->> 'comment');
        RETURN NEXT;
    END IF;
    FOR one IN SELECT * FROM jsonb_array_elements(described -> 'column_comments') LOOP
        statement := format('COMMENT ON COLUMN %s.%I IS %L', relation, one ->> 'column', one ->> 'comment');
        RETURN NEXT;
    END LOOP;
    IF described ? 'storage_parameters' THEN
        SELECT format('ALTER TABLE %s SET (%s)', relation, string_agg(format('%I = %L', p.key, p.value), ', '))
          INTO statement FROM jsonb_each_text(described -> 'storage_parameters') AS p;
        RETURN NEXT;
    END IF;
    RETURN QUERY SELECT w.statement, w.condition
                   FROM jsonb_array_elements(described -> 'objects') WITH ORDINALITY AS o (object, place),
                        ROWS FROM (pgtrickle.write_object(relation, o.object))
                            WITH ORDINALITY AS w (statement, condition, part)
                  ORDER BY o.place, w.part;
    condition := NULL;
    IF described ->> 'replica_identity' IN ('FULL', 'NOTHING', 'INDEX') THEN
        statement := format('ALTER TABLE %s REPLICA IDENTITY %s%s', relation,
                            CASE described ->> 'replica_identity' WHEN 'INDEX' THEN 'USING INDEX '
                                 ELSE described ->> 'replica_identity' END,
                            quote_ident(described ->> 'replica_index'));
        RETURN NEXT;
    END IF;
    IF described ? 'row_security' THEN
        statement := format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', relation);
        RETURN NEXT;
    END IF;
    IF described ->> 'row_security' = 'forced' THEN
        statement := format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', relation);
        RETURN NEXT;
    END IF;
    FOR one IN SELECT * FROM jsonb_array_elements(described -> 'grants') LOOP
        SELECT format('GRANT %s ON TABLE %s TO %s%s',
                      string_agg(concat(p.word, ' (' || quote_ident(one ->> 'column') || ')'), ', '
                                 ORDER BY p.word),
                      relation, coalesce(quote_ident(one ->> 'to'), 'PUBLIC'),
                      CASE WHEN (one -> 'grantable')::boolean THEN ' WITH GRANT OPTION' END)
          INTO statement
          FROM jsonb_array_elements_text(one -> 'privileges') AS p (word)
         WHERE p.word IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER',
                          'MAINTAIN');
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON FUNCTION pgtrickle.write_table(text, text, jsonb) IS
    'The statements that give a table what describe_table found.';

-- A service level chooses tier and schedule, which may have been changed later, to a cron schedule too.
CREATE OR REPLACE FUNCTION pgtrickle.write_service_level(item jsonb)
RETURNS SETOF text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT unnest(ARRAY[
               pgtrickle.write_block(
                   format('pgtrickle.find_service_level(pgtrickle.find_stream_table(%L)) IS DISTINCT FROM %s',
                          item ->> 'name', s.seconds),
                   format('CALL pgtrickle.alter_stream_table(%L, schedule => ''calculated'', result => answer);'
                          ' CALL pgtrickle.set_stream_table_sla(%L, make_interval(secs => %s), answer)',
                          item ->> 'name', item ->> 'name', s.seconds)),
               format('CALL pgtrickle.alter_stream_table(%L, schedule => %L, tier => %L)', item ->> 'name',
                      item ->> 'schedule', item ->> 'tier')])
      FROM (SELECT (item -> 'sla_s')::double precision) AS s (seconds)
     WHERE item ? 'sla_s'
$$;

COMMENT ON FUNCTION pgtrickle.write_service_level(jsonb) IS
    'The statements that promise what the description of a stream table says, and leave tier and schedule.';

-- The entries and the consumer groups of an outbox belong to its database.
CREATE OR REPLACE FUNCTION pgtrickle.write_outbox(item jsonb)
RETURNS SETOF text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pgtrickle.write_block(
               format('pgtrickle.describe_outbox(pgtrickle.find_stream_table(%L)) IS DISTINCT FROM %L',
                      item ->> 'name', item -> 'outbox'),
               format('CALL pgtrickle.enable_outbox(%L, %s, %s, answer)', item ->> 'name',
                      (item #> '{outbox,retention_hours}')::double precision,
                      (item #> '{outbox,inline_threshold_rows}')::integer))
     WHERE item ? 'outbox'
$$;

COMMENT ON FUNCTION pgtrickle.write_outbox(jsonb) IS
    'The statement that gives a stream table the outbox that its description says.';

CREATE OR REPLACE FUNCTION pgtrickle.write_definition(item jsonb)
RETURNS SETOF text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text := item ->> 'name';
    one  jsonb;
BEGIN
    CASE item ->> 'kind'
    WHEN 'placeholder' THEN
        RETURN NEXT format('CALL pgtrickle.create_stream_table_if_not_exists(%L, %L)', name,
                           item ->> 'query');
        RETURN;
    WHEN 'view' THEN
        RETURN NEXT 'SET search_path = pg_catalog, pg_temp';
        RETURN NEXT format('CREATE OR REPLACE VIEW %s %s', pgtrickle.quote_name(name),
                           item ->> 'definition');
    ELSE
        RETURN QUERY SELECT pgtrickle.write_definition_calls(item);
        RETURN QUERY SELECT pgtrickle.write_service_level(item);
        RETURN QUERY SELECT pgtrickle.write_outbox(item);
        -- What follows is written for this path.
        RETURN NEXT 'SET search_path = pg_catalog, pg_temp';
    END CASE;
    RETURN QUERY SELECT CASE WHEN w.condition IS NULL THEN w.statement
                             ELSE pgtrickle.write_block(w.condition, w.statement) END
                   FROM pgtrickle.write_table(name, item ->> 'kind', item -> 'table') AS w;
    FOR one IN SELECT * FROM jsonb_array_elements(item -> 'subscriptions') LOOP
        -- Whoever has no access here cannot be told.
        RETURN NEXT pgtrickle.write_block(
            format('has_schema_privilege(%L, ''pgtrickle'', ''USAGE'')', one ->> 'role'),
            format('SET LOCAL ROLE %I; PERFORM pgtrickle.subscribe(%L, %L); RESET ROLE', one ->> 'role',
                   name, one ->> 'channel'));
    END LOOP;
    IF (item -> 'paused')::boolean THEN
        RETURN NEXT format('CALL pgtrickle.pause_scheduler(ARRAY[%L])', name);
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.write_definition(jsonb) IS
    'The statements that make a stream table, or a view between two, from its description.';

-- Once everything is loaded: what is refreshed together with a suspended one cannot be.
CREATE OR REPLACE FUNCTION pgtrickle.write_suspension(item jsonb)
RETURNS SETOF text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('CALL pgtrickle.alter_stream_table(%L, status => ''SUSPENDED'')', item ->> 'name')
     WHERE item ->> 'status' = 'SUSPENDED'
$$;

COMMENT ON FUNCTION pgtrickle.write_suspension(jsonb) IS
    'The statement that suspends a stream table, if its description says so.';

-- A watermark does not go back, and a group needs all its members.
CREATE OR REPLACE FUNCTION pgtrickle.write_scheduling(described jsonb)
RETURNS SETOF text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('SELECT pgtrickle.gate_source(%L)', g.source)
      FROM jsonb_array_elements_text(described -> 'gates') AS g (source)
     UNION ALL
    SELECT format('SELECT pgtrickle.advance_watermark(%L, %L) WHERE NOT EXISTS (SELECT FROM'
                  ' pgtrickle.watermarks() WHERE source_table = %L AND watermark > %L)',
                  w.source, w.watermark, w.source, w.watermark)
      FROM jsonb_to_recordset(described -> 'watermarks') AS w (source text, watermark text)
     UNION ALL
    SELECT format('SELECT pgtrickle.create_watermark_group(%L, ARRAY[%s], %s) WHERE NOT EXISTS (SELECT'
                  ' FROM pgtrickle.watermark_status() WHERE group_name = %L) AND array_position(ARRAY[%s],'
                  ' NULL) IS NULL', g.name, m.sources, g.tolerance_secs, g.name, m.sources)
      FROM jsonb_to_recordset(described -> 'watermark_groups')
           AS g (name text, sources text[], tolerance_secs double precision),
           LATERAL (SELECT string_agg(format('to_regclass(%L)', s.source), ', ')
                      FROM unnest(g.sources) AS s (source)) AS m (sources)
     UNION ALL
    SELECT pgtrickle.write_block(
               format('NOT EXISTS (SELECT FROM pgtrickle.refresh_groups() WHERE group_name = %L) AND %s ='
                      ' (SELECT count(*) FROM pgtrickle.pgt_status() WHERE name = ANY (%L))',
                      g.name, cardinality(g.members), g.members),
               format('CALL pgtrickle.create_refresh_group(%L, %L, %L, answer)', g.name, g.members, g.isolation))
      FROM jsonb_to_recordset(described -> 'refresh_groups')
           AS g (name text, members text[], isolation text)
$$;

COMMENT ON FUNCTION pgtrickle.write_scheduling(jsonb) IS
    'The statements that make gates, watermarks and groups from their description.';

-- Nothing is dropped: what reads the stream table stays, and running it twice changes nothing.
CREATE OR REPLACE FUNCTION pgtrickle.export_definition(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT (SELECT string_agg(w.statement || E';\n', '' ORDER BY w.step, w.place)
              FROM (SELECT 1 AS step, d.*
                      FROM ROWS FROM (pgtrickle.write_definition(i.item)) WITH ORDINALITY AS d (statement, place)
                     UNION ALL
                    SELECT 2, d.*
                      FROM ROWS FROM (pgtrickle.write_suspension(i.item)) WITH ORDINALITY AS d (statement, place)
                     UNION ALL
                    SELECT 3, d.*
                      FROM ROWS FROM (pgtrickle.write_scheduling(pgtrickle.describe_scheduling(f.id)))
                           WITH ORDINALITY AS d (statement, place)) AS w (step, statement, place))
        || E'RESET search_path;\n'
      FROM pgtrickle.find_stream_table($1, $2) AS f (id), pgtrickle.describe_definition(f.id) AS i (item)
$$;

COMMENT ON FUNCTION pgtrickle.export_definition(text, name[]) IS
    'The statements that create a stream table, here or in another database, or restore its'
    ' definition: with comments, privileges, indexes and what else was added to it.';

-- A comment is one line, whatever it names.
CREATE OR REPLACE FUNCTION pgtrickle.write_dump()
RETURNS TABLE (place integer, part bigint, name text, script text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH whole (described) AS MATERIALIZED (
        SELECT pgtrickle.describe_database()
    ), parts (place, part, name, script) AS (
        SELECT 1, 0::bigint, NULL, concat_ws(E'\n',
                   '-- Definitions of the stream tables of ' || regexp_replace(
                       quote_ident(current_database()), '[[:cntrl:]]', ' ', 'g'),
                   '-- Run it in a database with their sources, where a daemon runs:',
                   '--     psql -X -v ON_ERROR_STOP=1 -f FILE', '', E'SET client_encoding = ''UTF8'';\n')
         UNION ALL
        SELECT 2, row_number() OVER (ORDER BY s.key), NULL,
               format(E'SELECT pgtrickle.set_setting(%L, %L);\n', s.key, s.value)
          FROM whole, jsonb_each_text(described -> 'settings') AS s
         UNION ALL
        SELECT 3, row_number() OVER (ORDER BY a.role), NULL,
               format(E'SELECT pgtrickle.grant_access(%L, %L);\n', a.role, a.level)
          FROM whole, jsonb_to_recordset(described -> 'access') AS a (role text, level text)
         UNION ALL
        SELECT 4, row_number() OVER (ORDER BY l.name), NULL,
               pgtrickle.write_block(
                   format('NOT EXISTS (SELECT FROM pgtrickle.ducklake_sources() WHERE landing = %L)', l.name),
                   format('CALL pgtrickle.attach_ducklake_table(%L, %L, %L, %L, %L, answer)', l.name, l.lake_table,
                          l.columns, l.catalog_schema, l.compaction_policy)) || E';\n'
          FROM whole, jsonb_to_recordset(described -> 'lake_tables')
               AS l (name text, lake_table text, columns text[], catalog_schema text,
                     compaction_policy text)
         UNION ALL
        SELECT 5, i.place, i.item ->> 'name', format(E'\n-- %s %s\n%s', i.item ->> 'kind',
                   regexp_replace(i.item ->> 'name', '[[:cntrl:]]', ' ', 'g'),
                   (SELECT string_agg(w.statement || E';\n', '' ORDER BY w.place)
                      FROM ROWS FROM (pgtrickle.write_definition(i.item))
                           WITH ORDINALITY AS w (statement, place)))
          FROM whole, jsonb_array_elements(described -> 'items') WITH ORDINALITY AS i (item, place)
         UNION ALL
        SELECT 6, 0, NULL, E'\n-- gates, watermarks and groups\nSET search_path = pg_catalog, pg_temp;\n'
         UNION ALL
        SELECT 6, i.place, NULL, w.statement || E';\n'
          FROM whole, jsonb_array_elements(described -> 'items') WITH ORDINALITY AS i (item, place),
               pgtrickle.write_suspension(i.item) AS w (statement)
         UNION ALL
        SELECT 7, w.place, NULL, w.statement || E';\n'
          FROM whole, ROWS FROM (pgtrickle.write_scheduling(described)) WITH ORDINALITY AS w (statement, place)
         UNION ALL
        SELECT 8, 0, NULL, E'RESET search_path;\n'
    )
    SELECT p.place, p.part, p.name, p.script FROM parts AS p ORDER BY p.place, p.part
$$;

COMMENT ON FUNCTION pgtrickle.write_dump() IS
    'The parts of the script of dump_definitions, in order; those of definitions have a name.';

CREATE OR REPLACE FUNCTION pgtrickle.dump_definitions()
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT string_agg(p.script, '' ORDER BY p.place, p.part) FROM pgtrickle.write_dump() AS p
$$;

COMMENT ON FUNCTION pgtrickle.dump_definitions() IS
    'A script that makes every stream table of this database again, each after what it reads, with the'
    ' settings, gates, watermarks and groups.';
