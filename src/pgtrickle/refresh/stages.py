"""A refresh as data: which queries are read, what the engine computes, where it goes.

Building a plan, showing it and executing it are three things over these values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from pgtrickle.algebra.nodes import Node, Scan, SourceKind
from pgtrickle.algebra.schema import columns_of, scans_of
from pgtrickle.delta.cut import (
    AggregateStage,
    RowsStage,
    StagedQuery,
    StatefulStage,
    passes_through,
)
from pgtrickle.delta.derive import derive, full
from pgtrickle.delta.key_sets import Bound, Restriction, Spread, bounds_of, unknown_spread
from pgtrickle.delta.layout import WEIGHT
from pgtrickle.delta.partial import emit_partial, partial_columns, summed_columns
from pgtrickle.delta.reads import Read, computed_columns, read_changes_of, reads_of
from pgtrickle.model.names import quote_identifier
from pgtrickle.model.sql_type import BIGINT, Column
from pgtrickle.sql.emit import OtherVersion, emit, other_versions, relation_of
from pgtrickle.sql.scalars import bare_column
from pgtrickle.sql.translate import Dialect

_WEIGHT_COLUMN = Column(WEIGHT, BIGINT)


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One round through the engine: reads in, weighted rows out."""

    stage: StatefulStage | RowsStage
    plan: Node
    reads: tuple[Read, ...]
    sql: str
    columns: tuple[Column, ...]  # of the engine's result
    bounds: Mapping[str, tuple[Bound, ...]]  # of the reads of rows, by alias
    versions: tuple[OtherVersion, ...]  # that follow from what is read

    @property
    def as_query(self) -> str:
        """The stage as one query, where one database has both its reads and its language."""
        relations = [
            *((one.view, one.sql) for one in self.reads),
            *((one.view, one.sql) for one in self.versions),
        ]
        views = ", ".join(f"{quote_identifier(view)} AS ({sql})" for view, sql in relations)
        return f"WITH {views} {self.sql}"

    @property
    def named(self) -> frozenset[str]:
        """The relations that the query names."""
        return frozenset(relation_of(scan) for scan in scans_of(self.plan))


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """All rounds of one refresh, in order; ``full`` plans replace what is stored."""

    stages: tuple[StagePlan, ...]
    full: bool


def plan_differential(
    query: StagedQuery,
    changed: Collection[str],
    dialect: Dialect,
    state_rows: Callable[[str], str],
    spread: Spread = unknown_spread,
) -> RefreshPlan:
    """Plan the refresh for changes in the given sources; others contribute nothing."""
    seen = set(changed)
    stages = []
    for stage in query.stages:
        aliases = [scan.alias for scan in changing_scans(stage, seen)]
        if not aliases:
            continue
        seen.add(stage.name)
        planned = plan_stage(stage, aliases, dialect, state_rows, spread)
        if planned is not None:
            stages.append(planned)
    return RefreshPlan(tuple(stages), full=False)


def changing_scans(stage: StatefulStage | RowsStage, changed: Collection[str]) -> list[Scan]:
    """Return the scans of a stage, one for each alias, whose sources changed."""
    scans = {scan.alias: scan for scan in scans_of(stage.body) if scan.source.key in changed}
    return list(scans.values())


def plan_stage(
    stage: StatefulStage | RowsStage,
    aliases: Collection[str],
    dialect: Dialect,
    state_rows: Callable[[str], str],
    spread: Spread = unknown_spread,
) -> StagePlan | None:
    """Plan one stage for changes in the given scans; None where there is nothing to compute."""
    plan = derive(stage.body, aliases)
    if plan is None or passes_through(stage):
        return None
    return _stage_plan(stage, plan, dialect, state_rows, spread)


def changes_reads(stage: StatefulStage | RowsStage, scans: Iterable[Scan]) -> list[Read]:
    """Return the reads of the changes of some of a stage's scans."""
    computed = _computed(stage)
    return [read_changes_of(scan, computed) for scan in scans]


def plan_full(
    query: StagedQuery, dialect: Dialect, state_rows: Callable[[str], str]
) -> RefreshPlan:
    """Plan the computation of everything from the sources as they are now."""
    stages = tuple(
        _stage_plan(stage, full(stage.body), dialect, state_rows)
        for stage in query.stages
        if not passes_through(stage)
    )
    return RefreshPlan(stages, full=True)


def looked_up_columns(query: StagedQuery) -> dict[str, tuple[str, ...]]:
    """Return, by stage, the columns of its stored rows by which later stages look rows up."""
    found: dict[str, dict[str, None]] = {}
    for stage in query.stages:
        plan = derive(stage.body, {scan.alias for scan in scans_of(stage.body)})
        if plan is None:
            continue
        bounds = bounds_of(plan)
        for scan in scans_of(plan):
            if scan.source.kind is SourceKind.STATE and scan.alias in bounds:
                names = {output.name: bare_column(output.scalar) for output in scan.outputs}
                columns = found.setdefault(scan.source.key, {})
                for bound in bounds[scan.alias]:
                    for restriction in bound:
                        column = names.get(restriction.column)
                        if column is not None and isinstance(restriction, Restriction):
                            columns[column] = None
    return {stage: tuple(columns) for stage, columns in found.items()}


def sources_of(query: StagedQuery) -> dict[str, int]:
    """Return the oids of the captured tables a query reads, by the source's key."""
    return {
        scan.source.key: scan.source.relid
        for stage in query.stages
        for scan in scans_of(stage.body)
        if scan.source.kind is SourceKind.TABLE
    }


def _stage_plan(
    stage: StatefulStage | RowsStage,
    plan: Node,
    dialect: Dialect,
    state_rows: Callable[[str], str],
    spread: Spread = unknown_spread,
) -> StagePlan:
    bounds = bounds_of(plan, spread)
    reads = reads_of(plan, state_rows, _computed(stage), bounds)
    versions = other_versions(plan, dialect)
    if isinstance(stage, AggregateStage):
        sql = emit_partial(plan, stage.layout, dialect)
        return StagePlan(stage, plan, reads, sql, partial_columns(stage.layout), bounds, versions)
    columns = (*columns_of(plan), _WEIGHT_COLUMN)
    return StagePlan(stage, plan, reads, emit(plan, dialect), columns, bounds, versions)


def _computed(stage: StatefulStage | RowsStage) -> frozenset[str]:
    """Return the columns that the engine computes with, whichever scans have changed."""
    summed = summed_columns(stage.layout) if isinstance(stage, AggregateStage) else frozenset()
    return computed_columns(stage.body, summed)
