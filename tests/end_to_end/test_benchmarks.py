"""Benchmarks run from end to end, in processes of their own, and are right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.cells import cells_of
from benchmarks.check import main as check
from benchmarks.report.__main__ import main as report

_ROOT = Path(__file__).parents[2]


def _run(benchmark: str, *arguments: str, output: Path) -> dict[str, Any]:
    return _run_any(benchmark, "--scale", "0.01", *arguments, output=output)


def _run_any(benchmark: str, *arguments: str, output: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", benchmark, "--output", str(output)]
    done = subprocess.run(
        [*command, *arguments], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results: dict[str, Any] = json.loads(output.read_text())
    return results


def test_contenders_are_compared_at_several_shares(tmp_path: Path):
    output = tmp_path / "tpch.json"

    results = _run(
        "benchmarks.tpch",
        *("--share", "0.001,0.1", "--warm-up", "2", "--rounds", "2", "q06"),
        output=output,
    )

    first, second = results["runs"]
    assert (first["share"], second["share"]) == (0.001, 0.1)
    assert (first["warm_up_refreshes"], second["warm_up_refreshes"]) == (2, 4)
    measured = {name: len(one["ms"]) for name, one in second["queries"]["q06"].items()}
    assert measured.pop("pathway", 2) == 2  # where it is installed
    assert measured == {"ours": 2, "view": 2, "spark": 1, "ours_full": 1, "duckdb": 1}
    assert second["queries"]["q06"]["ours"]["facts"]["action"] == "DIFFERENTIAL"
    assert results["command"].endswith("--share 0.001,0.1 --warm-up 2 --rounds 2 q06")
    assert str(tmp_path) not in results["command"]
    (tmp_path / "kept").mkdir()
    floors = str(tmp_path / "kept" / "floors.json")
    assert check([str(output), "--record", "--floors", floors]) == 0
    assert check([str(output), "--floors", floors]) == 0
    assert report([str(output), "--directory", str(tmp_path)]) == 0
    assert "| q06 |" in (tmp_path / "tpch.md").read_text()


def test_the_cost_model_is_measured_both_ways_at_every_share(tmp_path: Path):
    results = _run(
        "benchmarks.tpch.cost_model",
        *("--share", "0.001,0.01,0.3", "--warm-up", "1", "--small-rounds", "1", "q06"),
        output=tmp_path / "cost-model.json",
    )

    cells = cells_of(results)
    assert [cell.share for cell in cells] == [0.001, 0.01, 0.3]
    assert [cell.full_share for cell in cells][::2] == [0.001, 0.3]
    assert all(cell.predicted_full_ms and cell.predicted_differential_ms for cell in cells)


def test_snapshots_and_restores_are_measured_beside_a_copy(tmp_path: Path):
    output = tmp_path / "snapshots.json"

    results = _run_any(
        "benchmarks.snapshots",
        *("--rows", "2000", "--rounds", "2", "--share", "0.1"),
        output=output,
    )

    [table] = results["tables"]
    assert [row[0] for row in table["rows"]] == [
        "CREATE TABLE AS",
        "snapshot",
        "restore, 0.1 of the rows changed",
        "restore, all rows deleted",
    ]
    assert all(row[1] > 0 and row[2] > 0 for row in table["rows"])
    assert report([str(output), "--directory", str(tmp_path)]) == 0
    assert "| snapshot |" in (tmp_path / "snapshots.md").read_text()
