"""Count the work of a whole refresh, stage by stage.

    differential   reads the rows that the changes reach, merges them, and passes its changes on
    full           reads everything, and compares the result with the stored rows

A full refresh writes the same rows as a differential one, since both write only the difference.
That is at most every stored row before and after: an estimate of many changes is a product of
estimates, and the stored rows have been counted.  State that is empty, as at a first load, is
filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from pgtrickle.algebra.nodes import Node
from pgtrickle.delta.cut import AggregateStage, RecomputeStage, RowsStage, StatefulStage
from pgtrickle.model.sql_type import Column
from pgtrickle.plan.cost.estimate import Estimate
from pgtrickle.plan.cost.outline import StageOutline
from pgtrickle.plan.cost.statistics import Statistics, TableStatistics
from pgtrickle.plan.cost.work import Work

_Groups = Callable[[float, Iterable[Column]], float]  # rows, keys: their number of groups

INPUT_SUFFIX = "_input"  # of the state table that keeps a recomputed operator's input


@dataclass(frozen=True, slots=True)
class Differential:
    """The work of following the changes, and the expected changes of each stage."""

    work: Work
    changes: Mapping[str, float]  # rows, by the key of a source or the name of a stage


def count_differential(
    outlines: Sequence[StageOutline], statistics: Statistics, changed: Mapping[str, float]
) -> Differential:
    """Count the work of following the changed rows, by source, through the stages."""
    changes = dict(changed)
    total = Work(refreshes=1)
    for one in outlines:
        if one.plan is None:
            total += Work(applied_rows=_passed(one, changes))
            continue
        estimate = Estimate(statistics, changes, one.bounds)
        rows = estimate.rows(one.plan)
        total += _engine(one, one.plan, estimate, statistics)
        groups = partial(_stored_groups, one, statistics, partial(_groups, one.plan, estimate))
        work, left = _merge(one.stage, rows, statistics, groups)
        total += work
        changes[one.stage.name] = left
    return Differential(total, changes)


def count_full(
    outlines: Sequence[StageOutline], statistics: Statistics, differential: Differential | None
) -> Work:
    """Count the work of computing everything and writing the difference."""
    changes = {} if differential is None else differential.changes
    written = 0.0 if differential is None else differential.work.merged_rows
    applied = statistics.contents.rows if differential is None else differential.work.applied_rows
    total = Work(refreshes=1, full_refreshes=1, merged_rows=written, applied_rows=applied)
    for one in outlines:
        if one.plan is None:
            passed = one.stage.passes_through if isinstance(one.stage, RowsStage) else None
            stored = statistics.states.get(passed or "")
            total += Work(compared_rows=stored.rows if stored else 0.0)
            continue
        estimate = Estimate(statistics, changes, one.bounds)
        rows = estimate.rows(one.plan)
        total += _engine(one, one.plan, estimate, statistics) + _replace(
            one.stage, rows, statistics, partial(_groups, one.plan, estimate)
        )
    return total + Work(compared_rows=statistics.contents.rows)


def _engine(one: StageOutline, plan: Node, estimate: Estimate, statistics: Statistics) -> Work:
    """Return the work of reading the inputs of a stage and computing with them."""
    reads = [estimate.search_changes(scan) for scan in one.changes]
    reads += [estimate.search_rows(scan) for scan in one.rows]
    large = any(read.moved_values >= statistics.large_values for read in reads)
    return sum(reads, Work(stages=1, large_stages=float(large)) + estimate.size(plan))


def _merge(
    stage: StatefulStage | RowsStage, rows: float, statistics: Statistics, groups: _Groups
) -> tuple[Work, float]:
    """Return the work of merging a change of ``rows`` rows, and the number of resulting changes."""
    if isinstance(stage, RowsStage):
        return Work(staged_rows=rows, applied_rows=_at_most(rows, statistics.contents)), rows
    if isinstance(stage, RecomputeStage):
        partitions = groups(rows, stage.operator.keys)
        reach = _rows_of_groups(statistics, stage.name + INPUT_SUFFIX, stage, partitions, rows)
        return (
            Work(staged_rows=rows, merged_rows=2 * rows, recomputed_rows=reach),
            2 * rows,
        )
    touched = groups(rows, stage.layout.keys)
    staged = rows if stage.layout.values else touched
    reach = sum(
        _rows_of_groups(statistics, f"{stage.name}_{result.lookup.values.name}", stage, touched, 0)
        for result in stage.layout.looked_up
        if result.lookup is not None and result.lookup.repeated
    )
    merged = touched + len(stage.layout.values) * rows
    work = Work(staged_rows=staged, merged_rows=merged, recomputed_rows=reach)
    return work, 2 * touched  # each group with its row before and after


def _replace(
    stage: StatefulStage | RowsStage, rows: float, statistics: Statistics, groups: _Groups
) -> Work:
    """Return the work of comparing a stage's whole result with the stored one, if there is any."""
    known = statistics.states.get(stage.name)
    if isinstance(stage, RowsStage):
        if not statistics.contents.rows:
            return Work(staged_rows=rows, applied_rows=rows)
        return Work(staged_rows=rows, compared_rows=rows)
    if isinstance(stage, RecomputeStage):
        stored = statistics.states.get(stage.name + INPUT_SUFFIX)
        if not (stored and stored.rows):
            return Work(staged_rows=rows, filled_rows=rows, recomputed_rows=rows)
        return Work(staged_rows=rows, compared_rows=2 * rows, recomputed_rows=rows)
    number = known.rows if known and known.rows else groups(rows, stage.layout.keys)
    staged = rows if stage.layout.values else min(number, rows)
    values = len(stage.layout.values) * rows
    if not (known and known.rows):
        return Work(staged_rows=staged, filled_rows=number + values)
    return Work(staged_rows=staged, compared_rows=number + staged + values)


def _passed(one: StageOutline, changes: Mapping[str, float]) -> float:
    passed = one.stage.passes_through if isinstance(one.stage, RowsStage) else None
    return changes.get(passed or "", 0.0)


def _groups(plan: Node, estimate: Estimate, rows: float, keys: Iterable[Column]) -> float:
    """Return the number of groups of that many rows of a plan."""
    return min(rows, prod(estimate.distinct(plan, key.name) for key in keys))


def _stored_groups(
    one: StageOutline, statistics: Statistics, groups: _Groups, rows: float, keys: Iterable[Column]
) -> float:
    """Return the number of groups of that many rows, bounded by the stored groups."""
    return _at_most(groups(rows, keys), statistics.states.get(one.stage.name))


def _at_most(rows: float, stored: TableStatistics | None) -> float:
    """Return a number of rows, at most twice the stored ones: each row before and after."""
    return min(rows, 2 * stored.rows) if stored is not None and stored.rows > 0 else rows


def _rows_of_groups(
    statistics: Statistics,
    table: str,
    stage: StatefulStage,
    groups: float,
    at_least: float,
) -> float:
    """Return the number of stored rows of that many groups."""
    keys = stage.layout.keys if isinstance(stage, AggregateStage) else stage.operator.keys
    stored = statistics.states.get(table, TableStatistics(at_least))
    values = min(prod(stored.distinct_values(key.name) for key in keys), max(stored.rows, 1.0))
    return max(at_least, stored.rows * min(1.0, groups / values))
