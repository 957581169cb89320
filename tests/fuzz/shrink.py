"""Shrink a failing case: fewer windows, changes, rows, tables, and a smaller query."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from sqlglot.errors import SqlglotError

from tests.fuzz.cases import Case, Change, Table
from tests.fuzz.play import Played
from tests.fuzz.reduce_query import reductions

T = TypeVar("T")
Judge = Callable[[Case], Played]


def shrink(case: Case, judge: Judge, seconds: float = 60) -> Case:
    """Return the smallest case found that fails in the same manner as ``case``."""
    failure = _manner(judge(case))
    deadline = time.monotonic() + seconds
    smaller: Case | None = case
    while smaller is not None:
        case = smaller
        smaller = next(
            (
                one
                for one in _take_while_time(_candidates(case), deadline)
                if one.is_consistent() and _manner(judge(one)) == failure
            ),
            None,
        )
    return case


def _manner(played: Played) -> tuple[object, str]:
    """Differences are all alike; crashes are told apart by their message."""
    if not played.outcome.failure:
        return played.outcome, "no failure"
    message = "" if played.outcome.value == "differs" else played.reason
    return played.outcome, "".join(c for c in message.partition("\n")[0][:60] if c.isalpha())


def _take_while_time(cases: Iterable[Case], deadline: float) -> Iterator[Case]:
    for case in cases:
        if time.monotonic() > deadline:
            return
        yield case


def _candidates(case: Case) -> Iterator[Case]:
    for place in range(len(case.windows)):
        yield _with_windows(case, _without(case.windows, place))
    yield from _queries(case)
    for table in case.tables:
        if table.rows:
            yield _with_rows(case, table, ())
            for place in range(len(table.rows)):
                yield _with_rows(case, table, _without(table.rows, place))
    for place, window in enumerate(case.windows):
        for number in range(len(window)):
            windows = [*case.windows]
            windows[place] = _without(window, number)
            yield _with_windows(case, tuple(windows))
    yield from _tables(case)


def _queries(case: Case) -> Iterator[Case]:
    try:
        for query, names in reductions(case.query):
            yield replace(case, query=query, names=names)
    except SqlglotError:
        return


def _tables(case: Case) -> Iterator[Case]:
    for place, table in enumerate(case.tables):
        if f"public.{table.name} " not in f"{case.query} ":
            windows = tuple(
                tuple(change for change in window if change.table != table.name)
                for window in case.windows
            )
            yield replace(case, tables=_without(case.tables, place), windows=windows)


def _with_windows(case: Case, windows: tuple[tuple[Change, ...], ...]) -> Case:
    return _repaired(replace(case, windows=windows))


def _with_rows(case: Case, table: Table, rows: tuple[tuple[object, ...], ...]) -> Case:
    tables = tuple(replace(t, rows=rows) if t is table else t for t in case.tables)
    return _repaired(replace(case, tables=tables))


def _repaired(case: Case) -> Case:
    """Let changes of rows that are gone do without them."""
    bags = {table.name: Counter(table.rows) for table in case.tables}
    windows = []
    for window in case.windows:
        kept = []
        for change in window:
            bag = bags[change.table]
            old = change.old if change.old is not None and bag[change.old] > 0 else None
            if old is None and change.new is None:
                continue
            if old is not None:
                bag[old] -= 1
            if change.new is not None:
                bag[change.new] += 1
            kept.append(Change(change.table, old, change.new))
        windows.append(tuple(kept))
    return replace(case, windows=tuple(windows))


def _without(items: tuple[T, ...], place: int) -> tuple[T, ...]:
    return (*items[:place], *items[place + 1 :])
