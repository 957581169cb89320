"""An example of each function and procedure of the SQL surface, for docs/sql_reference.md.

tests/service/requests/test_sql_reference.py runs them from top to bottom in one session, beside a
daemon, and fails if a function has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# What the examples need: they are run after this.
PREPARATION = """\
CREATE TABLE orders (id int PRIMARY KEY, region text, amount numeric(10,2));
INSERT INTO orders VALUES (1, 'north', 10.00), (2, 'south', 20.00);
CREATE TABLE customers (id int PRIMARY KEY, name text);
"""

READER, OPERATOR, OWNER = "reader", "operator", "owner of the catalog"

# Section to function to example; the order is that of the page and of the test.
EXAMPLES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Life of a stream table": {
            "create_stream_table": "CALL pgtrickle.create_stream_table('revenue',\n"
            "    'SELECT region, sum(amount) AS total FROM orders GROUP BY region',\n"
            "    schedule => '1m')",
            "create_stream_table_if_not_exists": "CALL pgtrickle.create_stream_table_if_not_exists("
            "'revenue', 'SELECT 1 AS one')",
            "create_or_replace_stream_table": "CALL pgtrickle.create_or_replace_stream_table("
            "'revenue',\n"
            "    'SELECT region, sum(amount) AS total FROM orders WHERE amount > 1'\n"
            "    ' GROUP BY region',\n"
            "    schedule => '5m')",
            "alter_stream_table": "CALL pgtrickle.alter_stream_table('revenue',"
            " refresh_mode => 'DIFFERENTIAL')",
            "refresh_stream_table": "CALL pgtrickle.refresh_stream_table('revenue')",
            "write_and_refresh": "CALL pgtrickle.write_and_refresh(\n"
            "    'INSERT INTO orders VALUES (3, ''west'', 5.00)', 'revenue')",
            "verify_stream_table": "CALL pgtrickle.verify_stream_table('revenue')",
            "repair_stream_table": "CALL pgtrickle.repair_stream_table('revenue')",
            "bulk_create": "CALL pgtrickle.bulk_create('[\n"
            '    {"name": "large", "query": "SELECT id FROM orders WHERE amount > 15"},\n'
            '    {"name": "regions", "query": "SELECT DISTINCT region FROM orders"}]\')',
            "bulk_alter_stream_tables": "CALL pgtrickle.bulk_alter_stream_tables("
            "'{large, regions}', '{\"status\": \"SUSPENDED\"}')",
            "resume_stream_table": "CALL pgtrickle.resume_stream_table('large')",
        },
        "Tables of the lake": {
            "attach_ducklake_table": "CALL pgtrickle.attach_ducklake_table('visits',"
            " 'main.visits',\n    columns => '{id, page}', catalog_schema => 'lake')",
            "ducklake_sources": "SELECT * FROM pgtrickle.ducklake_sources()",
            "detach_ducklake_table": "CALL pgtrickle.detach_ducklake_table('visits')",
            "ducklake_catalogs": "SELECT * FROM pgtrickle.ducklake_catalogs()",
            "move_ducklake_catalog": "CALL pgtrickle.move_ducklake_catalog(to_schema => 'ducklake',"
            "\n    from_schema => 'lake')",
            "show_as_of": "CALL pgtrickle.show_as_of('revenue', now()::text, max_rows => 10)",
        },
        "Holding the scheduler back": {
            "gate_source": "SELECT pgtrickle.gate_source('orders')",
            "bootstrap_gate_status": "SELECT * FROM pgtrickle.bootstrap_gate_status()",
            "ungate_source": "SELECT pgtrickle.ungate_source('orders')",
            "create_watermark_group": "SELECT pgtrickle.create_watermark_group('nightly',"
            " ARRAY['orders', 'customers'],\n    tolerance_secs => 60)",
            "advance_watermark": "SELECT pgtrickle.advance_watermark('orders',"
            " '2026-01-01 06:00+00')",
            "watermarks": "SELECT * FROM pgtrickle.watermarks()",
            "watermark_status": "SELECT * FROM pgtrickle.watermark_status()",
            "drop_watermark_group": "SELECT pgtrickle.drop_watermark_group('nightly')",
            "pause_scheduler": "CALL pgtrickle.pause_scheduler('{revenue, large}')",
            "list_holds": "SELECT name, reason FROM pgtrickle.list_holds()",
            "resume_scheduler": "CALL pgtrickle.resume_scheduler('{revenue, large}')",
            "drain": "CALL pgtrickle.drain(timeout_s => 10)",
            "is_drained": "SELECT pgtrickle.is_drained()",
            "undrain": "SELECT pgtrickle.undrain()",
            "metrics_summary": "SELECT stream_tables, refreshes, p99_ms"
            " FROM pgtrickle.metrics_summary()",
            "cluster_worker_summary": "SELECT daemon, leads, refreshes_running"
            " FROM pgtrickle.cluster_worker_summary()",
            "capture_lag": "SELECT * FROM pgtrickle.capture_lag()",
            "slot_health": "SELECT * FROM pgtrickle.slot_health()",
            "falling_behind": "SELECT name, stretch, took_seconds FROM pgtrickle.falling_behind()",
            "quiesce": "CALL pgtrickle.quiesce(timeout_s => 10)",
            "quiesce_status": "SELECT pgtrickle.quiesce_status()",
            "resume_all": "SELECT pgtrickle.resume_all()",
            "reset_fuse": "CALL pgtrickle.reset_fuse('revenue', action => 'apply')",
            "fuse_status": "SELECT * FROM pgtrickle.fuse_status()",
            "create_refresh_group": "CALL pgtrickle.create_refresh_group('morning',"
            " '{revenue, large}',\n    isolation => 'repeatable_read')",
            "refresh_groups": "SELECT * FROM pgtrickle.refresh_groups()",
            "diamond_groups": "CALL pgtrickle.diamond_groups()",
            "drop_refresh_group": "CALL pgtrickle.drop_refresh_group('morning')",
        },
        "How a query is maintained": {
            "validate_query": "CALL pgtrickle.validate_query('SELECT count(*) AS n FROM orders')",
            "explain": "CALL pgtrickle.explain('revenue')",
            "explain_stream_table": "CALL pgtrickle.explain_stream_table('revenue')",
            "list_profiles": "SELECT profile_id, taken_at, total_ms\n"
            "  FROM pgtrickle.list_profiles('revenue')",
            "explain_delta": "CALL pgtrickle.explain_delta('revenue')",
            "explain_st": "SELECT * FROM pgtrickle.explain_st('revenue')",
            "explain_query_rewrite": "CALL pgtrickle.explain_query_rewrite(\n"
            "    'SELECT region, sum(amount) AS total FROM orders GROUP BY region')",
            "explain_refresh_mode": "SELECT * FROM pgtrickle.explain_refresh_mode('revenue')",
            "export_definition": "SELECT pgtrickle.export_definition('revenue')",
            "dump_definitions": "SELECT pgtrickle.dump_definitions()",
            "stream_table_spec": "SELECT pgtrickle.stream_table_spec('revenue')",
        },
        "How stream tables are doing": {
            "daemons": "SELECT * FROM pgtrickle.daemons()",
            "running_refreshes": "SELECT * FROM pgtrickle.running_refreshes()",
            "request_queue": "SELECT * FROM pgtrickle.request_queue()",
            "pgt_status": "SELECT * FROM pgtrickle.pgt_status()",
            "get_refresh_history": "SELECT * FROM pgtrickle.get_refresh_history('revenue', 5)",
            "refresh_timeline": "SELECT * FROM pgtrickle.refresh_timeline(10)",
            "get_staleness": "SELECT pgtrickle.get_staleness('revenue')",
            "list_sources": "SELECT * FROM pgtrickle.list_sources('revenue')",
            "dependency_tree": "SELECT tree_line FROM pgtrickle.dependency_tree()",
            "pgt_scc_status": "SELECT * FROM pgtrickle.pgt_scc_status()",
            "explain_dag": "SELECT pgtrickle.explain_dag('mermaid')",
            "change_buffer_sizes": "SELECT * FROM pgtrickle.change_buffer_sizes()",
            "check_cdc_health": "SELECT * FROM pgtrickle.check_cdc_health()",
            "pause_cdc": "CALL pgtrickle.pause_cdc('{orders}')",
            "resume_cdc": "CALL pgtrickle.resume_cdc()",
            "rebuild_cdc_triggers": "CALL pgtrickle.rebuild_cdc_triggers()",
            "setup_self_monitoring": "CALL pgtrickle.setup_self_monitoring(schedule => '5m')",
            "self_monitoring_status": "SELECT * FROM pgtrickle.self_monitoring_status()",
            "teardown_self_monitoring": "CALL pgtrickle.teardown_self_monitoring()",
            "disk_usage": "SELECT kind, sum(bytes) FROM pgtrickle.disk_usage() GROUP BY kind",
            "cache_stats": "CALL pgtrickle.cache_stats()",
            "clear_caches": "CALL pgtrickle.clear_caches()",
            "refresh_efficiency": "SELECT * FROM pgtrickle.refresh_efficiency()",
            "set_stream_table_sla": "CALL pgtrickle.set_stream_table_sla('revenue',"
            " interval '1 minute')",
            "sla_summary": "SELECT * FROM pgtrickle.sla_summary(24)",
            "recommend_schedule": "SELECT pgtrickle.recommend_schedule('revenue')",
            "schedule_recommendations": "SELECT * FROM pgtrickle.schedule_recommendations()",
            "recommend_refresh_mode": "SELECT * FROM pgtrickle.recommend_refresh_mode()",
            "diagnose_errors": "CALL pgtrickle.diagnose_errors('revenue')",
            "health_check": "SELECT * FROM pgtrickle.health_check()",
            "ducklake_sink_status": "SELECT * FROM pgtrickle.ducklake_sink_status()",
            "version": "SELECT * FROM pgtrickle.version()",
            "is_served": "SELECT pgtrickle.is_served()",
            "find_stream_table": "SELECT pgtrickle.find_stream_table('revenue')",
            "parse_duration_seconds": "SELECT pgtrickle.parse_duration_seconds('1h30m')",
        },
        "Notices": {
            "subscribe": "SELECT pgtrickle.subscribe('revenue', 'revenue_changed')",
            "list_subscriptions": "SELECT * FROM pgtrickle.list_subscriptions()",
            "unsubscribe": "SELECT pgtrickle.unsubscribe('revenue', 'revenue_changed')",
        },
        "Requests": {
            "submit_request": "SELECT pgtrickle.submit_request('refresh_stream_table',"
            ' \'{"name": "revenue"}\')',
            "cancel_request": "SELECT pgtrickle.cancel_request(max(request_id))"
            " FROM pgtrickle.requests",
            "perform_request": "CALL pgtrickle.perform_request('refresh_stream_table',"
            ' \'{"name": "revenue"}\')',
        },
        "Settings and access": {
            "show_settings": "SELECT name, value, source FROM pgtrickle.show_settings()",
            "set_setting": "SELECT pgtrickle.set_setting('lease_seconds', '60')",
            "grant_access": "SELECT pgtrickle.grant_access('reporting', 'reader')",
            "revoke_access": "SELECT pgtrickle.revoke_access('reporting')",
            "migrate": "SELECT object, action FROM pgtrickle.migrate()",
        },
        "Snapshots": {
            "snapshot_stream_table": "CALL pgtrickle.snapshot_stream_table('revenue',"
            " 'revenue_before')",
            "list_snapshots": "SELECT snapshot_table, row_count, gap"
            " FROM pgtrickle.list_snapshots('revenue')",
            "diff_snapshots": 'SELECT change, copies, "row"'
            " FROM pgtrickle.diff_snapshots('revenue_before')",
            "restore_from_snapshot": "CALL pgtrickle.restore_from_snapshot('revenue',"
            " 'revenue_before')",
            "drop_snapshot": "CALL pgtrickle.drop_snapshot('revenue_before')",
        },
        "Change streams": {
            "enable_outbox": "CALL pgtrickle.enable_outbox('revenue', retention_hours => 48)",
            "outbox_status": "SELECT stream_table, first_id, last_id, blocked_by"
            "\n  FROM pgtrickle.outbox_status()",
            "outbox_position": "SELECT last_id, frontier FROM pgtrickle.outbox_position('revenue')",
            "outbox_rows": "SELECT outbox_id, op, key, after"
            "\n  FROM pgtrickle.outbox_rows('revenue', from_id => 1)",
            "outbox_entries": "SELECT outbox_id, inserted, updated, deleted, changes"
            "\n  FROM pgtrickle.outbox_entries('revenue')",
            "outbox_schema": "SELECT columns, key_columns FROM pgtrickle.outbox_schema('revenue')",
            "create_consumer_group": "SELECT pgtrickle.create_consumer_group('mirror', 'revenue',"
            " 'earliest')",
            "poll_outbox": "SELECT outbox_id, changes\n  FROM pgtrickle.poll_outbox('mirror',"
            " 'worker 1', batch => 100)",
            "extend_lease": "SELECT pgtrickle.extend_lease('mirror', 'worker 1', 60)",
            "consumer_heartbeat": "SELECT pgtrickle.consumer_heartbeat('mirror', 'worker 1')",
            "commit_offset": "SELECT pgtrickle.commit_offset('mirror', 'worker 1', 1)",
            "seek_offset": "SELECT pgtrickle.seek_offset('mirror', 0)",
            "consumer_lag": "SELECT group_name, lag_entries, lag_seconds, leased_to"
            "\n  FROM pgtrickle.consumer_lag()",
            "drop_consumer_group": "SELECT pgtrickle.drop_consumer_group('mirror')",
            "create_relay_pipeline": "SELECT pgtrickle.create_relay_pipeline('to_file',"
            " 'revenue', 'file',\n"
            '    options => \'{"path": "/srv/changes/revenue.jsonl"}\')',
            "relay_status": "SELECT pipeline, state, lag_rows, error"
            "\n  FROM pgtrickle.relay_status()",
            "pause_relay": "SELECT pgtrickle.pause_relay('to_file')",
            "resume_relay": "SELECT pgtrickle.resume_relay('to_file')",
            "relay_dead_letters": "SELECT message_id, op, key, error"
            "\n  FROM pgtrickle.relay_dead_letters('to_file')",
            "replay_dead_letters": "SELECT pgtrickle.replay_dead_letters('to_file')",
            "drop_relay_pipeline": "SELECT pgtrickle.drop_relay_pipeline('to_file')",
            "disable_outbox": "CALL pgtrickle.disable_outbox('revenue')",
        },
        "Inboxes": {
            "create_inbox": "CALL pgtrickle.create_inbox('payments_inbox', max_retries => 5)",
            "inbox_status": "SELECT inbox, pending, dead_letters, trouble"
            "\n  FROM pgtrickle.inbox_status()",
            "inbox_health": 'SELECT inbox, "check", severity, detail'
            "\n  FROM pgtrickle.inbox_health('payments_inbox')",
            "enable_inbox_ordering": "CALL pgtrickle.enable_inbox_ordering('payments_inbox')",
            "inbox_ordering_gaps": "SELECT aggregate, after_sequence, missing"
            "\n  FROM pgtrickle.inbox_ordering_gaps('payments_inbox')",
            "enable_inbox_priority": "CALL pgtrickle.enable_inbox_priority('payments_inbox',"
            " urgent_from => 5)",
            "inbox_is_my_partition": "SELECT event_id, payload FROM payments_inbox_pending"
            "\n WHERE pgtrickle.inbox_is_my_partition(aggregate_id, 0, 4)",
            "replay_inbox_messages": "SELECT pgtrickle.replay_inbox_messages('payments_inbox',"
            " ARRAY['pay-17'])",
            "disable_inbox_priority": "CALL pgtrickle.disable_inbox_priority('payments_inbox')",
            "disable_inbox_ordering": "CALL pgtrickle.disable_inbox_ordering('payments_inbox')",
            "create_inbound_pipeline": "SELECT pgtrickle.create_inbound_pipeline('payments',"
            " 'payments_inbox', 'redis',\n"
            '    options => \'{"url": "redis://redis.example.com", "stream": "payments"}\')',
            "inbound_status": "SELECT pipeline, state, messages, duplicates, error"
            "\n  FROM pgtrickle.inbound_status()",
            "pause_inbound": "SELECT pgtrickle.pause_inbound('payments')",
            "resume_inbound": "SELECT pgtrickle.resume_inbound('payments')",
            "inbound_dead_letters": "SELECT message_id, error"
            "\n  FROM pgtrickle.inbound_dead_letters('payments')",
            "replay_inbound_dead_letters": "SELECT"
            " pgtrickle.replay_inbound_dead_letters('payments')",
            "drop_inbound_pipeline": "SELECT pgtrickle.drop_inbound_pipeline('payments')",
            "drop_inbox": "CALL pgtrickle.drop_inbox('payments_inbox')",
        },
        "Shadow builds": {
            "view_evolution_status": "SELECT state, rows_loaded, lag_changes, converged"
            "\n  FROM pgtrickle.view_evolution_status('revenue')",
            "compare_shadow": "CALL pgtrickle.compare_shadow('revenue', max_rows => 10)",
            "promote_shadow": "CALL pgtrickle.promote_shadow('revenue')",
            "cancel_shadow": "CALL pgtrickle.cancel_shadow('revenue')",
        },
        "The end": {
            "rename_stream_table": "CALL pgtrickle.rename_stream_table('revenue', 'turnover')",
            "bulk_drop_stream_tables": "CALL pgtrickle.bulk_drop_stream_tables('{large, regions}')",
            "drop_stream_table": "CALL pgtrickle.drop_stream_table('turnover')",
        },
    }
)
