"""Pages and plots come from results alone, and the committed ones are what the report writes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.report.__main__ import DIRECTORY, list_pages, main, render
from tests.benchmarks.samples import MACHINE, comparison, cost_model, refresh

_TWO_QUERIES = comparison(
    {
        "q01": {"ours": [90.0, 100.0, 110.0], "view": [400.0], "spark": [2000.0]},
        "q02": {"ours": [100.0], "view": [25.0], "spark": [3000.0]},
    }
)
_COMMITTED = sorted(DIRECTORY.glob("*.json"))


def _render(results: object, directory: Path, name: str = "sample") -> dict[str, str]:
    path = directory / f"{name}.json"
    path.write_text(json.dumps(results))
    return render(path).files(name)


def test_a_comparison_tells_ratios_means_and_the_least(tmp_path: Path):
    page = _render(_TWO_QUERIES, tmp_path)["sample.md"]

    assert "| q01 | 100 | 400 | 2,000 | 4.0x | 20x | 7 |" in page
    assert (
        "- REFRESH MATERIALIZED VIEW / stream table: geometric mean 1.00x,"
        " least 0.25x (q02), 1 of 2 below 1"
    ) in page
    assert "after 50 refreshes of each to warm up" in page


def test_a_page_names_machine_versions_data_and_command(tmp_path: Path):
    page = _render(_TWO_QUERIES, tmp_path)["sample.md"]

    assert "- machine: 2 cores, 23 GiB of memory, x86_64" in page
    assert "- versions: python 3.11.7, postgresql 18.1" in page
    assert "windows of changes numbered from 1" in page
    assert "- command: `python -m benchmarks.tpch --scale 0.1`" in page


def test_a_query_that_failed_shows_why_and_has_no_ratio(tmp_path: Path):
    results = comparison({"q01": {"ours": [100.0], "view": [400.0]}, "q02": {"ours": [1.0]}})
    results["runs"][0]["queries"]["q02"]["failure"] = "3 rows differ"

    page = _render(results, tmp_path)["sample.md"]

    assert "| q02 | 3 rows differ |" in page
    assert "0 of 1 below 1" in page


def test_several_shares_are_drawn_as_lines(tmp_path: Path):
    results = comparison({"q01": {"ours": [100.0], "view": [400.0]}})
    results["runs"].append({**results["runs"][0], "share": 0.5})

    files = _render(results, tmp_path)

    assert set(files) == {
        "sample.md",
        "sample-0.001.svg",
        "sample-0.5.svg",
        "sample-shares.svg",
    }
    assert all(f"({name})" in files["sample.md"] for name in files if name.endswith(".svg"))


def test_the_cost_model_shows_each_choice_and_the_share_of_right_ones(tmp_path: Path):
    right = [refresh("DIFFERENTIAL", 100.0), refresh("FULL", 900.0, forced=True)]
    wrong = [refresh("DIFFERENTIAL", 1500.0), refresh("FULL", 1000.0, forced=True)]
    small = [refresh("DIFFERENTIAL", 50.0)]

    page = _render(
        cost_model({0.0001: {"q01": right}, 0.001: {"q01": small}, 0.5: {"q01": wrong}}), tmp_path
    )["sample.md"]

    assert "| q01 | 0.01 % | 100 | 900 | 110 | 900 | DIFFERENTIAL | 1.00x | yes |" in page
    assert "| q01 | 0.1 % | 50 | 900 (at 0.01 %) |" in page
    assert "| q01 | 50 % | 1,500 | 1,000 | 110 | 900 | DIFFERENTIAL | 1.50x | **no** |" in page
    assert "2 of 3 cells (66.7%)" in page
    assert "- 50 %: 0 of 1 right; the better one takes at least 0.67x" in page


def test_other_benchmarks_leave_tables(tmp_path: Path):
    results = {
        "benchmark": "benchmarks.idle_tables",
        "command": "python -m benchmarks.idle_tables",
        "machine": MACHINE,
        "title": "Nothing to do",
        "tables": [{"columns": ["what", "p50 ms"], "rows": [["find idle", 11.26]]}],
        "notes": ["50 rounds."],
    }

    page = _render(results, tmp_path)["sample.md"]

    assert "# Nothing to do" in page
    assert "| find idle | 11.3 |" in page
    assert page.endswith("50 rounds.\n")


def test_plots_are_well_formed_and_follow_the_scheme_of_the_reader(tmp_path: Path):
    svg = _render(_TWO_QUERIES, tmp_path)["sample-0.001.svg"]
    root = ET.fromstring(svg)  # noqa: S314 - our own text
    bars = [
        one
        for one in root.iter("{http://www.w3.org/2000/svg}rect")
        if one.find("{http://www.w3.org/2000/svg}title") is not None
    ]

    assert len(bars) == 4
    assert "prefers-color-scheme:dark" in svg


def test_what_is_slower_than_ours_stands_on_the_line_and_what_is_quicker_hangs(tmp_path: Path):
    svg = _render(_TWO_QUERIES, tmp_path)["sample-0.001.svg"]
    names = "{http://www.w3.org/2000/svg}"
    root = ET.fromstring(svg)  # noqa: S314 - our own text
    [line] = [one for one in root.iter(f"{names}line") if one.get("class") == "axis"]
    one = float(line.attrib["y1"])
    tops = {
        title.text: float(bar.attrib["y"])
        for bar in root.iter(f"{names}rect")
        if (title := bar.find(f"{names}title")) is not None
    }

    assert tops["q01: 4"] < one
    assert tops["q02: 0.25"] == pytest.approx(one, abs=0.1)


def test_the_same_results_give_the_same_files(tmp_path: Path):
    (tmp_path / "sample.json").write_text(json.dumps(_TWO_QUERIES))
    first, second = tmp_path / "first", tmp_path / "second"

    for directory in (first, second):
        assert main([str(tmp_path / "sample.json"), "--directory", str(directory)]) == 0

    written = {path.name: path.read_text() for path in first.iterdir()}
    assert written == {path.name: path.read_text() for path in second.iterdir()}
    assert sorted(written) == ["sample-0.001.svg", "sample.md"]


def test_all_pages_of_a_directory_are_listed_with_what_they_say(tmp_path: Path):
    (tmp_path / "second.json").write_text(json.dumps(_TWO_QUERIES))
    (tmp_path / "first.json").write_text(
        json.dumps(cost_model({0.1: {"q01": [refresh("FULL", 1.0), refresh("DIFFERENTIAL", 2.0)]}}))
    )

    main([str(tmp_path / "second.json"), "--directory", str(tmp_path)])

    listed = (tmp_path / "README.md").read_text()
    assert listed.index("](first.md)") < listed.index("](second.md)")
    assert "- choice within 20 % of the better one: 1 of 1 cells (100.0%)" in listed
    assert "0.1 % of the rows changed: Spark in full / stream table: geometric mean 24x" in listed


def test_committed_pages_are_what_the_report_writes():
    files = {
        name: text for path in _COMMITTED for name, text in render(path).files(path.stem).items()
    }
    if listed := list_pages(DIRECTORY):
        files["README.md"] = listed
    found = {
        path.name: path.read_text()
        for pattern in ("*.md", "*.svg")
        for path in DIRECTORY.glob(pattern)
    }

    assert found == files
