"""Choose the engine of each stage: any, unless only PostgreSQL can evaluate its expressions.

The choice depends on the query alone, so every process makes the same one, whichever engine its
settings name: state that one of them has written is continued by any other.
"""

from __future__ import annotations

from dataclasses import replace

from pgtrickle.delta.cut import RowsStage, StagedQuery, StatefulStage, passes_through
from pgtrickle.errors import UnsupportedExpressionError
from pgtrickle.plan.stages import plan_full_stage
from pgtrickle.sql.translate import Dialect


def assign_engines(query: StagedQuery) -> StagedQuery:
    """Return the query with the stages that only PostgreSQL can compute, and why."""
    found = {stage.name: _why_not_spark(stage) for stage in query.stages}
    only = {name: why for name, why in found.items() if why is not None}
    return replace(query, only_postgres=only)


def _why_not_spark(stage: StatefulStage | RowsStage) -> str | None:
    """Return which expression of a stage cannot be written for Spark; None if all can.

    The change of a stage is computed with the expressions of the stage itself.
    """
    if passes_through(stage):
        return None
    try:
        plan_full_stage(stage, Dialect.SPARK, str)
    except UnsupportedExpressionError as error:
        return str(error)
    return None
