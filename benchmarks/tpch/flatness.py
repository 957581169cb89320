"""How the time of a refresh grows with the tables, while the window stays as large.

    python -m benchmarks.tpch.flatness small.json large.json [--output flatness.json]

Both files are results of ``benchmarks.tpch --rows N``, at two scale factors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.ratios import OURS, medians
from benchmarks.report.flatness import flatness_table
from benchmarks.results import Results, read_results, write_results


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the growth of every query, write the results."""
    parser = argparse.ArgumentParser(prog="benchmarks.tpch.flatness", description=__doc__)
    parser.add_argument("small", type=Path, help="at the smaller scale factor")
    parser.add_argument("large", type=Path, help="at the larger one")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    options = parser.parse_args(arguments)
    results = compare(read_results(options.small), read_results(options.large))
    print(flatness_table(results))
    if options.output:
        write_results(options.output, results)
    return 0


def compare(small: Mapping[str, Any], large: Mapping[str, Any]) -> Results:
    """Return the times of the queries that both have."""
    if not small.get("rows") or small.get("rows") != large.get("rows"):
        raise SystemExit("both results must be of windows of the same number of rows: --rows")
    if small["scale"] >= large["scale"]:
        raise SystemExit("the second results must be of the larger scale factor")
    before, after = _ours(small), _ours(large)
    return {
        "benchmark": "benchmarks.tpch.flatness",
        "command": f"{small['command']} && {large['command']}",
        "machine": large["machine"],
        "first_window": large["first_window"],
        "rows": large["rows"],
        "scales": [small["scale"], large["scale"]],
        "queries": {query: [before[query], after[query]] for query in before if query in after},
    }


def _ours(results: Mapping[str, Any]) -> dict[str, float]:
    [run] = results["runs"]
    found = {query: medians(result).get(OURS) for query, result in run["queries"].items()}
    return {query: ms for query, ms in found.items() if ms is not None}


if __name__ == "__main__":
    sys.exit(main())
