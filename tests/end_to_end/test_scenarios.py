"""Scenarios of tests/service on real Spark: the same test bodies with another engine."""

from __future__ import annotations

from tests.service.test_aggregates import (
    test_p13_group_by_an_expression_over_two_tables,
    test_p13_null_group_is_deleted_and_comes_back,
    test_p18_float_sums_do_not_drift,
    test_p18_nan_and_infinity_leave_a_float_sum_again,
    test_p18_nan_in_a_numeric_sum_is_refused_and_leaves_again,
    test_p19_grand_total_of_a_table_that_was_never_filled,
    test_p19_grand_total_when_a_window_cancels_out,
    test_p20_average_of_one_of_none_and_of_large_close_values,
    test_p20_integer_sums_beyond_64_bits,
    test_p21_extremes_are_deleted_tied_replaced_and_moved,
    test_p22_count_distinct_loses_duplicates_one_at_a_time,
    test_p23_case_over_two_tables,
    test_p25_aggregate_over_an_aggregate,
    test_p25_join_of_two_aggregates,
)
from tests.service.test_chains import (
    chain,
    test_p42_changes_flow_through_three_levels,
    test_p42_full_refresh_of_a_parent_gives_the_child_only_the_difference,
)
from tests.service.test_joins import (
    test_p01_key_changes_while_the_old_partner_is_deleted,
    test_p02_key_change_and_several_partners_deleted_leave_no_residue,
    test_p05_cross_join_and_inequality,
    test_p05_every_table_changes_at_once,
    test_p05_five_tables_with_deletes_in_one_subtree,
    test_p05_self_join,
    test_p12_null_in_one_of_two_key_columns,
)
from tests.service.test_multisets import (
    test_p08_duplicates_on_both_sides_of_a_join,
    test_p08_one_of_equal_rows_deleted_and_updated,
    test_p35_distinct_over_a_join,
    test_p35_union_all_of_two_tables_and_of_one_with_itself,
)
from tests.service.test_query_shapes import (
    test_columns_with_the_names_of_keywords_and_of_our_own,
    test_expressions_over_one_table_are_postgresqls_own,
    test_views_derived_tables_and_ctes,
)
from tests.service.test_transactions import (
    counted,
    test_p14_truncate_and_insert_in_one_transaction,
    test_p15_change_between_the_snapshot_and_the_commit_is_in_the_next_window,
)

__all__ = [
    "chain",
    "counted",
    "test_columns_with_the_names_of_keywords_and_of_our_own",
    "test_expressions_over_one_table_are_postgresqls_own",
    "test_p01_key_changes_while_the_old_partner_is_deleted",
    "test_p02_key_change_and_several_partners_deleted_leave_no_residue",
    "test_p05_cross_join_and_inequality",
    "test_p05_every_table_changes_at_once",
    "test_p05_five_tables_with_deletes_in_one_subtree",
    "test_p05_self_join",
    "test_p08_duplicates_on_both_sides_of_a_join",
    "test_p08_one_of_equal_rows_deleted_and_updated",
    "test_p12_null_in_one_of_two_key_columns",
    "test_p13_group_by_an_expression_over_two_tables",
    "test_p13_null_group_is_deleted_and_comes_back",
    "test_p14_truncate_and_insert_in_one_transaction",
    "test_p15_change_between_the_snapshot_and_the_commit_is_in_the_next_window",
    "test_p18_float_sums_do_not_drift",
    "test_p18_nan_and_infinity_leave_a_float_sum_again",
    "test_p18_nan_in_a_numeric_sum_is_refused_and_leaves_again",
    "test_p19_grand_total_of_a_table_that_was_never_filled",
    "test_p19_grand_total_when_a_window_cancels_out",
    "test_p20_average_of_one_of_none_and_of_large_close_values",
    "test_p20_integer_sums_beyond_64_bits",
    "test_p21_extremes_are_deleted_tied_replaced_and_moved",
    "test_p22_count_distinct_loses_duplicates_one_at_a_time",
    "test_p23_case_over_two_tables",
    "test_p25_aggregate_over_an_aggregate",
    "test_p25_join_of_two_aggregates",
    "test_p35_distinct_over_a_join",
    "test_p35_union_all_of_two_tables_and_of_one_with_itself",
    "test_p42_changes_flow_through_three_levels",
    "test_p42_full_refresh_of_a_parent_gives_the_child_only_the_difference",
    "test_views_derived_tables_and_ctes",
]
