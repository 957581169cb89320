"""Play cases through the real pipeline: strict DIFFERENTIAL stream tables on PostgreSQL.

Neighbouring cases share tables and history, so they become stream tables side by side.  After each
window every one of them is compared, by PostgreSQL itself, with its query.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby

import psycopg
from sqlglot import exp, parse_one

import pgtrickle
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import (
    QueryRejectedError,
    UndefinedObjectError,
    UnsupportedExpressionError,
    UnsupportedQueryError,
)
from pgtrickle.settings import POSTGRES, SPARK, load_settings
from tests.fakes.engine import DuckDbEngine, NoEngine
from tests.fixtures.engines import Borrowed
from tests.fixtures.postgres import enterable_directory
from tests.fuzz.cases import Case, Change, Table
from tests.fuzz.generate import NEIGHBOURS, generate
from tests.fuzz.kinds import TYPES
from tests.fuzz.play import Outcome, Played
from tests.fuzz.shrink import shrink
from tests.fuzz.tally import Tally
from tests.fuzz.work import keep
from tests.labs.lab import Lab, Row
from tests.labs.own_aggregates import AGGREGATES

_MOST_SHRUNK = 5


@contextmanager
def open_lab(engine: str) -> Iterator[Lab]:
    """Start a server of our own (or use ``PGTRICKLE_TEST_DSN``) and pgtrickle beside it."""
    with ExitStack() as stack:
        dsn = os.environ.get("PGTRICKLE_TEST_DSN")
        if dsn is None:
            directory = stack.enter_context(enterable_directory())
            dsn = stack.enter_context(start_embedded(directory / "home")).dsn
        settings = load_settings(engine=POSTGRES if engine == POSTGRES else SPARK)
        if engine == POSTGRES:
            borrowed = Borrowed(NoEngine())
        elif engine == "duckdb":
            borrowed = Borrowed(DuckDbEngine())
        else:
            from pgtrickle.spark.engine import SparkEngine
            from pgtrickle.spark.sessions.pair import SparkSessions

            sessions = SparkSessions(driver_memory="1g")
            stack.callback(sessions.stop)
            borrowed = Borrowed(SparkEngine(dsn, sessions))
        trickle = stack.enter_context(
            pgtrickle.connect(dsn, engine=borrowed, settings=settings, init=True)
        )
        connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        yield Lab(trickle, connection)


def play_on_postgres(
    seed: int,
    numbers: range,
    engine: str,
    off: Collection[str] = (),
    progress: Callable[[Tally], object] = lambda _: None,
    *,
    immediate: bool = False,
) -> Tally:
    """Play cases of a seed; shrink and keep the first failures."""
    play_cases = play_immediate if immediate else play_together
    total = Tally()
    with open_lab(engine) as lab:
        for _, group in groupby(numbers, lambda number: number // NEIGHBOURS):
            found = list(group)
            cases = [generate(seed, number, off) for number in found]
            for number, case, played in zip(found, cases, play_cases(lab, cases), strict=True):
                total.add(case, played)
                if played.outcome.failure:
                    path = None
                    if len(total.failures) < _MOST_SHRUNK:
                        small = shrink(case, lambda one: play_cases(lab, [one])[0], 120)
                        path = keep(small, f"postgres-{seed}-{number}")
                    total.failures.append((number, played, path))
            progress(total)
    return total


def play_together(lab: Lab, cases: Sequence[Case]) -> list[Played]:
    """Play cases that share tables and history; return what came of each."""
    lab.reset()
    lab.run(*AGGREGATES)
    tables, windows = cases[0].tables, cases[0].windows
    for table in tables:
        _create_source(lab, table)
    played = {number: _create(lab, number, case) for number, case in enumerate(cases)}
    for place, window in enumerate(windows, 1):
        with lab.connection.transaction():
            for change in window:
                _apply(lab, tables, change)
        for number, case in enumerate(cases):
            if played[number].outcome is Outcome.HELD:
                played[number] = _refresh(lab, number, case, f"window {place}")
    return list(played.values())


def play_immediate(lab: Lab, cases: Sequence[Case]) -> list[Played]:
    """Play the same with writers who maintain the stream tables; compare after each statement."""
    lab.reset()
    lab.run(*AGGREGATES)
    tables, windows = cases[0].tables, cases[0].windows
    for table in tables:
        _create_source(lab, table)
    played = {number: _create(lab, number, case, "IMMEDIATE") for number, case in enumerate(cases)}
    for place, change in enumerate((one for window in windows for one in window), 1):
        try:
            _apply(lab, tables, change)
        except psycopg.Error as error:
            blamed = [number for number, one in played.items() if one.outcome is Outcome.HELD]
            for number in blamed:
                played[number] = Played(Outcome.CRASHED, f"statement {place}: {error}")
            break
        for number, case in enumerate(cases):
            if played[number].outcome is Outcome.HELD:
                played[number] = _compare(lab, number, case, f"statement {place}")
    return list(played.values())


def _create(lab: Lab, number: int, case: Case, mode: str = "DIFFERENTIAL") -> Played:
    query = case.query
    try:
        lab.trickle.create_stream_table(f"made_{number}", query, refresh_mode=mode)
    except (UnsupportedQueryError, UnsupportedExpressionError) as refusal:
        return Played(Outcome.REFUSED, str(refusal).partition("\n")[0])
    except (QueryRejectedError, UndefinedObjectError) as error:
        return Played(Outcome.UNANSWERED, str(error).partition("\n")[0])
    except Exception as error:  # noqa: BLE001 - any other error is a finding
        return Played(Outcome.CRASHED, f"{type(error).__name__}: {error}")
    return _compare(lab, number, case, "the first load")


def _refresh(lab: Lab, number: int, case: Case, when: str) -> Played:
    try:
        report = lab.trickle.refresh_stream_table(f"made_{number}")
    except Exception as error:  # noqa: BLE001 - any error is a finding
        return Played(Outcome.CRASHED, f"{type(error).__name__}: {error}")
    if report.action.value not in {"DIFFERENTIAL", "NO_DATA"}:
        return Played(Outcome.CRASHED, f"{when}: {report.action.value}, {report.reason}")
    return _compare(lab, number, case, when)


def _compare(lab: Lab, number: int, case: Case, when: str) -> Played:
    """Compare the stream table with its query; inexact columns by their first digits.

    Numerics are compared as text too, unless PostgreSQL's own answer depends on the order of rows.
    """
    query, made = case.query, f"made_{number}"
    types = lab.rows(
        "SELECT attnum, attname, atttypid::regtype::text FROM pg_attribute"
        f" WHERE attrelid = 'public.{made}'::regclass AND attnum > 0"
    )
    listed = ", ".join(
        f"round({name}::numeric, 9)" if type_ == "double precision" else name
        for _, name, type_ in types
    )
    printed = ", ".join(f"{name}::text" for _, name, type_ in types if type_ == "numeric")
    try:
        found = _differences(
            lab, f"SELECT {listed} FROM ({query}) AS q", f"SELECT {listed} FROM {made}"
        )
        if not found and printed:
            answer = f"SELECT {printed} FROM ({query}) AS q"
            found = _differences(lab, answer, f"SELECT {printed} FROM {made}")
            if found and _depends_on_order(lab, case, answer):
                found = []
    except psycopg.Error as error:
        return Played(Outcome.UNANSWERED, str(error).partition("\n")[0])
    return Played(Outcome.DIFFERS, f"{when}: {found}") if found else Played(Outcome.HELD)


def _differences(lab: Lab, answer: str, stored: str) -> list[Row]:
    return lab.rows(
        f"SELECT 'missing', d.* FROM ({answer} EXCEPT ALL {stored}) AS d UNION ALL"
        f" SELECT 'extra', d.* FROM ({stored} EXCEPT ALL {answer}) AS d"
    )


def _depends_on_order(lab: Lab, case: Case, answer: str) -> bool:
    """Tell whether the answer shows other digits if the rows come in another order.

    Where a group holds both 1.0 and 1.00, PostgreSQL shows the first one that it meets: of rows
    that are stored in another order, and of the branches of a UNION.
    """
    found = []
    for order, query in (("ASC", answer), ("DESC", _turned(answer))):
        for table in case.history().tables:
            rows = f"SELECT r.* FROM public.{table.name} AS r ORDER BY r::text {order}"
            lab.run(f"CREATE TEMPORARY TABLE {table.name} AS {rows}")
        names = "|".join(table.name for table in case.history().tables)
        found.append(Counter(lab.rows(re.sub(rf"\bpublic\.({names})\b", r"pg_temp.\1", query))))
        lab.run(*(f"DROP TABLE pg_temp.{table.name}" for table in case.history().tables))
    return found[0] != found[1]


def _turned(query: str) -> str:
    """Swap the branches of each UNION and INTERSECT, which does not change the rows."""
    tree = parse_one(query, dialect="postgres")
    for both in tree.find_all(exp.Union, exp.Intersect):
        left, right = both.this, both.expression
        both.set("this", right)
        both.set("expression", left)
    return tree.sql(dialect="postgres")


# Sources


def _create_source(lab: Lab, table: Table) -> None:
    columns = ", ".join(f"{name} {TYPES[kind].display}" for name, kind in table.columns)
    key = f", PRIMARY KEY ({table.columns[0][0]})" if table.keyed else ""
    lab.run(f"CREATE TABLE public.{table.name} ({columns}{key})")
    for row in table.rows:
        _apply(lab, [table], Change(table.name, None, row))


def _apply(lab: Lab, tables: Sequence[Table], change: Change) -> None:
    """Carry a change out as one statement on one row."""
    [table] = [table for table in tables if table.name == change.table]
    name = f"public.{table.name}"
    columns = [column for column, _ in table.columns]
    casts = [f"%s::{TYPES[kind].display}" for _, kind in table.columns]
    same = " AND ".join(
        f"{column} IS NOT DISTINCT FROM {cast}" for column, cast in zip(columns, casts, strict=True)
    )
    one = f"ctid = (SELECT ctid FROM {name} WHERE {same} LIMIT 1)"
    if change.old is None and change.new is not None:
        statement, values = f"INSERT INTO {name} VALUES ({', '.join(casts)})", change.new
    elif change.old is not None and change.new is None:
        statement, values = f"DELETE FROM {name} WHERE {one}", change.old
    else:
        assert change.old is not None
        assert change.new is not None
        assigned = ", ".join(f"{c} = {cast}" for c, cast in zip(columns, casts, strict=True))
        statement = f"UPDATE {name} SET {assigned} WHERE {one}"
        values = (*change.new, *change.old)
    done = lab.connection.execute(statement.encode(), values)
    assert done.rowcount == 1, f"{change} found no row"
