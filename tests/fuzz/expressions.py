"""Scalar expressions and conditions, written with PostgreSQL's parentheses.

Nothing here can fail on data: no division, no cast of text, sums and products stay small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.fuzz.kinds import CONSTANTS, NULLS, NUMBERS, Value, comparable
from tests.fuzz.scope import Scope

if TYPE_CHECKING:
    from tests.fuzz.grammar import Grammar

_RETURNED = {"int": "integer", "text": "text", "bool": "boolean"}
_COMPARISONS = ("=", "=", "<>", "<", "<=", ">", ">=")


class Expressions:
    """Draws expressions over the columns of a scope."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._draw = grammar.draw

    def constant(self, kind: str) -> str:
        """Draw a constant of a kind, at times NULL."""
        return NULLS[kind] if self._draw.chance(8) else self._draw.pick(CONSTANTS[kind])

    def of_kind(self, kind: str, scope: Scope) -> Value:
        """Draw an expression of a kind."""
        fitting = [value for value in scope.values if value.kind == kind]
        if kind == "big":
            fitting += [Value(f"({v.sql})::bigint", "big") for v in scope.values if v.kind == "int"]
        if kind == "real":
            fitting += [
                Value(f"({v.sql})::double precision", "real")
                for v in scope.values
                if v.kind in NUMBERS
            ]
        if not fitting:
            return Value(self.constant(kind), kind)
        return self.around(self._draw.pick(fitting), scope)

    def any(self, scope: Scope) -> Value:
        """Draw an expression of any kind."""
        value = self._draw.pick(scope.values)
        if value.kind == "text" and self._draw.chance(10, "expression.length"):
            return Value(f"length({value.sql})", "int")
        if scope.sortable and self._draw.chance(8, "expression.condition"):
            return Value(self.condition(scope), "bool")
        return self.around(value, scope)

    def around(self, value: Value, scope: Scope) -> Value:
        """Draw an expression of the same kind around ``value``."""
        if not value.sortable or not self._draw.chance(45):
            return value
        if scope.depth and self._draw.chance(25, "subquery.scalar"):
            return Value(self._with_subquery(value, scope), value.kind)
        return Value(self._form(value, scope), value.kind)

    def _form(self, value: Value, scope: Scope) -> str:
        same = [one for one in scope.values if one.kind == value.kind]
        other = self._draw.pick(same or [value]).sql
        constant = self._draw.pick(CONSTANTS[value.kind])
        own = {
            "text": (f"({value.sql} || {constant})", f"upper({value.sql})"),
            "bool": (
                f"(NOT {value.sql})",
                f"({value.sql} IS NOT TRUE)",
                f"({value.sql} OR {other})",
            ),
            "date": (f"({value.sql} + 1)", f"({value.sql} - 1)"),
        }.get(value.kind, (f"({value.sql} + {constant})", f"(- {value.sql})", f"abs({value.sql})"))
        both = {"text": ("||",), "int": ("*", "+", "-")}.get(value.kind, ("+", "-"))
        match self._draw.choose(
            {
                "expression.own": 3,
                "expression.coalesce": 3,
                "expression.case": 3,
                "expression.nullif": 1,
                "expression.two": 3 if value.kind not in {"bool", "date"} else 0,
                "expression.greatest": 1 if value.kind not in {"bool", "text"} else 0,
                "expression.quotient": 2 if value.kind == "free" else 0,
                "json.value": 1 if value.kind in _RETURNED else 0,
            }
        ):
            case "expression.own":
                return self._draw.pick(own)
            case "expression.coalesce":
                return f"COALESCE({value.sql}, {self._draw.pick((other, constant))})"
            case "expression.case":
                condition = self.condition(scope)
                return f"CASE WHEN {condition} THEN {value.sql} ELSE {constant} END"
            case "expression.nullif":
                return f"NULLIF({value.sql}, {constant})"
            case "expression.two":
                return f"({value.sql} {self._draw.pick(both)} {other})"
            case "expression.quotient":
                return f"({value.sql} / NULLIF({self._another(value, same)}, (0)::numeric))"
            case "json.value":
                listed = f"JSON_OBJECT('k' : {value.sql}, 'l' : {other} RETURNING jsonb)"
                path = f"'$.{self._draw.pick('kl')}'"
                return f"JSON_VALUE({listed}, {path} RETURNING {_RETURNED[value.kind]})"
            case _:
                function = self._draw.pick(("GREATEST", "LEAST"))
                return f"{function}({value.sql}, {self._draw.pick((other, constant))})"

    def _with_subquery(self, value: Value, scope: Scope) -> str:
        """Put a scalar subquery where a value could stand: bare, and inside other expressions."""
        subquery = self._grammar.subqueries.scalar(value.kind, scope)
        match self._draw.choose(
            {
                "subquery.scalar.bare": 4,
                "subquery.scalar.coalesce": 2,
                "subquery.scalar.case": 2,
                "subquery.scalar.argument": 1,
            }
        ):
            case "subquery.scalar.bare":
                return subquery
            case "subquery.scalar.coalesce":
                return f"COALESCE({subquery}, {value.sql})"
            case "subquery.scalar.case":
                condition = self.condition(scope.flat)
                return f"CASE WHEN {condition} THEN {value.sql} ELSE {subquery} END"
            case _:
                return f"NULLIF({value.sql}, {subquery})"

    # Conditions

    def condition(self, scope: Scope) -> str:
        """Draw a condition over the columns in sight."""
        sortable = scope.sortable
        if not sortable:
            return f"({scope.values[0].sql} IS NOT NULL)"
        if scope.depth and self._draw.tables_left > 0 and self._draw.chance(18):
            return self._grammar.subqueries.condition(scope)
        value = self._draw.pick(sortable)
        match self._draw.choose(
            {
                "condition.compare": 8,
                "condition.columns": 4,
                "condition.null": 4,
                "condition.or": 2,
                "condition.and": 1,
                "condition.not": 1,
                "condition.list": 1 if value.kind == "int" and not scope.joining else 0,
                "condition.like": 1 if value.kind == "text" else 0,
                "condition.between": 1,
                "condition.distinct": 1,
                "condition.boolean": 1 if value.kind == "bool" else 0,
                # What only PostgreSQL evaluates, where it reads several tables.
                "condition.pattern": 2 if value.kind == "text" else 0,
                "condition.quotient": 2 if value.kind in {"num", "free"} else 0,
                "condition.month": 2 if value.kind == "date" else 0,
                "json.exists": 2 if value.kind == "int" else 0,
            }
        ):
            case "condition.compare":
                constant = self._draw.pick(CONSTANTS[value.kind])
                return f"({value.sql} {self._draw.pick(_COMPARISONS)} {constant})"
            case "condition.columns":
                other = self._draw.pick([v for v in sortable if comparable(value.kind, v.kind)])
                return f"({value.sql} {self._draw.pick(_COMPARISONS)} {other.sql})"
            case "condition.null":
                word = self._draw.pick(("IS NULL", "IS NOT NULL", "IS NOT NULL"))
                return f"({value.sql} {word})"
            case "condition.or":
                return f"({self.condition(scope)} OR {self.condition(scope)})"
            case "condition.and":
                return f"({self.condition(scope)} AND {self.condition(scope)})"
            case "condition.not":
                return f"(NOT {self.condition(scope)})"
            case "condition.list":
                return f"({value.sql} = ANY (ARRAY[0, 2]))"
            case "condition.like":
                return f"({value.sql} ~~ 'x%'::text)"
            case "condition.between":
                low, high = (self._draw.pick(CONSTANTS[value.kind]) for _ in range(2))
                return f"(({value.sql} >= {low}) AND ({value.sql} <= {high}))"
            case "condition.pattern" | "condition.quotient" | "condition.month" as form:
                return self._for_postgres(form, value.sql, self._another(value, sortable))
            case "json.exists":
                both = f"JSON_ARRAY({value.sql}, {self._another(value, sortable)} RETURNING jsonb)"
                return f"JSON_EXISTS({both}, '$[*] ? (@ {self._draw.pick(('>', '=='))} 1)')"
            case "condition.distinct":
                return f"({value.sql} IS DISTINCT FROM {self.constant(value.kind)})"
            case _:
                return f"({value.sql} IS {self._draw.pick(('TRUE', 'NOT FALSE', 'NOT TRUE'))})"

    def of_time(self, dates: Sequence[Value]) -> str:
        """Draw a condition that changes as time passes."""
        value, sign = self._draw.pick(dates).sql, self._draw.pick(("<", ">=", "<="))
        days = self._draw.number(0, 1, 2)
        if self._draw.chance(50):
            return f"({value} {sign} (CURRENT_DATE - {days}))"
        moment = f"(now() - '{days} days 12:00:00'::interval)"
        return f"(({value})::timestamp with time zone {sign} {moment})"

    def _for_postgres(self, form: str, one: str, other: str) -> str:
        """Write a condition over two values that Spark does not evaluate as PostgreSQL does."""
        if form == "condition.pattern":
            return f"({one} ~ {other})"
        if form == "condition.quotient":
            sign = self._draw.pick(("<", ">="))
            return f"(({one} / NULLIF({other}, (0)::numeric)) {sign} 0.75)"
        latest = f"(GREATEST({one}, {other}))::timestamp without time zone"
        moment = "'2024-03-01 00:00:00'::timestamp without time zone"
        return f"(date_trunc('month'::text, {latest}) {self._draw.pick(('<', '='))} {moment})"

    def _another(self, value: Value, among: Sequence[Value]) -> str:
        """Draw a value of the same kind, of another table if possible."""
        same = [one for one in among if one.kind == value.kind]
        table = value.sql.partition(".")[0]
        apart = [one for one in same if one.sql.partition(".")[0] != table]
        return self._draw.pick(apart or same).sql
