"""Subqueries inside expressions: EXISTS, IN, ANY, ALL, scalar; correlated or not.

A scalar subquery never has more than one row: it aggregates, looks a key up, or takes the first
row of a total order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.kinds import NUMBERS, SORTABLE, Shown, Value, comparable
from tests.fuzz.scope import Scope

if TYPE_CHECKING:
    from tests.fuzz.grammar import Grammar


class Subqueries:
    """Draws subqueries that stand inside expressions."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._draw = grammar.draw

    def condition(self, scope: Scope) -> str:
        """Draw a condition that asks a subquery."""
        value = self._draw.pick(scope.sortable)
        form = self._draw.choose(
            {
                "subquery.exists": 4,
                "subquery.in": 4,
                "subquery.rows": 2,
                "subquery.any": 1,
                "subquery.all": 1,
                "subquery.compare": 2,
                "subquery.average": 2 if value.kind in NUMBERS else 0,
            }
        )
        match form:
            case "subquery.exists":
                text = f"(EXISTS ( {self._exists(scope)}))"
            case "subquery.in":
                text = f"({value.sql} IN ( {self._column(value.kind, scope)}))"
            case "subquery.rows":
                two = [value, self._draw.pick(scope.sortable)]
                shown = self._select(scope, tuple(one.kind for one in two))
                text = f"(({two[0].sql}, {two[1].sql}) IN ( {shown.sql}))"
            case "subquery.any" | "subquery.all":
                word = form.removeprefix("subquery.").upper()
                operator = self._draw.pick(("<", "<=", ">", ">=", "<>"))
                text = f"({value.sql} {operator} {word} ( {self._column(value.kind, scope)}))"
            case "subquery.average":
                operator = self._draw.pick(("<", "<=", ">", ">="))
                return f"({value.sql} {operator} {self._average(scope)})"
            case _:
                operator = self._draw.pick(("=", "<>", "<", ">="))
                return f"({value.sql} {operator} {self.scalar(value.kind, scope)})"
        return f"(NOT {text})" if self._draw.chance(40, "subquery.not") else text

    def scalar(self, kind: str, scope: Scope) -> str:
        """Draw a subquery that has at most one row of one column."""
        keyed = [table for table in self._draw.tables if table.keyed]
        ints = [value for value in scope.values if value.kind == "int"]
        form = self._draw.choose(
            {
                "scalar.aggregate": 5,
                "scalar.first": 2,
                "scalar.key": 3 if keyed and ints else 0,
            }
        )
        if form == "scalar.key":
            table = self._draw.pick(keyed)
            self._draw.tables_left -= 1
            alias = self._draw.alias(table.name)
            own = Scope(tuple(Value(f"{alias}.{name}", k) for name, k in table.columns))
            value = self._grammar.expressions.of_kind(kind, own)
            return (
                f"( SELECT {value.sql} AS c1 FROM public.{table.name} {alias}"
                f" WHERE ({alias}.id = {self._draw.pick(ints).sql}))"
            )
        outer = self._around(scope)
        if form == "scalar.first":
            return f"( {self._grammar.select_top(scope.depth - 1, (kind,), outer, rows=1).sql})"
        return f"( {self._grammar.select_one(scope.depth - 1, kind, outer).sql})"

    def _average(self, scope: Scope) -> str:
        """Draw a multiple of an average: more than usual, less than usual."""
        found, own, where = self._grammar.from_where(scope.depth - 1, self._around(scope))
        average = self._grammar.aggregates.average(own.flat)
        factor = self._draw.pick((" * 1.2", " * 0.5", ""))
        return f"( SELECT ({average.sql}{factor}) AS c1 FROM {found.text}{where})"

    def lateral(self, depth: int, around: tuple[Value, ...]) -> Shown:
        """Draw a subquery in FROM that sees what stands before it."""
        match self._draw.choose(
            {"lateral.rows": 3, "lateral.top": 2, "lateral.whole": 2, "lateral.grouped": 1}
        ):
            case "lateral.top":
                return self._grammar.select_top(depth, None, around)
            case "lateral.whole":
                return self._grammar.select_one(depth, "big", around)
            case "lateral.grouped":
                return self._grammar.select(depth, None, around, form="select.group")
            case _:
                return self._grammar.select(depth, None, around, form="select.plain")

    def _exists(self, scope: Scope) -> str:
        found = self._grammar.joins.clause(scope.depth - 1, (), most=2)
        own = Scope(tuple(found.values), self._around(scope), scope.depth - 1)
        where = self._grammar.where(found, own, correlate=True)
        return f"SELECT 1 FROM {found.text}{where}"

    def _column(self, kind: str, scope: Scope) -> str:
        wanted = self._draw.pick([k for k in SORTABLE if comparable(kind, k)])
        return self._select(scope, (wanted,)).sql

    def _select(self, scope: Scope, wanted: tuple[str, ...]) -> Shown:
        outer = self._around(scope)
        if not outer and self._draw.chance(25):
            return self._grammar.query(scope.depth - 1, wanted)
        return self._grammar.select(scope.depth - 1, wanted, outer)

    def _around(self, scope: Scope) -> tuple[Value, ...]:
        """Let the subquery see its surroundings, or not."""
        return scope.inside if self._draw.chance(70, "subquery.correlated") else ()
