"""Which lane a test is in, by its folder, and what is too long for every run.

``make test`` leaves out what is ``long``; ``make test-long`` runs everything, and ``make
test-sample`` one in six of the long ones, the same ones each time.
"""

from __future__ import annotations

from collections.abc import Collection
from zlib import crc32

UNIT_ALONE = "unit and not long"  # what make unit runs

# What is not listed is "unit".  Whatever starts Spark is in a lane whose tests share one JVM.
LANES = {
    **dict.fromkeys(
        (
            "catalog",
            "capture",
            "storage",
            "embedded",
            "service",
            "queries",
            "cli",
            "console",
            "lake",
            "security",
            "relay",
            "pages",
            "monitoring",
        ),
        "postgres",
    ),
    **dict.fromkeys(("workloads", "soak", "chaos", "hostile", "first_week"), "postgres"),
    "spark": "spark",
    "end_to_end": "end_to_end",
}
# What lends a test a Spark.
_SPARKS = frozenset({"spark_sessions", "program"})

_ALL = 0
# One in so many of the long ones is in the sample; another seed would choose others.
_SAMPLE, _SEED = 6, 3092
# These take minutes each: ``make test-long`` alone runs them.
_FOR_MINUTES = (
    "tests/service/immediate/test_tpch.py::",
    "tests/workloads/test_corpus.py::test_the_list_of_findings_is_exact",
)

# A file or a test, and how many of its cases are long: all of them, or all but one in so many,
# which stay in every run.  A case stays by its name, so that others come and go without moving it.
# Each of the first kind takes ten seconds or more by itself; the second kind are the same test
# for each of many types, texts, queries or scenarios, and what follows a lake, at two seconds each.
LONG = {
    # Processes, servers and JVMs that are killed, frozen, starved or waited for.
    "tests/end_to_end/test_benchmarks.py": _ALL,
    "tests/relay/test_killed.py": _ALL,
    "tests/relay/inbound/test_killed.py": _ALL,
    "tests/relay/test_kafka.py": _ALL,
    "tests/relay/test_rabbitmq.py": _ALL,
    "tests/relay/test_tutorial.py": _ALL,
    "tests/service/outboxes/test_large_values.py": _ALL,
    "tests/relay/chaos/test_short.py": _ALL,
    "tests/relay/test_beside.py::"
    "test_two_daemons_deliver_each_message_once_and_one_takes_over": _ALL,
    "tests/monitoring/test_live.py": _ALL,
    "tests/end_to_end/test_clusters.py": _ALL,
    "tests/end_to_end/test_daemon.py": _ALL,
    "tests/end_to_end/test_kill.py": _ALL,
    "tests/end_to_end/test_lake_demo.py": _ALL,
    "tests/cli/test_demos.py": _ALL,
    "tests/end_to_end/test_demos.py": _ALL,
    "tests/end_to_end/test_memory.py": _ALL,
    "tests/end_to_end/test_time_passes.py": _ALL,
    "tests/end_to_end/test_tutorials.py": _ALL,
    "tests/pages/test_notebook.py": _ALL,
    "tests/end_to_end/test_readme.py::test_the_shell_example_maintains_its_table": _ALL,
    "tests/spark/test_stage_figures.py::test_a_rehearsal_has_the_work_of_spark": _ALL,
    "tests/spark/test_class_archive.py::test_first_process_writes_what_the_second_one_uses": _ALL,
    "tests/spark/test_class_archive.py::test_process_that_goes_on_has_it_written_beside_it": _ALL,
    "tests/spark/test_session.py::test_a_dead_jvm_is_replaced_at_the_next_use": _ALL,
    "tests/spark/test_stall_watch.py::"
    "test_spark_without_executor_or_frozen_is_ended_and_replaced": _ALL,
    "tests/cli/test_daemon_requests.py": _ALL,
    "tests/console/test_demo.py": _ALL,
    "tests/console/test_terminal.py::test_a_restart_of_the_daemon_is_seen": _ALL,
    "tests/options/test_surfaces.py::test_type_checkers_find_a_word_that_does_not_exist": _ALL,
    "tests/first_week/test_daemon.py::test_daemon_whose_server_is_gone_is_soon_not_ready": _ALL,
    "tests/first_week/test_spark.py": _ALL,
    "tests/first_week/test_daemon.py::"
    "test_long_verify_does_not_keep_a_stream_table_from_following": _ALL,
    "tests/first_week/test_trouble.py::test_a_few_errors_in_a_short_time_suspend_nothing": _ALL,
    "tests/first_week/test_trouble.py::test_source_that_is_there_again_ends_the_suspension": _ALL,
    "tests/cli/test_leave_on_time.py::test_server_that_does_not_answer_holds_nobody_up": _ALL,
    "tests/hostile/test_hostile.py": _ALL,
    "tests/lake/test_kill.py": _ALL,
    "tests/service/refreshing/test_failures.py::test_what_may_heal_by_itself_never_suspends": _ALL,
    "tests/service/refreshing/test_french_server.py::"
    "test_what_may_heal_by_itself_is_tried_again_and_never_suspends": _ALL,
    "tests/service/refreshing/test_reconnect.py::"
    "test_scheduler_goes_on_soon_after_the_server_came_back": _ALL,
    "tests/spark/test_users_session.py::"
    "test_user_who_comes_later_has_a_session_of_his_own_that_outlives_ours": _ALL,
    "tests/service/refreshing/test_restored.py::"
    "test_promoted_standby_has_empty_unlogged_buffers_and_starts_anew": _ALL,
    "tests/service/refreshing/test_restored.py::"
    "test_transaction_ids_pass_an_epoch_and_are_set_back": _ALL,
    "tests/cli/test_daemon.py::test_daemon_waits_on_a_standby_and_works_when_it_is_promoted": _ALL,
    "tests/catalog/test_rolling_upgrade.py": _ALL,
    "tests/catalog/test_upgrade.py::test_what_is_frozen_today_is_of_use_to_later_versions": _ALL,
    "tests/cli/test_circles.py::test_daemon_refreshes_a_circle_as_one": _ALL,
    "tests/cli/test_daemon.py::test_follower_takes_over_when_the_leader_is_killed": _ALL,
    "tests/cli/test_leave_on_time.py::"
    "test_server_that_hangs_while_it_is_connected_to_holds_nobody_up": _ALL,
    "tests/end_to_end/test_large_refreshes.py::"
    "test_what_an_earlier_stage_found_is_shared_when_it_is_large": _ALL,
    "tests/end_to_end/test_requests.py": _ALL,
    "tests/end_to_end/test_outbox_in_spark.py::"
    "test_a_query_to_parquet_has_each_change_once_however_often_it_is_stopped": _ALL,
    "tests/lake/test_maintain_meanwhile.py": _ALL,
    "tests/security/test_locks.py::test_locked_source_starves_no_other_stream_table": _ALL,
    "tests/security/test_locks.py::test_lock_on_a_source_says_nothing_about_the_query": _ALL,
    "tests/service/capturing/test_wal_capture.py::"
    "test_p57_hand_over_under_load_loses_nothing_and_doubles_nothing": _ALL,
    "tests/service/capturing/test_wal_replace_query.py::"
    "test_replacements_under_load_lose_nothing_and_double_nothing": _ALL,
    "tests/service/immediate/test_chains.py::test_the_query_is_replaced_in_place": _ALL,
    "tests/service/refreshing/test_chains.py::"
    "test_change_goes_down_a_chain_of_twenty_in_one_pass": _ALL,
    "tests/service/refreshing/test_concurrency.py::"
    "test_p54_connections_that_died_while_idle_are_not_lent": _ALL,
    "tests/service/scheduling/test_bell.py::test_writers_send_nothing_while_nobody_listens": _ALL,
    "tests/spark/test_session.py::test_a_master_that_cannot_start_is_a_coded_error": _ALL,
    "tests/spark/test_session.py::test_starting_prints_nothing_and_leaves_nothing_behind": _ALL,
    "tests/spark/test_users_session.py::"
    "test_session_of_the_user_is_worked_beside_and_left_as_it_was": _ALL,
    # Random histories, and whole workloads.
    "tests/soak/test_soak.py": _ALL,
    "tests/lake/test_concurrency.py": _ALL,
    "tests/lake/test_random.py": _ALL,
    "tests/lake/test_source_random.py": _ALL,
    "tests/security/test_request_fuzz.py": _ALL,
    "tests/service/refreshing/test_circles.py::"
    "test_circle_is_its_recursion_after_any_history": _ALL,
    "tests/service/immediate/test_tpch.py": _ALL,
    "tests/queries/test_histories.py": _ALL,
    "tests/end_to_end/test_fuzz.py": _ALL,
    "tests/end_to_end/test_histories.py": _ALL,
    "tests/end_to_end/test_workloads.py": _ALL,
    "tests/workloads/test_corpus.py::test_the_list_of_findings_is_exact": _ALL,
    "tests/workloads/test_tpch.py": _ALL,
    "tests/workloads/test_nexmark.py": _ALL,
    "tests/service/lifecycle/test_dump_killed.py": _ALL,
    "tests/service/lifecycle/test_kills.py": _ALL,
    "tests/service/lifecycle/test_dump_round_trips.py": _ALL,
    "tests/service/lifecycle/test_dump_versions.py": _ALL,
    # One test, many cases.
    "tests/cli/test_bad_input.py": 3,
    "tests/service/insight/test_index_advice.py": 3,
    "tests/service/insight/test_rehearsal.py": 2,
    "tests/service/lifecycle/test_verify.py::test_members_are_named_in_unusual_ways": 3,
    "tests/service/projects/test_apply.py": 2,
    "tests/service/capturing/test_durability.py": 2,
    "tests/service/lifecycle/test_dump.py": 4,
    "tests/cli/test_backup_page.py": 2,
    "tests/pages/test_followed.py": 6,
    "tests/capture/test_altered_tables.py::test_p45_writes_go_on_after_an_alteration": 4,
    "tests/end_to_end/test_aggregates.py": 5,
    "tests/end_to_end/test_digits.py": 5,
    "tests/end_to_end/test_law_on_spark.py": 5,
    "tests/end_to_end/test_large_refreshes.py::"
    "test_executors_read_a_large_window_that_came_from_the_log": _ALL,
    "tests/end_to_end/test_large_refreshes.py::"
    "test_a_large_refresh_is_right_and_leaves_nothing_behind": 3,
    "tests/end_to_end/test_operators.py": 8,
    "tests/end_to_end/test_scenarios.py": 8,
    "tests/end_to_end/test_types.py": 5,
    "tests/fuzz/test_fuzz.py::test_a_delta_leads_to_the_answer": 4,
    "tests/lake/test_types.py::test_values_of_every_type_are_the_same_in_the_lake": 5,
    "tests/service/lifecycle/test_killed_shadows.py": 12,
    "tests/service/lifecycle/test_lives.py": 4,
    "tests/service/immediate/test_concurrency.py::test_many_writers": 2,
    "tests/service/immediate/test_concurrency.py::test_two_writers": 3,
    "tests/service/outboxes/test_stream.py::test_the_contents_follow_from_the_outbox": 3,
    "tests/service/lifecycle/test_killed_snapshots.py": 8,
    "tests/service/requests/test_access.py::test_hostile_names_are_names": 6,
    "tests/queries/test_digits.py::test_numerics_show_the_digits_of_postgresql": 4,
    "tests/queries/test_any_content.py::test_identifiers_in_every_place": 4,
    "tests/queries/test_any_content.py::test_literals_in_every_place": 4,
    "tests/queries/test_every_aggregate.py::test_an_aggregate_follows_its_group": 4,
    "tests/queries/test_own_aggregates.py": 4,
    "tests/queries/test_stable_functions.py": 4,
    "tests/queries/test_hostile_queries.py::test_text_ends_with_an_answer_or_a_clear_error": 10,
    "tests/queries/test_limits.py::test_too_large_is_st108_in_every_mode_and_soon": 4,
    "tests/queries/test_select_grammar.py": 6,
    "tests/queries/test_row_values.py::test_query_is_followed": 8,
    "tests/queries/test_row_values.py::test_postgresql_alone_follows_them_all": _ALL,
    "tests/service/refreshing/test_restored.py::test_dumped_and_restored_database_starts_anew": 2,
    "tests/spark/test_expressions.py::test_what_spark_cannot_hold_is_an_error": 6,
    "tests/spark/test_expressions.py::test_spark_answers_as_postgres_does": 4,
    "tests/workloads/test_corpus.py::test_sample_is_the_query_after_every_cycle": 3,
    "tests/workloads/test_benchmark_data.py::test_windows_change_what_a_query_alone_needs": 3,
    "tests/service/refreshing/test_first_load.py::"
    "test_filled_state_is_what_changes_are_merged_into": 4,
    "tests/queries/test_literals.py::test_p50_literal_that_looks_like_a_mark": 4,
    "tests/queries/test_null_padding.py::test_type_as_the_key_of_a_full_join": 8,
    "tests/queries/test_null_padding.py::test_type_in_grouping_sets_and_outer_joins": 30,
    "tests/queries/test_support.py::"
    "test_what_says_yes_is_maintained_in_strict_differential_mode": 8,
    "tests/queries/test_time_passes.py::test_rows_move_as_time_passes": 20,
    "tests/queries/test_time_passes.py::test_random_histories_of_rows_and_time": 8,
    "tests/queries/test_support.py::test_what_says_yes_is_maintained_by_postgresql_alone": 8,
    "tests/queries/test_fuzz.py": 3,
    "tests/queries/test_open_answers.py": 4,
    "tests/queries/test_outer_joins.py": 2,
    "tests/queries/test_reused_queries.py": 2,
    "tests/queries/test_types.py::test_type_survives": 5,
    "tests/spark/test_carriers.py::test_every_value_comes_back_as_it_was": 5,
    "tests/service/lifecycle/test_snapshot_histories.py::test_random_history": 4,
    "tests/delta/test_compile_steps.py::test_twice_the_joins_are_about_four_times_the_work": 6,
    "tests/cli/test_daemon.py::test_second_daemon_says_who_leads_and_when_it_takes_over": 2,
    "tests/queries/test_membership.py::test_matches_come_and_go": 3,
    "tests/queries/test_membership_under_or.py::test_p31_branches_gain_and_lose_rows": 3,
    "tests/queries/test_outer_join_conditions.py::test_p32_left_join_by_any_condition": 3,
    "tests/queries/test_set_operations.py::test_both_sides_change_in_one_window": 3,
    "tests/queries/test_only_postgres.py::test_query_is_differential": 3,
    "tests/queries/test_printed_syntax.py::test_an_aggregate_of_json_is_maintained": 4,
    "tests/queries/test_printed_syntax.py::test_syntax_is_maintained_incrementally": 3,
    # With servers or roles of their own each.  Those on security all run on the oldest server.
    "tests/embedded/test_accounts.py": 2,
    "tests/embedded/test_recovery.py": 2,
    "tests/embedded/test_server.py": 2,
    "tests/embedded/test_sharing.py": 2,
    "tests/security/test_guests.py": 2,
    "tests/security/test_requests.py": 2,
    "tests/security/test_whose_catalog.py": 2,
    "tests/service/lifecycle/test_rename.py": 2,
    "tests/service/lifecycle/test_snapshots.py": 2,
    # With a server, files and a client of DuckDB each.
    "tests/lake/test_compact.py": 3,
    "tests/lake/test_elsewhere.py": 3,
    "tests/lake/test_maintain.py": 3,
    "tests/lake/test_move.py": 3,
    "tests/lake/test_nested_text.py": 3,
    "tests/lake/test_outage.py": 3,
    "tests/lake/test_partition.py": 3,
    "tests/lake/test_reader.py": 3,
    "tests/lake/test_s3.py": 3,
    "tests/lake/test_sink.py": 3,
    "tests/lake/test_source.py": 2,
    "tests/lake/test_spread_difference.py": 3,
    "tests/lake/test_spread_load.py": 3,
}


def lane_of(nodeid: str, fixtures: Collection[str] = ()) -> str:
    """Return the lane of a test, given the names of the fixtures it uses.

    >>> lane_of("tests/queries/test_joins.py::test_any")
    'postgres'
    >>> lane_of("src/pgtrickle/errors.py::pgtrickle.errors")
    'unit'
    """
    top, _, below = nodeid.partition("/")
    lane = LANES.get(below.partition("/")[0], "unit") if top == "tests" else "unit"
    return "spark" if lane == "postgres" and not _SPARKS.isdisjoint(fixtures) else lane


def is_long(nodeid: str) -> bool:
    """Tell whether a test is left out of most runs.

    >>> is_long("tests/lake/test_kill.py::test_any")
    True
    >>> is_long("tests/lake/test_commit.py::test_any")
    False
    """
    file, _, _ = nodeid.partition("::")
    test, _, _ = nodeid.partition("[")
    stays = LONG.get(test, LONG.get(file))
    return stays is not None and (stays == _ALL or crc32(nodeid.encode()) % stays != 0)


def is_sampled(nodeid: str) -> bool:
    """Tell whether a long test is one of those that CI runs."""
    if nodeid.startswith(_FOR_MINUTES):
        return False
    return is_long(nodeid) and crc32(nodeid.encode(), _SEED) % _SAMPLE == 0
