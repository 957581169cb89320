"""What a process remembers between the forecasts of one stream table."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pgtrickle.model.stream_table import Action
from pgtrickle.refresh.cost.choose import Exploration
from pgtrickle.refresh.cost.outline import StageOutline
from pgtrickle.refresh.cost.statistics import Statistics
from pgtrickle.refresh.cost.work import Work
from pgtrickle.service.compile import Compiled

MEASUREMENTS = 24  # of each action; older ones count next to nothing


@dataclass(frozen=True, slots=True)
class Measured:
    """A refresh that ran through: its number among those of the stream table, work and time."""

    number: int
    work: Work
    actual_ms: float


@dataclass(slots=True)
class CostMemory:
    """Outlines, statistics and measurements of one compiled query."""

    compiled: Compiled
    full: tuple[StageOutline, ...]
    differential: dict[frozenset[str], tuple[StageOutline, ...]] = field(default_factory=dict)
    statistics: Statistics | None = None
    read_at: float = 0.0  # the statistics, by the monotonic clock
    changed_since: float = 0.0  # rows, since they were read
    newest: int = 0  # refresh id
    refreshes: int = 0  # measured ones
    exploration: Exploration = field(default_factory=Exploration)
    measured: dict[Action, deque[Measured]] = field(
        default_factory=lambda: {
            Action.DIFFERENTIAL: deque(maxlen=MEASUREMENTS),
            Action.FULL: deque(maxlen=MEASUREMENTS),
        }
    )
