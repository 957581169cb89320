"""The table that a run of workloads prints: one row a query."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from tests.workloads.outcome import Outcome

_HEAD = (
    "| query | stages | cycles | rows changed | refresh p50 ms | PostgreSQL p50 ms | result |\n"
    "|---|---:|---:|---:|---:|---:|---|"
)


def summarize(workload: str, outcomes: Iterable[Outcome]) -> str:
    """Write the outcomes of a workload as a Markdown table."""
    return "\n".join([_HEAD, *(_row(workload, outcome) for outcome in outcomes)])


def _row(workload: str, outcome: Outcome) -> str:
    cells = (
        f"{workload} {outcome.query}",
        outcome.stages,
        outcome.cycles,
        sum(outcome.rows_changed),
        _median(outcome.refresh_ms),
        _median(outcome.answer_ms),
        "equal" if outcome.failure is None else " ".join(outcome.failure.split()),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.1f}" if values else ""
