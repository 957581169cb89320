"""The memory of a process between the forecasts of one stream table."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

from pgtrickle.model.engine import EngineMode
from pgtrickle.model.limited import Limited
from pgtrickle.model.stream_table import Action
from pgtrickle.plan.cost.choose import Exploration
from pgtrickle.plan.cost.outline import StageOutline
from pgtrickle.plan.cost.statistics import Statistics
from pgtrickle.plan.cost.work import Work
from pgtrickle.service.compile import Compiled

MEASUREMENTS = 24  # per action; older ones count next to nothing
_OUTLINES = 64  # of the sets of sources that change together


@dataclass(frozen=True, slots=True)
class Measured:
    """A completed refresh: its number among those of the stream table, its work and time."""

    number: int
    work: Work
    actual_ms: float


@dataclass(slots=True)
class Learned:
    """The measurements of the refreshes on one engine."""

    exploration: Exploration = field(default_factory=Exploration)
    measured: dict[Action, deque[Measured]] = field(
        default_factory=lambda: {
            Action.DIFFERENTIAL: deque(maxlen=MEASUREMENTS),
            Action.FULL: deque(maxlen=MEASUREMENTS),
        }
    )


@dataclass(slots=True)
class CostMemory:
    """Outlines, statistics and measurements of one compiled query."""

    compiled: Compiled
    full: tuple[StageOutline, ...]
    # By the sources that changed.
    differential: Limited[frozenset[str], tuple[StageOutline, ...]] = field(
        default_factory=lambda: Limited(_OUTLINES)
    )
    statistics: Statistics | None = None
    read_at: float = 0.0  # the statistics, by the monotonic clock
    changed_since: float = 0.0  # rows, since they were read
    newest: int = 0  # refresh id
    refreshes: int = 0  # measured ones
    learned: defaultdict[EngineMode, Learned] = field(default_factory=lambda: defaultdict(Learned))
