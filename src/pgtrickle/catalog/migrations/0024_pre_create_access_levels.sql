-- 0024 · pre · create the levels of access
--
-- Why:   others than the owner of the catalog look at stream tables, operate them, or create them.
-- Reads: nothing before this version reads the new table.
-- Locks: CREATE only.
-- Undo:  DROP TABLE pgtrickle.pgt_grants; DROP the functions below.

-- A later migration that brings a function says here who may call it.
CREATE TABLE pgtrickle.pgt_grants (
    level     text NOT NULL,
    privilege text NOT NULL,
    target    text NOT NULL,

    PRIMARY KEY (level, target),
    CONSTRAINT pgt_grants_level_known CHECK (level IN ('reader', 'operator'))
);

COMMENT ON TABLE pgtrickle.pgt_grants IS
    'What each level of access comes to; an operator may do what a reader may.';

REVOKE ALL ON pgtrickle.pgt_grants FROM PUBLIC;

INSERT INTO pgtrickle.pgt_grants (level, privilege, target)
SELECT 'reader', 'EXECUTE', format('%s %s', CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END,
                                   p.oid::regprocedure)
  FROM pg_proc AS p
 WHERE p.pronamespace = 'pgtrickle'::regnamespace
   AND p.proname IN ('is_served', 'find_stream_table', 'parse_duration_seconds', 'pgt_status',
                     'get_refresh_history', 'refresh_timeline', 'get_staleness',
                     'explain_refresh_mode', 'list_sources', 'change_buffer_sizes',
                     'dependency_tree', 'refresh_efficiency', 'sla_summary', 'health_check',
                     'check_cdc_health', 'version', 'export_definition', 'stream_table_spec',
                     'list_subscriptions')
 UNION ALL
SELECT 'operator', 'EXECUTE', format('%s %s', CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END,
                                     p.oid::regprocedure)
  FROM pg_proc AS p
 WHERE p.pronamespace = 'pgtrickle'::regnamespace
   AND (p.prokind = 'p'
        OR p.proname IN ('check_served', 'follow_request', 'submit_request', 'cancel_request',
                         'subscribe', 'unsubscribe'))
 UNION ALL
VALUES ('reader', 'USAGE', 'SCHEMA pgtrickle'),
       ('reader', 'SELECT', 'TABLE pgtrickle.stream_tables_info'),
       ('reader', 'SELECT', 'TABLE pgtrickle.quick_health'),
       ('operator', 'SELECT', 'TABLE pgtrickle.requests'),
       -- Who asks is not theirs to say: see 0020.
       ('operator', 'SELECT, INSERT (verb, arguments, seen_at), UPDATE (seen_at, cancelled_at)',
        'TABLE pgtrickle.pgt_requests');

CREATE FUNCTION pgtrickle.grant_access(role name, level text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one record;
BEGIN
    IF grant_access.level NOT IN ('reader', 'operator', 'admin') THEN
        RAISE EXCEPTION 'there is no level of access "%"', grant_access.level
              USING ERRCODE = 'ST501', HINT = 'Choose reader, operator or admin.';
    END IF;
    -- Default privileges of the database may have opened the tables to all who can reach them.
    REVOKE ALL ON ALL TABLES IN SCHEMA pgtrickle FROM PUBLIC;
    REVOKE ALL ON ALL ROUTINES IN SCHEMA pgtrickle FROM PUBLIC;
    FOR one IN
        SELECT g.privilege, g.target FROM pgtrickle.pgt_grants AS g
         WHERE g.level = 'reader' OR grant_access.level <> 'reader'
    LOOP
        EXECUTE format('GRANT %s ON %s TO %I', one.privilege, one.target, role);
    END LOOP;
    IF grant_access.level = 'admin' THEN
        -- Whoever creates stream tables lets the daemon run queries with its rights.
        EXECUTE format('GRANT %I TO %I',
                       (SELECT pg_get_userbyid(n.nspowner) FROM pg_namespace AS n
                         WHERE n.nspname = 'pgtrickle'), role);
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.grant_access(name, text) IS
    'Let a role look (reader), ask the daemon and subscribe (operator), or act as the owner of the
catalog (admin).';

CREATE FUNCTION pgtrickle.revoke_access(role name)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA pgtrickle FROM %I', role);
    EXECUTE format('REVOKE ALL ON ALL ROUTINES IN SCHEMA pgtrickle FROM %I', role);
    EXECUTE format('REVOKE ALL ON SCHEMA pgtrickle FROM %I', role);
END
$$;

COMMENT ON FUNCTION pgtrickle.revoke_access(name) IS
    'Take every access to the schema pgtrickle from a role, but not a membership.';

REVOKE ALL ON FUNCTION pgtrickle.grant_access(name, text), pgtrickle.revoke_access(name) FROM PUBLIC;
