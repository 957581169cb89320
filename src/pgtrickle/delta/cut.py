"""Cut a plan at its stateful operators into stages.

Every aggregate and every recomputed operator becomes its own stage: its input is a plan
of linear operators over tables and over the results of earlier stages, and its result is kept
in state tables.  To the stages above, its result is one more source: at ``BEFORE`` in the state
tables, with its changes known as soon as the stage has run.  So they nest to any depth and stay
incremental.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from pgtrickle.algebra.nodes import (
    Aggregate,
    Filter,
    InnerJoin,
    Node,
    Output,
    Project,
    Query,
    Recompute,
    Scan,
    Source,
    SourceKind,
    UnionAll,
    Weigh,
)
from pgtrickle.algebra.schema import columns_of, scans_of
from pgtrickle.delta.layout import Layout, layout_of, scales_needed
from pgtrickle.delta.partial import summed_columns, value_columns
from pgtrickle.delta.reads import computed_columns
from pgtrickle.delta.rewrites.carry_scales import (
    ScaleNames,
    carry_scales,
    decimals_of,
    fixed_scales,
)
from pgtrickle.delta.rewrites.combine_one_rows import combine_one_rows
from pgtrickle.delta.rewrites.prune_columns import prune_columns
from pgtrickle.delta.rewrites.push_into_scans import push_into_scans
from pgtrickle.delta.rewrites.separate_scans import separate_scans
from pgtrickle.model.compile_steps import step
from pgtrickle.model.sql_type import Column
from pgtrickle.sql.bound import Typer
from pgtrickle.sql.emit import Digits
from pgtrickle.sql.scalars import pass_on
from pgtrickle.sql.scales import declared_scale
from pgtrickle.sql.translate import Dialect


@dataclass(frozen=True, slots=True)
class AggregateStage:
    """A stage that merges the change of ``body`` into the state of one aggregate."""

    name: str
    body: Node
    layout: Layout
    digits: Digits = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecomputeStage:
    """A stage that stores the rows of ``body`` and evaluates a query for touched partitions."""

    name: str
    body: Node
    operator: Recompute
    digits: Digits = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Column, ...]:
        """The columns of the stored rows."""
        return columns_of(self.operator.child)


StatefulStage = AggregateStage | RecomputeStage


@dataclass(frozen=True, slots=True)
class RowsStage:
    """The last stage: the change of ``body``, from which PostgreSQL computes ``outputs``."""

    name: str
    body: Node
    outputs: tuple[Output, ...]
    digits: Digits = field(default_factory=dict)

    @property
    def passes_through(self) -> str | None:
        """The earlier stage whose rows are the result, if Spark has nothing to do."""
        return follows(self)


def follows(stage: StatefulStage | RowsStage) -> str | None:
    """Return the earlier stage that a stage reads, if it reads nothing else.

    PostgreSQL has the changes of that stage at hand: they need not go to the engine and back.
    """
    body = stage.body
    if isinstance(body, Scan) and body.source.kind is SourceKind.STATE:
        return body.source.key
    return None


def passes_through(stage: StatefulStage | RowsStage) -> bool:
    """Tell whether the rows of an earlier stage are the result, unchanged."""
    return isinstance(stage, RowsStage) and stage.passes_through is not None


@dataclass(frozen=True, slots=True)
class StagedQuery:
    """A defining query as stages, in the order they run."""

    stateful: tuple[StatefulStage, ...]
    rows: RowsStage
    # Why only PostgreSQL can compute a stage, by its name; see ``plan.engines``.
    only_postgres: Mapping[str, str] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[StatefulStage | RowsStage, ...]:
        """All stages, in the order they run."""
        return (*self.stateful, self.rows)

    def dialect_of(self, stage: StatefulStage | RowsStage, dialect: Dialect) -> Dialect:
        """Return the dialect of a stage, given that of the stages that any engine can compute."""
        return Dialect.POSTGRES if stage.name in self.only_postgres else dialect

    def captured_columns(self) -> dict[int, tuple[str, ...]]:
        """Return, for each source table's oid, the columns whose changes matter."""
        used: dict[int, set[str]] = {}
        for stage in self.stages:
            for scan in scans_of(stage.body):
                if scan.source.kind is SourceKind.TABLE:
                    names = used.setdefault(scan.source.relid, set())
                    names.update(n for output in scan.outputs for n in output.scalar.columns)
                    names.update(scan.predicate.columns if scan.predicate else ())
        return {relid: tuple(sorted(names)) for relid, names in used.items()}


def cut(query: Query, typer: Typer) -> StagedQuery:
    """Split a query into stages; move filters and expressions into their reads if possible."""
    cutter = _Cutter(typer)
    body = cutter.cut(query.node)
    needed = frozenset(name for output in query.outputs for name in output.scalar.columns)
    fixed = fixed_scales(body, cutter.fixed)
    shown, digits = cutter.show(_only(cutter.finish(body, needed), needed), fixed)
    rows = RowsStage("result", shown, query.outputs, digits)
    return StagedQuery(tuple(cutter.stages), rows)


class _Cutter:
    def __init__(self, typer: Typer) -> None:
        self._typer = typer
        # By identity: an input that occurs twice is cut once, however often it occurs inside.
        self._cut: dict[int, tuple[Node, Node]] = {}
        self._done: dict[Aggregate | Recompute, Scan] = {}  # by the operator over its cut input
        self.stages: list[StatefulStage] = []
        self.fixed: dict[str, int] = {}  # the digits of the stages' numerics that never vary

    def finish(self, body: Node, needed: frozenset[str]) -> Node:
        # Pruned twice: first so that only live expressions are pushed, then because an
        # expression that moved into a scan leaves its inputs unused.
        pruned = prune_columns(separate_scans(body), needed)
        return prune_columns(push_into_scans(pruned, self._typer), needed)

    def cut(self, node: Node) -> Node:
        if id(node) not in self._cut:
            step()
            self._cut[id(node)] = node, self._find_cut(node)
        return self._cut[id(node)][1]

    def _find_cut(self, node: Node) -> Node:
        match node:
            case Scan():
                return node
            case Filter() | Project() | Weigh():
                return replace(node, child=self.cut(node.child))
            case InnerJoin():
                combined = combine_one_rows(node)
                if combined is not node:
                    return self.cut(combined)
                return replace(node, left=self.cut(node.left), right=self.cut(node.right))
            case UnionAll():
                return UnionAll(tuple(self.cut(child) for child in node.children))
            case Aggregate() | Recompute():
                child = self.cut(node.child)
                # An operator that occurs twice in the plan is one stage.
                over = replace(node, child=child)
                if over not in self._done:
                    self._done[over] = self._add_stage(node, child)
                return self._done[over]
        assert_never(node)

    def show(self, body: Node, fixed: Mapping[str, int]) -> tuple[Node, Digits]:
        """Let each numeric of a stage leave the engine with its own digits."""
        names = ScaleNames(body)
        decimals = decimals_of(body, computed_columns(body))
        digits = {
            name: max(fixed[name], 0) if name in fixed else names.of(name)
            for name in _free(columns_of(body))
            if name in decimals
        }
        wanted = [name for name, scale in digits.items() if isinstance(scale, str)]
        return carry_scales(body, wanted, names), digits

    def _aggregate(
        self, name: str, body: Node, node: Aggregate, fixed: Mapping[str, int]
    ) -> AggregateStage:
        names = ScaleNames(body)
        free = [one for one in _free(columns_of(body)) if one not in fixed]
        needed = scales_needed(node)
        layout = layout_of(node, {one: names.of(one) for one in free if one in needed})
        decimals = decimals_of(body, computed_columns(body, summed_columns(layout)))
        digits = {
            column: max(fixed[column], 0) if column in fixed else names.of(column)
            for column in _free([*layout.keys, *value_columns(layout)])
            if column in decimals
        }
        wanted = {one for one in free if one in needed or one in digits}
        body = carry_scales(body, wanted, names)
        return AggregateStage(name, body, layout, digits)

    def _add_stage(self, node: Aggregate | Recompute, child: Node) -> Scan:
        fixed = fixed_scales(child, self.fixed)
        body = self.finish(child, frozenset(column.name for column in columns_of(child)))
        number = len(self.stages) + 1
        if isinstance(node, Aggregate):
            self.stages.append(self._aggregate(f"group_{number}", body, node, fixed))
            self.fixed |= _fixed_results(node, fixed)
        else:
            body, digits = self.show(body, fixed)
            self.stages.append(RecomputeStage(f"part_{number}", body, node, digits))
            self.fixed |= {key.name: fixed[key.name] for key in node.keys if key.name in fixed}
        stage = self.stages[-1]
        outputs = tuple(map(pass_on, columns_of(node)))
        return Scan(Source(SourceKind.STATE, stage.name), stage.name, outputs)


def _only(node: Node, needed: frozenset[str]) -> Node:
    """Drop the compared columns of a join from its result, if nothing else reads them."""
    columns = columns_of(node)
    kept = tuple(pass_on(column) for column in columns if column.name in needed)
    return node if len(kept) == len(columns) else Project(node, kept)


def _free(columns: Iterable[Column]) -> list[str]:
    """Return the numerics among some columns whose type does not tell their digits."""
    return [
        one.name
        for one in columns
        if one.type.base == "numeric" and declared_scale(one.type) is None
    ]


def _fixed_results(node: Aggregate, fixed: Mapping[str, int]) -> dict[str, int]:
    """Return the digits of an aggregate's results that are the same in every row."""
    found = {key.name: fixed[key.name] for key in node.keys if key.name in fixed}
    for call in node.calls:
        names = {one.name for one in call.arguments} & fixed.keys()
        if call.function in {"sum", "min", "max"} and call.whole and names:
            found[call.name] = fixed[names.pop()]
    return found
