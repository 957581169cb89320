"""Case number n of a seed: always the same, and drawable alone.

Neighbours share tables and history: the real pipeline then makes the tables once and keeps one
stream table for each of their queries.
"""

from __future__ import annotations

import random
from collections.abc import Collection

from tests.fuzz.cases import Case
from tests.fuzz.data import draw_tables, draw_windows
from tests.fuzz.draw import Draw
from tests.fuzz.grammar import Grammar

NEIGHBOURS = 8
# What DuckDB answers otherwise than PostgreSQL, or not at all.
POSTGRES_ONLY = ("top.ties", "aggregate.mode")


def generate(seed: int, number: int, off: Collection[str] = POSTGRES_ONLY) -> Case:
    """Draw one case without the features that are switched off."""
    shared = random.Random(f"{seed}:data:{number // NEIGHBOURS}")
    tables = draw_tables(shared)
    windows = draw_windows(shared, tables)
    draw = Draw(random.Random(f"{seed}:query:{number}"), tables, off)
    shown = Grammar(draw).whole()
    return Case(
        tables,
        shown.sql,
        shown.names,
        windows,
        tuple(sorted(draw.features)),
        f"case {number} of seed {seed}",
    )
