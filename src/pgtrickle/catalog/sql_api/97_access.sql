-- Levels of access: what each comes to, and who gives it

-- What each level comes to.  Functions are named without their arguments.
DELETE FROM pgtrickle.pgt_grants;

INSERT INTO pgtrickle.pgt_grants (level, privilege, target)
SELECT CASE WHEN p.proname = ANY (l.readers) THEN 'reader' ELSE 'operator' END, 'EXECUTE',
       format('%s %s', CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END,
              p.oid::regprocedure)
  FROM (VALUES (
           ARRAY['bootstrap_gate_status', 'change_buffer_sizes', 'check_cdc_health',
                 'capture_lag', 'check_outbox', 'cluster_worker_summary', 'consumer_lag',
                 'console_advice', 'console_requests', 'console_tables', 'daemons', 'dependency_tree',
                 'describe_database', 'describe_definition',
                 'describe_grants', 'describe_outbox', 'describe_placeholder', 'describe_scheduling', 'describe_table',
                 'describe_view', 'diff_snapshots', 'diff_tables', 'disk_usage', 'ducklake_catalogs', 'dump_definitions',
                 'ducklake_sink_status', 'ducklake_sources', 'explain_dag', 'explain_refresh_mode',
                 'explain_st', 'export_definition', 'falling_behind', 'find_compared', 'find_service_level',
                 'find_snapshot', 'find_stream_table', 'first_outbox_id', 'find_inbox', 'fuse_status',
                 'get_refresh_history', 'get_staleness', 'health_check', 'inbound_status', 'inbox_health',
                 'inbox_is_my_partition', 'inbox_ordering_gaps', 'inbox_status', 'inbox_trouble', 'is_drained',
                 'is_paused', 'is_served', 'lies_here', 'list_access', 'list_changes', 'list_definitions',
                 'list_followable', 'list_holds',
                 'list_identities', 'list_snapshots', 'list_sources', 'list_subscriptions',
                 'list_table_objects', 'outbox_entries', 'outbox_position', 'outbox_rows',
                 'outbox_schema', 'outbox_status',
                 'metrics_summary', 'parse_duration_seconds', 'pgt_scc_status', 'pgt_status', 'present_name', 'quote_name',
                 'resolve_path',
                 'recommend_refresh_mode', 'recommend_schedule',
                 'self_monitoring_status',
                 'refresh_efficiency', 'refresh_groups', 'refresh_timeline', 'relay_status',
                 'quiesce_status', 'request_queue', 'running_refreshes', 'schedule_recommendations',
                 'seal_outbox', 'show_settings', 'sla_summary', 'slot_health',
                 'stream_table_spec', 'version', 'view_evolution_status', 'watermark_status',
                 'watermarks', 'write_block', 'write_definition', 'write_definition_calls',
                 'write_dump', 'write_object', 'write_outbox', 'write_removal', 'write_scheduling',
                 'write_service_level', 'write_suspension', 'write_table'],
           ARRAY['advance_watermark', 'alter_stream_table', 'attach_ducklake_table',
                 'await_request', 'bulk_alter_stream_tables', 'bulk_create',
                 'bulk_drop_stream_tables', 'cache_stats', 'cancel_request', 'cancel_shadow',
                 'check_may_act_on', 'check_may_ask', 'check_may_group', 'clear_caches',
                 'commit_offset', 'compare_shadow', 'consumer_heartbeat',
                 'create_consumer_group', 'create_inbox', 'create_or_replace_stream_table',
                 'create_refresh_group', 'create_stream_table',
                 'create_stream_table_if_not_exists', 'create_watermark_group',
                 'detach_ducklake_table', 'diagnose_errors', 'diamond_groups',
                 'disable_inbox_ordering', 'disable_inbox_priority',
                 'disable_outbox', 'drop_consumer_group', 'drop_inbox',
                 'drop_refresh_group', 'drop_snapshot', 'drop_stream_table',
                 'drop_watermark_group', 'enable_inbox_ordering', 'enable_inbox_priority',
                 'enable_outbox', 'extend_lease',
                 'explain', 'explain_delta', 'explain_query_rewrite',
                 'explain_stream_table', 'find_obstacle', 'find_transaction_block',
                 'follow_request', 'gate_source', 'list_profiles', 'may_act_on', 'move_ducklake_catalog',
                 'pause_cdc', 'pause_scheduler', 'perform_request', 'poll_outbox',
                 'promote_shadow',
                 'rebuild_cdc_triggers', 'refresh_stream_table',
                 'refusal_of_commit', 'replay_inbox_messages', 'rename_stream_table', 'repair_stream_table',
                 'seek_offset',
                 'reset_fuse', 'restore_from_snapshot', 'resume_cdc', 'resume_scheduler',
                 'resume_stream_table', 'set_stream_table_sla', 'setup_self_monitoring',
                 'teardown_self_monitoring',
                 'show_as_of', 'snapshot_stream_table', 'submit_request',
                 'subscribe', 'ungate_source', 'unsubscribe', 'validate_query',
                 'verify_stream_table', 'write_and_refresh']
       )) AS l (readers, operators)
  JOIN pg_proc AS p ON p.proname = ANY (l.readers || l.operators)
 WHERE p.pronamespace = 'pgtrickle'::regnamespace
 UNION ALL
VALUES ('reader', 'USAGE', 'SCHEMA pgtrickle'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_consumer_groups'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_consumer_leases'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_consumer_offsets'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_consumers'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_dependencies'),
       ('reader', 'SELECT (delivery_id, stream_table_id, refresh_id, status, attempt_count,'
        ' failing_since, next_attempt_at, last_error, last_hint)',
        'TABLE pgtrickle.pgt_ducklake_sink_delivery'),
       ('reader', 'SELECT (pgt_id, lake_schema, lake_table)',
        'TABLE pgtrickle.pgt_ducklake_sinks'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_ducklake_sources'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_inbox_parts'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_inboxes'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_outbox_config'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_outbox_entries'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_outbox_rows'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_outbox_schemas'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_refresh_history'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_schema_version'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_settings'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_stream_tables'),
       ('reader', 'SELECT', 'TABLE pgtrickle.pgt_subscriptions'),
       ('reader', 'SELECT', 'TABLE pgtrickle.project_tables'),
       ('reader', 'SELECT', 'TABLE pgtrickle.project_test_results'),
       ('reader', 'SELECT', 'TABLE pgtrickle.quick_health'),
       ('reader', 'SELECT', 'TABLE pgtrickle.stream_tables_info'),
       ('operator', 'INSERT (act, stream_table, name)', 'TABLE pgtrickle.acts'),
       ('operator', 'INSERT (act, group_name, consumer, stream_table, number, seconds, word),'
        ' SELECT (stream_table, first_id, last_id, expires_at)', 'TABLE pgtrickle.consumer_acts'),
       ('operator', 'SELECT', 'TABLE pgtrickle.pgt_profiles'),
       ('operator', 'SELECT, INSERT, UPDATE (seen_at, cancelled_at)',
        'TABLE pgtrickle.pgt_request_signs'),
       ('operator', 'SELECT, INSERT (verb, arguments, seen_at)',
        'TABLE pgtrickle.pgt_requests'),
       ('operator', 'SELECT, INSERT, UPDATE (gated, gated_at, ungated_at, gated_by)',
        'TABLE pgtrickle.pgt_source_gates'),
       ('operator', 'SELECT, INSERT', 'TABLE pgtrickle.pgt_watermark_groups'),
       ('operator', 'SELECT, INSERT, UPDATE (watermark, updated_at, advanced_by)',
        'TABLE pgtrickle.pgt_watermarks'),
       ('operator', 'SELECT', 'TABLE pgtrickle.requests');

CREATE OR REPLACE FUNCTION pgtrickle.grant_access(role name, level text)
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
    'Let a role read (reader), also make requests and subscribe (operator), or do all that the owner of the'
    ' catalog may (admin).';

CREATE OR REPLACE FUNCTION pgtrickle.revoke_access(role name)
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
    'Take all privileges on the schema pgtrickle from a role; memberships stay.';

-- A routine that was made anew has lost who may call it, and default privileges may have opened what
-- is new: give each role again what its level comes to.
DO $$
DECLARE
    one record;
BEGIN
    REVOKE ALL ON ALL TABLES IN SCHEMA pgtrickle FROM PUBLIC;
    REVOKE ALL ON ALL ROUTINES IN SCHEMA pgtrickle FROM PUBLIC;
    FOR one IN
        SELECT a.role, a.level FROM pgtrickle.list_access() AS a
    LOOP
        PERFORM pgtrickle.grant_access(one.role, one.level);
    END LOOP;
END
$$;
