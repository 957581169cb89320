"""The town: the bank of the chaos run, kept by an ordinary role, and the others on its server.

``keeper`` owns the bank and the catalog.  ``customer`` moves money.  ``landlord`` owns a
partitioned table and a table of his own type that the keeper's stream tables read; he is no friend
of the keeper.  ``thief`` may connect, create schemas, and create in ``public``.  ``clerk`` was
given operator access, and abuses it.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg.conninfo import make_conninfo

import pgtrickle
from tests.chaos.run import open_bank
from tests.fakes.engine import DuckDbEngine

ROLES = ("keeper", "customer", "landlord", "thief", "clerk")
# What the landlord lets the keeper read, and what may therefore fail.
LET = {
    "rooms_let": "SELECT house, count(*) AS n, sum(rent) AS rent FROM lair.rooms GROUP BY house",
    "kinds_let": "SELECT kind, count(*) AS n FROM lair.flats GROUP BY kind",
}

_PREPARE = """
    CREATE ROLE keeper LOGIN; CREATE ROLE customer LOGIN; CREATE ROLE landlord LOGIN;
    CREATE ROLE thief LOGIN; CREATE ROLE clerk LOGIN;
    GRANT CREATE, TEMPORARY ON DATABASE {database} TO keeper, landlord, thief;
    GRANT CREATE ON SCHEMA public TO keeper, thief;
"""
_LAIR = """
    CREATE SCHEMA lair;
    CREATE TYPE lair.kind AS ENUM ('small', 'large');
    CREATE TABLE lair.rooms (id int, house int, rent int) PARTITION BY RANGE (id);
    CREATE TABLE lair.rooms_0 PARTITION OF lair.rooms FOR VALUES FROM (0) TO (1000);
    CREATE TABLE lair.flats (id int PRIMARY KEY, kind lair.kind);
    INSERT INTO lair.rooms SELECT n, n % 7, n FROM generate_series(1, 500) AS n;
    INSERT INTO lair.flats SELECT n, 'small' FROM generate_series(1, 500) AS n;
    GRANT USAGE ON SCHEMA lair TO PUBLIC;
    GRANT SELECT, TRIGGER ON ALL TABLES IN SCHEMA lair TO keeper;
"""
# Whoever steals a right leaves a mark here; anybody may write it, nobody has a reason to.
_MARKS = """
    CREATE TABLE public.stolen (by_whom text DEFAULT current_user, how text, told timestamptz
                                DEFAULT clock_timestamp());
    GRANT INSERT, SELECT ON public.stolen TO PUBLIC;
"""
_BANK = """
    GRANT SELECT, INSERT, UPDATE, DELETE ON public.accounts, public.transfers TO customer;
    SELECT pgtrickle.grant_access('clerk', 'operator');
"""


@dataclass(frozen=True, slots=True)
class Town:
    """A database with the bank in it, and how each role reaches it."""

    dsn: str  # of a superuser

    def dsn_of(self, role: str) -> str:
        """Return the connection string of one of the roles."""
        return make_conninfo(self.dsn, user=role)

    def run(self, role: str | None, statements: str) -> None:
        """Run statements as one of them, or as the superuser."""
        dsn = self.dsn_of(role) if role else self.dsn
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(statements.encode())


def open_town(dsn: str) -> Town:
    """Make roles, bank and lair, with stream tables that DuckDB loads."""
    town = Town(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        [(database,)] = connection.execute("SELECT quote_ident(current_database())").fetchall()
        connection.execute(_PREPARE.format(database=database).encode())
        connection.execute(_MARKS)
    town.run("landlord", _LAIR)
    open_bank(town.dsn_of("keeper"))
    with pgtrickle.connect(town.dsn_of("keeper"), engine=DuckDbEngine(), init=True) as trickle:
        trickle.create_stream_table("rooms_let", LET["rooms_let"], "1s")
        # Whether types of others are accepted is the product's decision; both are fine here.
        try:
            trickle.create_stream_table("kinds_let", LET["kinds_let"], "1s")
        except pgtrickle.TrickleError as error:
            if not error.code.startswith("ST3"):
                raise
    town.run("keeper", _BANK)
    return town


def stolen(town: Town) -> list[tuple[str, str]]:
    """Return what was done with somebody else's rights: marks, and roles that rose."""
    with psycopg.connect(town.dsn) as connection:
        marks = connection.execute(
            "SELECT by_whom, how FROM public.stolen WHERE by_whom NOT IN ('thief', 'landlord',"
            " 'clerk')"
        ).fetchall()
        rose = connection.execute(
            "SELECT rolname, 'is a superuser' FROM pg_roles WHERE rolsuper AND rolname = ANY(%s)"
            " UNION ALL SELECT m.rolname, 'is a member of ' || r.rolname FROM pg_auth_members AS a"
            " JOIN pg_roles AS m ON m.oid = a.member JOIN pg_roles AS r ON r.oid = a.roleid"
            " WHERE m.rolname = ANY(%s)",
            [list(ROLES), ["thief", "landlord", "clerk"]],
        ).fetchall()
    return [(str(who), str(how)) for who, how in [*marks, *rose]]
