"""The partial aggregate of a stage: the change of each group's state.

One row comes out for each combination of group key and counted values; PostgreSQL adds the rows
of a group up, with its own equality, when it merges them.  So it does no harm here if two equal
keys look different to the engine (``1.0`` and ``1.00``): they only meet later.
"""

from __future__ import annotations

from collections.abc import Mapping

from pgtrickle.algebra.nodes import Node
from pgtrickle.delta.layout import (
    COUNT,
    WEIGHT,
    Accumulation,
    Accumulator,
    Layout,
    ValueTable,
)
from pgtrickle.model.sql_type import BIGINT, Column, SqlType
from pgtrickle.model.text.comparable import comparable, identity, representative
from pgtrickle.sql.emit import Digits, emit, with_digits
from pgtrickle.sql.translate import Dialect, quote_name

# The type of a product of weight and argument, chosen so that it cannot overflow before the
# sum does.  Decimals keep their own scale: the weight has none.
_EXACT = {
    Dialect.SPARK: {"int2": "BIGINT", "int4": "BIGINT", "int8": "DECIMAL(20, 0)"},
    Dialect.DUCKDB: {"int2": "BIGINT", "int4": "BIGINT", "int8": "HUGEINT"},
    Dialect.POSTGRES: {"int2": "numeric", "int4": "numeric", "int8": "numeric"},
}
# The same of a square.
_EXACT_SQUARES = {
    Dialect.SPARK: {"int2": "DECIMAL(10, 0)", "int4": "DECIMAL(10, 0)", "int8": "DECIMAL(15, 0)"},
    Dialect.DUCKDB: {
        "int2": "HUGEINT",
        "int4": "HUGEINT",
        "int8": "HUGEINT",
        "numeric": "DECIMAL(38, {scale})",
    },
    Dialect.POSTGRES: {"int2": "numeric", "int4": "numeric", "int8": "numeric"},
}


def partial_columns(layout: Layout) -> tuple[Column, ...]:
    """Return the columns of a stage's partial rows, as PostgreSQL stages them."""
    return (
        *layout.keys,
        *value_columns(layout),
        Column(COUNT, BIGINT),
        *(Column(one.name, one.type) for one in layout.accumulators),
        *(Column(values.count, BIGINT) for values in layout.values),
    )


def value_columns(layout: Layout) -> tuple[Column, ...]:
    """Return the arguments that value tables store; two tables may share some."""
    return tuple({c.name: c for values in layout.values for c in values.columns}.values())


def summed_columns(layout: Layout) -> frozenset[str]:
    """Return the columns of a stage's input with which the engine computes sums."""
    return frozenset(
        one.argument
        for one in layout.accumulators
        if one.accumulation in {Accumulation.SUM, Accumulation.SQUARES} and one.argument
    )


def emit_partial(body: Node, layout: Layout, dialect: Dialect, digits: Digits) -> str:
    """Write the partial aggregate over the weighted rows of ``body``."""
    writer = _Writer(dialect, digits)
    typed = (*layout.keys, *value_columns(layout))
    columns = [quote_name(column.name, dialect) for column in typed]
    sums = [writer.count_rows()]
    sums += [writer.accumulator(one) for one in layout.accumulators]
    sums += [writer.count_values(values) for values in layout.values]
    named = [f"{sql} AS {quote_name(name, dialect)}" for name, sql in sums]
    listed = [*map(writer.representative, typed), *named]
    text = f"SELECT {', '.join(listed)}\nFROM (\n{emit(body, dialect)}\n) AS input"
    if columns:
        keys = list(map(writer.grouped, layout.keys))
        grouped = ", ".join([*keys, *map(writer.told_apart, value_columns(layout))])
        changed = " OR ".join(f"{quote_name(name, dialect)} <> 0" for name, _ in sums)
        text = f"SELECT * FROM (\n{text}\nGROUP BY {grouped}\n) AS changed\nWHERE {changed}"
    return text


class _Writer:
    def __init__(self, dialect: Dialect, digits: Digits) -> None:
        self._dialect = dialect
        self._digits = digits
        self._weight = quote_name(WEIGHT, dialect)

    def grouped(self, column: Column) -> str:
        """Write what a column is grouped by: engines get types without an equality as text."""
        name = self._name(column.name)
        if self._dialect is not Dialect.POSTGRES:
            return with_digits(column.name, self._digits, self._dialect)
        return comparable(name, column.type)

    def told_apart(self, column: Column) -> str:
        """Write what a counted value is grouped by: equal ones may look different."""
        name = self._name(column.name)
        if self._dialect is not Dialect.POSTGRES:
            return self.grouped(column)
        return ", ".join(identity(name, column.type))

    def representative(self, column: Column) -> str:
        name = self._name(column.name)
        if self._dialect is not Dialect.POSTGRES:
            shown = self.grouped(column)
            return name if shown == name else f"{shown} AS {name}"
        one = representative(name, column.type)
        return name if one == name else f"{one} AS {name}"

    def count_rows(self) -> tuple[str, str]:
        return COUNT, self._sum(self._weight)

    def accumulator(self, one: Accumulator) -> tuple[str, str]:
        value = self._weight
        if one.accumulation is Accumulation.TRUES and one.argument:
            tests = filter(None, [one.argument, one.condition])
            true = " AND ".join(map(self._name, tests))
            return one.name, self._sum(f"CASE WHEN {true} THEN {value} END")
        if one.argument and one.argument_type and one.accumulation is Accumulation.SUM:
            factor = self._cast(one.argument, _EXACT[self._dialect], one.argument_type)
            value = f"{factor} * {self._weight}"
        if one.argument and one.argument_type and one.accumulation is Accumulation.SQUARES:
            factor = self._cast(one.argument, _EXACT_SQUARES[self._dialect], one.argument_type)
            value = f"{factor} * {factor} * {self._weight}"
        return one.name, self._sum(
            self._when(one.argument, one.argument_type, one.condition, value)
        )

    def _cast(self, argument: str, types: Mapping[str, str], type_: SqlType) -> str:
        """Write an argument in a type whose products cannot overflow."""
        exact = types.get(type_.base, "").format(scale=type_.scale)
        return f"CAST({self._name(argument)} AS {exact})" if exact else self._name(argument)

    def count_values(self, values: ValueTable) -> tuple[str, str]:
        first = values.measured or values.columns[0].name
        argument = first if values.skips_nulls else None
        type_ = values.columns[0].type
        return values.count, self._sum(self._when(argument, type_, values.condition, self._weight))

    def _when(
        self, argument: str | None, type_: SqlType | None, condition: str | None, value: str
    ) -> str:
        # A composite value with a NULL inside is neither NULL nor NOT NULL for PostgreSQL.
        row = self._dialect is Dialect.POSTGRES and type_ is not None and type_.category == "C"
        present = "IS DISTINCT FROM NULL" if row else "IS NOT NULL"
        tests = [f"{self._name(argument)} {present}"] if argument else []
        tests += [self._name(condition)] if condition else []
        return f"CASE WHEN {' AND '.join(tests)} THEN {value} END" if tests else value

    def _sum(self, value: str) -> str:
        return f"COALESCE(SUM({value}), 0)"

    def _name(self, name: str) -> str:
        return quote_name(name, self._dialect)
