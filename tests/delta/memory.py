"""What a stage remembers between refreshes, kept in the simplest way: in Python.

A memory has four verbs, in the order of a refresh: ``begin`` forgets the changes of the last
window, ``merge`` takes what the engine computed and publishes how the stage's rows changed,
``commit`` shows the new rows to the next refresh, and ``rows_query`` is where they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from pgtrickle.algebra.nodes import INPUT, INSERTED, STORED
from pgtrickle.delta.cut import AggregateStage, RecomputeStage, StatefulStage
from pgtrickle.delta.layout import COUNT, WEIGHT, Layout, Lookup
from pgtrickle.delta.partial import value_columns
from pgtrickle.delta.reads import stage_changes
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import quote_identifier
from tests.delta.dialect import to_duckdb
from tests.delta.typer import INT4, INT8
from tests.delta.world import Row, World

_GROUP = Column("__group", INT4)


class Memory(Protocol):
    """The state of one stage."""

    rows_query: str

    def begin(self) -> None:
        """Forget the changes of the last window: a stage that does not run has none."""
        ...

    def merge(self, rows: list[Row]) -> None:
        """Add what the engine computed, and publish how the stage's rows changed."""
        ...

    def commit(self) -> None:
        """Show the new rows to the next refresh."""
        ...


def memory_of(world: World, stage: StatefulStage) -> Memory:
    """Return the empty memory of a stage."""
    if isinstance(stage, AggregateStage):
        return AggregateMemory(world, stage)
    return RecomputeMemory(world, stage)


class AggregateMemory:
    """The state of one aggregate: sums and counted values of each group."""

    def __init__(self, world: World, stage: AggregateStage) -> None:
        self._world = world
        self._layout = stage.layout
        self._columns = _state_columns(stage.layout)
        self._stored = quote_identifier(f"state_{stage.name}")
        self._changes = stage_changes(stage.name)
        self._groups: dict[Row, Row] = {}  # key -> count and accumulators
        self._values: dict[str, dict[Row, Counter[Row]]] = {v.name: {} for v in stage.layout.values}
        self._found: dict[Row, Row] = {}  # key -> looked-up results
        self._merged = False
        self.rows_query = _results_over(stage.layout, self._stored)
        self._store()

    def begin(self) -> None:
        self._merged = False
        self._world.connection.execute(f"DROP TABLE IF EXISTS {self._changes}")

    def merge(self, rows: list[Row]) -> None:
        arguments = [column.name for column in value_columns(self._layout)]
        keys, values = len(self._layout.keys), len(arguments)
        sums = len(self._layout.accumulators) + 1
        touched: dict[Row, None] = {} if keys else {(): None}
        touched |= {row[:keys]: None for row in rows}
        before = [self._row(key) for key in touched if key in self._groups]
        for row in rows:
            key, tail = row[:keys], row[keys + values :]
            self._add_sums(key, tail[:sums])
            found = dict(zip(arguments, row[keys : keys + values], strict=True))
            for table, count in zip(self._layout.values, tail[sums:], strict=True):
                if count:
                    counted = self._values[table.name].setdefault(key, Counter())
                    counted[tuple(found[column.name] for column in table.columns)] += int(count)
        for key in touched:
            self._settle(key)
        self._look_up([key for key in touched if key in self._groups])
        after = [self._row(key) for key in touched if key in self._groups]
        weighted = [(*row, -1) for row in before] + [(*row, 1) for row in after]
        columns = [*self._columns, Column(WEIGHT, INT4)]
        memory = f"({self._world.relation(columns, weighted)}) AS memory"
        self._world.store(self._changes, _results_over(self._layout, memory, WEIGHT))
        self._merged = True

    def commit(self) -> None:
        if self._merged:
            self._store()

    def _store(self) -> None:
        rows = [self._row(key) for key in self._groups]
        self._world.store(self._stored, self._world.relation(self._columns, rows))

    def _add_sums(self, key: Row, change: Row) -> None:
        old = self._groups.get(key, (0,) * len(change))
        self._groups[key] = tuple(a + b for a, b in zip(old, change, strict=True))

    def _settle(self, key: Row) -> None:
        """Drop a group without rows; a group that no key tells apart always exists."""
        if not key and not self._layout.keys:
            self._groups.setdefault((), (0,) * (len(self._layout.accumulators) + 1))
            return
        assert self._groups[key][0] >= 0, "a group has a negative number of rows"
        if self._groups[key][0] == 0:
            assert not any(self._groups[key]), "an empty group has sums"
            del self._groups[key]

    def _row(self, key: Row) -> Row:
        return (*key, *self._groups[key], *self._found[key])

    # Lookups

    def _look_up(self, keys: Sequence[Row]) -> None:
        """Evaluate the lookups of some groups over their values."""
        found: list[list[object]] = [[] for _ in keys]
        for result in self._layout.looked_up:
            assert result.lookup is not None
            for answers, answer in zip(found, self._answers(result.lookup, keys), strict=True):
                answers.append(answer)
        self._found |= dict(zip(keys, map(tuple, found), strict=True))

    def _answers(self, lookup: Lookup, keys: Sequence[Row]) -> Iterable[object]:
        columns = [_GROUP, *lookup.values.columns]
        rows = [
            (number, *value)
            for number, key in enumerate(keys)
            for value in self._occurrences(lookup, key)
        ]
        call = to_duckdb(lookup.sql)
        if "(" not in call:  # the only value of a group, by its name
            assert len(dict(rows)) == len(rows), "a group has more than one value"
            return [dict(rows).get(number) for number in range(len(keys))]
        values = f"({self._world.relation(columns, rows)}) AS found"
        answers: dict[int, object] = dict(
            self._world.rows(f"SELECT {_GROUP.name}, {call} FROM {values} GROUP BY {_GROUP.name}")
        )
        [(of_nothing,)] = self._world.rows(f"SELECT {call} FROM {values} WHERE false")
        return [answers.get(number, of_nothing) for number in range(len(keys))]

    def _occurrences(self, lookup: Lookup, key: Row) -> Iterable[Row]:
        counted: Counter[Row] = self._values[lookup.values.name].get(key, Counter())
        for value, count in counted.items():
            assert count >= 0, "a value occurs a negative number of times"
            yield from [value] * (count if lookup.repeated else min(count, 1))


class RecomputeMemory:
    """The state of one recomputed operator: its input, and what came out of each partition."""

    def __init__(self, world: World, stage: RecomputeStage) -> None:
        self._world = world
        self._operator = stage.operator
        self._columns = stage.inputs
        self._stored = quote_identifier(f"state_{stage.name}")
        self._changes = stage_changes(stage.name)
        self._inputs: dict[Row, Counter[Row]] = {}  # by key
        self._results: dict[Row, list[Row]] = {}  # by key
        self._merged = False
        self.rows_query = f"SELECT * FROM {self._stored}"
        self._store()

    def begin(self) -> None:
        self._merged = False
        self._world.connection.execute(f"DROP TABLE IF EXISTS {self._changes}")

    def merge(self, rows: list[Row]) -> None:
        touched: dict[Row, None] = {} if self._operator.keys else {(): None}
        key_of = _key_reader(self._operator.keys, self._columns)
        for *columns, weight in rows:
            key = key_of(columns)
            self._inputs.setdefault(key, Counter())[tuple(columns)] += int(weight)
            touched[key] = None
        before = [row for key in touched for row in self._results.pop(key, [])]
        after = self._ask(self._operator.sql, touched)
        self._check_growth(rows, touched, before, after)
        result_key = _key_reader(self._operator.keys, self._operator.outputs)
        for row in after:
            assert result_key(row) in touched, "a partition gave a row of another"
            self._results.setdefault(result_key(row), []).append(row)
        weighted = [(*row, -1) for row in before] + [(*row, 1) for row in after]
        shown = [*self._operator.outputs, Column(WEIGHT, INT4)]
        self._world.store(self._changes, self._world.relation(shown, weighted))
        self._merged = True

    def commit(self) -> None:
        if self._merged:
            self._store()

    def _store(self) -> None:
        rows = [row for results in self._results.values() for row in results]
        self._world.store(self._stored, self._world.relation(self._operator.outputs, rows))

    def _check_growth(
        self, rows: list[Row], keys: Iterable[Row], before: list[Row], after: list[Row]
    ) -> None:
        """Where rows only came, what they are said to add must be what they added."""
        net: Counter[Row] = Counter()
        for *columns, weight in rows:
            net[tuple(columns)] += int(weight)
        if not self._operator.growth or min(net.values(), default=0) < 0:
            return
        added = self._ask(self._operator.growth, keys, list(net.elements()), before)
        grown = Counter(map(repr, before)) + Counter(map(repr, added))
        assert grown == Counter(map(repr, after)), f"growth gives {added}"

    def _ask(
        self,
        query: str,
        keys: Iterable[Row],
        inserted: Sequence[Row] = (),
        stored: Sequence[Row] = (),
    ) -> list[Row]:
        """Ask a query of the operator about some partitions."""
        rows: list[Row] = []
        for key in keys:
            counted = self._inputs.get(key, Counter())
            assert min(counted.values(), default=0) >= 0, "a row occurs a negative number of times"
            rows += counted.elements()
        relations = {
            INPUT: self._world.relation(self._columns, rows),
            INSERTED: self._world.relation(self._columns, inserted),
            STORED: self._world.relation(self._operator.outputs, stored),
        }
        named = ", ".join(f"{name} AS ({select})" for name, select in relations.items())
        return self._world.rows(f"WITH {named} {to_duckdb(query)}")


def _key_reader(
    keys: Sequence[Column], columns: Sequence[Column]
) -> Callable[[Sequence[object]], Row]:
    names = [column.name for column in columns]
    places = [names.index(key.name) for key in keys]
    return lambda row: tuple(row[place] for place in places)


def _state_columns(layout: Layout) -> tuple[Column, ...]:
    """Return the columns of the memory of an aggregate: keys, sums, looked-up results."""
    return (
        *layout.keys,
        Column(COUNT, INT8),
        *(Column(one.name, one.type) for one in layout.accumulators),
        *(Column(result.name, result.type) for result in layout.looked_up),
    )


def _results_over(layout: Layout, memory: str, *more: str) -> str:
    """Write the query that computes an aggregate's results from its memory."""
    parts = [quote_identifier(key.name) for key in layout.keys]
    for result in layout.shown:
        value = _for_duckdb(result.sql) if result.sql else quote_identifier(result.name)
        parts.append(f"{value} AS {quote_identifier(result.name)}")
    return f"SELECT {', '.join([*parts, *more]) or '1 AS __one'} FROM {memory}"


def _for_duckdb(sql: str) -> str:
    if "scale(" in sql or "'NaN'" in sql:
        return to_duckdb(sql)
    return sql.replace("round(", "pg_round(")
