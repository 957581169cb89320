"""The engine that computes the stages of a refresh: one protocol for all of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from pgtrickle.algebra.nodes import Scan
from pgtrickle.delta.cut import RowsStage, StatefulStage
from pgtrickle.plan.stages import StagePlan
from pgtrickle.sql.translate import Dialect


class Computer(Protocol):
    """Computes stages; each result ends in the staging table of its stage."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of the plans that it computes."""
        ...

    def read_changes(
        self, stage: StatefulStage | RowsStage, scans: Sequence[Scan]
    ) -> Collection[str]:
        """Read the changes of some scans; return the relations of those that have an effect."""
        ...

    def compute(self, plan: StagePlan) -> None:
        """Stage the result of a stage, from the changes that were read for it and the rest."""
        ...
