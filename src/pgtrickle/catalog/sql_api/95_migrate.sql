-- Mending the catalog from SQL

CREATE OR REPLACE FUNCTION pgtrickle.describe_api()
RETURNS TABLE (object text, definition text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_describe_object('pg_proc'::regclass, p.oid, 0),
           md5(concat_ws(chr(1), pg_get_functiondef(p.oid), p.proowner, p.proacl::text,
                         obj_description(p.oid, 'pg_proc')))
      FROM pg_proc AS p WHERE p.pronamespace = 'pgtrickle'::regnamespace
     UNION ALL
    SELECT pg_describe_object('pg_class'::regclass, c.oid, 0),
           md5(concat_ws(chr(1), CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid) END, c.relowner,
                         c.relacl::text, c.reloptions, obj_description(c.oid, 'pg_class')))
      FROM pg_class AS c
     WHERE c.relnamespace = 'pgtrickle'::regnamespace AND c.relkind IN ('r', 'v')
     UNION ALL
    SELECT pg_describe_object('pg_trigger'::regclass, t.oid, 0),
           md5(concat_ws(chr(1), pg_get_triggerdef(t.oid), t.tgenabled))
      FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'pgtrickle'::regnamespace AND NOT t.tgisinternal
     UNION ALL
    SELECT pg_describe_object('pg_policy'::regclass, p.oid, 0),
           md5(concat_ws(chr(1), p.polcmd, p.polpermissive, p.polroles,
                         pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)))
      FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
     WHERE c.relnamespace = 'pgtrickle'::regnamespace
$$;

COMMENT ON FUNCTION pgtrickle.describe_api() IS
    'Everything in the catalog that runs, and a hash of each.';

-- The text is the one that a client has recorded: SQL cannot know a newer one.
CREATE OR REPLACE FUNCTION pgtrickle.migrate()
RETURNS TABLE (object text, action text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    owner  name;
    before jsonb;
    texts  text[];
    one    text;
BEGIN
    SELECT pg_get_userbyid(n.nspowner) INTO owner FROM pg_namespace AS n WHERE n.nspname = 'pgtrickle';
    -- Whatever is made belongs to the role that makes it.
    IF current_user <> owner THEN
        RAISE EXCEPTION 'only "%", who owns the catalog, may migrate it', owner
              USING ERRCODE = 'insufficient_privilege', HINT = format('Connect as %I.', owner);
    END IF;
    LOCK TABLE pgtrickle.pgt_schema_version IN SHARE ROW EXCLUSIVE MODE;
    SELECT jsonb_object_agg(d.object, d.definition) INTO before FROM pgtrickle.describe_api() AS d;
    SELECT array_agg(a.content ORDER BY a.name) INTO texts FROM pgtrickle.pgt_sql_api AS a;
    FOREACH one IN ARRAY texts LOOP
        EXECUTE one;
    END LOOP;
    RETURN QUERY
    SELECT d.object, CASE WHEN before ? d.object THEN 'restored' ELSE 'created' END
      FROM pgtrickle.describe_api() AS d
     WHERE before ->> d.object IS DISTINCT FROM d.definition
     ORDER BY 1;
END
$$;

COMMENT ON FUNCTION pgtrickle.migrate() IS
    'Create every function, procedure, view, policy and trigger of the catalog again as it was last migrated;'
    ' return those that were missing or different. For a newer version run: pgtrickle migrate.';
