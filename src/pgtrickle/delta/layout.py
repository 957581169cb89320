"""The state of an aggregate between refreshes, and how its results are computed from it.

Two kinds of memory cover every supported call:

* an *accumulator* is a number per group that changes by addition: a count, or an exact sum;
* a *value table* holds, for each group, each combination of arguments with its count.
  Every other aggregate of PostgreSQL is looked up there, for touched groups only and by
  PostgreSQL itself: ``min`` and ``max``, DISTINCT and ordered aggregates, WITHIN GROUP, statistics,
  sums of floating-point numbers.  So deleting the extremum needs no rescan of a source, floats
  cannot drift, and the digits are PostgreSQL's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pgtrickle.algebra.nodes import Aggregate, AggregateCall
from pgtrickle.model.sql_type import BIGINT, INTEGER, NUMERIC, Column, SqlType
from pgtrickle.sql.refusal import Refusal

COUNT = "__count"  # the number of input rows of a group
WEIGHT = "__weight"

_INTEGERS = frozenset({"int2", "int4", "int8"})
# Calls whose result does not depend on how often a value occurs ...
_IGNORES_REPETITION = frozenset({"min", "max", "bool_and", "bool_or", "every", "bit_and", "bit_or"})
# ... and calls of one argument that ignore NULL.
_SKIPS_NULLS = _IGNORES_REPETITION | {"sum", "avg", "count"}


class Accumulation(Enum):
    """How input rows add to an accumulator."""

    COUNT = "count"  # each row adds its weight
    SUM = "sum"  # each row adds its weight times the argument


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A number per group that changes by addition."""

    name: str
    accumulation: Accumulation
    argument: str | None  # rows where it is NULL add nothing
    argument_type: SqlType | None
    condition: str | None  # rows where it is not true add nothing
    type: SqlType


@dataclass(frozen=True, slots=True)
class ValueTable:
    """The distinct arguments of a call in each group, with their number."""

    name: str  # the suffix of the table
    columns: tuple[Column, ...]  # the arguments, under their own names
    condition: str | None
    skips_nulls: bool  # no call on it looks at NULL

    @property
    def count(self) -> str:
        """The column of a staged row that says by how much the number changes."""
        return f"{self.name}__n"


@dataclass(frozen=True, slots=True)
class Lookup:
    """A result found in a value table: a call over the group's values."""

    sql: str  # over the table's columns, in PostgreSQL's dialect
    values: ValueTable
    repeated: bool  # each value counts as often as it occurs


@dataclass(frozen=True, slots=True)
class Result:
    """One aggregate call's value, from accumulators or by a lookup."""

    name: str
    type: SqlType
    sql: str = ""  # over accumulators and looked-up results, in PostgreSQL's dialect
    lookup: Lookup | None = None
    hidden: bool = False  # only other results read it


@dataclass(frozen=True, slots=True)
class Layout:
    """The stored form of one aggregate."""

    keys: tuple[Column, ...]
    accumulators: tuple[Accumulator, ...]
    values: tuple[ValueTable, ...]
    results: tuple[Result, ...]

    @property
    def shown(self) -> tuple[Result, ...]:
        """The results that the operators above can see."""
        return tuple(result for result in self.results if not result.hidden)

    @property
    def looked_up(self) -> tuple[Result, ...]:
        """The results kept as columns of the state, because finding them costs a lookup."""
        return tuple(result for result in self.results if result.lookup)


def layout_of(aggregate: Aggregate) -> Layout:
    """Choose the state to store for each call of an aggregate."""
    builder = _Builder()
    results = tuple(builder.result(call) for call in aggregate.calls)
    return Layout(
        aggregate.keys,
        tuple(builder.accumulators.values()),
        tuple(builder.values.values()),
        tuple(builder.hidden.values()) + results,
    )


def needs_scale(call: AggregateCall) -> bool:
    """Tell whether an average depends on how many decimals its inputs show.

    PostgreSQL gives a quotient as many digits as the inputs of the sum have, and the inputs of
    a numeric without declared scale may each have their own.
    """
    if call.function != "avg" or not call.plain or not call.whole:
        return False
    (argument,) = call.arguments
    return argument.type.base == "numeric" and argument.type.scale is None


def scale_column(argument: str) -> str:
    """Name the column that holds the number of decimals of an argument."""
    return f"{argument}_scale"


class _Builder:
    def __init__(self) -> None:
        self.accumulators: dict[tuple[object, ...], Accumulator] = {}
        self.values: dict[tuple[tuple[Column, ...], str | None, bool], ValueTable] = {}
        self.hidden: dict[str, Result] = {}

    def result(self, call: AggregateCall) -> Result:
        if call.function == "count" and call.plain and (call.whole or not call.arguments):
            return Result(call.name, call.type, sql=f'"{self._count(call)}"')
        if call.function in {"sum", "avg"} and call.plain and call.whole:
            (argument,) = call.arguments
            if argument.type.base in _INTEGERS or argument.type.base == "numeric":
                return self._sum_or_average(call, argument)
        if not call.arguments:
            raise Refusal(f"{call.function} without a column", call.function)
        repeated = not call.distinct and call.function not in _IGNORES_REPETITION
        values = self._value_table(
            call.arguments,
            call.condition,
            skips_nulls=call.whole and call.function in _SKIPS_NULLS,
        )
        return Result(call.name, call.type, lookup=Lookup(call.sql, values, repeated))

    def _sum_or_average(self, call: AggregateCall, argument: Column) -> Result:
        count, total = self._count(call), self._sum(call, argument)
        if call.function == "sum":
            sql = f'CASE WHEN "{count}" > 0 THEN "{total}"::{call.type.display} END'
        elif needs_scale(call):
            column = Column(scale_column(argument.name), INTEGER)
            values = self._value_table((column,), call.condition, skips_nulls=True)
            scale = Result(
                f"{values.name}_max",
                INTEGER,
                lookup=Lookup(f'max("{column.name}")', values, repeated=False),
                hidden=True,
            )
            self.hidden[scale.name] = scale
            sql = f'CASE WHEN "{count}" > 0 THEN round("{total}", "{scale.name}") / "{count}" END'
        else:
            sql = f'CASE WHEN "{count}" > 0 THEN "{total}"::numeric / "{count}" END'
        return Result(call.name, call.type, sql=sql)

    def _count(self, call: AggregateCall) -> str:
        argument = call.arguments[0] if call.arguments else None
        if argument is None and call.condition is None:
            return COUNT
        return self._accumulator(Accumulation.COUNT, argument, call.condition, BIGINT)

    def _sum(self, call: AggregateCall, argument: Column) -> str:
        return self._accumulator(Accumulation.SUM, argument, call.condition, NUMERIC)

    def _accumulator(
        self,
        accumulation: Accumulation,
        argument: Column | None,
        condition: str | None,
        type_: SqlType,
    ) -> str:
        letter = "n" if accumulation is Accumulation.COUNT else "s"
        return self.accumulators.setdefault(
            (accumulation, argument, condition),
            Accumulator(
                f"{letter}{len(self.accumulators) + 1}",
                accumulation,
                argument.name if argument else None,
                argument.type if argument else None,
                condition,
                type_,
            ),
        ).name

    def _value_table(
        self, columns: tuple[Column, ...], condition: str | None, *, skips_nulls: bool
    ) -> ValueTable:
        return self.values.setdefault(
            (columns, condition, skips_nulls),
            ValueTable(f"v{len(self.values) + 1}", columns, condition, skips_nulls),
        )
