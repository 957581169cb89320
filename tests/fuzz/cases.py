"""A case: tables with rows, a query, and a history of windows; as a value and as a file.

A file is what a failure shrinks to and what a test replays for ever, so it is written to be read:
JSON with the query on lines of its own and each change on one line.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pgtrickle.model.sql_type import Column
from tests.delta import law, world
from tests.fuzz.kinds import TYPES

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A source: its columns by kind, and the rows it starts with."""

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    keyed: bool = False  # the first column is a primary key


@dataclass(frozen=True, slots=True)
class Change:
    """One row inserted (no ``old``), deleted (no ``new``) or updated."""

    table: str
    old: Row | None
    new: Row | None


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that one play of the law needs."""

    tables: tuple[Table, ...]
    query: str
    names: tuple[str, ...]  # of the query's columns
    windows: tuple[tuple[Change, ...], ...]
    features: tuple[str, ...] = ()
    about: str = ""  # why the case is kept

    def defining_query(self) -> law.DefiningQuery:
        """Return the query as the law takes it."""
        return law.DefiningQuery(self.query, self.names)

    def history(self) -> law.History:
        """Return tables and windows as the law takes them: weighted rows."""
        tables = tuple(
            world.Table(
                table.name,
                number,
                tuple(Column(name, TYPES[kind]) for name, kind in table.columns),
            )
            for number, table in enumerate(self.tables, 1)
        )
        initial = {table.name: table.rows for table in self.tables}
        return law.History(initial, tuple(map(_weighted, self.windows)), tables)

    def is_consistent(self) -> bool:
        """Tell whether every change finds the row it changes, and keys stay unique."""
        bags = {table.name: Counter(table.rows) for table in self.tables}
        keyed = {table.name for table in self.tables if table.keyed}
        for change in (change for window in self.windows for change in window):
            bag = bags.get(change.table)
            if bag is None:
                return False
            if change.old is not None:
                if not bag[change.old]:
                    return False
                bag[change.old] -= 1
            if change.new is not None:
                bag[change.new] += 1
            if change.table in keyed and _repeats(+bag):
                return False
        return not any(_repeats(Counter(t.rows)) for t in self.tables if t.keyed)

    def text(self) -> str:
        """Write the case as the text of a file."""
        tables = ",\n".join(
            f'    {json.dumps(t.name)}: {{"columns": {json.dumps(dict(t.columns))},'
            f' "keyed": {json.dumps(t.keyed)}, "rows": {_lines(t.rows)}}}'
            for t in self.tables
        )
        windows = ",\n".join(
            "    " + _lines([(c.table, c.old, c.new) for c in window]) for window in self.windows
        )
        query = ",\n".join(f"    {json.dumps(line)}" for line in self.query.splitlines())
        return (
            f'{{\n  "about": {json.dumps(self.about)},\n'
            f'  "features": {json.dumps(self.features)},\n'
            f'  "tables": {{\n{tables}\n  }},\n'
            f'  "query": [\n{query}\n  ],\n'
            f'  "names": {json.dumps(self.names)},\n'
            f'  "windows": [\n{windows}\n  ]\n}}\n'
        )


def read_case(path: Path) -> Case:
    """Read a case from its file."""
    found = json.loads(path.read_text())
    tables = tuple(
        Table(name, tuple(t["columns"].items()), _rows(t["rows"], t["columns"]), t["keyed"])
        for name, t in found["tables"].items()
    )
    columns = {table.name: dict(table.columns) for table in tables}
    windows = tuple(
        tuple(
            Change(table, *(_row(row, columns[table]) for row in (old, new)))
            for table, old, new in window
        )
        for window in found["windows"]
    )
    return Case(
        tables,
        "\n".join(found["query"]),
        tuple(found["names"]),
        windows,
        tuple(found["features"]),
        found["about"],
    )


_READERS: dict[str, Callable[[Any], object]] = {
    "num": Decimal,
    "free": Decimal,
    "date": dt.date.fromisoformat,
}


def _rows(rows: list[list[Any]], columns: dict[str, str]) -> tuple[Row, ...]:
    return tuple(row for row in (_row(row, columns) for row in rows) if row is not None)


def _row(row: list[Any] | None, columns: dict[str, str]) -> Row | None:
    if row is None:
        return None
    return tuple(
        value if value is None else _READERS.get(kind, lambda same: same)(value)
        for value, kind in zip(row, columns.values(), strict=True)
    )


def _lines(rows: Any) -> str:
    listed = [json.dumps(row, default=str) for row in rows]
    return "[" + ",".join(f"\n      {row}" for row in listed) + "]"


def _repeats(bag: Counter[Row]) -> bool:
    keys = [row[0] for row in bag.elements()]
    return None in keys or len(keys) != len(set(keys))


def _weighted(window: tuple[Change, ...]) -> dict[str, list[world.Weighted]]:
    changes: dict[str, list[world.Weighted]] = {}
    for change in window:
        weighted = changes.setdefault(change.table, [])
        weighted += [(change.old, -1)] if change.old is not None else []
        weighted += [(change.new, 1)] if change.new is not None else []
    return changes
