"""Which choices among three ways count as right."""

from __future__ import annotations

from typing import Any

from benchmarks.tpch.choices import tables_of_choices


def _found(spark: float, postgres: float, full: float, *choices: str) -> dict[str, Any]:
    return {"spark": [spark], "postgres": [postgres], "full": [full], "choices": list(choices)}


def test_a_choice_is_right_within_a_fifth_of_the_best_way() -> None:
    queries = {
        "q01": _found(100.0, 20.0, 900.0, "postgres"),
        "q02": _found(100.0, 119.0, 900.0, "postgres"),
        "q03": _found(100.0, 121.0, 900.0, "postgres", "postgres", "spark"),
        "q04": _found(100.0, 100.0, 50.0, "full"),
        "q05": {**_found(1.0, 1.0, 1.0, "full"), "failure": "differs"},
    }

    summary, each = tables_of_choices([{"share": 0.001, "queries": queries}], 0.1)["tables"]

    assert summary["rows"] == [[4, 3, 0.75, "at least 0.95"]]
    assert each["rows"][2] == ["q03", "0.1 %", 100.0, 121.0, 900.0, "postgres", 1.21, "no"]


def test_what_was_not_measured_in_all_ways_is_no_cell() -> None:
    found = {**_found(1.0, 1.0, 1.0, "full"), "full": []}

    summary, _ = tables_of_choices([{"share": 0.5, "queries": {"q01": found}}], 0.1)["tables"]

    assert summary["rows"][0][0] == 0
