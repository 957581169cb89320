"""The operators that are built from others, on real Spark: the bodies of tests/service."""

from __future__ import annotations

from tests.queries.test_every_aggregate import rows, test_over_a_join_and_over_groups
from tests.queries.test_membership import test_matches_come_and_go
from tests.queries.test_outer_joins import test_partners_come_and_go
from tests.queries.test_set_operations import test_both_sides_change_in_one_window

__all__ = [
    "rows",
    "test_both_sides_change_in_one_window",
    "test_matches_come_and_go",
    "test_over_a_join_and_over_groups",
    "test_partners_come_and_go",
]
