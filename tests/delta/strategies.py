"""Random defining queries, as PostgreSQL prints them, and random histories of their sources.

A query is drawn top down under two budgets: how deep it nests, and how many tables it reads in
all, so that no cross product grows out of hand.  Each column has a *kind*, which is what decides
which expressions it can stand in:

    int, big     integers of 4 and 8 bytes; ``sum`` of an int is big, as in PostgreSQL
    num          exact decimals
    float        halves, which floating-point numbers add up without error in any order
    ratio        an average: any floating-point number, never added up again
    text
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.delta.law import DefiningQuery, History, Window
from tests.delta.world import TABLES, Row, Weighted

_KINDS = {"int4": "int", "int8": "big", "numeric": "num", "float8": "float", "text": "text"}
_NUMBERS = ("int", "big", "num", "float")
_TABLES = {
    table.name: tuple((column.name, _KINDS[column.type.base]) for column in table.columns)
    for table in TABLES
}
_MAX_TABLES = 5
T = TypeVar("T")
Draw = Callable[..., Any]  # what st.composite hands in
_CONSTANTS = {
    "int": ("1", "0", "2"),
    "big": ("'1'::bigint", "'3000000000'::bigint"),
    "num": ("0.5", "2.00"),
    "float": ("'0.5'::double precision", "'0'::double precision"),
    "ratio": ("'0.5'::double precision",),
    "text": ("'x'::text", "''::text"),
}
_NULLS = {
    "int": "NULL::integer",
    "big": "NULL::bigint",
    "num": "NULL::numeric(10,2)",
    "float": "NULL::double precision",
    "ratio": "NULL::double precision",
    "text": "NULL::text",
}


@dataclass(frozen=True)
class Value:
    """An expression and its kind."""

    sql: str
    kind: str


@dataclass(frozen=True)
class Shown:
    """A query's text with the names and kinds of its columns, and how many tables it reads."""

    sql: str
    columns: tuple[tuple[str, str], ...]
    tables: int


@dataclass
class _Scope:
    """What FROM offers: its text, the columns in sight, conditions for WHERE."""

    text: str = ""
    values: list[Value] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)


class _Draw:
    """Draws the parts of one query."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._tables_left = _MAX_TABLES
        self.ctes: dict[str, Shown] = {}

    def one_of(self, options: Sequence[T]) -> T:
        return (
            options[self._draw(st.integers(0, len(options) - 1))]
            if len(options) > 1
            else options[0]
        )

    def chance(self, outcomes: int) -> bool:
        """Be false most of the time, and when shrinking."""
        return bool(self._draw(st.integers(0, outcomes - 1)) == outcomes - 1)

    # Queries

    def whole(self) -> Shown:
        parts = []
        for name in ("x1", "x2")[: self.one_of((0, 0, 0, 1, 2))]:
            if self._tables_left > 2:
                cte = self.query(1, None)
                self.ctes[name] = cte
                parts.append(f"{name} AS ( {cte.sql} )")
        body = self.query(2, None)
        return Shown(
            f"WITH {', '.join(parts)} {body.sql}" if parts else body.sql, body.columns, body.tables
        )

    def query(self, depth: int, wanted: Sequence[str] | None) -> Shown:
        """Draw a query; ``wanted`` are the kinds its columns must have, in order."""
        if self.chance(6) and self._tables_left > 1:
            first = self.select(depth, wanted)
            kinds = [kind for _, kind in first.columns]
            second = self.query(depth, kinds)
            word = self.one_of(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
            return Shown(
                f"{first.sql} {word} ( {second.sql} )", first.columns, first.tables + second.tables
            )
        return self.select(depth, wanted)

    def select(self, depth: int, wanted: Sequence[str] | None) -> Shown:
        before = self._tables_left
        scope = self.from_clause(depth)
        form = self.one_of(("plain", "group", "plain", "group", "distinct", "whole"))
        if self.chance(3):
            scope.conditions.append(self.condition(scope.values))
        qualified = all("." in value.sql for value in scope.values)
        if qualified and self._tables_left > 0 and self.chance(5):
            scope.conditions.append(self.membership(scope.values))
        where = f" WHERE ({' AND '.join(scope.conditions)})" if scope.conditions else ""
        if form in {"group", "whole"}:
            values, tail = self.grouped(scope.values, wanted, keys=form == "group")
            distinct = self.chance(8)
        else:
            values, tail, distinct = self.outputs(scope.values, wanted), "", form == "distinct"
        names = [f"c{number}" for number in range(1, len(values) + 1)]
        listed = ", ".join(
            f"{value.sql} AS {name}" for value, name in zip(values, names, strict=True)
        )
        word = "SELECT DISTINCT" if distinct else "SELECT"
        columns = tuple(zip(names, (value.kind for value in values), strict=True))
        sql = f"{word} {listed} FROM {scope.text}{where}{tail}"
        return Shown(sql, columns, before - self._tables_left)

    # FROM

    def from_clause(self, depth: int) -> _Scope:
        items: list[_Scope] = []
        for number in range(self.one_of((1, 2, 1, 2, 3, 4))):
            if number and self._tables_left < 1:
                break
            one = self.from_item(depth, items)
            self.attach(items, one)
        if len(items) == 1 and items[0].text.startswith("public."):
            # PostgreSQL qualifies columns only where a query has more than one input.
            items[0].values = [
                Value(value.sql.partition(".")[2], value.kind) for value in items[0].values
            ]
        conditions = [condition for item in items for condition in item.conditions]
        values = [value for item in items for value in item.values]
        return _Scope(", ".join(item.text for item in items), values, conditions)

    def from_item(self, depth: int, items: Sequence[_Scope]) -> _Scope:
        taken = {value.sql.partition(".")[0] for item in items for value in item.values}
        choices = ["table", "table"]
        choices += ["derived"] if depth > 0 else []
        choices += ["cte"] if self.ctes else []
        choice = self.one_of(choices)
        if choice == "derived":
            alias = _free("d", taken)
            shown = self.query(depth - 1, None)
            text, columns = f"( {shown.sql} ) {alias}", shown.columns
        elif choice == "cte":
            name = self.one_of(sorted(self.ctes))
            alias = _free(name, taken)
            text = name if alias == name else f"{name} {alias}"
            columns = self.ctes[name].columns
            self._tables_left -= self.ctes[name].tables
        else:
            name = self.one_of(tuple(_TABLES))
            alias = _free(name, taken)
            text, columns = f"public.{name} {alias}", _TABLES[name]
            self._tables_left -= 1
        return _Scope(text, [Value(f"{alias}.{column}", kind) for column, kind in columns])

    def attach(self, items: list[_Scope], one: _Scope) -> None:
        """Join one more input to what stands there already."""
        if not items:
            items.append(one)
            return
        style = self.one_of(("on", "comma", "using", "cross", "outer", "on", "comma where"))
        if style.startswith("comma"):
            if style == "comma where":
                values = [value for item in items for value in item.values]
                one.conditions.append(self.join_condition(values, one.values))
            items.append(one)
            return
        last = items.pop()
        left, right = (one, last) if self.chance(4) else (last, one)
        shared = _usable_names(left, right)
        if style == "cross":
            text = f"({left.text} CROSS JOIN {right.text})"
        elif style == "outer" and (equal := self.equality(left.values, right.values)):
            word = self.one_of(("LEFT", "RIGHT", "FULL"))
            text = f"({left.text} {word} JOIN {right.text} ON ({equal}))"
        elif style == "using" and shared:
            text = f"({left.text} JOIN {right.text} USING ({self.one_of(shared)}))"
        else:
            condition = self.join_condition(left.values, right.values)
            text = f"({left.text} JOIN {right.text} ON ({condition}))"
        items.append(
            _Scope(text, left.values + right.values, [*left.conditions, *right.conditions])
        )

    def equality(self, left: Sequence[Value], right: Sequence[Value]) -> str:
        """Draw a condition for an outer join; empty where no columns can be compared."""
        pairs = [(one, other) for one in left for other in right if one.kind == other.kind]
        if not pairs:
            return ""
        one, other = self.one_of(pairs)
        parts = [f"({one.sql} = {other.sql})"]
        if self.chance(4):
            parts.append(f"({self.one_of(left).sql} IS NOT NULL)")
        if self.chance(4):
            parts.append(f"({self.one_of(right).sql} IS NOT NULL)")
        return " AND ".join(parts)

    def membership(self, values: Sequence[Value]) -> str:
        """Draw a condition that a row of another table exists, or does not."""
        name = self.one_of(tuple(_TABLES))
        self._tables_left -= 1
        inner = [Value(f"{name}_9.{column}", kind) for column, kind in _TABLES[name]]
        condition = self.equality(values, inner)
        if not condition:
            return "true"
        exists = f"(EXISTS ( SELECT 1 FROM public.{name} {name}_9 WHERE ({condition})))"
        return f"(NOT {exists})" if self.chance(2) else exists

    def join_condition(self, left: Sequence[Value], right: Sequence[Value]) -> str:
        pairs = [
            (one, other)
            for one in left
            for other in right
            if one.kind == other.kind or {one.kind, other.kind} <= {"int", "big", "num"}
        ]
        if not pairs:
            return "true"
        one, other = self.one_of(pairs)
        form = self.one_of(("=", "=", "two", "expression", "<", "<>", "distinct", "or"))
        equal = f"({one.sql} = {other.sql})"
        if form in {"=", "<", "<>"}:
            return f"({one.sql} {form} {other.sql})"
        if form == "distinct":
            return f"(NOT ({one.sql} IS DISTINCT FROM {other.sql}))"
        if form == "expression":
            return f"({self.expression(one, left)} = {other.sql})"
        third, fourth = self.one_of(pairs)
        second = f"({third.sql} {'=' if form == 'two' else '>='} {fourth.sql})"
        return f"({equal} {'AND' if form == 'two' else 'OR'} {second})"

    # Expressions

    def outputs(self, values: Sequence[Value], wanted: Sequence[str] | None) -> list[Value]:
        if wanted is not None:
            return [self.of_kind(kind, values) for kind in wanted]
        chosen = [self.one_of(values) for _ in range(self.one_of((1, 2, 3)))]
        return [Value(self.expression(value, values), value.kind) for value in chosen]

    def of_kind(self, kind: str, values: Sequence[Value]) -> Value:
        fitting = [value for value in values if value.kind == kind]
        if kind == "big":
            fitting += [value for value in values if value.kind == "int"]
        if not fitting:
            return Value(self.one_of((*_CONSTANTS[kind], _NULLS[kind])), kind)
        return Value(self.expression(self.one_of(fitting), values), kind)

    def expression(self, value: Value, values: Sequence[Value]) -> str:
        """Draw an expression of the same kind around ``value``."""
        form = self.one_of(("bare", "bare", "bare", "coalesce", "case", "own", "other"))
        constant = self.one_of(_CONSTANTS[value.kind]) if form != "bare" else ""
        match form:
            case "coalesce":
                return f"COALESCE({value.sql}, {constant})"
            case "case":
                return f"CASE WHEN {self.condition(values)} THEN {value.sql} ELSE {constant} END"
            case "own" if value.kind == "text":
                return self.one_of((f"({value.sql} || {constant})", f"upper({value.sql})"))
            case "own" if value.kind in _NUMBERS:
                return self.one_of(
                    (f"({value.sql} + {constant})", f"(- {value.sql})", f"abs({value.sql})")
                )
            case "other" if value.kind in {"int", "text", "num"}:
                same = [one for one in values if one.kind == value.kind]
                operator = {"int": ("*", "+", "-"), "num": ("+", "-"), "text": ("||",)}[value.kind]
                return f"({value.sql} {self.one_of(operator)} {self.one_of(same or [value]).sql})"
            case _:
                return value.sql

    def condition(self, values: Sequence[Value]) -> str:
        value = self.one_of(values)
        constant = self.one_of(_CONSTANTS[value.kind])
        form = self.one_of((">", "=", "<>", "null", "not null", "any", "like", "or", "columns"))
        match form:
            case "null":
                return f"({value.sql} IS NULL)"
            case "not null":
                return f"({value.sql} IS NOT NULL)"
            case "any" if value.kind == "int":
                return f"({value.sql} = ANY (ARRAY[0, 2]))"
            case "like" if value.kind == "text":
                return f"({value.sql} ~~ 'x%'::text)"
            case "or":
                return f"(({value.sql} = {constant}) OR {self.condition(values)})"
            case "columns":
                other = self.one_of([one for one in values if one.kind == value.kind])
                return f"({value.sql} <= {other.sql})"
            case ">" | "=" | "<>":
                return f"({value.sql} {form} {constant})"
            case _:
                return f"({value.sql} < {constant})"

    # GROUP BY

    def grouped(
        self, values: Sequence[Value], wanted: Sequence[str] | None, *, keys: bool
    ) -> tuple[list[Value], str]:
        group: list[Value] = []
        if keys:
            chosen = [self.one_of(values) for _ in range(self.one_of((1, 1, 2)))]
            group = [Value(self.expression(value, values), value.kind) for value in chosen]
            group = list({value.sql: value for value in group}.values())
        shown = [key for key in group if not self.chance(5)]
        calls = [self.call(values) for _ in range(self.one_of((1, 1, 2, 3)))]
        calls = [self.over_call(call) for call in calls]
        if wanted is not None:
            outputs = [self._fit(kind, shown + calls) for kind in wanted]
        else:
            outputs = shown + calls
        tail = f" GROUP BY {', '.join(key.sql for key in group)}" if group else ""
        if self.chance(3):
            tail += f" HAVING {self.having(values)}"
        return outputs, tail

    def _fit(self, kind: str, values: Sequence[Value]) -> Value:
        fitting = [value for value in values if value.kind == kind]
        return self.one_of(fitting) if fitting else Value(self.one_of(_CONSTANTS[kind]), kind)

    def call(self, values: Sequence[Value]) -> Value:
        function = self.one_of(("count(*)", "sum", "count", "min", "max", "avg"))
        condition = f" FILTER (WHERE {self.condition(values)})" if self.chance(5) else ""
        if function == "count(*)":
            return Value(f"count(*){condition}", "big")
        numbers = [value for value in values if value.kind in _NUMBERS]
        if function in {"sum", "avg"} and not numbers:
            function = "max"
        value = self.one_of(numbers if function in {"sum", "avg"} else values)
        argument = self.expression(value, values)
        distinct = "DISTINCT " if self.chance(4) else ""
        kind = {
            "count": "big",
            "avg": "ratio",
            "sum": {"int": "big", "big": "num"}.get(value.kind, value.kind),
        }.get(function, value.kind)
        return Value(f"{function}({distinct}{argument}){condition}", kind)

    def over_call(self, call: Value) -> Value:
        if self.chance(5) and call.kind in {"big", "num"}:
            return Value(
                f"(COALESCE({call.sql}, {_CONSTANTS[call.kind][0]}) + count(*))", call.kind
            )
        return call

    def having(self, values: Sequence[Value]) -> str:
        call = self.call(values)
        constant = self.one_of(_CONSTANTS[call.kind])
        return f"({call.sql} {self.one_of(('>', '=', '<>', '<='))} {constant})"


def _free(wanted: str, taken: set[str]) -> str:
    names = itertools.chain([wanted], (f"{wanted}_{number}" for number in itertools.count(1)))
    return next(name for name in names if name not in taken)


def _usable_names(left: _Scope, right: _Scope) -> list[str]:
    """Return the column names that USING can name: once on each side, of one kind."""
    sides = []
    for scope in (left, right):
        found: dict[str, list[str]] = {}
        for value in scope.values:
            found.setdefault(value.sql.partition(".")[2], []).append(value.kind)
        sides.append({name: kinds[0] for name, kinds in found.items() if len(kinds) == 1})
    return sorted(name for name, kind in sides[0].items() if sides[1].get(name) == kind)


@st.composite
def queries(draw: Draw) -> DefiningQuery:
    """Draw a defining query over the tables of the tests."""
    shown = _Draw(draw).whole()
    return DefiningQuery(shown.sql, tuple(name for name, _ in shown.columns))


@st.composite
def chains(draw: Draw) -> DefiningQuery:
    """Draw a join of three inputs along equalities: every read can be bounded by keys.

    Aggregates and unions take part as inputs too, so that bounds have to pass through them.
    """
    inputs = draw(st.lists(st.sampled_from(_CHAIN_INPUTS), min_size=3, max_size=3))
    text, seen = "", list[str]()
    for number, (source, columns) in enumerate(inputs):
        mine = [f"i{number}.{column}" for column in columns]
        item = f"{source} i{number}"
        if seen:
            pairs = st.tuples(st.sampled_from(seen), st.sampled_from(mine))
            equal = [
                f"({one} = {other})" for one, other in draw(st.lists(pairs, min_size=1, max_size=2))
            ]
            text = f"({text} JOIN {item} ON ({' AND '.join(equal)}))"
        else:
            text = item
        seen += mine
    shown = draw(st.lists(st.sampled_from(seen), min_size=1, max_size=2))
    names = tuple(f"c{number}" for number in range(len(shown)))
    listed = ", ".join(f"{column} AS {name}" for column, name in zip(shown, names, strict=True))
    if draw(st.booleans()):
        keys = ", ".join(dict.fromkeys(shown))
        return DefiningQuery(
            f"SELECT {listed}, count(*) AS n FROM {text} GROUP BY {keys}", (*names, "n")
        )
    return DefiningQuery(f"SELECT {listed} FROM {text}", names)


_CHAIN_INPUTS = (
    ("public.t", ("a", "b")),
    ("public.u", ("a", "d")),
    ("public.v", ("b",)),
    ("( SELECT b AS c1, max(a) AS c2 FROM public.t t GROUP BY b )", ("c1", "c2")),
    ("( SELECT a AS c1 FROM public.u u UNION ALL SELECT b AS c1 FROM public.v v )", ("c1",)),
)


# Histories

_ROWS = {table.name: st.sampled_from(list(itertools.product(*table.domains))) for table in TABLES}
_BAGS = {name: st.lists(rows, max_size=4) for name, rows in _ROWS.items()}


@st.composite
def histories(draw: Draw, windows: int = 3) -> History:
    """Draw rows for the sources and the changes of some windows, any number of tables in each."""
    bags = {name: draw(bag) for name, bag in _BAGS.items()}
    initial = {name: tuple(bag) for name, bag in bags.items()}
    drawn: list[Window] = [
        {name: _draw_changes(draw, name, bag) for name, bag in bags.items()} for _ in range(windows)
    ]
    return History(initial, tuple(drawn))


def _draw_changes(draw: Draw, name: str, bag: list[Row]) -> list[Weighted]:
    """Draw changes of one table and carry them out on ``bag``."""
    changes: list[Weighted] = []
    for action in draw(st.lists(st.integers(0, 4), max_size=2)):
        old = bag[draw(st.integers(0, len(bag) - 1))] if bag and action != 0 else None
        new = draw(_ROWS[name]) if action in {0, 2, 3} or old is None else None
        if action == 3 and new is not None:  # there and gone again within the window
            changes += [(new, 1), (new, -1)]
        elif action == 4 and old is not None:  # written again as it was
            changes += [(old, -1), (old, 1)]
        else:  # 0 inserts, 1 deletes, 2 updates
            if old is not None:
                bag.remove(old)
                changes.append((old, -1))
            if new is not None:
                bag.append(new)
                changes.append((new, 1))
    return changes
