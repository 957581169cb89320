"""A sample of the workloads on real Spark; ``make workloads`` plays all of them."""

from __future__ import annotations

from dataclasses import replace

from pgtrickle.model.stream_table import RefreshMode
from tests.labs.lab import Lab
from tests.workloads.corpus.workload import CORPUS
from tests.workloads.nexmark.workload import NEXMARK
from tests.workloads.play import play
from tests.workloads.tpch.workload import TPCH
from tests.workloads.workload import Workload


def _failures(lab: Lab, workload: Workload, only: set[str]) -> dict[str, str | None]:
    outcomes = play(lab.trickle, lab.connection, workload, cycles=2, only=only)
    return {name: outcome.failure for name, outcome in outcomes.items()}


def test_tpch(lab: Lab):
    # Sums over one table, a join of six with moving keys, arithmetic across tables, an outer join
    # under an aggregate under an aggregate.
    sample = {"q01", "q05", "q09", "q13"}

    assert _failures(lab, TPCH, sample) == dict.fromkeys(sample)


def test_nexmark(lab: Lab):
    # Duplicates without a key, an aggregate over an aggregate, a range join with an aggregate.
    sample = {"q1", "q4", "q7"}

    assert _failures(lab, NEXMARK, sample) == dict.fromkeys(sample)


def test_corpus(lab: Lab):
    # A recursion, windows over windows, elements of JSON, a rollup, two FULL JOINs.
    sample = {
        "hierarchies_team_size",
        "islands_empty_shelves",
        "json_lines_of_purchases",
        "rollups_named_totals",
        "channels_full_by_day",
    }
    strict = replace(CORPUS, mode=RefreshMode.DIFFERENTIAL)

    assert _failures(lab, strict, sample) == dict.fromkeys(sample)
