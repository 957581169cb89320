"""The shop as a demo: it sells, and its three stream tables follow."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.demo.generator import Changes, Generator
from pgtrickle.demo.shop import DEFINITIONS, load_shop
from pgtrickle.demo.show import Show


class Shop(Show):
    """The shop that sells, and its three stream tables."""

    rows = "orders"
    size = 100_000
    definitions = DEFINITIONS

    def load(self, connection: Connection, size: int) -> None:
        """Create the tables and fill them."""
        load_shop(connection, orders=size)

    def writer(self, dsn: str, seed: int, size: int, changes: Changes) -> Generator:
        """Return the business of the shop."""
        return Generator(dsn, seed, size, changes)
