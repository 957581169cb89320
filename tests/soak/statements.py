"""One statement after another, at random, each on keys that belong to one writer.

So writers seldom wait for one another, and a statement that does gives up soon.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.soak.tables import KEYS, WRITERS


class Statements:
    """The statements of one writer."""

    def __init__(self, writer: int, random: Random) -> None:
        self._writer = writer
        self._random = random
        self._kinds: list[tuple[Callable[[], str], int]] = [
            (self._customer, 4),
            (self._order, 6),
            (self._order_moves, 3),
            (self._order_goes, 1),
            (self._lines, 4),
            (self._stock, 3),
            (self._stock_merges, 1),
            (self._note, 4),
            (self._note_goes, 3),
            (self._event, 4),
            (self._event_by_partition, 2),
            (self._event_moves, 2),
            (self._event_goes, 2),
            (self._nothing, 1),
        ]

    def next(self, *, lasting: bool = False) -> str:
        """Draw a statement; one whose locks last leaves alone what others want to truncate."""
        drawn = self._kinds[:5] + self._kinds[7:9] if lasting else self._kinds
        kinds, weights = zip(*drawn, strict=True)
        write: Callable[[], str] = self._random.choices(kinds, weights)[0]
        return write()

    def truncate(self) -> str:
        """Draw a table to empty."""
        return f"TRUNCATE {self._random.choice(['events', 'stock', 'events_0', 'events_1_low'])}"

    def _key(self) -> int:
        return self._writer + WRITERS * self._random.randrange(KEYS)

    def _any(self, limit: int) -> int:
        return self._random.randrange(limit)

    def _customer(self) -> str:
        return (
            f"INSERT INTO customers VALUES ({self._key()}, {self._any(7)}, 'n{self._any(99)}')"
            " ON CONFLICT (id) DO UPDATE SET region = excluded.region, name = excluded.name"
        )

    def _order(self) -> str:
        customer, amount = self._any(KEYS * WRITERS), self._any(10**6) / 100
        return (
            f"INSERT INTO orders VALUES ({self._key()}, {customer}, 's{self._any(4)}', {amount})"
            " ON CONFLICT (id) DO UPDATE SET status = excluded.status, amount = excluded.amount"
        )

    def _order_moves(self) -> str:
        return (
            f"UPDATE orders SET customer = {self._any(KEYS * WRITERS)}, amount = amount / 2"
            f" WHERE id = {self._key()}"
        )

    def _order_goes(self) -> str:
        return f"DELETE FROM orders WHERE id = {self._key()}"

    def _lines(self) -> str:
        return (
            f"INSERT INTO lines SELECT id, n, (id * 7 + n) % 200, {self._any(9)}"
            f" FROM orders, generate_series(1, {1 + self._any(3)}) AS n WHERE id = {self._key()}"
            " ON CONFLICT (order_id, line) DO UPDATE SET quantity = excluded.quantity"
        )

    def _stock(self) -> str:
        return (
            f"INSERT INTO stock VALUES ({self._key() % 200}, {self._any(50)}, 'x')"
            f" ON CONFLICT (product) DO UPDATE SET quantity = excluded.quantity"
        )

    def _stock_merges(self) -> str:
        return (
            f"MERGE INTO stock AS s USING (VALUES ({self._key() % 200})) AS v (product)"
            " ON s.product = v.product WHEN MATCHED AND s.quantity > 25 THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET note = s.note || '.'"
            f" WHEN NOT MATCHED THEN INSERT VALUES (v.product, {self._any(50)}, 'm')"
        )

    def _note(self) -> str:
        return (
            f"INSERT INTO notes SELECT {self._any(9)}, 'b{self._any(20)}'"
            f" FROM generate_series(1, {1 + self._any(3)})"
        )

    def _note_goes(self) -> str:
        return (
            f"DELETE FROM notes WHERE ctid IN (SELECT ctid FROM notes"
            f" WHERE kind = {self._any(9)} LIMIT {self._any(6)} FOR UPDATE SKIP LOCKED)"
        )

    def _event(self) -> str:
        return f"INSERT INTO events VALUES ({self._key()}, {self._any(9)}, {self._any(100)})"

    def _event_by_partition(self) -> str:
        # Whichever of the leaves it fits; the rest is refused, and the transaction goes on.
        return (
            f"INSERT INTO events_1_low SELECT k, {self._any(4)}, {self._any(100)}"
            f" FROM generate_series({self._key()}, {self._key()} + 40) AS k"
            " WHERE satisfies_hash_partition('events'::regclass, 2, 1, k) LIMIT 2"
        )

    def _event_moves(self) -> str:
        return (
            f"UPDATE events SET id = id + {WRITERS}, kind = {self._any(9)} WHERE id = {self._key()}"
        )

    def _event_goes(self) -> str:
        key = self._key()
        return f"DELETE FROM events WHERE id IN ({key}, {key + WRITERS}, {key + 2 * WRITERS})"

    def _nothing(self) -> str:
        return f"UPDATE customers SET name = name || '' WHERE id = {-1 - self._writer}"
