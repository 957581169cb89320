"""What became of one query of a workload."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgtrickle.model.stream_table import Action
from tests.workloads.compile_time import CompileTime


@dataclass(slots=True)
class Outcome:
    """What was seen of one query; ``failure`` ends it, everything else goes on."""

    query: str
    stages: int = 0
    compiled: CompileTime | None = None
    refusal: str | None = None  # why AUTO computes it as a whole each time
    text_difference: str | None = None  # the first: equal values in other digits
    actions: list[Action] = field(default_factory=list)  # of the history, by cycle
    rows_changed: list[int] = field(default_factory=list)  # of PostgreSQL's answer, by cycle
    refresh_ms: list[float] = field(default_factory=list)
    answer_ms: list[float] = field(default_factory=list)
    failure: str | None = None

    @property
    def cycles(self) -> int:
        """Return after how many cycles the table was equal to its query."""
        return len(self.refresh_ms)

    @property
    def differential(self) -> bool:
        """Return whether the changes were followed, and the query computed anew in no cycle."""
        followed = {Action.DIFFERENTIAL, Action.NO_DATA}
        return (
            self.refusal is None
            and Action.DIFFERENTIAL in self.actions
            and followed.issuperset(self.actions)
        )
