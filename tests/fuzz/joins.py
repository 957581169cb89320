"""FROM: tables, derived tables and functions, joined in every way PostgreSQL prints.

NATURAL has no production of its own: PostgreSQL prints it as USING over the shared columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.fuzz.kinds import SORTABLE, Value, comparable
from tests.fuzz.scope import From, Item, Scope

if TYPE_CHECKING:
    from tests.fuzz.grammar import Grammar

_CONDITIONS = {
    "on.equal": 8,
    "on.two": 2,
    "on.expression": 2,
    "on.range": 2,
    "on.unequal": 1,
    "on.mixed": 3,
    "on.one_side": 2,
    "on.both_sides": 2,
    "on.or": 1,
    "on.distinct": 1,
}
# What PostgreSQL can answer for a FULL JOIN: an equality that it can hash.
_FULL_CONDITIONS = {"on.equal": 6, "on.two": 2, "on.one_side": 1}


class Joins:
    """Draws FROM clauses."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._draw = grammar.draw

    def clause(self, depth: int, outer: tuple[Value, ...], *, most: int = 3) -> From:
        """Draw a FROM clause."""
        found = From()
        for number in range(self._draw.number(1, 1, 1, 2, 2, 2, 3)):
            if number >= most or (number and self._draw.tables_left <= 0) or found.closed:
                break
            self._attach(found, depth, outer)
        return found

    # Items

    def item(self, found: From, depth: int) -> Item:
        """Draw one more input."""
        more = self._draw.tables_left > 1
        ctes = self._grammar.ctes
        match self._draw.choose(
            {
                "from.table": 14,
                "from.derived": 3 if depth and more else 0,
                "from.cte": 4 if ctes else 0,
                "from.values": 1,
                "from.series": 1 if found.items else 0,
            }
        ):
            case "from.derived":
                shown = self._grammar.query(depth - 1)
                alias = self._draw.alias("q")
                return Item(f"( {shown.sql}) {alias}", shown.under(alias))
            case "from.cte":
                name = self._draw.pick(sorted(ctes))
                alias = self._draw.alias(name)
                self._draw.tables_left -= 1
                text = name if alias == name else f"{name} {alias}"
                return Item(text, ctes[name].under(alias))
            case "from.values":
                return self._values()
            case "from.series":
                alias = self._draw.alias("g")
                text = f"generate_series({self._draw.pick((0, 1))}, 3) {alias}(g)"
                return Item(text, (Value(f"{alias}.g", "int"),))
            case _:
                return self.table()

    def table(self) -> Item:
        """Draw a base table under a new alias."""
        table = self._draw.pick(self._draw.tables)
        self._draw.tables_left -= 1
        alias = self._draw.alias(table.name)
        values = tuple(Value(f"{alias}.{name}", kind) for name, kind in table.columns)
        return Item(f"public.{table.name} {alias}", values)

    def _values(self) -> Item:
        kinds = ["int", self._draw.pick(("int", "text", "big"))]
        alias = self._draw.alias("y")
        constant = self._grammar.expressions.constant
        rows = [
            f", ({', '.join(constant(kind) for kind in kinds)})"
            for _ in range(self._draw.number(0, 1, 2))
        ]
        # The first row decides the types, so its values say theirs.
        first = ", ".join(f"({constant(kind)})::{_CASTS[kind]}" for kind in kinds)
        text = f"( VALUES ({first}){''.join(rows)}) {alias}(y1, y2)"
        names = (f"{alias}.y1", f"{alias}.y2")
        return Item(text, tuple(Value(n, k) for n, k in zip(names, kinds, strict=True)))

    # Joins

    def _attach(self, found: From, depth: int, outer: tuple[Value, ...]) -> None:
        if found.items and depth and self._draw.chance(10, "lateral"):
            self._attach_lateral(found, depth, outer)
            return
        item = self.item(found, depth)
        if not found.items:
            found.items.append(item)
            return
        last = found.items[-1]
        joinable = not last.lateral
        shared = _shared(last.values, item.values) if joinable else []
        style = self._draw.choose(
            {
                "join.inner": 7 * joinable,
                "join.left": 5 * joinable,
                "join.right": 2 * joinable,
                "join.full": 3 * joinable,
                "join.cross": 1 * joinable,
                "join.comma": 3,
                "join.using": 3 if shared else 0,
            }
        )
        if _same_table(item, found):
            self._draw.features.add("join.self")
        if style == "join.comma":
            found.conditions += self._comma_conditions(found.values, item.values)
            found.items.append(item)
        elif style == "join.using":
            self._join_using(found, item, shared)
        else:
            found.items[-1] = self._joined(style, last, item)

    def _joined(self, style: str, left: Item, right: Item) -> Item:
        word = {"join.left": "LEFT ", "join.right": "RIGHT ", "join.full": "FULL "}.get(style, "")
        forms = _FULL_CONDITIONS if style == "join.full" else _CONDITIONS
        condition = (
            "" if style == "join.cross" else self.condition(left.values, right.values, forms)
        )
        values = (*left.values, *right.values)
        if condition:
            return Item(f"({left.text} {word}JOIN {right.text} ON ({condition}))", values)
        if word in {"LEFT ", "RIGHT "}:
            return Item(f"({left.text} {word}JOIN {right.text} ON (true))", values)
        return Item(f"({left.text} CROSS JOIN {right.text})", values)

    def _comma_conditions(self, left: Sequence[Value], right: Sequence[Value]) -> list[str]:
        if self._draw.chance(20):
            return []
        condition = self.condition(left, right, _CONDITIONS)
        return [condition] if condition else []

    def _join_using(self, found: From, item: Item, shared: list[str]) -> None:
        natural = self._draw.chance(40, "join.natural")
        names = shared if natural else [self._draw.pick(shared)]
        side = self._draw.choose(
            {"using.inner": 4, "using.left": 2, "using.right": 1, "using.full": 1}
        )
        word = {"using.inner": ""}.get(side, f"{side.removeprefix('using.').upper()} ")
        left = found.items.pop()
        values = (*left.values, *item.values)
        if side == "using.full":
            # The merged columns have a name of their own, which no other item may have.
            values += tuple(Value(n, v.kind) for v in item.values if (n := _name(v)) in names)
            found.closed = True
            if set(names) & {_name(value) for value in found.values}:
                values = (*left.values, *item.values)
        text = f"({left.text} {word}JOIN {item.text} USING ({', '.join(names)}))"
        found.items.append(Item(text, values))

    def condition(
        self, left: Sequence[Value], right: Sequence[Value], forms: dict[str, int]
    ) -> str:
        """Draw a condition between two inputs; empty where no columns can be compared."""
        pairs = [
            (one, other)
            for one in left
            for other in right
            if one.kind in SORTABLE and comparable(one.kind, other.kind)
        ]
        if not pairs:
            return ""
        numbers = [pair for pair in pairs if pair[0].kind == "int"]
        one, other = self._draw.pick(numbers if numbers and self._draw.chance(60) else pairs)
        third, fourth = self._draw.pick(pairs)
        equal = f"({one.sql} = {other.sql})"
        range_ = f"({third.sql} {self._draw.pick(('<', '<=', '>', '>='))} {fourth.sql})"
        match self._draw.choose(forms):
            case "on.equal":
                return equal
            case "on.two":
                return f"({equal} AND ({third.sql} = {fourth.sql}))"
            case "on.expression":
                left_side = self._grammar.expressions.around(
                    one, Scope(tuple(left), joining=True)
                ).sql
                return f"({left_side} = {other.sql})"
            case "on.range":
                return range_
            case "on.unequal":
                return f"({one.sql} <> {other.sql})"
            case "on.mixed":
                return f"({equal} AND {range_})"
            case "on.one_side":
                side = Scope(tuple(self._draw.pick((left, right))), joining=True)
                return f"({equal} AND {self._grammar.expressions.condition(side)})"
            case "on.both_sides":
                both = Scope((*left, *right), joining=True)
                return f"({equal} AND {self._grammar.expressions.condition(both)})"
            case "on.or":
                return f"({equal} OR {range_})"
            case _:
                return f"(NOT ({one.sql} IS DISTINCT FROM {other.sql}))"

    # LATERAL

    def _attach_lateral(self, found: From, depth: int, outer: tuple[Value, ...]) -> None:
        ints = [value for value in found.values if value.kind == "int"]
        last = found.items[-1]
        match self._draw.choose(
            {
                "lateral.subquery": 3,
                "lateral.left": 3 if not last.lateral else 0,
                "lateral.series": 2 if ints else 0,
                "lateral.unnest": 2 if ints else 0,
            }
        ):
            case "lateral.series":
                series = f"generate_series(1, {self._draw.pick(ints).sql})"
                found.items.append(self._function(series))
            case "lateral.unnest":
                listed = ", ".join(self._draw.pick(ints).sql for _ in range(2))
                found.items.append(self._function(f"unnest(ARRAY[{listed}])"))
            case "lateral.subquery":
                shown = self._grammar.subqueries.lateral(depth - 1, (*outer, *found.values))
                alias = self._draw.alias("l")
                found.items.append(Item(f"LATERAL ( {shown.sql}) {alias}", shown.under(alias)))
            case _:
                shown = self._grammar.subqueries.lateral(depth - 1, (*outer, *last.values))
                alias = self._draw.alias("l")
                text = f"({last.text} LEFT JOIN LATERAL ( {shown.sql}) {alias} ON (true))"
                found.items[-1] = Item(text, (*last.values, *shown.under(alias)))

    def _function(self, call: str) -> Item:
        alias = self._draw.alias("g")
        return Item(f"LATERAL {call} {alias}(g)", (Value(f"{alias}.g", "int"),))


_CASTS = {"int": "integer", "big": "bigint", "text": "text"}


def _name(value: Value) -> str:
    return value.sql.partition(".")[2]


def _shared(left: Sequence[Value], right: Sequence[Value]) -> list[str]:
    """Return the column names that USING can name: once on each side, of one kind."""
    sides = []
    for values in (left, right):
        names = Counter(map(_name, values))
        sides.append({_name(v): v.kind for v in values if _name(v) and names[_name(v)] == 1})
    return sorted(
        name for name, kind in sides[0].items() if sides[1].get(name) == kind and kind in SORTABLE
    )


def _same_table(item: Item, found: From) -> bool:
    relation = item.text.split()[0]
    return relation.startswith("public.") and f"{relation} " in found.text
