"""Floors: what was recorded is held, within a fifth."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.check import FLOORS, main, record
from tests.benchmarks.samples import comparison

_MEASURED = comparison(
    {
        "q01": {"ours": [100.0], "view": [400.0], "spark": [2000.0]},
        "q02": {"ours": [100.0], "view": [100.0], "spark": [3000.0]},
    }
)
_QUERIES = _MEASURED["runs"][0]["queries"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Return a file of results and the floors recorded from it."""
    results, floors = tmp_path / "results.json", tmp_path / "floors.json"
    results.write_text(json.dumps(_MEASURED))
    assert main([str(results), "--record", "--floors", str(floors)]) == 0
    return results, floors


def _check(files: tuple[Path, Path], results: dict[str, Any]) -> int:
    files[0].write_text(json.dumps(results))
    return main([str(files[0]), "--floors", str(files[1])])


def _with_ours(ms: float, query: str = "q01") -> dict[str, Any]:
    doctored = copy.deepcopy(_MEASURED)
    doctored["runs"][0]["queries"][query]["ours"]["ms"] = [ms]
    return doctored


def test_floors_belong_to_a_scale_and_a_share(files: tuple[Path, Path]):
    floors = json.loads(files[1].read_text())

    assert floors == {
        "tpch, scale 0.1, share 0.001": {
            "view": {"q01": 4.0, "q02": 1.0, "geometric mean": 2.0},
            "spark": {"q01": 20.0, "q02": 30.0, "geometric mean": 24.495},
        }
    }


def test_the_results_of_which_floors_were_recorded_pass(files: tuple[Path, Path]):
    assert _check(files, _MEASURED) == 0


def test_a_fifth_slower_passes_and_a_little_more_fails(files: tuple[Path, Path]):
    assert _check(files, _with_ours(124.9)) == 0
    assert _check(files, _with_ours(125.2)) == 1


def test_what_fell_is_named(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]):
    _check(files, _with_ours(200.0))

    printed = capsys.readouterr().out
    assert "view, q01: 2.00, more than 20 % below the recorded 4.00" in printed
    assert "view, q02" not in printed


def test_a_query_that_failed_has_fallen(files: tuple[Path, Path]):
    doctored = copy.deepcopy(_MEASURED)
    doctored["runs"][0]["queries"]["q02"]["failure"] = "3 rows differ"

    assert _check(files, doctored) == 1


def test_a_contender_that_is_gone_has_fallen(files: tuple[Path, Path]):
    doctored = copy.deepcopy(_MEASURED)
    for one in doctored["runs"][0]["queries"].values():
        del one["spark"]

    assert _check(files, doctored) == 1


def test_a_query_that_was_not_run_is_not_asked_for(files: tuple[Path, Path]):
    part = comparison({"q02": {"ours": [100.0], "view": [100.0], "spark": [3000.0]}})

    assert _check(files, part) == 0


def test_without_floors_for_the_scale_it_says_so(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
):
    assert _check(files, {**_MEASURED, "scale": 10}) == 2
    assert "no floors are recorded for tpch, scale 10, share 0.001" in capsys.readouterr().err


def test_of_several_results_the_least_ratios_become_floors():
    [floors] = record([_MEASURED, _with_ours(200.0)]).values()

    assert floors["view"]["q01"] == 2.0
    assert floors["view"]["q02"] == 1.0


def test_other_floors_stay_when_new_ones_are_recorded(files: tuple[Path, Path]):
    files[0].write_text(json.dumps({**_MEASURED, "scale": 1}))
    main([str(files[0]), "--record", "--floors", str(files[1])])

    assert set(json.loads(files[1].read_text())) == {
        "tpch, scale 0.1, share 0.001",
        "tpch, scale 1, share 0.001",
    }


def test_the_committed_floors_are_ratios():
    floors = json.loads(FLOORS.read_text()) if FLOORS.exists() else {}

    for by_contender in floors.values():
        for by_query in by_contender.values():
            assert all(ratio > 0 for ratio in by_query.values())
            assert "geometric mean" in by_query
