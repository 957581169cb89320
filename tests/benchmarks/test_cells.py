"""Which choices of the cost model count as right."""

from __future__ import annotations

import pytest

from benchmarks.cells import cells_of
from tests.benchmarks.samples import cost_model, refresh


@pytest.mark.parametrize(
    ("differential", "full", "ratio", "right"),
    [(100.0, 900.0, 1.0, True), (119.0, 100.0, 1.19, True), (121.0, 100.0, 1.21, False)],
)
def test_a_choice_is_right_within_a_fifth_of_the_better_one(
    differential: float, full: float, ratio: float, *, right: bool
):
    found = [refresh("DIFFERENTIAL", differential), refresh("FULL", full, forced=True)]

    [cell] = cells_of(cost_model({0.1: {"q01": found}}))

    assert cell.ratio == pytest.approx(ratio)
    assert cell.right is right


def test_the_choice_is_the_first_one_and_times_are_medians():
    found = [
        refresh("FULL", 500.0),
        refresh("DIFFERENTIAL", 90.0, forced=True),
        refresh("DIFFERENTIAL", 110.0),
        refresh("FULL", 700.0, forced=True),
    ]

    [cell] = cells_of(cost_model({0.1: {"q01": found}}))

    assert (cell.choice, cell.differential_ms, cell.full_ms) == ("FULL", 100.0, 600.0)


def test_a_refresh_that_explores_ran_what_was_not_chosen():
    found = [refresh("FULL", 900.0, explores=True), refresh("DIFFERENTIAL", 100.0, forced=True)]

    [cell] = cells_of(cost_model({0.1: {"q01": found}}))

    assert cell.choice == "DIFFERENTIAL"
    assert cell.right


def test_a_full_refresh_measured_at_a_smaller_share_stands_for_a_cell_without_one():
    both = [refresh("DIFFERENTIAL", 100.0), refresh("FULL", 900.0, forced=True)]
    results = cost_model({0.0001: {"q01": both}, 0.001: {"q01": [refresh("DIFFERENTIAL", 120.0)]}})

    _, cell = cells_of(results)

    assert (cell.full_ms, cell.full_share) == (900.0, 0.0001)


def test_what_failed_or_was_measured_by_half_is_no_cell():
    results = cost_model({0.1: {"q01": [refresh("FULL", 900.0)], "q02": [refresh("FULL", 1.0)]}})
    results["runs"][0]["queries"]["q02"]["failure"] = "differs"

    assert cells_of(results) == []
