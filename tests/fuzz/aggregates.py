"""Aggregate calls, GROUP BY, grouping sets and HAVING."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.fuzz.kinds import CONSTANTS, DOCUMENTED, NUMBERS, SORTABLE, Value
from tests.fuzz.scope import Scope

if TYPE_CHECKING:
    from tests.fuzz.grammar import Grammar

_EXACT = ("int", "big", "num", "free")
_SMALL = ("int", "num", "free", "float")  # products of these add up without much error
_SUMS = {"int": "big", "big": "num", "num": "num", "free": "free", "float": "float"}


_PLAIN = ("aggregate.count", "aggregate.sum", "aggregate.avg", "aggregate.extreme")


@dataclass(frozen=True)
class Grouped:
    """What a grouped SELECT can show, and the clauses that group it."""

    keys: tuple[Value, ...]
    calls: tuple[Value, ...]
    tail: str  # GROUP BY and HAVING


class Aggregates:
    """Draws aggregate calls and the clauses around them."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._draw = grammar.draw

    # Calls

    def call(self, scope: Scope) -> Value:
        """Draw an aggregate call over the columns in sight."""
        sortable = scope.sortable
        numbers = [value for value in sortable if value.kind in NUMBERS]
        small = [value for value in numbers if value.kind != "big"]
        ints = [value for value in sortable if value.kind == "int"]
        texts = [value for value in sortable if value.kind == "text"]
        ordered = [value for value in sortable if value.kind != "bool"]
        documented = [value for value in sortable if value.kind in DOCUMENTED]
        return self._call(
            self._draw.choose(
                {
                    "aggregate.count_star": 5,
                    "aggregate.count": 3 if sortable else 0,
                    "aggregate.sum": 5 if numbers else 0,
                    "aggregate.avg": 3 if numbers else 0,
                    "aggregate.extreme": 5 if ordered else 0,
                    "aggregate.bool": 1 if sortable else 0,
                    "aggregate.bits": 1 if ints else 0,
                    "aggregate.spread": 1 if numbers else 0,
                    "aggregate.pair": 1 if small else 0,
                    "aggregate.string": 1 if texts else 0,
                    "aggregate.array": 1 if ints else 0,
                    "aggregate.percentile": 1 if numbers else 0,
                    "aggregate.mode": 1 if ordered else 0,
                    "aggregate.own": 3 if ordered else 0,
                    "aggregate.open": 3 if texts or ints else 0,
                    "json.list": 1 if documented else 0,
                    "json.object": 1 if documented else 0,
                }
            ),
            scope,
        )

    def call_of(self, kind: str, scope: Scope) -> Value:
        """Draw an aggregate call of a kind; where there is none, an expression around a count."""
        for _ in range(8):
            call = self.call(scope)
            if call.kind == kind:
                return call
        numbers = f"count(*) {self._draw.pick(('>', '=', '<'))} 1"
        constant = self._draw.pick(CONSTANTS[kind])
        return Value(f"CASE WHEN ({numbers}) THEN {constant} ELSE NULL END", kind)

    def average(self, scope: Scope) -> Value:
        """Draw an average, of a number in sight where there is one."""
        if not any(value.kind in NUMBERS for value in scope.values):
            return Value("avg(1)", "real")
        self._draw.features.add("aggregate.avg")
        return self._call("aggregate.avg", scope)

    def _call(self, feature: str, scope: Scope) -> Value:
        pick = self._draw.pick
        kinds = {
            "aggregate.count": SORTABLE,
            "aggregate.extreme": tuple(kind for kind in SORTABLE if kind != "bool"),
            "aggregate.mode": tuple(kind for kind in SORTABLE if kind != "bool"),
            "aggregate.own": tuple(kind for kind in SORTABLE if kind != "bool"),
            "aggregate.bits": ("int",),
            "aggregate.pair": _SMALL,
            "aggregate.string": ("text",),
            "aggregate.array": ("int",),
            "aggregate.open": ("int", "text"),
            "json.list": DOCUMENTED,
            "json.object": DOCUMENTED,
        }.get(feature, NUMBERS)
        fitting = [value for value in scope.values if value.kind in kinds]
        nested = scope.depth and feature in _PLAIN and self._draw.chance(60, "aggregate.subquery")
        inside = scope if nested else scope.flat
        value = self._grammar.expressions.around(pick(fitting), inside) if fitting else None
        text, kind = self._text(feature, value, scope)
        if self._draw.chance(12, "aggregate.filter"):
            text += f" FILTER (WHERE {self._grammar.expressions.condition(scope.flat)})"
        return Value(text, kind)

    def _text(self, feature: str, value: Value | None, scope: Scope) -> tuple[str, str]:
        pick = self._draw.pick
        if feature == "aggregate.count_star":
            return "count(*)", "big"
        if feature == "aggregate.bool":
            condition = self._grammar.expressions.condition(scope.flat)
            return f"{pick(('bool_and', 'bool_or'))}({condition})", "bool"
        assert value is not None
        distinct = "DISTINCT " if self._draw.chance(20, "aggregate.distinct") else ""
        match feature:
            case "aggregate.count":
                return f"count({distinct}{value.sql})", "big"
            case "aggregate.sum":
                return f"sum({distinct}{value.sql})", _SUMS[value.kind]
            case "aggregate.avg":
                return f"avg({distinct}{value.sql})", "real"
            case "aggregate.extreme":
                return f"{pick(('min', 'max'))}({value.sql})", value.kind
            case "aggregate.bits":
                return f"{pick(('bit_and', 'bit_or', 'bit_xor'))}({value.sql})", "int"
            case "aggregate.spread":
                function = pick(("stddev", "stddev_pop", "variance", "var_pop", "var_samp"))
                return f"{function}({value.sql})", "real"
            case "aggregate.pair":
                other = pick([v for v in scope.values if v.kind in _SMALL])
                arguments = ", ".join(f"({v.sql})::double precision" for v in (value, other))
                return f"{pick(('covar_pop', 'covar_samp', 'regr_count'))}({arguments})", "real"
            case "aggregate.string":
                order = pick(("", " DESC"))
                return (
                    f"string_agg({distinct}{value.sql}, ','::text ORDER BY {value.sql}{order})",
                    "text",
                )
            case "aggregate.array":
                return f"array_agg({distinct}{value.sql} ORDER BY {value.sql})", "ints"
            case "aggregate.open" | "json.list" | "json.object":
                return self._listed(feature, value, distinct, scope)
            case "aggregate.own":
                return self._own(value, distinct, scope)
            case "aggregate.mode":
                return f"mode() WITHIN GROUP (ORDER BY {value.sql})", value.kind
            case _:
                argument = f"({value.sql})::double precision"
                return f"percentile_cont(0.5) WITHIN GROUP (ORDER BY ({argument}))", "real"

    def _listed(self, feature: str, value: Value, distinct: str, scope: Scope) -> tuple[str, str]:
        """Draw a call that lists its values, in an order that the query leaves open."""
        if feature == "aggregate.open":
            if value.kind == "int":
                return f"array_agg({distinct}{value.sql})", "ints"
            return f"string_agg({distinct}{value.sql}, ','::text)", "text"
        standard = self._draw.chance(50)
        if feature == "json.list":
            nulls = self._draw.pick(("NULL ON NULL", "ABSENT ON NULL"))
            if standard:
                return f"JSON_ARRAYAGG({value.sql} {nulls} RETURNING jsonb)", "doc"
            return f"jsonb_agg({distinct}{value.sql})", "doc"
        key = f"COALESCE(({value.sql})::text, ''::text)"
        other = self._draw.pick([one for one in scope.values if one.kind in DOCUMENTED]).sql
        if standard:
            return f"JSON_OBJECTAGG({key} : {other} ABSENT ON NULL RETURNING jsonb)", "doc"
        return f"jsonb_object_agg({key}, {other})", "doc"

    def _own(self, value: Value, distinct: str, scope: Scope) -> tuple[str, str]:
        """Draw a call of an aggregate of ``tests/labs/own_aggregates.py``."""
        if value.kind == "text" and self._draw.chance(70):
            order = self._draw.pick(("", " DESC"))
            return f"public.chain({distinct}{value.sql} ORDER BY {value.sql}{order})", "text"
        ints = [one for one in scope.values if one.kind == "int"]
        if value.kind in _EXACT and ints and self._draw.chance(30):
            weight = self._draw.pick(ints).sql
            return f"public.weighted(({value.sql})::numeric, {weight})", "real"
        if value.kind in _EXACT and self._draw.chance(60):
            return f"public.own_total({distinct}({value.sql})::numeric)", "free"
        if self._draw.chance(20):
            return "public.rows_seen(*)", "big"
        return (
            f"public.own_disc('0.5'::double precision) WITHIN GROUP (ORDER BY {value.sql})",
            value.kind,
        )

    # Clauses

    def grouped(self, scope: Scope, *, keys: bool = True) -> Grouped:
        """Draw a GROUP BY of expressions, the calls to show, and perhaps HAVING."""
        group: list[Value] = []
        if keys:
            chosen = [self._draw.pick(scope.sortable) for _ in range(self._draw.number(1, 1, 2))]
            group = [self._grammar.expressions.around(value, scope.flat) for value in chosen]
            group = list({value.sql: value for value in group}.values())
        calls = [
            self.call(scope if self._draw.chance(10) else scope.flat)
            for _ in range(self._draw.number(1, 1, 2, 3))
        ]
        tail = f" GROUP BY {', '.join(key.sql for key in group)}" if group else ""
        tail += self._having(scope, group, calls)
        return Grouped(tuple(group), tuple(map(self._around_call, calls)), tail)

    def grouping_sets(self, scope: Scope) -> Grouped:
        """Draw ROLLUP, CUBE or GROUPING SETS."""
        group = [v for v in self._draw.some(scope.sortable, 1, 2) if is_column(v)]
        if not group:
            return self.grouped(scope)
        listed = [key.sql for key in group]
        first, everything = listed[0], ", ".join(listed)
        clause = {
            "sets.rollup": f"ROLLUP({everything})",
            "sets.cube": f"CUBE({everything})",
            "sets.listed": f"GROUPING SETS (({everything}), ({first}), ())",
            "sets.mixed": f"{first}, ROLLUP({listed[-1]})",
        }[self._draw.choose({"sets.rollup": 2, "sets.cube": 2, "sets.listed": 2, "sets.mixed": 1})]
        calls = [self.call(scope.flat) for _ in range(self._draw.number(1, 2))]
        if self._draw.chance(50, "sets.grouping"):
            calls.append(Value(f"GROUPING({everything})", "int"))
        tail = f" GROUP BY {clause}" + self._having(scope.flat, [], calls)
        return Grouped(tuple(group), tuple(calls), tail)

    def _around_call(self, call: Value) -> Value:
        if call.kind in {"big", "num"} and self._draw.chance(15, "aggregate.expression"):
            constant = CONSTANTS[call.kind][0]
            return Value(f"(COALESCE({call.sql}, {constant}) + count(*))", call.kind)
        return call

    def _having(self, scope: Scope, keys: Sequence[Value], calls: Sequence[Value]) -> str:
        if not self._draw.chance(25, "having"):
            return ""
        columns = [key for key in keys if is_column(key)]
        subqueries = scope.of(columns)
        if columns and scope.depth and self._draw.chance(25, "having.condition"):
            return f" HAVING {self._grammar.subqueries.condition(subqueries)}"
        call = self._draw.pick([*calls, self.call(scope.flat)])
        if not call.sortable:
            return f" HAVING ({call.sql} IS NOT NULL)"
        operator = self._draw.pick(("=", "<>", "<", "<=", ">", ">="))
        other = self._draw.pick(CONSTANTS[call.kind])
        if scope.depth and self._draw.chance(25, "having.scalar"):
            other = self._grammar.subqueries.scalar(call.kind, subqueries)
        return f" HAVING ({call.sql} {operator} {other})"


def is_column(value: Value) -> bool:
    """Tell whether an expression is a bare column."""
    return value.sql.replace(".", "").replace("_", "").isalnum()
