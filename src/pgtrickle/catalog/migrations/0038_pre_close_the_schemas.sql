-- 0038 · pre · take from others what default privileges gave them on our schemas
--
-- Why:   whoever may create in a schema of ours can put code of his into it; such a catalog is not used.
-- Reads: nothing; roles that grant_access let in keep what they have.
-- Locks: none on tables.
-- Undo:  nothing to undo.

-- Levels of access come with USAGE on the schema pgtrickle and no more.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT DISTINCT n.nspname,
               CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
          FROM pg_namespace AS n, aclexplode(n.nspacl) AS a
         WHERE n.nspname IN ('pgtrickle', 'pgtrickle_changes', 'pgtrickle_state')
           AND a.grantee <> n.nspowner
           AND (a.privilege_type = 'CREATE' OR n.nspname <> 'pgtrickle')
    LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %s', one.nspname, one.role);
    END LOOP;
END
$$;
