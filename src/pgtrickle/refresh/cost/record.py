"""What the history keeps of a forecast, so that later ones can learn from it.

The work is kept rather than its price, so that measurements outlive a change of the prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgtrickle.model.stream_table import Action
from pgtrickle.refresh.cost.choose import Exploration, Forecast, after
from pgtrickle.refresh.cost.work import Work

Record = dict[str, Any]


def to_record(forecast: Forecast, ran: Action, actual_ms: float) -> Record:
    """Write down what was counted for each action, and how exploring goes on."""
    exploration = after(forecast, ran, actual_ms)
    return {
        "work": {action.value: work.to_json() for action, work in forecast.work.items()},
        "since": exploration.since,
        "misses": exploration.misses,
    }


def work_of(record: Mapping[str, Any], action: Action) -> Work | None:
    """Read the work that was counted for an action."""
    found = record.get("work", {}).get(action.value)
    return None if found is None else Work.from_json(found)


def exploration_of(record: Mapping[str, Any]) -> Exploration:
    """Read how exploring stood after that refresh."""
    return Exploration(record.get("since", 0), record.get("misses", 0))
