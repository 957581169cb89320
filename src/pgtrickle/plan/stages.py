"""A refresh as data: the queries to read, the SQL of the engine, the target of its result.

Building a plan, showing it and executing it are three things over these values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from pgtrickle.algebra.nodes import InnerJoin, Node, Scan, SourceKind, Version
from pgtrickle.algebra.schema import children_of, columns_of, scans_of
from pgtrickle.delta.cut import (
    AggregateStage,
    RecomputeStage,
    RowsStage,
    StagedQuery,
    StatefulStage,
    passes_through,
)
from pgtrickle.delta.derive import derive, full, pair, with_merged_state
from pgtrickle.delta.key_sets import Bound, Restriction, Spread, bounds_of, unknown_spread
from pgtrickle.delta.layout import WEIGHT
from pgtrickle.delta.moving_scan import is_moving
from pgtrickle.delta.narrow import Keys, is_narrow, no_keys
from pgtrickle.delta.partial import emit_partial, partial_columns, summed_columns
from pgtrickle.delta.reads import (
    Read,
    ReadKind,
    computed_columns,
    read_changes_of,
    reads_of,
    stage_changes,
)
from pgtrickle.model.sql_type import BIGINT, Column
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.sql.emit import (
    OtherVersion,
    both_view,
    changes_view,
    emit_shown,
    other_versions,
    relation_of,
    rows_view,
    stands_at,
)
from pgtrickle.sql.scalars import bare_column
from pgtrickle.sql.translate import Dialect

_WEIGHT_COLUMN = Column(WEIGHT, BIGINT)


@dataclass(frozen=True, slots=True)
class Known:
    """Knowledge of the sources' values; it affects the form of a plan, not its result."""

    spread: Spread = unknown_spread
    keys: Keys = no_keys


NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True)
class BothVersions:
    """The rows of a scan before and after, computed from its rows and its changes."""

    view: str
    rows: str | None  # None: only the changes are needed
    changes: str
    stands_at: Version  # of the rows
    columns: tuple[str, ...]
    bounded_by: frozenset[str]  # columns that bounded the read; none: all rows were read


@dataclass(frozen=True, slots=True)
class PairPlan:
    """A stage in one pass, for inputs that are in memory."""

    sql: str
    versions: tuple[BothVersions, ...]
    named: frozenset[str]


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One round through the engine: reads in, weighted rows out."""

    stage: StatefulStage | RowsStage
    plan: Node
    reads: tuple[Read, ...]
    sql: str
    columns: tuple[Column, ...]  # of the engine's result
    dialect: Dialect  # of the engine that computes it
    bounds: Mapping[str, tuple[Bound, ...]]  # of the reads of rows, by alias
    versions: tuple[OtherVersion, ...]  # that are computed from the reads
    paired: PairPlan | None = None  # the same in fewer joins

    @property
    def as_query(self) -> str:
        """The stage as one query, for a database that has its reads and its dialect."""
        relations = [
            *((one.view, one.sql) for one in self.reads),
            *((one.view, one.sql) for one in self.versions),
        ]
        views = ", ".join(f"{quote_identifier(view)} AS ({sql})" for view, sql in relations)
        return f"WITH {views} {self.sql}"

    @property
    def named(self) -> frozenset[str]:
        """The relations that the query names."""
        return _named(self.plan)


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """All stages of one refresh, in order; ``full`` plans replace the stored rows."""

    stages: tuple[StagePlan, ...]
    full: bool


def plan_differential(
    query: StagedQuery,
    changed: Collection[str],
    dialect: Dialect,
    state_rows: Callable[[str], str],
    known: Known = NOTHING_KNOWN,
) -> RefreshPlan:
    """Plan the refresh for changes in the given sources; others contribute nothing.

    ``dialect`` is that of the stages that any engine can compute.
    """
    seen = set(changed)
    stages = []
    for stage in query.stages:
        aliases = [scan.alias for scan in changing_scans(stage, seen)]
        if not aliases:
            continue
        seen.add(stage.name)
        own = query.dialect_of(stage, dialect)
        planned = plan_stage(stage, aliases, own, state_rows, known)
        if planned is not None:
            stages.append(planned)
    return RefreshPlan(tuple(stages), full=False)


def changing_scans(stage: StatefulStage | RowsStage, changed: Collection[str]) -> list[Scan]:
    """Return the scans of a stage, one for each alias, whose sources changed; time always has."""
    scans = {
        scan.alias: scan
        for scan in scans_of(stage.body)
        if scan.source.key in changed or is_moving(scan)
    }
    return list(scans.values())


def plan_stage(
    stage: StatefulStage | RowsStage,
    aliases: Collection[str],
    dialect: Dialect,
    state_rows: Callable[[str], str],
    known: Known = NOTHING_KNOWN,
) -> StagePlan | None:
    """Plan one stage for changes in the given scans; None if there is nothing to compute."""
    plan = derive(_body(stage, dialect), aliases)
    if plan is None or passes_through(stage):
        return None
    planned = _stage_plan(stage, plan, dialect, state_rows, known.spread)
    if dialect is Dialect.POSTGRES:
        return planned
    paired = pair(stage.body, aliases)
    if _joins(plan) > _joins(paired) and is_narrow(paired, known.keys):
        return replace(planned, paired=_pair_plan(planned, paired, dialect))
    return planned


def changes_reads(stage: StatefulStage | RowsStage, scans: Iterable[Scan]) -> list[Read]:
    """Return the reads of the changes of some of a stage's scans."""
    computed = _computed(stage)
    return [read_changes_of(scan, computed) for scan in scans]


def plan_full(
    query: StagedQuery, dialect: Dialect, state_rows: Callable[[str], str], *, merged: bool = False
) -> RefreshPlan:
    """Plan the computation of everything from the present sources.

    ``merged``: an engine finds the rows that an earlier stage has stored where it finds its changes
    otherwise, and need not compute them from the rows before.
    """
    stages = tuple(
        plan_full_stage(stage, query.dialect_of(stage, dialect), state_rows, merged=merged)
        for stage in query.stages
        if not passes_through(stage)
    )
    return RefreshPlan(stages, full=True)


def plan_full_stage(
    stage: StatefulStage | RowsStage,
    dialect: Dialect,
    state_rows: Callable[[str], str],
    *,
    merged: bool = False,
) -> StagePlan:
    """Plan the computation of one stage from the present rows of its sources."""
    if not merged or dialect is Dialect.POSTGRES:
        return _stage_plan(stage, full(_body(stage, dialect)), dialect, state_rows)
    body = full(with_merged_state(stage.body))
    planned = _stage_plan(stage, body, dialect, lambda name: f"SELECT * FROM {stage_changes(name)}")
    reads = tuple(
        replace(read, kind=ReadKind.STAGE, state=False) if read.state else read
        for read in planned.reads
    )
    return replace(planned, reads=reads)


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
    columns = (
        partial_columns(stage.layout)
        if isinstance(stage, AggregateStage)
        else (*_shown_columns(stage, plan), _WEIGHT_COLUMN)
    )
    sql = _sql(stage, plan, dialect)
    return StagePlan(stage, plan, reads, sql, columns, dialect, bounds, versions)


def _shown_columns(stage: RecomputeStage | RowsStage, plan: Node) -> tuple[Column, ...]:
    """Return the columns of a stage without those that only tell the digits of others."""
    scales = set(stage.digits.values())
    return tuple(column for column in columns_of(plan) if column.name not in scales)


def _body(stage: StatefulStage | RowsStage, dialect: Dialect) -> Node:
    """Return the input of a stage as its engine meets it.

    PostgreSQL computes where earlier stages have merged their changes into their state; all other
    engines read the state as it was before the refresh.
    """
    return with_merged_state(stage.body) if dialect is Dialect.POSTGRES else stage.body


def _sql(stage: StatefulStage | RowsStage, plan: Node, dialect: Dialect) -> str:
    if isinstance(stage, AggregateStage):
        return emit_partial(plan, stage.layout, dialect, stage.digits)
    names = [column.name for column in _shown_columns(stage, plan)]
    return emit_shown(plan, names, stage.digits, dialect)


def _pair_plan(stage: StagePlan, plan: Node, dialect: Dialect) -> PairPlan:
    """Write a stage over both versions of its sources, with the reads that it has."""
    read = {one.view for one in stage.reads}
    versions = {
        scan.alias: BothVersions(
            both_view(scan),
            rows_view(scan) if rows_view(scan) in read else None,
            changes_view(scan),
            stands_at(scan),
            tuple(column.name for column in columns_of(scan)),
            _bounding_columns(stage.bounds.get(scan.alias, ())),
        )
        for scan in scans_of(plan)
        if scan.version is Version.BOTH
    }
    return PairPlan(_sql(stage.stage, plan, dialect), tuple(versions.values()), _named(plan))


def _bounding_columns(bounds: tuple[Bound, ...]) -> frozenset[str]:
    if not all(bounds):
        return frozenset()
    return frozenset(one.column for bound in bounds for one in bound)


def _named(plan: Node) -> frozenset[str]:
    return frozenset(relation_of(scan) for scan in scans_of(plan))


def _joins(plan: Node) -> int:
    return isinstance(plan, InnerJoin) + sum(map(_joins, children_of(plan)))


def _computed(stage: StatefulStage | RowsStage) -> frozenset[str]:
    """Return the columns that the engine computes with, for any changed scans."""
    summed = summed_columns(stage.layout) if isinstance(stage, AggregateStage) else frozenset()
    return computed_columns(stage.body, summed)
