"""Case number n of a seed: always the same, and drawable alone.

Neighbours share tables and history: the real pipeline then makes the tables once and keeps one
stream table for each of their queries.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from tests.fuzz.cases import Case, Table
from tests.fuzz.data import draw_tables, draw_windows
from tests.fuzz.draw import Draw, Exhausted
from tests.fuzz.grammar import Grammar
from tests.fuzz.kinds import Shown

NEIGHBOURS = 8
# What DuckDB answers otherwise than PostgreSQL, or not at all.
# A row that cannot be equal to another is unknown to DuckDB where one of its values is NULL.
POSTGRES_ONLY = (
    "top.ties", "aggregate.mode", "aggregate.own", "aggregate.open", "subquery.rows", "window.own",
    "expression.quotient", "json", "time",
)  # fmt: skip
_NEW_IN = {"json": 170000}
# A dependent subquery over grouping sets lacks the row of the empty set where it reads no row.
_NOT_TOGETHER = frozenset({"select.sets", "subquery.correlated"})


def unknown_to(server: int) -> tuple[str, ...]:
    """Return the features that a server of that version does not know."""
    return tuple(feature for feature, version in _NEW_IN.items() if server < version)


def generate(seed: int, number: int, off: Collection[str] = POSTGRES_ONLY) -> Case:
    """Draw one case without the features that are switched off."""
    shared = random.Random(f"{seed}:data:{number // NEIGHBOURS}")
    tables = draw_tables(shared)
    windows = draw_windows(shared, tables)
    shown, features = draw_query(f"{seed}:query:{number}", tables, off)
    return Case(
        tables,
        shown.sql,
        shown.names,
        windows,
        features,
        f"case {number} of seed {seed}",
    )


def draw_query(
    name: str, tables: tuple[Table, ...], off: Collection[str], wanted: Sequence[str] | None = None
) -> tuple[Shown, tuple[str, ...]]:
    """Draw until a query gets by without what is switched off, and return it with its features.

    ``wanted`` are the kinds that its columns must have, in order.
    """
    source = random.Random(name)
    on_duckdb = set(off).issuperset(POSTGRES_ONLY)
    while True:
        draw = Draw(source, tables, off)
        try:
            grammar = Grammar(draw)
            shown = grammar.whole() if wanted is None else grammar.query(2, wanted)
        except Exhausted:
            continue
        if not (on_duckdb and draw.features >= _NOT_TOGETHER):
            return shown, tuple(sorted(draw.features))
