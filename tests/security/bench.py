"""A server on which several roles meet, one of them hostile.

``owner`` owns the schema ``shop`` and the catalog, and has no other power.  ``writer`` may change
the tables of ``shop``, ``reader`` may read them.  ``attacker`` may connect; what else he may do, a
test grants.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

import pgtrickle
from pgtrickle.client.trickle import Trickle
from pgtrickle.ports import Engine
from tests.catalog.databases import ordinary_role
from tests.fixtures.engines import Borrowed
from tests.labs.lab import Lab

SHOP = "shop"
ORDERS = (
    "CREATE TABLE shop.orders (id int PRIMARY KEY, region text, amount numeric(10, 2))",
    "INSERT INTO shop.orders VALUES (1, 'north', 10), (2, 'south', 25), (3, 'north', 5)",
)
REVENUE = "SELECT region, sum(amount) AS total FROM shop.orders GROUP BY region"


@dataclass(slots=True)
class Bench:
    """One fresh database and the roles that meet in it."""

    dsn: str  # of a superuser
    engine: Engine
    roles: dict[str, str]  # "owner", "writer", "reader", "attacker": the role's name
    resources: ExitStack = field(default_factory=ExitStack)

    def dsn_of(self, who: str) -> str:
        """Return the connection string of one of the four, or of ``admin``, a superuser."""
        return self.dsn if who == "admin" else make_conninfo(self.dsn, user=self.roles[who])

    def open(self, who: str, *, autocommit: bool = True) -> Connection[TupleRow]:
        """Connect as one of them; the connection closes with the test."""
        connection = psycopg.connect(self.dsn_of(who), autocommit=autocommit)
        return self.resources.enter_context(connection)

    def run(self, who: str, *statements: str) -> None:
        """Run statements as one of them; ``{attacker}`` and the like stand for the role's name."""
        names = {one: sql.Identifier(name).as_string() for one, name in self.roles.items()}
        database = str(self.value("admin", "SELECT current_database()"))
        names["database"] = sql.Identifier(database).as_string()
        with psycopg.connect(self.dsn_of(who), autocommit=True) as connection:
            for statement in statements:
                for one, name in names.items():
                    statement = statement.replace("{" + one + "}", name)  # noqa: PLW2901
                connection.execute(statement.encode())

    def value(self, who: str, query: str) -> object:
        """Return the one value of a query that one of them runs."""
        with psycopg.connect(self.dsn_of(who), autocommit=True) as connection:
            [(found,)] = connection.execute(query.encode()).fetchall()
        return found

    def is_superuser(self, who: str) -> bool:
        """Tell whether an attack has made one of them a superuser."""
        query = f"SELECT rolsuper FROM pg_roles WHERE rolname = '{self.roles[who]}'"
        return bool(self.value("admin", query))

    @contextmanager
    def trickle(self, who: str = "owner") -> Iterator[Trickle]:
        """Open pgtrickle as one of them."""
        with pgtrickle.connect(
            self.dsn_of(who), engine=Borrowed(self.engine), init=True
        ) as trickle:
            yield trickle

    @contextmanager
    def lab(self, who: str = "owner") -> Iterator[Lab]:
        """Open pgtrickle as one of them, beside a session of his."""
        with (
            self.trickle(who) as trickle,
            psycopg.connect(self.dsn_of(who), autocommit=True) as connection,
        ):
            yield Lab(trickle, connection)


@contextmanager
def a_bench(database: str, engine: Engine, catalog_owner: str | None = None) -> Iterator[Bench]:
    """Make the roles and the schema ``shop`` in a fresh database.

    If it has a catalog, that becomes the owner's.
    """
    with ExitStack() as stack:
        roles = {
            who: stack.enter_context(ordinary_role(database))
            for who in ("owner", "writer", "reader", "attacker")
        }
        bench = Bench(database, engine, roles, stack.enter_context(ExitStack()))
        bench.run(
            "admin",
            "GRANT CREATE, TEMPORARY ON DATABASE {database} TO {owner}",
            "CREATE SCHEMA shop AUTHORIZATION {owner}",
        )
        if catalog_owner is not None:
            bench.run("admin", f'REASSIGN OWNED BY "{catalog_owner}" TO {{owner}}')
        bench.run(
            "owner",
            *ORDERS,
            "GRANT USAGE ON SCHEMA shop TO {writer}, {reader}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shop TO {writer}",
            "GRANT SELECT ON ALL TABLES IN SCHEMA shop TO {reader}",
        )
        yield bench
