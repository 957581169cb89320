"""Judges the cost model's choices: one cell for each query and share of changed rows."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TOLERANCE = 1.2
_BOTH = DIFFERENTIAL, FULL = "DIFFERENTIAL", "FULL"  # a small window may change nothing


@dataclass(frozen=True, slots=True)
class Cell:
    """What both refreshes of a query took at one share, and which one the cost model chose."""

    query: str
    share: float
    differential_ms: float
    full_ms: float
    full_share: float  # at which the full refresh was measured
    choice: str
    predicted_differential_ms: float | None
    predicted_full_ms: float | None

    @property
    def chosen_ms(self) -> float:
        """The time of the chosen refresh."""
        return self.full_ms if self.choice == FULL else self.differential_ms

    @property
    def ratio(self) -> float:
        """The chosen refresh over the better one: 1 where the choice is right."""
        return self.chosen_ms / min(self.differential_ms, self.full_ms)

    @property
    def right(self) -> bool:
        """Whether the chosen refresh is within 20 % of the better one."""
        return self.ratio <= TOLERANCE


def cells_of(results: Mapping[str, Any]) -> list[Cell]:
    """Return the cells of which both refreshes were measured, by share and query."""
    cells = []
    full_of: dict[str, tuple[float, float]] = {}  # query: share and time of the last one measured
    for run in results["runs"]:
        for query, found in run["queries"].items():
            refreshes = [one for one in found.get("refreshes", ()) if one["action"] in _BOTH]
            if "failure" in found or not refreshes:
                continue
            by_action: dict[str, list[float]] = {}
            for one in refreshes:
                by_action.setdefault(one["action"], []).append(one["ms"])
            if FULL in by_action:
                full_of[query] = (run["share"], statistics.median(by_action[FULL]))
            if DIFFERENTIAL not in by_action or query not in full_of:
                continue
            share, full_ms = full_of[query]
            first = next(one for one in refreshes if not one["forced"])
            cells.append(
                Cell(
                    query,
                    run["share"],
                    statistics.median(by_action[DIFFERENTIAL]),
                    full_ms,
                    share,
                    choice_of(first),
                    first["predicted_differential_ms"],
                    first["predicted_full_ms"],
                )
            )
    return cells


def choice_of(refresh: Mapping[str, Any]) -> str:
    """Return what the cost model holds to be better: a refresh that explores ran the other.

    >>> choice_of({"action": "FULL", "explores": True})
    'DIFFERENTIAL'
    """
    action: str = refresh["action"]
    if not refresh["explores"]:
        return action
    return DIFFERENTIAL if action == FULL else FULL
