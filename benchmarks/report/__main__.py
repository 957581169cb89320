"""``python -m benchmarks.report results.json ...``: tables and plots of results, as files.

The page of ``name.json`` is ``name.md``, beside it its plots.  The same results always give the
same files.
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
    return 0


def render(path: Path) -> Page:
    """Return the page of a file of results; a benchmark without a report of its own has tables."""
    results = read_results(path)
    return _REPORTS.get(results["benchmark"], report_tables)(results)


if __name__ == "__main__":
    sys.exit(main())
