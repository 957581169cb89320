"""Random defining queries, as PostgreSQL prints them: the whole grammar, nested three deep.

A query is drawn top down under two budgets: how deep it nests, and how many tables it reads in
all, so that no cross product grows out of hand.  Every query has one answer: what depends on an
order is ordered by all that is shown, and nothing can fail on data.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.fuzz.aggregates import Aggregates, Grouped
from tests.fuzz.chains import chain
from tests.fuzz.draw import Draw
from tests.fuzz.expressions import Expressions
from tests.fuzz.joins import Joins
from tests.fuzz.kinds import CONSTANTS, NULLS, Shown, Value, comparable
from tests.fuzz.recursion import recursive_cte
from tests.fuzz.scope import From, Scope
from tests.fuzz.subqueries import Subqueries
from tests.fuzz.windows import Windows

_PADS = re.compile(r"\b(LEFT|RIGHT|FULL|SELECT)\b")
_DEPTHS = (0, 1, 1, 2, 2)  # queries inside queries, below the outermost
_FORMS = {
    "select.plain": 10,
    "select.group": 7,
    "select.whole": 2,
    "select.sets": 1,
    "select.distinct": 2,
    "select.distinct_on": 1,
    "select.window": 3,
    "select.group_window": 1,
    "select.top": 2,
}
_SET_OPERATIONS = {
    "set.union_all": 4,
    "set.union": 2,
    "set.intersect": 1,
    "set.except": 1,
    "set.intersect_all": 1,
    "set.except_all": 1,
}


class Grammar:
    """The productions of one query; the families each have a file of their own."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.ctes: dict[str, Shown] = {}
        self.expressions = Expressions(self)
        self.joins = Joins(self)
        self.subqueries = Subqueries(self)
        self.aggregates = Aggregates(self)
        self.windows = Windows(self)

    # Queries

    def whole(self) -> Shown:
        """Draw a defining query."""
        if self.draw.chance(5, "chain"):
            return chain(self)
        recursive, parts = "", []
        for name in ("x1", "x2")[: self.draw.number(0, 0, 0, 0, 1, 1, 2)]:
            if self.draw.tables_left <= 2 or not self.draw.on("with"):
                break
            self.draw.features.add("with")
            if self.draw.chance(10, "recursive"):
                recursive = "RECURSIVE "
                text, self.ctes[name] = recursive_cte(self, name)
                parts.append(text)
            else:
                cte = self.query(1)
                parts.append(f"{name} AS ( {cte.sql})")
                self.ctes[name] = cte
        body = self.query(self.draw.pick(_DEPTHS))
        if not parts:
            return body
        return Shown(f"WITH {recursive}{', '.join(parts)} {body.sql}", body.columns)

    def query(self, depth: int, wanted: Sequence[str] | None = None) -> Shown:
        """Draw a query; ``wanted`` are the kinds its columns must have, in order."""
        if self.draw.tables_left <= 1 or not self.draw.chance(18, "set"):
            return self.select(depth, wanted)
        first = self.select(depth, wanted)
        second = self.select(depth, first.kinds)
        exact = all(Value("", kind).sortable for kind in first.kinds)
        feature = self.draw.choose(_SET_OPERATIONS if exact else {"set.union_all": 1})
        word = feature.removeprefix("set.").replace("_", " ").upper()
        text = f"( {first.sql}) {word} ( {second.sql})"
        if exact and self.draw.chance(12, "set.top"):
            order = ", ".join(
                f"{place}{self.windows.direction()}" for place in range(1, len(first.kinds) + 1)
            )
            text += f" ORDER BY {order} LIMIT {self.draw.number(1, 2, 3)}"
        return Shown(text, first.columns)

    def select(
        self,
        depth: int,
        wanted: Sequence[str] | None = None,
        outer: tuple[Value, ...] = (),
        form: str = "",
    ) -> Shown:
        """Draw one SELECT that may see the columns of ``outer``."""
        if not form:
            form = self.draw.choose(_FORMS)
        if form == "select.top":
            return self.select_top(depth, wanted, outer)
        found, scope, where = self.from_where(depth, outer)
        if not scope.sortable:
            form = "select.plain" if form != "select.whole" else form
        match form:
            case "select.group" | "select.whole" | "select.sets":
                grouped = self._grouped(form, scope)
                outputs = self._outputs_of(grouped, scope, wanted)
                return self._shown(outputs, f"{found.text}{where}{grouped.tail}")
            case "select.distinct":
                values = scope.of(scope.sortable)
                outputs = self._outputs(values, wanted)
                if all(output.sortable for output in outputs):
                    return self._shown(outputs, f"{found.text}{where}", "DISTINCT ")
                return self._shown(outputs, f"{found.text}{where}")
            case "select.distinct_on":
                return self._distinct_on(scope, wanted, f"{found.text}{where}")
            case "select.window":
                play = self.draw.some(scope.sortable, 1, 4)
                return self._windowed(play, wanted, f"{found.text}{where}")
            case "select.group_window":
                grouped = self.aggregates.grouped(scope)
                play = [value for value in (*grouped.keys, *grouped.calls) if value.sortable]
                tail = f"{found.text}{where}{grouped.tail}"
                return self._windowed(play or [Value("count(*)", "big")], wanted, tail)
            case _:
                return self._shown(self._outputs(scope, wanted), f"{found.text}{where}")

    def select_top(
        self,
        depth: int,
        wanted: Sequence[str] | None,
        outer: tuple[Value, ...],
        rows: int = 0,
    ) -> Shown:
        """Draw the first rows of a total order."""
        found, scope, where = self.from_where(depth, outer)
        tail = ""
        if not rows and scope.sortable and self.draw.chance(25, "top.group"):
            grouped = self.aggregates.grouped(scope)
            tail = grouped.tail
            outputs = self._outputs_of(grouped, scope.flat, wanted)
        else:
            outputs = self._outputs(scope.of(scope.sortable or scope.values), wanted)
        ties = not rows and self.draw.chance(15, "top.ties")
        order = self._order(outputs, total=not ties)
        if not order or not all(output.sortable for output in outputs):
            # Nothing to order by: the rows are all alike, or cannot be told apart exactly.
            if rows:
                outputs = [self.aggregates.call_of(output.kind, scope.flat) for output in outputs]
            return self._shown(outputs, f"{found.text}{where}{tail}")
        number = rows or self.draw.number(1, 2, 2, 3, 5)
        if ties:
            return self._shown(
                outputs, f"{found.text}{where}{tail}{order} FETCH FIRST {number} ROWS WITH TIES"
            )
        offset = f" OFFSET {self.draw.number(1, 2)}" if self.draw.chance(25, "top.offset") else ""
        limit = f" LIMIT {number}" if rows or not offset or self.draw.chance(70) else ""
        return self._shown(outputs, f"{found.text}{where}{tail}{order}{limit}{offset}")

    def select_one(self, depth: int, kind: str, outer: tuple[Value, ...]) -> Shown:
        """Draw an aggregate of everything, of one kind: always one row."""
        found, scope, where = self.from_where(depth, outer)
        call = self.aggregates.call_of(kind, scope.flat)
        return self._shown([call], f"{found.text}{where}")

    # Parts

    def where(self, found: From, scope: Scope, *, correlate: bool = False) -> str:
        """Draw WHERE: the conditions that FROM asks for, and others."""
        conditions = list(found.conditions)
        if scope.outer and (correlate or self.draw.chance(80)):
            conditions += self._correlation(scope)
        if self.draw.chance(28, "where"):
            conditions.append(self.expressions.condition(scope))
        dates = [value for value in scope.values if value.kind == "date"]
        # The time is followed where rows are read: not above an outer join or an aggregate.
        if dates and not _PADS.search(found.text) and self.draw.on("time"):
            conditions += [self.expressions.of_time(dates)] if self.draw.chance(25, "time") else []
        if not conditions:
            return ""
        text = " AND ".join(conditions)
        return f" WHERE ({text})" if len(conditions) > 1 else f" WHERE {text}"

    def _correlation(self, scope: Scope) -> list[str]:
        pairs = [
            (one, other)
            for one in scope.outer
            for other in scope.values
            if one.sortable and comparable(one.kind, other.kind)
        ]
        if not pairs:
            return []
        outer, own = self.draw.pick(pairs)
        operator = {"correlate.equal": "=", "correlate.range": self.draw.pick(("<", ">=", "<>"))}[
            self.draw.choose({"correlate.equal": 6, "correlate.range": 2})
        ]
        return [f"({own.sql} {operator} {outer.sql})"]

    def from_where(self, depth: int, outer: tuple[Value, ...]) -> tuple[From, Scope, str]:
        """Draw FROM and WHERE, and what an expression over them can see."""
        found = self.joins.clause(max(depth, 0), ())
        scope = Scope(tuple(found.values), outer, max(depth, 0))
        return found, scope, self.where(found, scope)

    def _outputs(self, scope: Scope, wanted: Sequence[str] | None) -> list[Value]:
        if wanted is not None:
            return [self.expressions.of_kind(kind, scope) for kind in wanted]
        return [self.expressions.any(scope) for _ in range(self.draw.number(1, 2, 2, 3))]

    def _grouped(self, form: str, scope: Scope) -> Grouped:
        if form == "select.sets":
            return self.aggregates.grouping_sets(scope)
        return self.aggregates.grouped(scope, keys=form == "select.group")

    def _outputs_of(
        self, grouped: Grouped, scope: Scope, wanted: Sequence[str] | None
    ) -> list[Value]:
        keys = [key for key in grouped.keys if not self.draw.chance(15)]
        outputs = [*keys, *grouped.calls]
        return outputs if wanted is None else [self._fit(kind, outputs) for kind in wanted]

    def _fit(self, kind: str, values: Sequence[Value]) -> Value:
        fitting = [value for value in values if value.kind == kind]
        return self.draw.pick(fitting) if fitting else Value(self._constant(kind), kind)

    def _constant(self, kind: str) -> str:
        return self.draw.pick((*CONSTANTS[kind], NULLS[kind]))

    def _windowed(self, play: list[Value], wanted: Sequence[str] | None, tail: str) -> Shown:
        self.windows.over(play)
        calls = self.windows.calls(play)
        clause = self.windows.clause()
        outputs = [*self.draw.some(play, 1, 2), *calls]
        if wanted is not None:
            outputs = [self._fit(kind, [*calls, *play]) for kind in wanted]
        return self._shown(outputs, tail + clause)

    def _distinct_on(self, scope: Scope, wanted: Sequence[str] | None, tail: str) -> Shown:
        outputs = self._outputs(scope.of(scope.sortable).flat, wanted)
        if not all(output.sortable for output in outputs):
            return self._shown(outputs, tail)
        on = [self.draw.pick(scope.sortable)]
        direction = self.windows.direction()
        rest = self._order(outputs, total=True).removeprefix(" ORDER BY ")
        order = ", ".join(filter(None, [f"{on[0].sql}{direction}", rest]))
        return self._shown(outputs, f"{tail} ORDER BY {order}", f"DISTINCT ON ({on[0].sql}) ")

    def _order(self, outputs: Sequence[Value], *, total: bool) -> str:
        """Order by what is shown; constants need no order, and a number would be a position."""
        constants = {text for texts in CONSTANTS.values() for text in texts} | set(NULLS.values())
        ordered = [value for value in outputs if value.sql not in constants and value.sortable]
        self.draw.random.shuffle(ordered)
        if not total:
            ordered = ordered[:1]
        listed = ", ".join(f"{value.sql}{self.windows.direction()}" for value in ordered)
        return f" ORDER BY {listed}" if listed else ""

    def _shown(self, outputs: Sequence[Value], tail: str, distinct: str = "") -> Shown:
        names = [f"c{number}" for number in range(1, len(outputs) + 1)]
        listed = ", ".join(f"{o.sql} AS {name}" for o, name in zip(outputs, names, strict=True))
        kinds = [output.kind for output in outputs]
        return Shown(
            f"SELECT {distinct}{listed} FROM {tail}", tuple(zip(names, kinds, strict=True))
        )
