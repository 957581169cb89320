"""Window functions: every answer is unique, because ties are broken by all that is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.fuzz.kinds import CONSTANTS, NUMBERS, Value

if TYPE_CHECKING:
    from tests.fuzz.grammar import Grammar

_SUMS = {"int": "big", "big": "num", "num": "num", "free": "free", "float": "float"}
_ROWS = (
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
)
_RANGES = (
    "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
)
_GROUPS = (
    "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING EXCLUDE CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW",
)


class Windows:
    """Draws window calls over the values that one SELECT has in play."""

    def __init__(self, grammar: Grammar) -> None:
        self._draw = grammar.draw
        self.named: dict[str, str] = {}  # windows of the SELECT that is being drawn ...
        self._partition: Sequence[Value] = ()  # ... what they can be partitioned by ...
        self._order = ""  # ... and the partition and total order that they share

    def calls(self, play: Sequence[Value]) -> list[Value]:
        """Draw one to three window calls; ``play`` is everything the SELECT shows besides."""
        number = self._draw.number(1, 1, 2, 3)
        if number > 1:
            self._draw.features.add("window.several")
        return [self._around(self._call(play)) for _ in range(number)]

    def clause(self) -> str:
        """Return the WINDOW clause of the named windows drawn since the last one."""
        listed = ", ".join(f"{name} AS {text}" for name, text in self.named.items())
        self.named = {}
        return f" WINDOW {listed}" if listed else ""

    def _around(self, call: Value) -> Value:
        if call.kind in NUMBERS and self._draw.chance(15, "window.expression"):
            return Value(f"COALESCE({call.sql}, {CONSTANTS[call.kind][0]})", call.kind)
        return call

    def _call(self, play: Sequence[Value]) -> Value:
        numbers = [value for value in play if value.kind in NUMBERS]
        ints = [value for value in play if value.kind in {"int", "big"}]
        feature = self._draw.choose(
            {
                "window.row_number": 3,
                "window.rank": 3,
                "window.share": 1,
                "window.ntile": 1,
                "window.lag": 3,
                "window.nth": 2,
                "window.whole": 3,
                "window.running": 3,
                "window.rows": 2,
                "window.range": 1 if ints else 0,
                "window.groups": 1,
            }
        )
        pick = self._draw.pick
        value = pick(play)
        match feature:
            case "window.row_number":
                return Value(f"row_number() OVER {self._total(play)}", "big")
            case "window.rank":
                over = self._over([value])
                return Value(f"{pick(('rank', 'dense_rank'))}() OVER {over}", "big")
            case "window.share":
                over = self._over([value])
                return Value(f"{pick(('percent_rank', 'cume_dist'))}() OVER {over}", "real")
            case "window.ntile":
                return Value(f"ntile(2) OVER {self._total(play)}", "int")
            case "window.lag":
                constant = pick(CONSTANTS[value.kind])
                more = pick(("", "", ", 2", f", 1, {constant}" if value.kind != "num" else ", 1"))
                function = pick(("lag", "lead"))
                return Value(f"{function}({value.sql}{more}) OVER {self._total(play)}", value.kind)
            case "window.nth":
                function = pick(("first_value({})", "last_value({})", "nth_value({}, 2)"))
                over = self._total(play, pick(("", *_ROWS)))
                return Value(f"{function.format(value.sql)} OVER {over}", value.kind)
            case _:
                return self._aggregate(numbers, value, self._frame(feature, play, ints))

    def _frame(self, feature: str, play: Sequence[Value], ints: Sequence[Value]) -> str:
        pick = self._draw.pick
        match feature:
            case "window.running":
                return self._over([pick(play)])
            case "window.rows":
                return self._total(play, pick(_ROWS))
            case "window.range":
                return self._over([pick(ints)], pick(_RANGES), single=True)
            case "window.groups":
                return self._total(play, pick(_GROUPS))
            case _:
                return self._over(())

    def _aggregate(self, numbers: Sequence[Value], value: Value, over: str) -> Value:
        pick = self._draw.pick
        own = self._draw.on("window.own") and self._draw.chance(15, "window.own")
        if own and (exact := [one for one in numbers if one.kind != "float"]):
            return Value(f"public.own_total(({pick(exact).sql})::numeric) OVER {over}", "free")
        function = pick(("count(*)", "count", "min", "max") + ("sum", "sum", "avg") * bool(numbers))
        if function == "count(*)":
            return Value(f"count(*) OVER {over}", "big")
        if function in {"sum", "avg"}:
            value = pick(numbers)
        if value.kind == "bool":
            function = "count"
        kind = {"count": "big", "avg": "real", "sum": _SUMS.get(value.kind, "")}.get(
            function, value.kind
        )
        return Value(f"{function}({value.sql}) OVER {over}", kind)

    def _total(self, play: Sequence[Value], frame: str = "") -> str:
        """Write a window whose order tells apart all that is shown.

        Equal rows may still be numbered either way.  That makes no difference to one window, but
        it would to two; so a SELECT has one such order, and frames of their own.
        """
        if not self._order:
            self._order = self._parts(play)
        return self._window([self._order, frame])

    def _over(self, order: Sequence[Value], frame: str = "", *, single: bool = False) -> str:
        """Write a window in which ties make no difference."""
        return self._window([self._parts(order, single=single), frame])

    def _parts(self, order: Sequence[Value], *, single: bool = False) -> str:
        parts = []
        if self._partition and self._draw.chance(75, "window.partition"):
            keys = self._draw.some(self._partition, 1, 2)
            parts.append(f"PARTITION BY {', '.join(key.sql for key in keys)}")
        if order:
            ordered = list(order)
            self._draw.random.shuffle(ordered)
            listed = [value.sql + self.direction(plain=single) for value in ordered]
            parts.append(f"ORDER BY {', '.join(listed)}")
        return " ".join(parts)

    def _window(self, parts: Sequence[str]) -> str:
        text = f"({' '.join(filter(None, parts))})"
        if self._draw.chance(15, "window.named"):
            name = self._draw.alias("w")
            self.named[name] = text
            return name
        return text

    def over(self, values: Sequence[Value]) -> None:
        """Start the windows of another SELECT, over these values."""
        self._partition = [value for value in values if value.sortable]
        self._order = ""

    def direction(self, *, plain: bool = False) -> str:
        """Draw the direction of one key of an order."""
        if plain:
            return self._draw.pick(("", " DESC"))
        return self._draw.pick(("", "", "", " DESC", " DESC NULLS LAST", " NULLS FIRST"))
