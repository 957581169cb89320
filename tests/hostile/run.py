"""The run: customers, an auditor and attackers for a while, then everything must be right."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import psycopg

from tests.chaos.bank import STREAM_TABLES, difference
from tests.chaos.people import Auditor, Payer, Person
from tests.hostile.attacks import ATTACKS, INNOCENT, Attack
from tests.hostile.town import Town, stolen

_CUSTOMERS = 4
_SETTLE_SECONDS = 180.0
_STALENESS = """
    SELECT pgt_name::text, extract(epoch FROM clock_timestamp() - data_timestamp)::float8
      FROM pgtrickle.pgt_stream_tables
     WHERE pgt_name = ANY(%s)
"""


_OLDER = """
    SELECT pgt_name FROM pgtrickle.pgt_stream_tables
     WHERE pgt_name = ANY(%s) AND data_timestamp < %s
"""
# Refreshes that failed for another reason than that somebody else was at work.
_FAILED = """
    SELECT error_code, count(*) FROM pgtrickle.pgt_refresh_history AS h
      JOIN pgtrickle.pgt_stream_tables AS t USING (pgt_id)
     WHERE h.status = 'FAILED' AND t.pgt_name = ANY(%s)
       AND error_code NOT IN ('ST209', 'ST210', 'ST408')
     GROUP BY error_code
"""


@dataclass(slots=True)
class Outcome:
    """What a run came to."""

    seconds: float = 0.0
    paid: int = 0
    slowest_write: float = 0.0  # seconds
    failed_writes: list[str] = field(default_factory=list)
    looks: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    attacks: Counter[str] = field(default_factory=Counter)
    failed_work: list[str] = field(default_factory=list)  # of innocent people
    stalest: dict[str, float] = field(default_factory=dict)  # seconds, by stream table
    failed_refreshes: dict[str, int] = field(default_factory=dict)  # of the bank, by error
    stolen: list[tuple[str, str]] = field(default_factory=list)
    different: dict[str, int] = field(default_factory=dict)

    def complaints(self, longest: float) -> list[str]:
        """Return what went wrong; ``longest`` is how stale a stream table may have been."""
        starved = {name: age for name, age in self.stalest.items() if age > longest}
        found = {
            "failed writes": self.failed_writes[:5],
            "wrong rows": dict(self.wrong),
            "failed work of others": self.failed_work[:5],
            "starved": starved,
            "failed refreshes": self.failed_refreshes,
            "stolen": self.stolen,
            "different at the end": self.different,
        }
        said = [f"{what}: {which}" for what, which in found.items() if which]
        return said if self.looks and self.paid else [*said, "nothing was looked at"]


class Customer(Payer):
    """Moves money; a transfer that fails for any reason but a deadlock is remembered."""

    def __init__(self, number: int, dsn: str, rate: float, seed: int) -> None:
        super().__init__(number, dsn, rate, seed)
        self.failures: list[str] = []
        self.slowest = 0.0

    def act(self, connection: psycopg.Connection) -> None:
        began = time.monotonic()
        try:
            super().act(connection)
        except psycopg.Error as error:
            self.failures.append(f"{error.sqlstate} {error}")
            if connection.closed:
                raise
        self.slowest = max(self.slowest, time.monotonic() - began - self._pause)


class Attacker(Person):
    """Does one attack after the other, of those that a role can do."""

    def __init__(self, town: Town, role: str, seed: int, attacks: Sequence[Attack]) -> None:
        super().__init__(f"attacker-{role}", town.dsn_of(role))
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []
        self._random = Random(f"{seed} {role}")
        self._attacks = attacks

    def act(self, connection: psycopg.Connection) -> None:
        attack = self._random.choice(self._attacks)
        try:
            attack.act(connection, self._random)
        except psycopg.Error as error:
            if attack.name in INNOCENT:
                self.failed.append(f"{attack.name}: {error}")
            if connection.closed:
                raise
            connection.rollback()
        self.done[attack.name] += 1


class Watcher(Person):
    """Looks how stale each stream table of the bank is."""

    def __init__(self, dsn: str) -> None:
        super().__init__("watcher", dsn)
        self.stalest: dict[str, float] = {}
        self._names = [one.name for one in STREAM_TABLES]

    def act(self, connection: psycopg.Connection) -> None:
        for name, age in connection.execute(_STALENESS, [self._names]):
            self.stalest[name] = max(self.stalest.get(name, 0.0), age)
        self._done.wait(0.5)


def run(
    town: Town,
    *,
    seconds: float,
    rate: float,
    seed: int,
    tell: Callable[[str], None],
    attacks: Sequence[Attack] = ATTACKS,
) -> Outcome:
    """Let everybody do their work for so many seconds; somebody else refreshes meanwhile."""
    outcome, began = Outcome(), time.monotonic()
    customers = [
        Customer(number, town.dsn_of("customer"), rate / _CUSTOMERS, seed)
        for number in range(_CUSTOMERS)
    ]
    by_role: dict[str, list[Attack]] = {}
    for attack in attacks:
        by_role.setdefault(attack.role, []).append(attack)
    attackers = [Attacker(town, role, seed, some) for role, some in by_role.items()]
    auditor, watcher = Auditor(town.dsn_of("keeper")), Watcher(town.dsn_of("keeper"))
    people: list[Person] = [*customers, *attackers, auditor, watcher]
    for one in people:
        one.start()
    try:
        while (passed := time.monotonic() - began) < seconds:
            time.sleep(min(60.0, seconds - passed))
            failed = sum(len(one.failures) for one in customers)
            tell(
                f"{time.monotonic() - began:6.0f} s: {sum(one.paid for one in customers):,}"
                f" transfers, {failed} failed, {auditor.looks:,} looks,"
                f" {sum(auditor.wrong.values())} wrong,"
                f" {sum(one.done.total() for one in attackers)} attacks"
            )
    finally:
        for one in people:
            one.stop()
    outcome.paid = sum(one.paid for one in customers)
    outcome.failed_writes = [text for one in customers for text in one.failures]
    outcome.slowest_write = max(one.slowest for one in customers)
    outcome.looks, outcome.wrong = auditor.looks, auditor.wrong
    outcome.attacks = sum((one.done for one in attackers), Counter[str]())
    outcome.failed_work = [text for one in attackers for text in one.failed]
    outcome.stalest = watcher.stalest
    outcome.stolen = stolen(town)
    outcome.seconds = time.monotonic() - began
    return outcome


def await_freshness(town: Town, seconds: float) -> None:
    """Wait until every stream table of the bank has been refreshed since now."""
    town.run("customer", "UPDATE accounts SET balance = balance")
    town.run("customer", "INSERT INTO transfers (payer, payee, amount) VALUES (1, 2, 0)")
    end = time.monotonic() + seconds
    with psycopg.connect(town.dsn_of("keeper"), autocommit=True) as connection:
        [(now,)] = connection.execute("SELECT clock_timestamp()").fetchall()
        while connection.execute(_OLDER, [[one.name for one in STREAM_TABLES], now]).fetchall():
            if time.monotonic() > end:
                raise TimeoutError("the daemon does not refresh")
            time.sleep(0.2)


def settle(town: Town, outcome: Outcome) -> None:
    """Wait until every stream table of the bank equals its query, as PostgreSQL answers it."""
    end = time.monotonic() + _SETTLE_SECONDS
    with psycopg.connect(town.dsn_of("keeper"), autocommit=True) as connection:
        names = [one.name for one in STREAM_TABLES]
        outcome.failed_refreshes = dict(connection.execute(_FAILED, [names]).fetchall())
        while True:
            outcome.different = {
                one.name: count
                for one in STREAM_TABLES
                for (count,) in connection.execute(difference(one).encode())
                if count
            }
            if not outcome.different or time.monotonic() > end:
                return
            time.sleep(1)
