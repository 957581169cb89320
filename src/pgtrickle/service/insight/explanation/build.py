"""Explain a compiled query: its operators from the result down, and the stages they run in."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.algebra.nodes import Node, Scan, SourceKind
from pgtrickle.algebra.printer import describe, show
from pgtrickle.algebra.schema import children_of, scans_of
from pgtrickle.delta.cut import StatefulStage, follows
from pgtrickle.delta.moving_scan import ranges_of
from pgtrickle.delta.reads import Read, ReadKind
from pgtrickle.plan.stages import (
    RefreshPlan,
    StagePlan,
    plan_differential,
    plan_full,
    sources_of,
)
from pgtrickle.service.compile import Compiled
from pgtrickle.service.insight.explanation.indexes import missing_indexes, missing_time_indexes
from pgtrickle.service.insight.explanation.model import Explanation, Operator, ReadNote, StageNote
from pgtrickle.service.insight.explanation.rules import RESULT, rule_of, stateful
from pgtrickle.service.insight.explanation.state import state_of
from pgtrickle.service.insight.explanation.unbounded import why_unbounded
from pgtrickle.service.refreshing.stages.state_rows import StateRows
from pgtrickle.sql.emit import changes_view, rows_view
from pgtrickle.sql.translate import Dialect


def explain(
    connection: Connection, compiled: Compiled, dialect: Dialect, stream_table_id: int | None
) -> Explanation:
    """Explain the refresh in which every source has changed.

    Without an id, the query does not belong to a stream table yet.
    """
    state_rows = StateRows(stream_table_id or 0, compiled)
    if compiled.refusal is None:
        changed = list(sources_of(compiled.staged))
        plan = plan_differential(compiled.staged, changed, dialect, state_rows, compiled.known)
    else:
        plan = plan_full(compiled.staged, dialect, state_rows)
    only = compiled.staged.only_postgres
    stages = tuple(
        _stage(connection, plan, one, stream_table_id, only.get(one.stage.name))
        for one in plan.stages
    )
    tree = _Tree(compiled, stages, stream_table_id).result()
    return Explanation(tree, stages)


def _stage(
    connection: Connection,
    plan: RefreshPlan,
    stage: StagePlan,
    stream_table_id: int | None,
    why_postgres: str | None,
) -> StageNote:
    reads = tuple(_read(connection, plan, stage, read) for read in stage.reads)
    state = tuple(state_of(stage.stage, stream_table_id))
    # PostgreSQL has the changes that a stage which only follows another starts from.
    own = follows(stage.stage) is not None and not plan.full
    engine = Dialect.POSTGRES if own else stage.dialect
    why = why_postgres
    if own:
        why = f"it only follows {follows(stage.stage)}, whose changes PostgreSQL has"
    name, delta = stage.stage.name, show(stage.plan)
    return StageNote(name, delta, state, reads, engine.value, why, stage.sql)


def _read(connection: Connection, plan: RefreshPlan, stage: StagePlan, read: Read) -> ReadNote:
    scans = {rows_view(scan): scan for scan in scans_of(stage.plan)}
    why: str | None = None
    missing: tuple[str, ...] = ()
    if read.kind is ReadKind.FULL:
        alias = scans[read.view].alias
        why = "the query is recomputed whole" if plan.full else why_unbounded(stage.plan, alias)
    elif read.kind is ReadKind.KEYED:
        scan = scans[read.view]
        found = missing_indexes(connection, scan, stage.bounds[scan.alias])
        missing = tuple(one.statement for one in found)
    elif read.moved_sql:
        scan = next(one for one in scans_of(stage.plan) if changes_view(one) == read.view)
        if ranges_of(scan) is None:
            why = "the time is not compared with a value of the row alone"
        missing = tuple(one.statement for one in missing_time_indexes(connection, scan))
    return ReadNote(
        read.view, read.source, read.kind.value, read.bounded_by, read.sql, why, missing
    )


class _Tree:
    """Nests the stages: a scan of a stage's rows becomes that stage."""

    def __init__(
        self, compiled: Compiled, stages: tuple[StageNote, ...], stream_table_id: int | None
    ) -> None:
        self._staged = compiled.staged
        self._stages = {stage.name: stage for stage in compiled.staged.stateful}
        self._reads = {
            stage.name: {read.relation: read for read in stage.reads} for stage in stages
        }
        self._id = stream_table_id
        self._shown: set[str] = set()

    def result(self) -> Operator:
        rows = self._staged.rows
        listed = ", ".join(f"{one.scalar.sql} as {one.name}" for one in rows.outputs)
        inputs = (self._operator(rows.body, rows.name),)
        return Operator("Result", f"Result {listed}", rows.name, RESULT, (), (), inputs)

    def _operator(self, node: Node, stage: str) -> Operator:
        reads: tuple[ReadNote, ...] = ()
        if isinstance(node, Scan):
            reads = self._reads_of(node, stage)
            if node.source.kind is SourceKind.STATE:
                return self._of_stage(self._stages[node.source.key], node, reads)
        return Operator(
            type(node).__name__,
            describe(node),
            stage,
            rule_of(node),
            (),
            reads,
            tuple(self._operator(child, stage) for child in children_of(node)),
        )

    def _reads_of(self, scan: Scan, stage: str) -> tuple[ReadNote, ...]:
        known = self._reads.get(stage, {})
        wanted = (changes_view(scan), rows_view(scan))
        return tuple(known[view] for view in wanted if view in known)

    def _of_stage(self, stage: StatefulStage, scan: Scan, reads: tuple[ReadNote, ...]) -> Operator:
        operator = stateful(stage)
        description = operator.description
        if scan.predicate is not None:
            description += f", where {scan.predicate.sql}"
        again = stage.name in self._shown
        self._shown.add(stage.name)
        return Operator(
            operator.kind,
            f"{description} (see above)" if again else description,
            stage.name,
            operator.rule,
            () if again else tuple(state_of(stage, self._id)),
            reads,
            () if again else (self._operator(stage.body, stage.name),),
        )
