"""The stages of a refresh as the cost model needs them: plans, bounds and reads, without SQL.

Deriving them takes longer than counting with them, and depends only on the query and on the
changed sources; so outlines are kept between refreshes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pgtrickle.algebra.nodes import Node, Scan, Version
from pgtrickle.algebra.schema import scans_of
from pgtrickle.delta.cut import RowsStage, StagedQuery, StatefulStage, passes_through
from pgtrickle.delta.derive import derive, full
from pgtrickle.delta.key_sets import Bound, Spread, bounds_of, unknown_spread
from pgtrickle.delta.reads import needs_changes
from pgtrickle.plan.stages import changing_scans
from pgtrickle.sql.emit import changes_view, rows_view


@dataclass(frozen=True, slots=True)
class StageOutline:
    """One stage: its computation and reads; ``plan`` is None if the engine does nothing."""

    stage: StatefulStage | RowsStage
    plan: Node | None
    bounds: Mapping[str, tuple[Bound, ...]]
    changes: tuple[Scan, ...]  # whose changes are read
    rows: tuple[Scan, ...]  # whose rows are read


def outline_differential(
    query: StagedQuery, changed: Collection[str], spread: Spread = unknown_spread
) -> tuple[StageOutline, ...]:
    """Outline the refresh for changes in the given sources; stages they do not reach are left out.

    It follows ``plan_differential`` step by step.
    """
    seen = set(changed)
    outlines = []
    for stage in query.stages:
        plan = derive(stage.body, {scan.alias for scan in changing_scans(stage, seen)})
        if plan is not None:
            seen.add(stage.name)
            outlines.append(_outline(stage, None if passes_through(stage) else plan, spread))
    return tuple(outlines)


def outline_full(query: StagedQuery) -> tuple[StageOutline, ...]:
    """Outline the computation of everything."""
    return tuple(
        _outline(stage, None if passes_through(stage) else full(stage.body))
        for stage in query.stages
    )


def _outline(
    stage: StatefulStage | RowsStage, plan: Node | None, spread: Spread = unknown_spread
) -> StageOutline:
    if plan is None:
        return StageOutline(stage, None, {}, (), ())
    changes: dict[str, Scan] = {}
    rows: dict[str, Scan] = {}
    for scan in scans_of(plan):
        if needs_changes(scan):
            changes.setdefault(changes_view(scan), scan)
        if scan.version is not Version.CHANGES:
            rows.setdefault(rows_view(scan), scan)
    bounds = bounds_of(plan, spread)
    return StageOutline(stage, plan, bounds, tuple(changes.values()), tuple(rows.values()))
