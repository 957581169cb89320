"""``make bench-check``: fail when a ratio has fallen below its recorded floor by more than 20 %.

    python -m benchmarks.check RESULTS ...
    python -m benchmarks.check --record RESULTS ...

Floors are ratios, which hold on other machines too, and belong to one scale and share of changes.
``--record`` writes them down; of several results it takes the least ratios.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.ratios import geometric_mean, ratios
from benchmarks.results import Results, read_results
from pgtrickle.settings import SPARK

FLOORS = Path(__file__).with_name("floors.json")
_TOLERANCE = 0.8
_MEAN = "geometric mean"

# By run, contender and query (or "geometric mean").
Ratios = dict[str, dict[str, float]]
Floors = dict[str, Ratios]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the results of runs with the floors, or record them."""
    parser = argparse.ArgumentParser(prog="benchmarks.check", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="written by benchmarks.tpch --output")
    parser.add_argument("--floors", type=Path, default=FLOORS)
    parser.add_argument("--record", action="store_true", help="make these the floors")
    options = parser.parse_args(arguments)
    floors: Floors = json.loads(options.floors.read_text()) if options.floors.exists() else {}
    found = [read_results(path) for path in options.results]
    if options.record:
        floors |= record(found)
        options.floors.write_text(json.dumps(floors, indent=1, sort_keys=True) + "\n")
        return 0
    return max(_check(one, floors) for one in found)


def _check(results: Results, floors: Floors) -> int:
    status = 0
    for run in results["runs"]:
        name = run_name(results, run)
        if name not in floors:
            print(f"no floors are recorded for {name}", file=sys.stderr)
            status = max(status, 2)
            continue
        fallen = find_fallen(run, floors[name])
        for what, (seen, floor) in fallen.items():
            print(f"{name}: {what}: {seen:.2f}, more than 20 % below the recorded {floor:.2f}")
        if fallen:
            status = max(status, 1)
        else:
            print(f"{name}: no ratio fell below its floor by more than 20 %")
    return status


def record(found: Sequence[Results]) -> Floors:
    """Return the least ratios of the runs."""
    floors: Floors = {}
    for results in found:
        for run in results["runs"]:
            known = floors.setdefault(run_name(results, run), {})
            for contender, by_query in summarize(run).items():
                least = known.setdefault(contender, {})
                for query, ratio in by_query.items():
                    least[query] = min(ratio, least.get(query, ratio))
    return floors


def run_name(results: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Name what floors belong to.

    >>> run_name({"scale": 0.1}, {"share": 0.001})
    'tpch, scale 0.1, share 0.001'
    >>> run_name({"scale": 1, "engine": "auto"}, {"share": 0.001})
    'tpch, scale 1, share 0.001, engine auto'
    """
    engine = results.get("engine", SPARK)
    by = "" if engine == SPARK else f", engine {engine}"
    return f"tpch, scale {results['scale']:g}, share {run['share']:g}{by}"


def summarize(run: Mapping[str, Any]) -> Ratios:
    """Return the ratios that are held to floors: each query's, and their mean."""
    summary: Ratios = {}
    for contender, by_query in ratios(run).items():
        summary[contender] = {query: round(ratio, 3) for query, ratio in by_query.items()}
        summary[contender][_MEAN] = round(geometric_mean(by_query.values()), 3)
    return summary


def find_fallen(
    run: Mapping[str, Any], floors: Mapping[str, Mapping[str, float]]
) -> dict[str, tuple[float, float]]:
    """Return the ratios that fell too far, 0 for those that are missing, with their floors.

    Queries that were not run are left out, and with them the mean; one that failed is missing.
    """
    seen = summarize(run)
    fallen = {}
    for contender, by_query in floors.items():
        asked = {query for query in by_query if query in run["queries"]}
        if len(asked) == len(by_query) - 1:
            asked.add(_MEAN)
        for query in sorted(asked):
            ratio = seen.get(contender, {}).get(query, 0.0)
            if ratio < by_query[query] * _TOLERANCE:
                fallen[f"{contender}, {query}"] = (ratio, by_query[query])
    return fallen


if __name__ == "__main__":
    sys.exit(main())
