"""Results as the benchmarks write them, small enough to check by head."""

from __future__ import annotations

from typing import Any

MACHINE = {
    "cores": 2,
    "memory_gib": 23,
    "architecture": "x86_64",
    "python": "3.11.7",
    "postgresql": "18.1",
}


def comparison(times: dict[str, dict[str, list[float]]], **fields: Any) -> dict[str, Any]:
    """Return results of ``benchmarks.tpch`` with times by query and contender."""
    queries = {
        query: {
            contender: {"prepare_ms": 0, "ms": ms, "facts": {"rows_read": 7}}
            for contender, ms in by_contender.items()
        }
        for query, by_contender in times.items()
    }
    return {
        "benchmark": "benchmarks.tpch",
        "command": "python -m benchmarks.tpch --scale 0.1",
        "machine": MACHINE,
        "scale": 0.1,
        "rows": None,
        "first_window": 1,
        "runs": [{"share": 0.001, "warm_up_refreshes": 50, "queries": queries}],
        **fields,
    }


def refresh(action: str, ms: float, *, forced: bool = False, explores: bool = False) -> Any:
    """Return a refresh as the cost model's benchmark keeps it."""
    return {
        "action": action,
        "reason": "",
        "explores": explores,
        "forced": forced,
        "ms": ms,
        "predicted_differential_ms": 110.0,
        "predicted_full_ms": 900.0,
    }


def cost_model(runs: dict[float, dict[str, list[Any]]]) -> dict[str, Any]:
    """Return results of ``benchmarks.tpch.cost_model`` with refreshes by share and query."""
    return {
        "benchmark": "benchmarks.tpch.cost_model",
        "command": "python -m benchmarks.tpch.cost_model",
        "machine": MACHINE,
        "scale": 0.1,
        "first_window": 1,
        "runs": [
            {
                "share": share,
                "queries": {query: {"refreshes": found} for query, found in by_query.items()},
            }
            for share, by_query in runs.items()
        ],
    }
