"""The law every plan obeys: what is stored + the delta = the query's own answer, each time.

``check_law`` plays the refreshes of one history.  It shares with the product everything that
compiles a query; how a window is read, how an aggregate's memory grows and how the result is kept
is written here once more, in the simplest way.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

from pgtrickle.algebra.nodes import Scan
from pgtrickle.delta.cut import AggregateStage, RowsStage, StagedQuery, StatefulStage, cut
from pgtrickle.delta.layout import WEIGHT
from pgtrickle.delta.narrow import Key
from pgtrickle.delta.reads import Read, ReadKind, fill_ranges, stage_changes
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.plan.stages import (
    Known,
    StagePlan,
    changes_reads,
    changing_scans,
    plan_full,
    plan_stage,
)
from pgtrickle.ports import Engine
from pgtrickle.service.refreshing.inputs.change_keys import consolidate, range_condition
from pgtrickle.service.refreshing.stages.source_versions import add_versions
from pgtrickle.sql.lower.query import lower
from pgtrickle.sql.translate import Dialect, translate
from tests.delta.dialect import to_duckdb
from tests.delta.memory import Memory, memory_of
from tests.delta.typer import TEXT
from tests.delta.world import TABLES, Row, Table, Weighted, World, countable

Bags = Mapping[str, Sequence[Row]]
Window = Mapping[str, Sequence[Weighted]]


@dataclass(frozen=True)
class History:
    """The sources, the rows they start with, and the weighted changes of each window."""

    initial: Bags
    windows: tuple[Window, ...]
    tables: tuple[Table, ...] = TABLES


@dataclass(frozen=True)
class DefiningQuery:
    """A query in the form that PostgreSQL prints, and the names of its columns."""

    sql: str
    names: tuple[str, ...]


@dataclass
class Observed:
    """What happened while a law was checked, for statistics and for tests of the test."""

    stages: int = 0
    kinds: Counter[ReadKind] = field(default_factory=Counter)
    changed_rows: int = 0
    ranges: int = 0  # conditions that a range of changed values has added
    paired: int = 0  # stages that were computed over both versions too


def check_law(
    world: World, query: DefiningQuery, history: History, engine: Engine | None = None
) -> Observed:
    """Maintain ``query`` over ``history`` and compare with its answer after each window.

    Without an engine the stages run inside ``world``, reads and all in one statement, which is
    several times faster than to carry every input through Arrow.
    """
    world.define(history.tables)
    staged = compile_query(world, query)
    return check_plan(world, query, staged, history, engine, widen=True)


def check_plan(
    world: World,
    query: DefiningQuery,
    staged: StagedQuery,
    history: History,
    engine: Engine | None = None,
    *,
    widen: bool = False,
) -> Observed:
    """Check the law on a query that is compiled already.

    With ``widen`` every bounded read is also tried unbounded, and must make no difference.
    """
    maintained = _Maintained(world, staged, engine, widen=widen)
    reference = to_duckdb(query.sql)
    captured = staged.captured_columns()
    read = {
        table.name: frozenset(captured[table.relid])
        for table in history.tables
        if table.relid in captured
    }
    bags = {name: Counter(history.initial.get(name, ())) for name in read}
    world.reset(_elements(bags))

    maintained.load()
    _compare(maintained.result, world.rows(reference), "the first load")
    for number, window in enumerate(history.windows, 1):
        changes = {name: window[name] for name in read if window.get(name)}
        if not changes:
            continue
        bags |= {name: _add(bags[name], weighted) for name, weighted in changes.items()}
        world.advance(_elements(bags), _blanked(world, changes, read))
        maintained.refresh({str(world.tables[name].relid) for name in changes})
        _compare(maintained.result, world.rows(reference), f"window {number}")
    return maintained.observed


def compile_query(world: World, query: DefiningQuery) -> StagedQuery:
    """Compile a query over the tables of the world."""
    columns = [Column(name, TEXT) for name in query.names]
    return cut(lower(world.bound_query(query.sql, columns), world.typer), world.typer)


def _compare(stored: Counter[Row], answer: list[Row], when: str) -> None:
    expected = Counter(map(_rounded, answer))
    missing, extra = expected - stored, stored - expected
    assert (missing, extra) == (Counter(), Counter()), f"{when}: missing {missing}, extra {extra}"


class _Maintained:
    """A stream table: its result, its states, and how a refresh changes them."""

    def __init__(
        self, world: World, query: StagedQuery, engine: Engine | None, *, widen: bool
    ) -> None:
        self._widen = widen
        self._world = world
        self._query = query
        self._engine = engine
        self._dialect = engine.dialect if engine else Dialect.DUCKDB
        self._memories: dict[str, Memory] = {
            stage.name: memory_of(world, stage) for stage in query.stateful
        }
        self._full = plan_full(query, self._dialect, self._state_rows)
        self._unbounded = {
            (stage.stage.name, read.view): read.sql
            for stage in self._full.stages
            for read in stage.reads
        }
        self._plans: dict[tuple[str, frozenset[str]], StagePlan | None] = {}
        self.result: Counter[Row] = Counter()
        self.observed = Observed()

    def load(self) -> None:
        self._run(self._full.stages)

    def refresh(self, changed: Collection[str]) -> None:
        self._run(self._changing_stages(set(changed)))

    def _changing_stages(self, moved: set[str]) -> Iterator[StagePlan]:
        """Yield the stages with changes that do not cancel out, as a refresh finds them."""
        for stage in self._query.stages:
            scans = [
                scan for scan in changing_scans(stage, moved) if self._has_changes(stage, scan)
            ]
            if not scans:
                continue
            moved.add(stage.name)
            key = (stage.name, frozenset(scan.alias for scan in scans))
            if key not in self._plans:
                self._plans[key] = plan_stage(
                    stage,
                    key[1],
                    self._dialect,
                    self._state_rows,
                    Known(_any_spread, _single_rows),
                )
            if (plan := self._plans[key]) is not None:
                yield plan

    def _has_changes(self, stage: StatefulStage | RowsStage, scan: Scan) -> bool:
        [read] = changes_reads(stage, [scan])
        names = ", ".join(quote_identifier(column.name) for column in read.columns)
        grouped = f" GROUP BY {names}" if names else ""
        rows = self._world.rows(
            f"SELECT 1 FROM ({self._world.fill(read.sql)}) AS changes{grouped}"
            f" HAVING sum({WEIGHT}) <> 0 LIMIT 1"
        )
        return bool(rows)

    def _state_rows(self, stage: str) -> str:
        return self._memories[stage].rows_query

    def _run(self, stages: Iterable[StagePlan]) -> None:
        for memory in self._memories.values():
            memory.begin()
        ran = set()
        for stage in stages:
            ran.add(stage.stage.name)
            self.observed.stages += 1
            self.observed.kinds.update(read.kind for read in stage.reads)
            if isinstance(stage.stage, RowsStage):
                self._apply(self._evaluate(stage), stage.columns)
            else:
                self._memories[stage.stage.name].merge(self._evaluate(stage))
        through = self._query.rows.passes_through
        if through is not None and through in ran:
            self._apply_changes_of(through)
        for memory in self._memories.values():
            memory.commit()

    # One stage

    def _evaluate(self, stage: StagePlan) -> list[Row]:
        """Compute a stage; bounded reads must not change what comes out."""
        bounded = {read.view: self._ranged(stage, read) for read in stage.reads}
        rows = self._compute(stage, bounded)
        if self._widen and any(read.kind is ReadKind.KEYED for read in stage.reads):
            unbounded = {
                read.view: self._unbounded[stage.stage.name, read.view]
                if read.kind is ReadKind.KEYED
                else read.sql
                for read in stage.reads
            }
            everything = self._compute(stage, unbounded)
            assert _consolidated(stage, rows) == _consolidated(stage, everything), (
                f"a bounded read of {stage.stage.name} is too narrow"
            )
        if self._engine is None and stage.paired is not None and not _has_arrays(stage):
            self.observed.paired += 1
            assert _consolidated(stage, rows) == _consolidated(
                stage, self._in_one_pass(stage, bounded)
            ), f"{stage.stage.name} over both versions differs from the sum of its terms"
        return rows

    def _in_one_pass(self, stage: StagePlan, reads: Mapping[str, str]) -> list[Row]:
        """Compute a stage over both versions of its sources, which are made in memory."""
        sql, inputs = add_versions(stage, self._inputs(stage, reads), self._dialect)
        assert stage.paired is not None
        assert sql == stage.paired.sql
        return _staged(stage, self._world.rows(sql, inputs))

    def _ranged(self, stage: StagePlan, read: Read) -> str:
        """Fill in the ranges of values that changed, as a refresh does."""
        changes = {one.view: one.sql for one in stage.reads}
        conditions = [
            range_condition(one, self._world.arrow(self._world.fill(changes[one.view])))
            for one in read.ranges
        ]
        self.observed.ranges += sum(one != "true" for one in conditions)
        return fill_ranges(read.sql, [one.replace("::pg_catalog.", "::") for one in conditions])

    def _compute(self, stage: StagePlan, reads: Mapping[str, str]) -> list[Row]:
        if self._engine is None:
            filled = {view: self._world.fill(sql) for view, sql in reads.items()}
            views = ", ".join(
                f"{quote_identifier(view)} AS ({sql})"
                for view, sql in [
                    *filled.items(),
                    *((one.view, one.sql) for one in stage.versions),
                ]
            )
            return _staged(stage, self._world.rows(f"WITH {views} {stage.sql}"))
        result = self._engine.run(*add_versions(stage, self._inputs(stage, reads), self._dialect))
        names = [column.name for column in stage.columns]
        columns = [column.to_pylist() for column in result.select(names).columns]
        return _staged(stage, [countable(row) for row in zip(*columns, strict=True)])

    def _inputs(self, stage: StagePlan, reads: Mapping[str, str]) -> dict[str, pa.Table]:
        """Read the inputs of a stage into memory, changes consolidated."""
        tables = {view: self._world.arrow(self._world.fill(sql)) for view, sql in reads.items()}
        weighted = {read.view for read in stage.reads if read.weighted}
        return {
            view: consolidate(table) if view in weighted else table
            for view, table in tables.items()
        }

    # The result

    def _apply(self, rows: list[Row], columns: Sequence[Column]) -> None:
        self._add_outputs(f"({self._world.relation(columns, rows)}) AS staged")

    def _apply_changes_of(self, stage: str) -> None:
        body = self._query.rows.body
        condition = body.predicate if isinstance(body, Scan) else None
        where = f" WHERE {translate(condition, {}, Dialect.DUCKDB)}" if condition else ""
        self._add_outputs(f"{stage_changes(stage)}{where}")

    def _add_outputs(self, source: str) -> None:
        outputs = ", ".join(
            translate(output.scalar, {}, Dialect.DUCKDB) for output in self._query.rows.outputs
        )
        for *row, weight in self._world.rows(f"SELECT {outputs}, {WEIGHT} FROM {source}"):
            self.observed.changed_rows += 1
            self.result[_rounded(row)] += int(weight)
        self.result = Counter({row: n for row, n in self.result.items() if n})


def _any_spread(scan: Scan, column: str) -> float:
    """Let sometimes this and sometimes that side of a join bound the other."""
    return float(zlib.crc32(f"{scan.alias}.{column}".encode()) % 97 + 1)


def _has_arrays(stage: StagePlan) -> bool:
    """Tell whether values come as arrays, which travel as text to a real engine."""
    return any(column.type.category == "A" for read in stage.reads for column in read.columns)


def _single_rows(scan: Scan) -> list[Key]:
    """Claim that every source has one row: what is known must not change what is computed."""
    return [frozenset()]


def _blanked(world: World, changes: Window, captured: Mapping[str, Collection[str]]) -> Window:
    """Blank the columns that the buffers of this query do not hold."""
    return {
        name: [
            (
                tuple(
                    value if column.name in captured[name] else None
                    for column, value in zip(world.tables[name].columns, row, strict=True)
                ),
                weight,
            )
            for row, weight in weighted
        ]
        for name, weighted in changes.items()
    }


def _staged(stage: StagePlan, rows: list[Row]) -> list[Row]:
    """Read the numerics that an engine wrote as texts, as PostgreSQL does when it stages them."""
    numerics = [column.type.base == "numeric" for column in stage.columns]
    if not any(numerics):
        return rows
    return [
        tuple(
            Decimal(value) if numeric and isinstance(value, str) else value
            for value, numeric in zip(row, numerics, strict=True)
        )
        for row in rows
    ]


def _consolidated(stage: StagePlan, rows: list[Row]) -> Counter[Row]:
    if isinstance(stage.stage, AggregateStage):
        return Counter(map(_rounded, rows))
    total: Counter[Row] = Counter()
    for *row, weight in rows:
        total[_rounded(row)] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def _rounded(row: Sequence[object]) -> Row:
    """Averages are quotients of floating-point numbers in DuckDB; compare their first digits."""
    return tuple(map(_comparable, row))


def _comparable(value: object) -> object:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{round(value, 9):.10g}")
    return _rounded(value) if isinstance(value, list | tuple) else value


def _add(bag: Counter[Row], changes: Sequence[Weighted]) -> Counter[Row]:
    result = Counter(bag)
    for row, weight in changes:
        result[row] += weight
    assert min(result.values(), default=0) >= 0, "a window deletes a row that does not exist"
    return result


def _elements(bags: Mapping[str, Counter[Row]]) -> dict[str, list[Row]]:
    return {name: list(bag.elements()) for name, bag in bags.items()}
