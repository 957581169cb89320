"""Maintains one query of TPC-H with Pathway, in a process and an environment of its own.

    python pathway_worker.py QUERY

Reads commands from standard input, a JSON value on each line, and answers each with one:
``{"changes": FILE}`` feeds the changes of a CSV file as one commit and answers ``{"ms": TIME}``
when the output holds them; ``{"answer": true}`` answers ``{"rows": [...]}``.

It imports nothing of ours, because Pathway need not be installed where pgtrickle is.  Numbers are
whole: cents, hundredths and days, which Pathway adds exactly.
"""

from __future__ import annotations

import csv
import importlib
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

pw: Any = importlib.import_module("pathway")

# A line of the CSV file: what to do, which table, its key, then these.
_NUMBERS = ("i0", "i1", "i2", "i3", "i4")
_TEXTS = ("s0", "s1")
_DELETE, _MARKER = "delete", "marker"


class _Watch:
    """Knows when the output holds a commit: when it has passed the time of the commit's marker."""

    def __init__(self) -> None:
        self.rows: dict[Any, tuple[Any, ...]] = {}
        self._changed = threading.Condition()
        self._marked: dict[int, int] = {}
        self._passed = -1

    def on_row(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG002, FBT001 - Pathway's signature
        """Keep the answer."""
        if is_addition:
            self.rows[key] = tuple(row.values())
        elif self.rows.get(key) == tuple(row.values()):
            del self.rows[key]

    def on_time(self, time: int) -> None:
        """Note that the answer is complete up to a time."""
        with self._changed:
            self._passed = max(self._passed, time)
            self._changed.notify_all()

    def on_marker(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG002, FBT001 - Pathway's signature
        """Note at which time a commit entered."""
        if is_addition:
            with self._changed:
                self._marked[row["i0"]] = time
                self._changed.notify_all()

    def wait_for(self, number: int) -> None:
        """Wait until the answer holds a commit."""
        with self._changed:
            self._changed.wait_for(
                lambda: number in self._marked and self._passed >= self._marked[number]
            )


def main() -> None:
    """Build the query, then follow the commands."""
    query = sys.argv[1]
    watch = _Watch()
    names = ("kind", "key", *_NUMBERS, *_TEXTS)
    types = {name: int if name in _NUMBERS else str for name in names}
    columns = {
        name: pw.column_definition(primary_key=name in ("kind", "key"), dtype=types[name])
        for name in names
    }

    class Subject(pw.io.python.ConnectorSubject):  # type: ignore[misc]
        def run(self) -> None:
            for number, line in enumerate(sys.stdin):
                command = json.loads(line)
                if "answer" in command:
                    print(json.dumps({"rows": sorted(watch.rows.values())}), flush=True)
                    continue
                with Path(command["changes"]).open(newline="") as file:
                    changes = [_change(record) for record in csv.reader(file)]
                began = time.perf_counter()
                for deletes, row in changes:
                    (self.delete if deletes else self.next)(**row)
                self.next(**_marker(number))
                self.commit()
                watch.wait_for(number)
                print(json.dumps({"ms": (time.perf_counter() - began) * 1000}), flush=True)

    changes = pw.io.python.read(
        Subject(session_type="upsert"),
        schema=pw.schema_builder(columns),
        autocommit_duration_ms=None,
    )
    pw.io.subscribe(_QUERIES[query](changes), on_change=watch.on_row, on_time_end=watch.on_time)
    pw.io.subscribe(changes.filter(pw.this.kind == _MARKER), on_change=watch.on_marker)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, default_logging=False)


def _change(record: list[str]) -> tuple[bool, dict[str, Any]]:
    does, kind, key, *values = record
    numbers, texts = values[: len(_NUMBERS)], values[len(_NUMBERS) :]
    row: dict[str, Any] = {"kind": kind, "key": key}
    row |= {name: int(value) for name, value in zip(_NUMBERS, numbers, strict=True)}
    row |= dict(zip(_TEXTS, texts, strict=True))
    return does == _DELETE, row


def _marker(number: int) -> dict[str, Any]:
    empty: dict[str, Any] = {**dict.fromkeys(_NUMBERS, 0), **dict.fromkeys(_TEXTS, "")}
    return empty | {"kind": _MARKER, "key": "", "i0": number}


def _q01(changes: Any) -> Any:
    lines = changes.filter((pw.this.kind == "lineitem") & (pw.this.i4 <= _DAY_1998_09_02))
    lines = lines.select(
        flag=pw.this.s0,
        status=pw.this.s1,
        quantity=pw.this.i0,
        price=pw.this.i1,
        discount=pw.this.i2,
        net=pw.this.i1 * (100 - pw.this.i2),
        gross=pw.this.i1 * (100 - pw.this.i2) * (100 + pw.this.i3),
    )
    return lines.groupby(pw.this.flag, pw.this.status).reduce(
        pw.this.flag,
        pw.this.status,
        quantity=pw.reducers.sum(pw.this.quantity),
        price=pw.reducers.sum(pw.this.price),
        net=pw.reducers.sum(pw.this.net),
        gross=pw.reducers.sum(pw.this.gross),
        discount=pw.reducers.sum(pw.this.discount),
        lines=pw.reducers.count(),
    )


def _q03(changes: Any) -> Any:
    customers = changes.filter((pw.this.kind == "customer") & (pw.this.s0 == "BUILDING")).select(
        customer=pw.this.i0
    )
    orders = changes.filter((pw.this.kind == "orders") & (pw.this.i2 < _DAY_1995_03_15)).select(
        order=pw.this.i0, customer=pw.this.i1, date=pw.this.i2, priority=pw.this.i3
    )
    lines = changes.filter((pw.this.kind == "lineitem") & (pw.this.i3 > _DAY_1995_03_15)).select(
        order=pw.this.i0, net=pw.this.i1 * (100 - pw.this.i2)
    )
    theirs = orders.join(customers, pw.left.customer == pw.right.customer).select(
        pw.left.order, pw.left.date, pw.left.priority
    )
    joined = lines.join(theirs, pw.left.order == pw.right.order).select(
        pw.left.order, pw.left.net, pw.right.date, pw.right.priority
    )
    return joined.groupby(pw.this.order, pw.this.date, pw.this.priority).reduce(
        pw.this.order, pw.this.date, pw.this.priority, net=pw.reducers.sum(pw.this.net)
    )


def _q06(changes: Any) -> Any:
    lines = changes.filter(
        (pw.this.kind == "lineitem")
        & (pw.this.i3 >= _DAY_1994_01_01)
        & (pw.this.i3 < _DAY_1995_01_01)
        & (pw.this.i2 >= 5)
        & (pw.this.i2 <= 7)
        & (pw.this.i0 < 2400)
    )
    return lines.reduce(revenue=pw.reducers.sum(pw.this.i1 * pw.this.i2))


_QUERIES = {"q01": _q01, "q03": _q03, "q06": _q06}
# Days since 2000-01-01, as PostgreSQL subtracts dates.
_DAY_1994_01_01 = -2191
_DAY_1995_01_01 = -1826
_DAY_1995_03_15 = -1753
_DAY_1998_09_02 = -486

if __name__ == "__main__":
    main()
