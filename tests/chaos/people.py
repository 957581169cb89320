"""Who uses the bank: payers that move money, and auditors that look at every stream table."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from random import Random

import psycopg

from tests.chaos.bank import ACCOUNTS, STREAM_TABLES, TRANSFER

_AGAIN = 0.1  # seconds, when the server is away


class Person(threading.Thread):
    """A thread with a connection that comes back when it was lost, until it is told to stop."""

    def __init__(self, name: str, dsn: str) -> None:
        super().__init__(name=name, daemon=True)
        self.lost = 0  # connections
        self.error: BaseException | None = None
        self._dsn = dsn
        self._done = threading.Event()

    def run(self) -> None:
        try:
            while not self._done.is_set():
                with suppress(psycopg.OperationalError):
                    self._session()
                if not self._done.wait(_AGAIN):
                    self.lost += 1
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.error = error

    def stop(self) -> None:
        self._done.set()
        self.join()
        if self.error is not None:
            raise self.error

    def _session(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True, connect_timeout=5) as connection:
            while not self._done.is_set():
                self.act(connection)

    def act(self, connection: psycopg.Connection) -> None:
        """Do one thing."""
        raise NotImplementedError


class Payer(Person):
    """Moves money, so many times a second, and now and then changes its mind."""

    def __init__(self, number: int, dsn: str, rate: float, seed: int) -> None:
        super().__init__(f"payer-{number}", dsn)
        self.paid = 0
        self._pause = 1 / rate
        self._random = Random(seed * 1000 + number)

    def act(self, connection: psycopg.Connection) -> None:
        payer, payee = self._random.sample(range(1, ACCOUNTS + 1), 2)
        values = {"payer": payer, "payee": payee, "amount": self._random.randint(1, 50)}
        regret = self._random.random() < 0.05
        with (
            suppress(psycopg.errors.DeadlockDetected),
            connection.transaction(force_rollback=regret),
        ):
            connection.execute(TRANSFER, values)
        self.paid += not regret
        self._done.wait(self._pause)


class Auditor(Person):
    """Looks for what is wrong, one stream table after the other and all of them at one moment."""

    def __init__(self, dsn: str) -> None:
        super().__init__("auditor", dsn)
        self.looks = 0
        self.wrong: Counter[str] = Counter()
        self.examples: list[str] = []

    def act(self, connection: psycopg.Connection) -> None:
        for one in STREAM_TABLES:
            self._look(connection, one.name, one.wrong)
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            for one in STREAM_TABLES:
                self._look(connection, f"{one.name} with the others", one.wrong)
        time.sleep(0.01)

    def _look(self, connection: psycopg.Connection, what: str, query: str) -> None:
        rows = connection.execute(query.encode()).fetchall()
        self.looks += 1
        if rows:
            self.wrong[what] += 1
            self.examples.append(f"{what}: {rows[:3]}")
