"""Play cases through the real pipeline: strict DIFFERENTIAL stream tables on PostgreSQL.

Neighbouring cases share tables and history, so they become stream tables side by side.  After each
window every one of them is compared, by PostgreSQL itself, with its query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby

import psycopg

import pgtrickle
from pgtrickle.errors import (
    QueryRejectedError,
    UndefinedObjectError,
    UnsupportedExpressionError,
    UnsupportedQueryError,
)
from tests.fuzz.cases import Case, Change, Table
from tests.fuzz.generate import NEIGHBOURS, generate, unknown_to
from tests.fuzz.on_postgres import apply_change, create_source, find_differences
from tests.fuzz.play import Outcome, Played
from tests.fuzz.servers import open_engines, open_server, settings_for
from tests.fuzz.shrink import shrink
from tests.fuzz.tally import Tally
from tests.fuzz.work import keep
from tests.labs.lab import Lab
from tests.labs.own_aggregates import AGGREGATES
from tests.labs.time_lab import TimeLab, at_time

_MOST_SHRUNK = 5
_BEGIN = datetime(2024, 2, 28, 6, tzinfo=UTC)
_STEP = timedelta(hours=21)  # to another day, and mostly to another side of noon


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
    writers: int = 1,
) -> Tally:
    """Play cases of a seed; shrink and keep the first failures."""
    play_cases = partial(play_immediate, writers=writers) if immediate else play_together
    # Writers maintain nothing that changes without them.
    off = (*off, "time") if immediate else tuple(off)
    total = Tally()
    with open_lab(engine) as lab:
        off += unknown_to(lab.connection.info.server_version)
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
    with _passing_time(lab) as clock:
        played = {number: _create(lab, number, case) for number, case in enumerate(cases)}
        for place, window in enumerate(windows, 1):
            with lab.connection.transaction():
                for change in window:
                    apply_change(lab, tables, change)
            clock.now += _STEP
            for number, case in enumerate(cases):
                if played[number].outcome is Outcome.HELD:
                    played[number] = _refresh(lab, number, case, f"window {place}")
    return list(played.values())


@contextmanager
def _passing_time(lab: Lab) -> Iterator[TimeLab]:
    """Let refreshes happen at simulated times, among the dates of the tables."""
    runtime = lab.trickle._runtime
    usual, made = runtime.clock, TimeLab(lab, _BEGIN)
    runtime.clock = lambda _: made.now
    try:
        yield made
    finally:
        runtime.clock = usual


def play_immediate(lab: Lab, cases: Sequence[Case], writers: int = 1) -> list[Played]:
    """Play the same with writers who maintain the stream tables.

    The tables are compared after each statement of one writer, or after the statements of a
    window, which several make at a time.
    """
    lab.reset()
    lab.run(*AGGREGATES)
    tables, windows = cases[0].tables, cases[0].windows
    for table in tables:
        create_source(lab, table, table.rows)
    played = {number: _create(lab, number, case, "IMMEDIATE") for number, case in enumerate(cases)}
    parts: Sequence[Sequence[Change]] = windows
    if writers == 1:
        parts = [[change] for window in windows for change in window]
    for place, part in enumerate(parts, 1):
        try:
            if writers == 1:
                apply_change(lab, tables, part[0])
            else:
                _write_at_a_time(lab, tables, part, writers)
        except psycopg.Error as error:
            blamed = [number for number, one in played.items() if one.outcome is Outcome.HELD]
            for number in blamed:
                played[number] = Played(Outcome.CRASHED, f"statement {place}: {error}")
            break
        for number, case in enumerate(cases):
            if played[number].outcome is Outcome.HELD:
                played[number] = _compare(lab, number, case, f"statement {place}")
    return list(played.values())


_LEVELS = ("read committed", "repeatable read", "serializable")


def _write_at_a_time(
    lab: Lab, tables: Sequence[Table], changes: Sequence[Change], writers: int
) -> None:
    """Share changes among writers, each at a level of its own; try again what may be."""

    def write(number: int) -> None:
        level = _LEVELS[number % len(_LEVELS)]
        with psycopg.connect(lab.trickle.dsn, autocommit=True) as connection:
            connection.execute(f"SET default_transaction_isolation = '{level}'".encode())
            own = Lab(lab.trickle, connection)
            for change in changes[number::writers]:
                while True:
                    # What another writer does first decides whether the row is there.
                    with suppress(psycopg.errors.UniqueViolation):
                        try:
                            apply_change(own, tables, change, there=False)
                        except (
                            psycopg.errors.SerializationFailure,
                            psycopg.errors.DeadlockDetected,
                        ):
                            continue
                    break

    with ThreadPoolExecutor(writers) as pool:
        for done in [pool.submit(write, number) for number in range(writers)]:
            done.result()


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


def _now(lab: Lab) -> datetime:
    return lab.trickle._runtime.clock(datetime.now(UTC))


def _compare(lab: Lab, number: int, case: Case, when: str) -> Played:
    name = f"made_{number}"
    made = lab.trickle.get_stream_table(name)
    # Of the answers to a query that leaves it open, only that to the refined query is right.
    query = made.defining_query if made.pinned else case.query
    try:
        found = find_differences(lab, name, at_time(query, _now(lab)), case.tables)
    except psycopg.Error as error:
        return Played(Outcome.UNANSWERED, str(error).partition("\n")[0])
    return Played(Outcome.DIFFERS, f"{when}: {found}") if found else Played(Outcome.HELD)
