"""Joins of three inputs along equalities: every read of a delta can be bounded by keys.

Aggregates and unions take part as inputs too, so that bounds have to pass through them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.kinds import Shown, Value
from tests.fuzz.scope import Item

if TYPE_CHECKING:
    from tests.fuzz.grammar import Grammar


def chain(grammar: Grammar) -> Shown:
    """Draw a chain of equalities, at times counted."""
    draw = grammar.draw
    text, seen = "", list[Value]()
    for _ in range(3):
        item = _input(grammar)
        mine = [value for value in item.values if value.kind in {"int", "big"}]
        if seen:
            pairs = [(draw.pick(seen), draw.pick(mine)) for _ in range(draw.number(1, 1, 2))]
            equal = " AND ".join(f"({one.sql} = {other.sql})" for one, other in pairs)
            text = f"({text} JOIN {item.text} ON ({equal}))"
        else:
            text = item.text
        seen += mine
    shown = draw.some(seen, 1, 2)
    columns = [(f"c{number}", value.kind) for number, value in enumerate(shown, 1)]
    listed = ", ".join(f"{v.sql} AS {name}" for v, (name, _) in zip(shown, columns, strict=True))
    if draw.chance(50, "chain.counted"):
        keys = ", ".join(value.sql for value in shown)
        columns.append(("n", "big"))
        return Shown(f"SELECT {listed}, count(*) AS n FROM {text} GROUP BY {keys}", tuple(columns))
    return Shown(f"SELECT {listed} FROM {text}", tuple(columns))


def _input(grammar: Grammar) -> Item:
    draw = grammar.draw
    table = grammar.joins.table()
    ints = [value for value in table.values if value.kind in {"int", "big"}]
    key, other = draw.pick(ints), draw.pick(ints)
    alias = draw.alias("q")
    values = (Value(f"{alias}.c1", key.kind), Value(f"{alias}.c2", "int"))
    match draw.choose({"chain.table": 4, "chain.group": 1, "chain.union": 1}):
        case "chain.group":
            call = f"max({other.sql}) AS c2"
            sql = f"SELECT {key.sql} AS c1, {call} FROM {table.text} GROUP BY {key.sql}"
            return Item(f"( {sql}) {alias}", values)
        case "chain.union":
            second = grammar.joins.table()
            more = draw.pick([value for value in second.values if value.kind in {"int", "big"}])
            sql = (
                f"SELECT {key.sql} AS c1 FROM {table.text}"
                f" UNION ALL SELECT {more.sql} AS c1 FROM {second.text}"
            )
            return Item(f"( {sql}) {alias}", values[:1])
        case _:
            return table
