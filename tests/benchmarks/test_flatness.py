"""Growth is the time at the larger scale over that at the smaller one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.report.__main__ import main as report
from benchmarks.tpch.flatness import compare, main
from tests.benchmarks.samples import comparison

_SMALL = comparison(
    {"q01": {"ours": [100.0]}, "q02": {"ours": [100.0]}, "q03": {"ours": [1.0]}},
    scale=0.01,
    rows=1000,
)
_LARGE = comparison({"q01": {"ours": [150.0]}, "q02": {"ours": [151.0]}}, scale=1, rows=1000)


def test_growth_of_the_queries_that_both_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name, results in (("small", _SMALL), ("large", _LARGE)):
        (tmp_path / f"{name}.json").write_text(json.dumps(results))

    output = tmp_path / "flatness.json"
    main([str(tmp_path / "small.json"), str(tmp_path / "large.json"), "--output", str(output)])
    report([str(output), "--directory", str(tmp_path)])

    printed = capsys.readouterr().out
    assert "| q01 | 100 | 150 | 1.50x |" in printed
    assert "- at most 1.5x: 1 of 2 queries" in printed
    assert "tables grown 100 times" in (tmp_path / "flatness.md").read_text()
    assert 'class="goal"' in (tmp_path / "flatness-growth.svg").read_text()


def test_windows_of_another_size_do_not_compare():
    with pytest.raises(SystemExit, match="same number of rows"):
        compare(_SMALL, {**_LARGE, "rows": 2000})


def test_the_larger_scale_comes_second():
    with pytest.raises(SystemExit, match="larger scale"):
        compare(_LARGE, _SMALL)
