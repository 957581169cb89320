"""The business of the shop: a thread that inserts, updates and deletes in small transactions."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field

import psycopg
from psycopg import Connection

from pgtrickle.demo.shop import CUSTOMERS, PRODUCTS, REGIONS

_PAUSE_SECONDS = 0.04  # some 20 transactions a second, which leaves the machine to Spark


@dataclass(slots=True)
class Changes:
    """The changes that the generator has committed so far."""

    transactions: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(slots=True)
class Generator:
    """Makes random changes from its own thread and connection, until stopped."""

    dsn: str
    seed: int
    orders: int
    changes: Changes = field(default_factory=Changes)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _error: psycopg.Error | None = None

    def start(self) -> None:
        """Begin to make changes."""
        self._thread = threading.Thread(target=self._run, name="demo-generator", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the transaction in progress; raises what ended the thread early."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        dice = random.Random(self.seed)  # noqa: S311 - repeatable, not secret
        try:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                while not self._stop.wait(_PAUSE_SECONDS):
                    self._change(connection, dice)
        except psycopg.Error as error:
            self._error = error  # handed to whoever stops the generator

    def _change(self, connection: Connection, dice: random.Random) -> None:
        kind = dice.choices(
            (self._order, self._amend, self._remove, self._reprice, self._move),
            weights=(50, 32, 14, 3, 1),
        )[0]
        with connection.transaction():
            kind(connection, dice)
        self.changes.transactions += 1

    def _order(self, connection: Connection, dice: random.Random) -> None:
        rows = [
            (dice.randint(1, CUSTOMERS), dice.randint(1, PRODUCTS), dice.randint(1, 20))
            for _ in range(dice.randint(1, 5))
        ]
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO orders (customer_id, product_id, quantity) VALUES (%s, %s, %s)", rows
            )
        self.changes.inserted += len(rows)

    def _amend(self, connection: Connection, dice: random.Random) -> None:
        status = dice.choice(("open", "open", "paid", "cancelled"))
        cursor = connection.execute(
            "UPDATE orders SET quantity = %s, status = %s WHERE id = ANY(%s)",
            [dice.randint(1, 20), status, self._some_orders(dice, 5)],
        )
        self.changes.updated += cursor.rowcount

    def _remove(self, connection: Connection, dice: random.Random) -> None:
        cursor = connection.execute(
            "DELETE FROM orders WHERE id = ANY(%s)", [self._some_orders(dice, 3)]
        )
        self.changes.deleted += cursor.rowcount

    def _reprice(self, connection: Connection, dice: random.Random) -> None:
        cursor = connection.execute(
            "UPDATE products SET price = round(price * %s, 2) WHERE id = %s",
            [dice.choice(("0.9", "1.1")), dice.randint(1, PRODUCTS)],
        )
        self.changes.updated += cursor.rowcount

    def _move(self, connection: Connection, dice: random.Random) -> None:
        cursor = connection.execute(
            "UPDATE customers SET region = %s WHERE id = %s",
            [dice.choice(REGIONS), dice.randint(1, CUSTOMERS)],
        )
        self.changes.updated += cursor.rowcount

    def _some_orders(self, dice: random.Random, most: int) -> list[int]:
        latest = self.orders + self.changes.inserted
        return [dice.randint(1, latest) for _ in range(dice.randint(1, most))]
