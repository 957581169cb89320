"""Find the stored rows of a compiled query's stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgtrickle.delta.cut import StatefulStage
from pgtrickle.service.compile import Compiled
from pgtrickle.storage.state_tables import rows_query


@dataclass(frozen=True, slots=True)
class StateRows:
    """Finds the query of a stage's stored rows."""

    stream_table_id: int
    compiled: Compiled

    def __call__(self, stage: str) -> str:
        """Return the query for the stage of that name."""
        stages: Mapping[str, StatefulStage] = {
            one.name: one for one in self.compiled.staged.stateful
        }
        return rows_query(self.stream_table_id, stages[stage])
