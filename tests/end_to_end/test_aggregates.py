"""Aggregates over rows that went through Spark."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab
from tests.labs.own_aggregates import CALLS, WINDOWS, fill
from tests.labs.variances import follow_variances


def test_variances_follow_their_groups_on_spark(lab: Lab) -> None:
    follow_variances(lab)


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS.keys())
def test_own_aggregates_follow_their_groups_on_spark(lab: Lab, calls: str) -> None:
    fill(lab)
    lab.create("s", f"SELECT k, {calls}, bool_and(b) AS all_b FROM r GROUP BY k")

    for window in WINDOWS:
        lab.window(*window)
