"""Play cases through the real pipeline: strict DIFFERENTIAL stream tables on PostgreSQL.

Neighbouring cases share tables and history, so they become stream tables side by side.  After each
window every one of them is compared, by PostgreSQL itself, with its query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

import psycopg

import pgtrickle
from pgtrickle.errors import (
    QueryRejectedError,
    UndefinedObjectError,
    UnsupportedExpressionError,
    UnsupportedQueryError,
)
from tests.fuzz.cases import Case
from tests.fuzz.generate import NEIGHBOURS, generate
from tests.fuzz.on_postgres import apply_change, create_source, find_differences
from tests.fuzz.play import Outcome, Played
from tests.fuzz.servers import open_engines, open_server, settings_for
from tests.fuzz.shrink import shrink
from tests.fuzz.tally import Tally
from tests.fuzz.work import keep
from tests.labs.lab import Lab
from tests.labs.own_aggregates import AGGREGATES

_MOST_SHRUNK = 5


@contextmanager
def open_lab(engine: str) -> Iterator[Lab]:
    """Start a server of our own (or use ``PGTRICKLE_TEST_DSN``) and pgtrickle beside it."""
    with (
        open_server() as dsn,
        open_engines(engine) as engine_for,
        pgtrickle.connect(
            dsn, engine=engine_for(dsn), settings=settings_for(engine), init=True
        ) as trickle,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
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
        create_source(lab, table, table.rows)
    played = {number: _create(lab, number, case) for number, case in enumerate(cases)}
    for place, window in enumerate(windows, 1):
        with lab.connection.transaction():
            for change in window:
                apply_change(lab, tables, change)
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
        create_source(lab, table, table.rows)
    played = {number: _create(lab, number, case, "IMMEDIATE") for number, case in enumerate(cases)}
    for place, change in enumerate((one for window in windows for one in window), 1):
        try:
            apply_change(lab, tables, change)
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
    try:
        found = find_differences(lab, f"made_{number}", case.query, case.tables)
    except psycopg.Error as error:
        return Played(Outcome.UNANSWERED, str(error).partition("\n")[0])
    return Played(Outcome.DIFFERS, f"{when}: {found}") if found else Played(Outcome.HELD)
