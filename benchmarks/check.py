"""``make bench-check``: fail when a ratio has fallen below its recorded floor by more than 20 %.

Floors are ratios, which hold on other machines too, and belong to one scale and share of changes.
``--record`` writes the ratios of a run down as the new floors.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.ratios import geometric_mean, ratios

_FLOORS = Path(__file__).with_name("floors.json")
_TOLERANCE = 0.8


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the results of a run with the floors, or record them."""
    parser = argparse.ArgumentParser(prog="benchmarks.check", description=__doc__)
    parser.add_argument("results", type=Path, help="written by benchmarks.tpch --output")
    parser.add_argument("--floors", type=Path, default=_FLOORS)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(arguments)
    results = json.loads(options.results.read_text())
    floors = json.loads(options.floors.read_text()) if options.floors.exists() else {}
    run = f"tpch scale {results['scale']:g} share {results['share']:g}"
    if options.record:
        floors[run] = summarize(results)
        options.floors.write_text(json.dumps(floors, indent=1, sort_keys=True) + "\n")
        return 0
    if run not in floors:
        print(f"no floors are recorded for {run}", file=sys.stderr)
        return 2
    fallen = find_fallen(summarize(results), floors[run])
    for name, (seen, floor) in fallen.items():
        print(f"{name}: {seen:.2f}, more than 20 % below the recorded {floor:.2f}")
    if not fallen:
        print(f"{len(floors[run])} ratios of {run} are at or above their floors")
    return 1 if fallen else 0


def summarize(results: dict[str, Any]) -> dict[str, float]:
    """Return the ratios that are held to floors: the mean over all queries, and each query's."""
    summary: dict[str, float] = {}
    for contender, by_query in ratios(results).items():
        summary[f"{contender}: geometric mean"] = round(geometric_mean(by_query.values()), 3)
        for query, ratio in by_query.items():
            summary[f"{contender}: {query}"] = round(ratio, 3)
    return summary


def find_fallen(seen: dict[str, float], floors: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Return the ratios that fell too far, and those that are no longer there.

    >>> find_fallen({"a": 8.1, "b": 7.9}, {"a": 10, "b": 10, "c": 1})
    {'b': (7.9, 10), 'c': (0.0, 1)}
    """
    found = {name: (seen.get(name, 0.0), floor) for name, floor in floors.items()}
    return {name: pair for name, pair in found.items() if pair[0] < pair[1] * _TOLERANCE}


if __name__ == "__main__":
    sys.exit(main())
