"""The state of an aggregate between refreshes, and how its results are computed from it.

Two kinds of memory cover every supported call:

* an *accumulator* is a number per group that changes by addition: a count, also of true values,
  or an exact sum, also of squares, from which variances follow;
* a *value table* holds, for each group, each combination of arguments with its count.
  Every other aggregate of PostgreSQL is looked up there, for touched groups only and by
  PostgreSQL itself: ``min`` and ``max``, DISTINCT and ordered aggregates, WITHIN GROUP, statistics,
  sums of floating-point numbers.  So deleting the extremum needs no rescan of a source, floats
  cannot drift, and the digits are PostgreSQL's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from pgtrickle.algebra.nodes import Aggregate, AggregateCall
from pgtrickle.model.sql_type import BIGINT, INTEGER, NUMERIC, Column, SqlType
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.spread import is_added, spread_sql

COUNT = "__count"  # the number of input rows of a group
WEIGHT = "__weight"

_INTEGERS = frozenset({"int2", "int4", "int8"})
# Calls whose result does not depend on how often a value occurs ...
_LOGIC = frozenset({"bool_and", "bool_or", "every"})
_IGNORES_REPETITION = frozenset({"min", "max", "bit_and", "bit_or"}) | _LOGIC
# ... and calls of one argument that ignore NULL.
_SKIPS_NULLS = _IGNORES_REPETITION | {"sum", "avg", "count"}


class Accumulation(Enum):
    """How input rows add to an accumulator."""

    COUNT = "count"  # each row adds its weight
    SUM = "sum"  # each row adds its weight times the argument
    SQUARES = "sum of squares"  # ... times the square of the argument
    TRUES = "count of true values"  # each row whose argument is true adds its weight


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
    measured: str = ""  # the column whose digits the only column counts

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
    # Keys whose values show digits of their own, each with the name of the result that finds them.
    key_scales: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> tuple[Result, ...]:
        """The results that the operators above can see."""
        return tuple(result for result in self.results if not result.hidden)

    @property
    def looked_up(self) -> tuple[Result, ...]:
        """The results kept as columns of the state, because finding them costs a lookup."""
        return tuple(result for result in self.results if result.lookup)


def layout_of(aggregate: Aggregate, scales: Mapping[str, str] | None = None) -> Layout:
    """Choose the state to store for each call of an aggregate.

    ``scales`` names, for columns whose values each show digits of their own, the column with the
    number of these digits.
    """
    builder = _Builder(scales or {})
    results = tuple(builder.result(call) for call in aggregate.calls)
    key_scales = tuple(
        (key.name, builder.most_digits(key.name, aggregate.shown_by, measured=""))
        for key in aggregate.keys
        if key.name in builder.scales
    )
    return Layout(
        aggregate.keys,
        tuple(builder.accumulators.values()),
        tuple(builder.values.values()),
        tuple(builder.hidden.values()) + results,
        key_scales,
    )


def scales_needed(aggregate: Aggregate) -> frozenset[str]:
    """Return the columns of an aggregate's input whose digits its results depend on.

    A sum shows as many digits as its longest input, and so does, of equal values, one that stands
    for a group.
    """
    summed = (
        call.arguments[0]
        for call in aggregate.calls
        if call.function in {"sum", "avg"} and call.plain and call.whole
    )
    numerics = (one for one in (*aggregate.keys, *summed) if one.type.base == "numeric")
    return frozenset(one.name for one in numerics)


class _Builder:
    def __init__(self, scales: Mapping[str, str]) -> None:
        self.scales = scales
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
        if call.plain and call.whole and is_added(call.function, call.arguments[0].type):
            return self._spread(call)
        if call.plain and call.whole and call.function in _LOGIC:
            return self._logic(call)
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
        shown = f'"{total}"::{call.type.display if call.function == "sum" else "numeric"}'
        if argument.name in self.scales:
            digits = self.most_digits(argument.name, call.condition, measured=argument.name)
            shown = f'round("{total}", "{digits}")'
        value = shown if call.function == "sum" else f'{shown} / "{count}"'
        return Result(call.name, call.type, sql=f'CASE WHEN "{count}" > 0 THEN {value} END')

    def _spread(self, call: AggregateCall) -> Result:
        values, *others = call.arguments
        number = self._accumulator(Accumulation.COUNT, values, call.condition, BIGINT)
        total = self._sum(call, values)
        squares = self._accumulator(Accumulation.SQUARES, values, call.condition, NUMERIC)
        sums = [f'"{one}"' for one in (number, total, squares)]
        nan = ""
        if values.type.base == "numeric":
            mark = self._accumulator(Accumulation.TRUES, others[0], call.condition, BIGINT)
            scale = values.type.scale or 0
            nan, sums[1:] = (
                f'"{mark}"',
                [
                    f"round({one}, {digits})"
                    for one, digits in zip(sums[1:], (scale, 2 * scale), strict=True)
                ],
            )
        elif others:
            large = self._large(others[0], call.condition)
            sums = [f"({one} + {more})" for one, more in zip(sums, large, strict=True)]
        number, *rest = sums
        return Result(call.name, call.type, sql=spread_sql(call.function, number, nan, *rest))

    def _large(self, values: Column, condition: str | None) -> list[str]:
        """Return the number, the sum and the sum of squares of values too long for an engine."""
        table = self._value_table((values,), condition, skips_nulls=True)
        name = f'"{values.name}"'
        found = []
        for suffix, sql, type_ in (
            ("number", f"count({name})", BIGINT),
            ("sum", f"sum({name})", NUMERIC),
            ("squares", f"sum({name}::numeric * {name})", NUMERIC),
        ):
            one = f"{table.name}_{suffix}"
            lookup = Lookup(sql, table, repeated=True)
            self.hidden[one] = Result(one, type_, lookup=lookup, hidden=True)
            found.append(f'COALESCE("{one}", 0)')
        return found

    def _logic(self, call: AggregateCall) -> Result:
        (argument,) = call.arguments
        number = self._accumulator(Accumulation.COUNT, argument, call.condition, BIGINT)
        true = self._accumulator(Accumulation.TRUES, argument, call.condition, BIGINT)
        answer = f'"{true}" > 0' if call.function == "bool_or" else f'"{true}" = "{number}"'
        return Result(call.name, call.type, sql=f'CASE WHEN "{number}" > 0 THEN {answer} END')

    def most_digits(self, column: str, condition: str | None, *, measured: str) -> str:
        """Return the result that finds how many digits the longest value of a group shows."""
        scale = Column(self.scales[column], INTEGER)
        key = ((scale,), condition, bool(measured))
        values = self.values.setdefault(
            key, ValueTable(f"v{len(self.values) + 1}", *key, measured=measured)
        )
        name = f"{values.name}_max"
        lookup = Lookup(f'max("{scale.name}")', values, repeated=False)
        self.hidden[name] = Result(name, INTEGER, lookup=lookup, hidden=True)
        return name

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
        letter = "s" if accumulation in {Accumulation.SUM, Accumulation.SQUARES} else "n"
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
