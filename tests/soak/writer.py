"""One writer: a thread that runs transactions of every kind and outlives its connections."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from random import Random

import psycopg

from tests.soak.statements import Statements

# What a transaction comes to, and how often out of a thousand.
_KINDS = {
    "short": 700,
    "rolled back": 100,
    "savepoint": 110,
    "prepared": 50,
    "long": 39,
    "truncate": 1,
}
# lock_not_available, deadlock_detected, serialization_failure, unique and foreign_key_violation
_REFUSED = frozenset({"55P03", "40P01", "40001", "23505", "23503"})
_OPTIONS = "-c lock_timeout=300ms"
_ATTEMPTS = 5  # to connect


class Gate:
    """Lets writers through one transaction at a time, up to a number that is raised later."""

    def __init__(self, limit: int) -> None:
        self._changed = threading.Condition()
        self._limit = limit
        self._passed = 0
        self._inside = 0

    @contextmanager
    def passed(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._passed < self._limit)
            self._passed += 1
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @property
    def reached(self) -> bool:
        """Whether all who were let through are done, and nobody else is let in."""
        with self._changed:
            return self._passed >= self._limit and self._inside == 0

    def raise_to(self, limit: int) -> None:
        """Let more through."""
        with self._changed:
            self._limit = limit
            self._changed.notify_all()


class Writer(threading.Thread):
    """Runs transactions until it has run enough."""

    def __init__(self, number: int, dsn: str, transactions: int, gate: Gate, seed: int) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self.done: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._number = number
        self._dsn = dsn
        self._transactions = transactions
        self._gate = gate
        self._random = Random(seed * 1000 + number)
        self._statements = Statements(number, self._random)
        self._connection = self._connect()
        self._long: psycopg.Connection | None = None
        self._long_ends = 0
        self._prepared: str | None = None
        self._prepared_ends = 0

    def run(self) -> None:
        try:
            for count in range(self._transactions):
                with self._gate.passed():
                    self._one(count)
            self._end_long()
            self._end_prepared()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.error = error
        finally:
            for connection in (self._connection, self._long):
                if connection is not None:
                    connection.close()

    def _connect(self) -> psycopg.Connection:
        """Connect; the killer may meet a session before it is ready."""
        connect = partial(psycopg.connect, self._dsn, autocommit=True, options=_OPTIONS)
        for _ in range(_ATTEMPTS - 1):
            with suppress(psycopg.OperationalError):
                return connect()
        return connect()

    def _reconnect(self) -> None:
        self._connection.close()
        self._connection = self._connect()

    def _one(self, count: int) -> None:
        if self._long is not None and count >= self._long_ends:
            self._end_long()
        if self._prepared is not None and count >= self._prepared_ends:
            self._end_prepared()
        [kind] = self._random.choices(list(_KINDS), list(_KINDS.values()))
        run: Callable[[int], None] = getattr(self, f"_run_{kind.replace(' ', '_')}")
        try:
            run(count)
            self.done[kind] += 1
        except (psycopg.OperationalError, psycopg.IntegrityError) as error:
            # Gone, or only refused: a lock that took too long, a row that another has changed.
            self.done["gave up" if error.sqlstate in _REFUSED else "killed"] += 1
            with suppress(psycopg.Error):
                self._connection.execute("ROLLBACK")
            if self._connection.closed:
                self._reconnect()

    def _write(
        self, connection: psycopg.Connection, most: int = 3, *, lasting: bool = False
    ) -> None:
        for _ in range(self._random.randint(1, most)):
            connection.execute(self._statements.next(lasting=lasting).encode())

    def _run_short(self, count: int) -> None:
        isolation = self._random.choice(["READ COMMITTED"] * 9 + ["REPEATABLE READ"])
        self._connection.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
        self._write(self._connection)
        self._connection.execute("COMMIT")

    def _run_rolled_back(self, count: int) -> None:
        self._connection.execute("BEGIN")
        self._write(self._connection)
        self._connection.execute("ROLLBACK")

    def _run_savepoint(self, count: int) -> None:
        self._connection.execute("BEGIN")
        self._write(self._connection, 2)
        for _ in range(self._random.randint(1, 2)):
            self._connection.execute("SAVEPOINT s")
            self._write(self._connection, 2)
            self._connection.execute(
                self._random.choice(["ROLLBACK TO SAVEPOINT s", "RELEASE SAVEPOINT s"])
            )
        self._write(self._connection, 1)
        self._connection.execute("COMMIT")

    def _run_prepared(self, count: int) -> None:
        if self._prepared is not None:
            self._run_short(count)
            return
        self._connection.execute("BEGIN")
        self._write(self._connection, 2, lasting=True)
        name = f"soak-{self._number}-{count}"
        self._prepared, self._prepared_ends = name, count + self._random.randint(1, 40)
        self._connection.execute(f"PREPARE TRANSACTION '{name}'".encode())

    def _end_prepared(self) -> None:
        """Commit or roll back what was prepared; whether it was is only known to the server."""
        how = self._random.choice(["COMMIT", "COMMIT", "ROLLBACK"])
        name, self._prepared = self._prepared, None
        if name is None:
            return
        while True:
            try:
                found = self._connection.execute(
                    "SELECT FROM pg_prepared_xacts WHERE gid = %s", [name]
                ).fetchone()
                if found is not None:
                    self._connection.execute(f"{how} PREPARED '{name}'".encode())
            except psycopg.OperationalError:
                self.done["killed"] += 1
                self._reconnect()
            else:
                return

    def _run_long(self, count: int) -> None:
        if self._long is not None:
            self._run_short(count)
            return
        self._long = self._connect()
        self._long_ends = count + self._random.randint(5, 100)
        try:
            self._long.execute("BEGIN")
            self._write(self._long, lasting=True)
        except psycopg.Error:
            connection, self._long = self._long, None
            connection.close()
            raise

    def _end_long(self) -> None:
        connection, self._long = self._long, None
        if connection is None:
            return
        try:
            connection.execute(self._random.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        except psycopg.OperationalError:
            self.done["killed"] += 1
        finally:
            connection.close()

    def _run_truncate(self, count: int) -> None:
        self._connection.execute("BEGIN")
        if self._random.random() < 0.5:
            self._write(self._connection, 1)
        self._connection.execute(self._statements.truncate().encode())
        if self._random.random() < 0.5:
            self._write(self._connection, 2)
        self._connection.execute("COMMIT")
