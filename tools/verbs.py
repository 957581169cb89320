"""Every verb, and where it is: in Python, in the shell and in SQL.

A test compares this table with the client, the command line and the schema ``pgtrickle``: whoever
adds a verb says here where it is, and why it is not everywhere.  docs/reference/verbs.md is made
from it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that a user can do; an empty name: not there, for the reason in ``why``."""

    python: str = ""  # with the attribute of the client that has it
    cli: str = ""
    sql: str = ""
    why: str = ""


_OF_CONSUMERS = "a consumer is a program that runs on"
_OF_SESSIONS = "of use to a session of SQL only"
_FILES = "the files are where the client is; in SQL, the view project_tables"

VERBS: dict[str, tuple[Verb, ...]] = {
    "Life of a stream table": (
        Verb("create_stream_table", "create", "create_stream_table"),
        Verb("create_stream_table_if_not_exists", "create", "create_stream_table_if_not_exists"),
        Verb("create_or_replace_stream_table", "create", "create_or_replace_stream_table"),
        Verb("bulk_create", "bulk create", "bulk_create"),
        Verb("alter_stream_table", "alter", "alter_stream_table"),
        Verb("bulk_alter_stream_tables", "bulk alter", "bulk_alter_stream_tables"),
        Verb("resume_stream_table", "alter", "resume_stream_table"),
        Verb("refresh_stream_table", "refresh", "refresh_stream_table"),
        Verb("", "", "write_and_refresh", "in Python and the shell: write, then refresh"),
        Verb("cancel_refresh", "", "", "in SQL, cancel_request; in the shell, Ctrl-C"),
        Verb("verify_stream_table", "verify", "verify_stream_table"),
        Verb("repair_stream_table", "repair", "repair_stream_table"),
        Verb("rename_stream_table", "rename", "rename_stream_table"),
        Verb("drop_stream_table", "drop", "drop_stream_table"),
        Verb("bulk_drop_stream_tables", "bulk drop", "bulk_drop_stream_tables"),
    ),
    "Snapshots": (
        Verb("snapshots.snapshot_stream_table", "snapshot create", "snapshot_stream_table"),
        Verb("snapshots.restore_from_snapshot", "snapshot restore", "restore_from_snapshot"),
        Verb("snapshots.list_snapshots", "snapshot list", "list_snapshots"),
        Verb("snapshots.diff_snapshots", "snapshot diff", "diff_snapshots"),
        Verb("snapshots.drop_snapshot", "snapshot drop", "drop_snapshot"),
    ),
    "Change streams": (
        Verb("outbox.enable_outbox", "outbox enable", "enable_outbox"),
        Verb("outbox.disable_outbox", "outbox disable", "disable_outbox"),
        Verb("outbox.outbox_status", "outbox status", "outbox_status"),
        Verb("outbox.outbox_rows", "outbox rows", "outbox_rows"),
        Verb("outbox.outbox_position", "", "outbox_position", "in the shell, outbox status"),
        Verb("outbox.create_consumer_group", "consumers create", "create_consumer_group"),
        Verb("outbox.drop_consumer_group", "consumers drop", "drop_consumer_group"),
        Verb("outbox.seek_offset", "consumers seek", "seek_offset"),
        Verb("outbox.consumer_lag", "consumers lag", "consumer_lag"),
        Verb("outbox.poll_outbox", "", "poll_outbox", _OF_CONSUMERS),
        Verb("outbox.commit_offset", "", "commit_offset", _OF_CONSUMERS),
        Verb("outbox.extend_lease", "", "extend_lease", _OF_CONSUMERS),
        Verb("outbox.consumer_heartbeat", "", "consumer_heartbeat", _OF_CONSUMERS),
        Verb("", "", "outbox_entries", "in Python and the shell, outbox_rows"),
        Verb("", "", "outbox_schema", "in Python and the shell, the columns of the table"),
    ),
    "Inboxes": (
        Verb("inbox.create_inbox", "inbox create", "create_inbox"),
        Verb("inbox.drop_inbox", "inbox drop", "drop_inbox"),
        Verb("inbox.enable_inbox_ordering", "inbox enable-ordering", "enable_inbox_ordering"),
        Verb("inbox.disable_inbox_ordering", "inbox disable-ordering", "disable_inbox_ordering"),
        Verb("inbox.enable_inbox_priority", "inbox enable-priority", "enable_inbox_priority"),
        Verb("inbox.disable_inbox_priority", "inbox disable-priority", "disable_inbox_priority"),
        Verb("inbox.inbox_status", "inbox status", "inbox_status"),
        Verb("inbox.inbox_health", "inbox health", "inbox_health"),
        Verb("inbox.inbox_ordering_gaps", "inbox gaps", "inbox_ordering_gaps"),
        Verb("inbox.replay_inbox_messages", "inbox replay", "replay_inbox_messages"),
        Verb("inbox.inbox_is_my_partition", "", "inbox_is_my_partition", "for programs that work"),
    ),
    "Relays": (
        Verb("relay.create_relay_pipeline", "", "create_relay_pipeline", "in the shell, a file"),
        Verb("relay.drop_relay_pipeline", "relay drop", "drop_relay_pipeline"),
        Verb("relay.run_relay", "relay run", "", "a relay is a process"),
        Verb("relay.validate_relay", "relay validate", "", "secrets are where the relay runs"),
        Verb("relay.test_relay", "relay test", "", "receivers are reached where the relay runs"),
        Verb("relay.relay_status", "relay status", "relay_status"),
        Verb("relay.relay_status", "relay list", "relay_status"),
        Verb("relay.pause_relay", "relay pause", "pause_relay"),
        Verb("relay.resume_relay", "relay resume", "resume_relay"),
        Verb("relay.relay_dead_letters", "relay dead-letters", "relay_dead_letters"),
        Verb("relay.replay_dead_letters", "relay replay", "replay_dead_letters"),
    ),
    "Inbound pipelines": (
        Verb(
            "inbound.create_inbound_pipeline",
            "",
            "create_inbound_pipeline",
            "in the shell, a file",
        ),
        Verb("inbound.drop_inbound_pipeline", "inbound drop", "drop_inbound_pipeline"),
        Verb("inbound.run_inbound", "inbound run", "", "a relay is a process"),
        Verb("inbound.validate_inbound", "inbound validate", "", "secrets are where it runs"),
        Verb("inbound.test_inbound", "inbound test", "", "brokers are reached where it runs"),
        Verb("inbound.inbound_status", "inbound status", "inbound_status"),
        Verb("inbound.inbound_status", "inbound list", "inbound_status"),
        Verb("inbound.pause_inbound", "inbound pause", "pause_inbound"),
        Verb("inbound.resume_inbound", "inbound resume", "resume_inbound"),
        Verb("inbound.inbound_dead_letters", "inbound dead-letters", "inbound_dead_letters"),
        Verb(
            "inbound.replay_inbound_dead_letters", "inbound replay", "replay_inbound_dead_letters"
        ),
    ),
    "Shadow builds": (
        Verb("shadows.view_evolution_status", "shadow status", "view_evolution_status"),
        Verb("shadows.compare_shadow", "shadow compare", "compare_shadow"),
        Verb("shadows.promote_shadow", "shadow promote", "promote_shadow"),
        Verb("shadows.cancel_shadow", "shadow cancel", "cancel_shadow"),
    ),
    "Definitions of a database": (
        Verb("export_definition", "export", "export_definition"),
        Verb("definitions.dump_definitions", "dump", "dump_definitions"),
        Verb("definitions.restore_definitions", "restore", "", "in SQL, psql runs the script"),
    ),
    "Projects of files": (
        Verb("projects.plan_project", "plan", "", _FILES),
        Verb("projects.apply_project", "apply", "", _FILES),
        Verb("projects.diff_project", "diff", "", _FILES),
        Verb("projects.test_project", "test", "", _FILES),
        Verb("projects.import_project", "import", "", _FILES),
        Verb("projects.init_project", "init-project", "", _FILES),
    ),
    "How a query is maintained": (
        Verb("validate_query", "validate", "validate_query"),
        Verb("explain_stream_table", "explain", "explain_stream_table"),
        Verb("explain_stream_table", "explain", "explain"),
        Verb("explain_stream_table", "explain", "explain_st"),
        Verb("insight.list_profiles", "profile", "list_profiles"),
        Verb("insight.explain_delta", "", "explain_delta", "in the shell, a part of explain"),
        Verb(
            "insight.explain_query_rewrite", "", "explain_query_rewrite", "for work on the compiler"
        ),
        Verb("get_stream_table", "show", "explain_st"),
        Verb("get_stream_table", "show", "explain_refresh_mode"),
        Verb("insight.stream_table_spec", "", "stream_table_spec", "in the shell, show --json"),
    ),
    "Rows": (
        Verb("table", "", "", "in SQL, SELECT; in the shell, psql"),
        Verb("lake.show_as_of", "show", "show_as_of"),
    ),
    "How stream tables are doing": (
        Verb("list_stream_tables", "list", "pgt_status"),
        Verb("status", "status", "daemons"),
        Verb("status", "status", "running_refreshes"),
        Verb("status", "status", "request_queue"),
        Verb(
            "insight.picture", "top", "", "in SQL, the functions of the console: console_tables()"
        ),
        Verb("", "ui", "", "a page for people; a program takes pictures"),
        Verb("health_check", "health", "health_check"),
        Verb("doctor", "doctor", "", "looks at the machine, too"),
        Verb("refresh_history", "history", "get_refresh_history"),
        Verb("refresh_history", "history", "refresh_timeline"),
        Verb("insight.diagnose_errors", "errors", "diagnose_errors"),
        Verb("insight.get_staleness", "", "get_staleness", "in the shell, a part of show"),
        Verb("insight.list_sources", "", "list_sources", "in the shell, a part of show"),
        Verb("insight.dependency_tree", "tree", "dependency_tree"),
        Verb("insight.dependencies", "", "", "in SQL and the shell, the tree"),
        Verb("insight.explain_dag", "", "explain_dag", "in the shell, the tree"),
        Verb("capture.change_buffer_sizes", "", "change_buffer_sizes", "in the shell, cdc health"),
        Verb("insight.refresh_efficiency", "", "refresh_efficiency", "in the shell, the history"),
        Verb("insight.metrics_summary", "", "metrics_summary", "in the shell, run --health-port"),
        Verb("insight.cluster_worker_summary", "status", "cluster_worker_summary"),
        Verb("capture.capture_lag", "", "capture_lag", "in the shell, cdc health"),
        Verb("insight.sla_summary", "sla list", "sla_summary"),
        Verb("insight.recommend_schedule", "advise", "recommend_schedule"),
        Verb("insight.schedule_recommendations", "advise", "schedule_recommendations"),
        Verb("insight.recommend_refresh_mode", "advise", "recommend_refresh_mode"),
        Verb("insight.diamond_groups", "", "diamond_groups", "in the shell, a part of show"),
        Verb("insight.cache_stats", "", "cache_stats", "each command is a process of its own"),
        Verb("insight.clear_caches", "", "clear_caches", "each command is a process of its own"),
        Verb("", "", "pgt_scc_status", "in Python, StreamTable.circle"),
        Verb("insight.setup_self_monitoring", "monitor setup", "setup_self_monitoring"),
        Verb("insight.teardown_self_monitoring", "monitor teardown", "teardown_self_monitoring"),
        Verb("insight.self_monitoring_status", "monitor status", "self_monitoring_status"),
        Verb("insight.disk_usage", "disk", "disk_usage"),
        Verb("follow", "subscribe", "", "in SQL, LISTEN"),
        Verb("on_progress", "refresh", "", "in SQL, running_refreshes"),
    ),
    "The scheduler": (
        Verb("run", "run", "", "the daemon is a process"),
        Verb("scheduler.list_holds", "scheduler holds", "list_holds"),
        Verb("scheduler.pause_scheduler", "scheduler pause", "pause_scheduler"),
        Verb("scheduler.resume_scheduler", "scheduler resume", "resume_scheduler"),
        Verb("scheduler.drain", "scheduler drain", "drain"),
        Verb("scheduler.is_drained", "", "is_drained", "in the shell, drain waits for it"),
        Verb("scheduler.undrain", "scheduler undrain", "undrain"),
        Verb("scheduler.falling_behind", "scheduler behind", "falling_behind"),
        Verb("scheduler.quiesce", "scheduler quiesce", "quiesce"),
        Verb(
            "scheduler.quiesce_status", "", "quiesce_status", "in the shell, status shows what runs"
        ),
        Verb("scheduler.resume_all", "scheduler resume-all", "resume_all"),
        Verb("scheduler.gate_source", "gate close", "gate_source"),
        Verb("scheduler.ungate_source", "gate open", "ungate_source"),
        Verb("scheduler.bootstrap_gate_status", "gate list", "bootstrap_gate_status"),
        Verb("scheduler.advance_watermark", "watermark advance", "advance_watermark"),
        Verb("scheduler.create_watermark_group", "watermark group", "create_watermark_group"),
        Verb("scheduler.drop_watermark_group", "watermark ungroup", "drop_watermark_group"),
        Verb("scheduler.watermarks", "watermark status", "watermarks"),
        Verb("scheduler.watermark_status", "watermark status", "watermark_status"),
        Verb("scheduler.set_fuse", "fuse set", "", "in SQL, alter_stream_table"),
        Verb("scheduler.reset_fuse", "fuse reset", "reset_fuse"),
        Verb("scheduler.fuse_status", "fuse status", "fuse_status"),
        Verb("scheduler.set_stream_table_sla", "sla set", "set_stream_table_sla"),
        Verb("scheduler.set_stream_table_sla", "sla clear", "set_stream_table_sla"),
        Verb("scheduler.create_refresh_group", "group create", "create_refresh_group"),
        Verb("scheduler.drop_refresh_group", "group drop", "drop_refresh_group"),
        Verb("scheduler.refresh_groups", "group list", "refresh_groups"),
    ),
    "Capture": (
        Verb("capture.check_cdc_health", "cdc health", "check_cdc_health"),
        Verb("capture.pause_cdc", "cdc pause", "pause_cdc"),
        Verb("capture.resume_cdc", "cdc resume", "resume_cdc"),
        Verb("capture.rebuild_cdc_triggers", "cdc rebuild", "rebuild_cdc_triggers"),
        Verb(
            "capture.set_buffer_durability",
            "cdc durability",
            "",
            "takes locks: an owner's decision",
        ),
        Verb("capture.slot_health", "doctor", "slot_health"),
    ),
    "The lake": (
        Verb("lake.ducklake_sink_status", "sink status", "ducklake_sink_status"),
        Verb("lake.retry_sink", "sink retry", "", "the daemon tries by itself"),
        Verb("lake.attach_ducklake_table", "lake attach", "attach_ducklake_table"),
        Verb("lake.detach_ducklake_table", "lake detach", "detach_ducklake_table"),
        Verb("lake.ducklake_sources", "lake list", "ducklake_sources"),
        Verb("lake.ducklake_catalogs", "lake show", "ducklake_catalogs"),
        Verb("lake.move_ducklake_catalog", "lake move", "move_ducklake_catalog"),
        Verb("lake.maintain_lake", "lake maintain", "", "the daemon does so by itself"),
    ),
    "Settings and access": (
        Verb("init", "init", "", "creates the schema that holds SQL's verbs"),
        Verb("migrate", "migrate", "migrate"),
        Verb("version", "version", "version"),
        Verb("list_settings", "config", "show_settings"),
        Verb("set_setting", "config", "set_setting"),
        Verb("grant_access", "", "grant_access", "in the shell, psql"),
        Verb("revoke_access", "", "revoke_access", "in the shell, psql"),
        Verb("close", "", "", "ends the client"),
        Verb("", "demo", "", "a tour, not a verb"),
    ),
    "Sessions of SQL": (
        Verb("", "", "subscribe", "in Python and the shell, follow"),
        Verb("", "", "unsubscribe", "in Python and the shell, follow"),
        Verb("", "", "list_subscriptions", "in Python and the shell, follow"),
        Verb("", "", "submit_request", _OF_SESSIONS),
        Verb("", "", "cancel_request", _OF_SESSIONS),
        Verb("", "", "perform_request", _OF_SESSIONS),
        Verb("", "", "is_served", _OF_SESSIONS),
        Verb("", "", "find_stream_table", _OF_SESSIONS),
        Verb("", "", "parse_duration_seconds", _OF_SESSIONS),
    ),
}
