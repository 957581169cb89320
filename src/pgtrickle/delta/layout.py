"""What an aggregate stores between refreshes, and how its results are computed from that.

Two kinds of memory cover every supported call:

* an *accumulator* is a number per group that changes by addition: a count, or an exact sum;
* a *value table* holds, for each group, each distinct value of an argument with how often it
  occurs.  ``min``, ``max``, DISTINCT aggregates and sums of floating-point numbers are looked up
  there, so deleting the extremum needs no rescan of a source and floats cannot drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pgtrickle.algebra.nodes import Aggregate, AggregateCall
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.sql.refusal import Refusal

COUNT = "__count"  # how many input rows a group has
WEIGHT = "__weight"
INTEGER = SqlType("integer", "int4", "N")
BIGINT = SqlType("bigint", "int8", "N")
NUMERIC = SqlType("numeric", "numeric", "N")

_INTEGERS = frozenset({"int2", "int4", "int8"})
_FLOATS = frozenset({"float4", "float8"})


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
    """The distinct values of one argument in each group, with their number."""

    name: str  # of the value's column, and the suffix of the table
    argument: str
    condition: str | None
    type: SqlType

    @property
    def count(self) -> str:
        """The column of a staged row that says by how much the value's number changes."""
        return f"{self.name}__n"


@dataclass(frozen=True, slots=True)
class Lookup:
    """A result found in a value table: an aggregate function over the group's values."""

    function: str  # min, max, count, sum, avg
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
    """Choose what to store for each call of an aggregate."""
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
    type_ = call.argument_type
    return (
        call.function == "avg"
        and not call.distinct
        and type_ is not None
        and type_.base == "numeric"
        and type_.scale is None
    )


def scale_column(argument: str) -> str:
    """Name the column that holds the number of decimals of an argument."""
    return f"{argument}_scale"


class _Builder:
    def __init__(self) -> None:
        self.accumulators: dict[tuple[object, ...], Accumulator] = {}
        self.values: dict[tuple[str, str | None], ValueTable] = {}
        self.hidden: dict[str, Result] = {}

    def result(self, call: AggregateCall) -> Result:
        if call.function == "count" and not call.distinct:
            counted = self._count(call)
            return Result(call.name, call.type, sql=f'"{counted}"')
        if call.argument is None or call.argument_type is None:
            raise ValueError(f"{call.function} needs an argument")
        base = call.argument_type.base
        if base == "record":
            raise Refusal(f"{call.function} over several columns at once", call.function)
        floating = base in _FLOATS
        if call.distinct or call.function in {"min", "max"} or floating:
            lookup = Lookup(
                call.function,
                self._value_table(call.argument, call.argument_type, call.condition),
                repeated=floating and not call.distinct and call.function not in {"min", "max"},
            )
            return Result(call.name, call.type, lookup=lookup)
        if base not in _INTEGERS and base != "numeric":
            raise Refusal(
                f"{call.function} over the type {call.argument_type.display}", call.function
            )
        return self._sum_or_average(call)

    def _sum_or_average(self, call: AggregateCall) -> Result:
        count, total = self._count(call), self._sum(call)
        if call.function == "sum":
            sql = f'CASE WHEN "{count}" > 0 THEN "{total}"::{call.type.display} END'
        elif needs_scale(call) and call.argument is not None:
            values = self._value_table(scale_column(call.argument), INTEGER, call.condition)
            scale = Result(
                f"{values.name}_max",
                INTEGER,
                lookup=Lookup("max", values, repeated=False),
                hidden=True,
            )
            self.hidden[scale.name] = scale
            sql = f'CASE WHEN "{count}" > 0 THEN round("{total}", "{scale.name}") / "{count}" END'
        else:
            sql = f'CASE WHEN "{count}" > 0 THEN "{total}"::numeric / "{count}" END'
        return Result(call.name, call.type, sql=sql)

    def _count(self, call: AggregateCall) -> str:
        if call.argument is None and call.condition is None:
            return COUNT
        identity = (Accumulation.COUNT, call.argument, call.condition)
        return self.accumulators.setdefault(
            identity,
            Accumulator(
                f"n{len(self.accumulators) + 1}",
                Accumulation.COUNT,
                call.argument,
                call.argument_type,
                call.condition,
                BIGINT,
            ),
        ).name

    def _sum(self, call: AggregateCall) -> str:
        identity = (Accumulation.SUM, call.argument, call.condition)
        return self.accumulators.setdefault(
            identity,
            Accumulator(
                f"s{len(self.accumulators) + 1}",
                Accumulation.SUM,
                call.argument,
                call.argument_type,
                call.condition,
                NUMERIC,
            ),
        ).name

    def _value_table(self, argument: str, type_: SqlType, condition: str | None) -> ValueTable:
        return self.values.setdefault(
            (argument, condition),
            ValueTable(f"v{len(self.values) + 1}", argument, condition, type_),
        )
