"""``python -m benchmarks.report results.json ...``: tables and plots of results, as files.

The page of ``name.json`` is ``name.md``, beside it its plots.  ``README.md`` lists the pages of all
results that are in the directory.  The same results always give the same files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report.comparison import report_comparison
from benchmarks.report.cost_model import report_cost_model
from benchmarks.report.flatness import report_flatness
from benchmarks.report.page import Page
from benchmarks.report.tables import report_tables
from benchmarks.results import read_results

DIRECTORY = Path(__file__).parents[2] / "docs" / "benchmarks"
_HEAD = """<!-- Written by `python -m benchmarks.report`: do not edit. -->

# Measured

What the benchmarks measure, and how to run them: [benchmarks.md](../benchmarks.md)."""
_REPORTS: Mapping[str, Callable[[Mapping[str, Any]], Page]] = {
    "benchmarks.tpch": report_comparison,
    "benchmarks.tpch.cost_model": report_cost_model,
    "benchmarks.tpch.flatness": report_flatness,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages of the results."""
    parser = argparse.ArgumentParser(prog="benchmarks.report", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="written by a benchmark's --output")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="of the pages")
    options = parser.parse_args(arguments)
    for path in options.results:
        render(path).write(options.directory, path.stem)
    if listed := list_pages(options.directory):
        (options.directory / "README.md").write_text(listed)
    return 0


def render(path: Path) -> Page:
    """Return the page of a file of results; a benchmark without a report of its own has tables."""
    results = read_results(path)
    return _REPORTS.get(results["benchmark"], report_tables)(results)


def list_pages(directory: Path) -> str:
    """Return the list of pages with what each says in short; empty if there are none."""
    parts = [
        "\n".join((f"## [{page.title}]({path.stem}.md)\n", *(f"- {one}" for one in page.headlines)))
        for path in sorted(directory.glob("*.json"))
        for page in [render(path)]
    ]
    return "\n\n".join((_HEAD, *parts)) + "\n" if parts else ""


if __name__ == "__main__":
    sys.exit(main())
