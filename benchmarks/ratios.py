"""Ratios of a run: how many times longer each contender takes than a stream table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

OURS = "ours"


def medians(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the median time of each contender for one query; a failed query has none."""
    if "failure" in result:
        return {}
    return {
        name: statistics.median(one["ms"])
        for name, one in result.items()
        if isinstance(one, dict) and one.get("ms")
    }


def ratios(run: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return, by contender and query, its median time over ours in one run."""
    found: dict[str, dict[str, float]] = {}
    for query, result in run["queries"].items():
        times = medians(result)
        for name, ms in times.items():
            if name != OURS and OURS in times:
                found.setdefault(name, {})[query] = ms / times[OURS]
    return found


def failures(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the queries that failed or answered wrongly in any run, with the reason."""
    return {
        query: result["failure"]
        for run in results["runs"]
        for query, result in run["queries"].items()
        if "failure" in result
    }


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean.

    >>> round(geometric_mean([1, 4]), 3)
    2.0
    """
    return math.exp(statistics.fmean(map(math.log, values)))
