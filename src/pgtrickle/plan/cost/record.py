"""The record of a forecast in the history, from which later ones learn.

The work is kept rather than its price, so that measurements outlive a change of the prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgtrickle.model.engine import EngineMode
from pgtrickle.model.stream_table import Action
from pgtrickle.plan.cost.choose import Exploration, Forecast, after
from pgtrickle.plan.cost.work import Work

Record = dict[str, Any]


def to_record(forecast: Forecast, ran: Action, actual_ms: float) -> Record:
    """Return the counted work of each action, and the state of exploration."""
    exploration = after(forecast, ran, actual_ms)
    return {
        "work": {action.value: work.to_json() for action, work in forecast.work.items()},
        "since": exploration.since,
        "misses": exploration.misses,
        "engine": forecast.engine.value,
    }


def work_of(record: Mapping[str, Any], action: Action) -> Work | None:
    """Read the counted work of an action."""
    found = record.get("work", {}).get(action.value)
    return None if found is None else Work.from_json(found)


def engine_of(record: Mapping[str, Any]) -> EngineMode:
    """Read which engine ran."""
    return EngineMode(record.get("engine", EngineMode.SPARK.value))


def exploration_of(record: Mapping[str, Any]) -> Exploration:
    """Read the state of exploration after that refresh."""
    return Exploration(record.get("since", 0), record.get("misses", 0))
