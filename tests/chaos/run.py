"""The run: load, audit and accidents for a while, then everything must be right."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import psycopg

import pgtrickle
from tests.chaos.bank import SOURCES, STREAM_TABLES, difference
from tests.chaos.events import Daemons
from tests.chaos.people import Auditor, Payer, Person
from tests.fakes.engine import DuckDbEngine

_PAYERS = 4
_SETTLE_SECONDS = 180.0  # a JVM starts, and everything is refreshed
_PATIENCE = 40.0  # a daemon takes over, and starts Spark
# A refresh that was done; what found nothing leaves no trace of its own.
_LATEST = """
    SELECT max(end_time) FROM pgtrickle.pgt_refresh_history
     WHERE status = 'COMPLETED' AND action <> 'NO_DATA'
"""
_TWICE = """
    SELECT count(*) FROM pgtrickle.pgt_refresh_history AS a
      JOIN pgtrickle.pgt_refresh_history AS b
        ON b.pgt_id = a.pgt_id AND b.refresh_id > a.refresh_id
       AND b.start_time < a.end_time AND b.end_time > a.start_time
     WHERE a.status = 'COMPLETED' AND b.status = 'COMPLETED'
       AND a.action <> 'NO_DATA' AND b.action <> 'NO_DATA'
"""
_WAITS = """
    SELECT max(wait) FROM (
        SELECT extract(epoch FROM end_time - lag(end_time)
                           OVER (PARTITION BY pgt_id ORDER BY end_time)) AS wait
          FROM pgtrickle.pgt_refresh_history
         WHERE status = 'COMPLETED') AS waits
"""
_ACTIONS = """
    SELECT COALESCE(error_code, action), count(*)
      FROM pgtrickle.pgt_refresh_history GROUP BY 1 ORDER BY 2 DESC
"""


@dataclass(slots=True)
class Outcome:
    """What a run came to."""

    seconds: float = 0.0
    paid: int = 0
    looks: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    first_refresh: float = 0.0  # seconds after the start of the first daemon, with Spark
    resumed: list[float] = field(default_factory=list)  # seconds after each event, with Spark
    resumed_alone: list[float] = field(default_factory=list)  # without the start of Spark
    spark_starts: list[float] = field(default_factory=list)
    never_resumed: Counter[str] = field(default_factory=Counter)  # not while it was waited for
    actions: dict[str, int] = field(default_factory=dict)
    different: dict[str, int] = field(default_factory=dict)  # rows at the end, by stream table
    suspended: list[str] = field(default_factory=list)
    overlapping: int = 0  # refreshes of one stream table at the same time
    longest_wait: float = 0.0  # of a stream table between two refreshes
    exit_codes: list[int] = field(default_factory=list)
    ended_by_themselves: list[int] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether nothing was wrong at any time, and nothing is different at the end."""
        bad = self.wrong or self.different or self.suspended or self.overlapping
        return not bad and self.looks > 0 and not any(self.exit_codes)


Event = tuple[str, Callable[[Daemons], None]]


def open_bank(dsn: str) -> None:
    """Create the sources and the stream tables, which DuckDB loads."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SOURCES.encode())
    with pgtrickle.connect(dsn, engine=DuckDbEngine(), init=True) as trickle:
        for one in STREAM_TABLES:
            trickle.create_stream_table(one.name, one.query, "1s", "DIFFERENTIAL")


def run(
    daemons: Daemons,
    events: list[Event],
    *,
    seconds: float,
    rate: float,
    seed: int,
    tell: Callable[[str], None],
) -> Outcome:
    """Let the events happen one after the other, spread over so many seconds."""
    outcome, random = Outcome(), Random(seed)
    random.shuffle(events)
    payers = [Payer(n, daemons.dsn, rate / _PAYERS, seed) for n in range(_PAYERS)]
    auditor = Auditor(daemons.dsn)
    people: list[Person] = [*payers, auditor]
    for one in people:
        one.start()
    began = time.monotonic()
    daemons.start()
    outcome.first_refresh = _await_refresh(daemons.dsn, _SETTLE_SECONDS) or _SETTLE_SECONDS
    tell(f"first refresh after {outcome.first_refresh:.1f} s")
    try:
        _let_happen(daemons, events, outcome, random, seconds, tell)
    finally:
        for one in people:
            one.stop()
        outcome.paid = sum(payer.paid for payer in payers)
        outcome.looks, outcome.wrong = auditor.looks, auditor.wrong
        outcome.examples = auditor.examples
    _settle(daemons, outcome, tell)
    outcome.exit_codes = daemons.stop()
    outcome.spark_starts = daemons.spark_starts()
    outcome.ended_by_themselves = daemons.ended_by_themselves
    outcome.seconds = time.monotonic() - began
    return outcome


def _let_happen(
    daemons: Daemons,
    events: list[Event],
    outcome: Outcome,
    random: Random,
    seconds: float,
    tell: Callable[[str], None],
) -> None:
    began = time.monotonic()
    moments = sorted(random.uniform(0, seconds) for _ in events)
    for moment, (name, event) in zip(moments, events, strict=True):
        time.sleep(max(began + moment - time.monotonic(), 0))
        starts = len(daemons.spark_starts())
        event(daemons)
        daemons.start()
        outcome.events[name] += 1
        resumed = _await_refresh(daemons.dsn, _PATIENCE)
        if resumed is None:
            after = "not before the next"
            outcome.never_resumed[name] += 1
        else:
            spark = sum(daemons.spark_starts()[starts:])
            after = f"after {resumed:.1f} s, of which Spark {spark:.1f} s"
            if name != "backend":
                outcome.resumed.append(resumed)
                outcome.resumed_alone.append(resumed - spark)
        tell(f"{time.monotonic() - began:6.0f} s: {name}, resumed {after}")
    time.sleep(max(began + seconds - time.monotonic(), 0))


def _await_refresh(dsn: str, patience: float) -> float | None:
    """Return after how many seconds a refresh was committed that had something to do."""
    began, since = time.monotonic(), None
    while (waited := time.monotonic() - began) < patience:
        with suppress(psycopg.Error), psycopg.connect(dsn, connect_timeout=5) as connection:
            if since is None:
                [(since,)] = connection.execute("SELECT clock_timestamp()").fetchall()
            [(latest,)] = connection.execute(_LATEST).fetchall()
            if latest is not None and latest > since:
                return waited
        time.sleep(0.1)
    return None


def _settle(daemons: Daemons, outcome: Outcome, tell: Callable[[str], None]) -> None:
    """Wait until the daemon has made every stream table equal to its query, and look back."""
    end = time.monotonic() + _SETTLE_SECONDS
    while True:
        daemons.start()
        with suppress(psycopg.OperationalError), psycopg.connect(daemons.dsn) as connection:
            outcome.different = {
                one.name: count
                for one in STREAM_TABLES
                for (count,) in connection.execute(difference(one).encode())
                if count
            }
            if not outcome.different or time.monotonic() > end:
                break
        tell(f"different: {outcome.different}")
        time.sleep(2)
    with psycopg.connect(daemons.dsn) as connection:
        outcome.actions = dict(connection.execute(_ACTIONS).fetchall())
        outcome.suspended = [
            name
            for (name,) in connection.execute(
                "SELECT pgt_name FROM pgtrickle.pgt_stream_tables WHERE status <> 'ACTIVE'"
            )
        ]
        [(outcome.overlapping,)] = connection.execute(_TWICE).fetchall()
        [(longest,)] = connection.execute(_WAITS).fetchall()
        outcome.longest_wait = float(longest or 0)
