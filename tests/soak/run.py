"""The soak itself: refresh while others write and connections die, and compare now and then."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from random import Random

import psycopg

from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import Retry, TrickleError
from tests.soak.tables import QUERIES, SOURCES, WRITERS
from tests.soak.writer import Gate, Writer

# A lease that could not be given back is waited for, so it should not last.
LEASE_SECONDS = 2.0


@dataclass(slots=True)
class Outcome:
    """What the soak came to; ``lost`` and ``twice`` are rows, by stream table and point."""

    transactions: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    retried: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    points: int = 0
    compared: int = 0
    lost: int = 0
    twice: int = 0
    seconds: float = 0.0


class _Killer(threading.Thread):
    """Ends a connection at random every few moments: of a writer or of pgtrickle."""

    def __init__(self, dsn: str, every: float, seed: int) -> None:
        super().__init__(name="killer", daemon=True)
        self.kills = 0
        self._dsn = dsn
        self._every = every
        self._random = Random(seed)
        self._ended = threading.Event()

    def run(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._ended.wait(self._every * self._random.uniform(0.5, 1.5)):
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    " AND backend_type = 'client backend' ORDER BY random() LIMIT 1"
                )
                self.kills += 1

    def stop(self) -> None:
        self._ended.set()
        self.join()


def soak(
    trickle: Trickle,
    *,
    transactions: int,
    points: int = 20,
    seed: int = 1,
    kill_every: float = 2.0,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Run the soak in an empty database and return what it came to."""
    with psycopg.connect(trickle.dsn, autocommit=True) as connection:
        connection.execute(SOURCES.encode())
    for name, query in QUERIES.items():
        trickle.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    return _Soak(trickle, transactions, points, seed, kill_every, tell).run()


@dataclass(slots=True)
class _Soak:
    trickle: Trickle
    transactions: int
    points: int
    seed: int
    kill_every: float
    tell: Callable[[str], None]
    outcome: Outcome = field(default_factory=Outcome)

    def run(self) -> Outcome:
        began = time.perf_counter()
        each = -(-self.transactions // WRITERS)
        limits = [each * WRITERS * n // (self.points + 1) for n in range(1, self.points + 2)]
        gate = Gate(limits[0])
        writers = [Writer(n, self.trickle.dsn, each, gate, self.seed) for n in range(WRITERS)]
        killer = _Killer(self.trickle.dsn, self.kill_every, self.seed)
        killer.start()
        for writer in writers:
            writer.start()
        names = cycle(QUERIES)
        for limit, following in pairwise([*limits, limits[-1]]):
            while not gate.reached and any(writer.is_alive() for writer in writers):
                self._refresh(next(names))
            self._compare(limit, began)
            gate.raise_to(following)
        killer.stop()
        for writer in writers:
            writer.join()
            if writer.error is not None:
                raise writer.error
            self.outcome.transactions += writer.done
        self._compare(limits[-1], began)  # also what was still open
        self.outcome.kills = killer.kills
        self.outcome.seconds = time.perf_counter() - began
        return self.outcome

    def _refresh(self, name: str) -> None:
        """Refresh one stream table, again and again while connections are killed under it."""
        while True:
            try:
                report = self.trickle.refresh_stream_table(name)
            except TrickleError as error:
                if error.retry is not Retry.BACKOFF:
                    raise
                self.outcome.retried[error.code] += 1
                time.sleep(0.1)  # ST209: the lease that a killed connection could not give back
            else:
                self.outcome.actions[report.action.value] += 1
                return

    def _compare(self, done: int, began: float) -> None:
        """Compare every stream table with PostgreSQL's answer, while nobody commits."""
        for name in QUERIES:
            self._refresh(name)
        for name, query in QUERIES.items():
            lost, twice = self._differences(name, query)
            self.outcome.lost += lost
            self.outcome.twice += twice
            self.outcome.compared += 1
            if lost or twice:
                self.tell(f"  {name}: {lost} rows lost, {twice} twice")
        self.outcome.points += 1
        self.tell(
            f"{done:>9,} of {self.transactions:,} transactions,"
            f" {time.perf_counter() - began:6.0f} s, point {self.outcome.points}:"
            f" {self.outcome.lost} lost, {self.outcome.twice} twice,"
            f" {sum(self.outcome.actions.values()):,} refreshes"
        )

    def _differences(self, name: str, query: str) -> tuple[int, int]:
        counts = (
            f"SELECT (SELECT count(*) FROM ({query} EXCEPT ALL TABLE {name}) AS lost),"
            f" (SELECT count(*) FROM (TABLE {name} EXCEPT ALL {query}) AS twice)"
        )
        while True:
            # The killer may meet this connection too.
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(self.trickle.dsn, autocommit=True) as connection,
            ):
                [(lost, twice)] = connection.execute(counts.encode()).fetchall()
                return lost, twice
