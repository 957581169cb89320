"""Random tables with rows, and random histories of them.

Tables are tiny, with NULLs and duplicates, and share column names, so that natural joins and USING
have something to join by.  Every statement leaves keys unique, as PostgreSQL would demand.
"""

from __future__ import annotations

import random

from tests.fuzz.cases import Change, Row, Table
from tests.fuzz.kinds import DOMAINS

NAMES = ("t", "u", "v", "w")
COLUMNS = (
    ("a", "int"), ("b", "int"), ("c", "text"), ("d", "big"), ("n", "num"), ("m", "free"),
    ("f", "float"), ("p", "bool"), ("e", "date"),
)  # fmt: skip
_KEYS = range(1, 9)


def draw_tables(source: random.Random) -> tuple[Table, ...]:
    """Draw two to four tables with their first rows."""
    return tuple(_draw_table(source, name) for name in NAMES[: source.choice((2, 3, 3, 4))])


def _draw_table(source: random.Random, name: str) -> Table:
    keyed = source.random() < 0.35
    ints = source.sample(COLUMNS[:2], source.choice((1, 2, 2)))
    others = source.sample(COLUMNS[2:], source.choice((1, 2, 2)))
    columns = tuple(c for c in COLUMNS if c in ints or c in others)
    columns = (("id", "int"), *columns) if keyed else columns
    table = Table(name, columns, (), keyed)
    rows: list[Row] = []
    for _ in range(source.choice((0, 2, 3, 4, 4, 5, 5, 6))):
        rows += [row] if (row := _new_row(source, table, rows)) else []
    return Table(name, columns, tuple(rows), keyed)


def draw_windows(
    source: random.Random, tables: tuple[Table, ...]
) -> tuple[tuple[Change, ...], ...]:
    """Draw the changes of some windows; now and then one of them is empty."""
    bags = {table.name: list(table.rows) for table in tables}
    return tuple(draw_window(source, tables, bags) for _ in range(source.choice((2, 2, 2, 3, 4))))


def draw_window(
    source: random.Random, tables: tuple[Table, ...], bags: dict[str, list[Row]]
) -> tuple[Change, ...]:
    """Draw the changes of one window, and carry them out on ``bags``."""
    form = source.random()
    if form < 0.08:
        return ()
    if form < 0.18:
        return tuple(_delete_together(source, tables, bags))
    chosen = [source.choice(tables)] if form < 0.5 else source.sample(tables, 2)
    chosen = list(tables) if form > 0.85 else chosen
    changes: list[Change] = []
    for table in chosen:
        for _ in range(source.choice((1, 1, 2, 3))):
            changes += _draw_changes(source, table, bags[table.name])
    source.shuffle(chosen)
    return tuple(changes)


def _draw_changes(source: random.Random, table: Table, bag: list[Row]) -> list[Change]:
    """Draw one statement's worth of changes and carry them out on ``bag``."""
    action = source.choice(("insert",) * 3 + ("update",) * 4 + ("delete",) * 3 + _RARE)
    if not bag and action not in {"insert", "there and back"}:
        action = "insert"
    if action == "insert" and len(bag) > 7:
        action = "delete"
    old = source.choice(bag) if bag else ()
    steps: list[tuple[Row | None, Row | None]]
    match action:
        case "insert":
            steps = [(None, _new_row(source, table, bag))]
        case "duplicate":
            steps = [(None, None if table.keyed else old)]
        case "update":
            steps = [(old, _updated(source, table, bag, old))]
        case "rewrite":
            steps = [(old, old)]
        case "there and back":
            new = _new_row(source, table, bag)
            steps = [(None, new), (new, None)]
        case "delete all":
            steps = [(row, None) for row in bag]
        case _:
            steps = [(old, None)]
    return [change for step in steps for change in _carry_out(table, bag, *step)]


_RARE = ("duplicate", "rewrite", "there and back", "delete all")


def _carry_out(table: Table, bag: list[Row], old: Row | None, new: Row | None) -> list[Change]:
    if old is None and new is None:
        return []
    if old is not None:
        bag.remove(old)
    if new is not None:
        bag.append(new)
    return [Change(table.name, old, new)]


def _delete_together(
    source: random.Random, tables: tuple[Table, ...], bags: dict[str, list[Row]]
) -> list[Change]:
    """Delete, in every table, the rows that hold one number: partners of a join go at once."""
    number = source.choice((0, 1, 2, 3))
    changes = []
    for table in tables:
        ints = [place for place, (_, kind) in enumerate(table.columns) if kind in {"int", "big"}]
        for row in list(bags[table.name]):
            if any(row[place] == number for place in ints):
                changes += _carry_out(table, bags[table.name], row, None)
    return changes


def _new_row(source: random.Random, table: Table, bag: list[Row]) -> Row | None:
    row = tuple(source.choice(DOMAINS[kind]) for _, kind in table.columns)
    if not table.keyed:
        return row
    free = [key for key in _KEYS if key not in {one[0] for one in bag}]
    return (source.choice(free), *row[1:]) if free else None


def _updated(source: random.Random, table: Table, bag: list[Row], old: Row) -> Row:
    """Draw what a row becomes: other values in some columns, at times in the key."""
    new = _new_row(source, table, bag)
    if new is None:
        return old
    changed = source.random()
    if changed < 0.2:
        return new
    place = source.randrange(len(old))
    return (*old[:place], new[place], *old[place + 1 :])
