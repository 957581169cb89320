"""What attackers do, one function per attack; each does its worst and takes its trace away.

An attack may fail: that is what it is here for.  What it must never do is harm others, which the
run looks at: writes that fail, rows that are wrong, stream tables that starve, marks of theft.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import psycopg
from psycopg import Connection


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack: by whom, and what is done with a connection of his."""

    role: str
    act: Callable[[Connection, Random], None]

    @property
    def name(self) -> str:
        return self.act.__name__


def try_(connection: Connection, *statements: str) -> None:
    """Run statements one by one, whatever becomes of each."""
    for statement in statements:
        with suppress(psycopg.Error):
            connection.execute(statement.encode())


# The locks that earlier versions took, and everything else with the same two classes.
_LOCKS = """
    SELECT pg_advisory_lock(8099291749254689644), pg_advisory_lock(8099291749254689645),
           pg_advisory_lock(1885828195, n), pg_advisory_lock(1885828215, n % 256)
      FROM generate_series(0, 400) AS n
"""


def hold_advisory_locks(connection: Connection, random: Random) -> None:
    """Take every advisory lock that could matter, and keep it for a while."""
    with suppress(psycopg.Error), connection.transaction():
        connection.execute("SET LOCAL statement_timeout = '2s'")
        connection.execute(_LOCKS)
    time.sleep(random.uniform(1, 8))
    connection.execute("SELECT pg_advisory_unlock_all()")


_OVERLOADS = (
    ("public.generate_series(integer, bigint)", "SETOF bigint", "SELECT 1::bigint"),
    ("public.sum(integer)", "bigint", "SELECT 1::bigint"),
    ("public.lower(varchar)", "text", "SELECT 'x'"),
    ("public.hash_record_extended(record, integer)", "bigint", "SELECT 1::bigint"),
    ("public.pg_current_snapshot()", "pg_snapshot", "SELECT '1:1:'::pg_snapshot"),
    ("public.set_config(text, varchar, boolean)", "text", "SELECT $2::text"),
    ("public.format(text, integer)", "text", "SELECT $1"),
    ("public.unnest(integer[])", "SETOF integer", "SELECT 1"),
)


def shadow_functions(connection: Connection, random: Random) -> None:
    """Put overloads that steal into ``public``, where unqualified calls find them."""
    for signature, returns, body in _OVERLOADS:
        name = signature.partition("(")[0]
        mark = f"INSERT INTO public.stolen (how) VALUES ('{name}')"
        try_(
            connection,
            f"CREATE OR REPLACE FUNCTION {signature} RETURNS {returns} LANGUAGE sql AS"
            f" $$ {mark}; {body} $$",
        )
    time.sleep(random.uniform(1, 5))
    for signature, _, _ in _OVERLOADS:
        try_(connection, f"DROP FUNCTION IF EXISTS {signature}")


def shadow_operators(connection: Connection, random: Random) -> None:
    """Put operators that steal into ``public``, closer to the types than PostgreSQL's own."""
    try_(
        connection,
        "CREATE OR REPLACE FUNCTION public.steal_int(integer, bigint) RETURNS boolean"
        " LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.stolen (how) VALUES ('operator');"
        " RETURN true; END $$",
        *(
            f"CREATE OPERATOR public.{name} (LEFTARG = integer, RIGHTARG = bigint,"
            " FUNCTION = public.steal_int)"
            for name in ("=", "<", ">", "<>", "<=", ">=")
        ),
    )
    time.sleep(random.uniform(1, 5))
    try_(connection, "DROP FUNCTION IF EXISTS public.steal_int CASCADE")


def take_the_catalog(connection: Connection, random: Random) -> None:
    """Write, replace and own what belongs to the catalog."""
    try_(
        connection,
        "CREATE TABLE pgtrickle.pgt_more (x int)",
        "CREATE FUNCTION pgtrickle.watch_ddl() RETURNS event_trigger LANGUAGE plpgsql AS"
        " $$ BEGIN ALTER ROLE thief SUPERUSER; END $$",
        "CREATE TRIGGER t BEFORE INSERT ON pgtrickle.pgt_settings EXECUTE FUNCTION"
        " suppress_redundant_updates_trigger()",
        "ALTER SCHEMA pgtrickle OWNER TO thief",
        "DELETE FROM pgtrickle.pgt_leases",
        "INSERT INTO pgtrickle.pgt_requests (verb, arguments) VALUES ('create', '{}')",
        "SELECT pgtrickle.set_setting('enabled', 'off')",
        "DELETE FROM public.balances",
        "INSERT INTO public.branches VALUES (1, 1, 1)",
        "LOCK TABLE pgtrickle.pgt_leases IN ACCESS EXCLUSIVE MODE",
        "LOCK TABLE public.accounts IN ACCESS EXCLUSIVE MODE",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper'",
    )
    time.sleep(random.uniform(0, 1))


def flood_notifications(connection: Connection, random: Random) -> None:
    """Ring every bell with nonsense, and keep the queue from being emptied for a while."""
    with suppress(psycopg.Error):
        connection.execute("LISTEN pg_trickle_wake; LISTEN pg_trickle_refresh")
        with connection.transaction():
            connection.execute("SELECT 1")  # a transaction that listens and does not read
            with psycopg.connect(connection.info.dsn, autocommit=True) as other:
                for number in range(20):
                    junk = random.choice(("", "-1", "99999999999999999999", "x" * 7000, "17000"))
                    other.execute(
                        "SELECT pg_notify('pg_trickle_wake', %s || n) , pg_notify("
                        "'pg_trickle_refresh', %s || n) FROM generate_series(1, 500) AS n",
                        [junk[:7000], junk[:7000]],
                    )
                    time.sleep(0.02 * number)
    connection.execute("UNLISTEN *")


def lock_own_table(connection: Connection, random: Random) -> None:
    """Lock a source of the keeper's stream tables, as its owner may, and sit on it."""
    table = random.choice(("lair.flats", "lair.rooms"))
    with suppress(psycopg.Error), connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '3s'")
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        time.sleep(random.uniform(5, 25))


def add_partitions(connection: Connection, random: Random) -> None:
    """Add and drop a month: no attack at all, it must always go."""
    first = random.randrange(1, 50) * 1000
    name = f"lair.rooms_{first}"
    connection.execute(f"DROP TABLE IF EXISTS {name}".encode())
    connection.execute(
        f"CREATE TABLE {name} PARTITION OF lair.rooms FOR VALUES FROM ({first})"
        f" TO ({first + 1000})".encode()
    )
    connection.execute(f"INSERT INTO lair.rooms VALUES ({first + 1}, 1, 1)".encode())
    connection.execute(f"UPDATE lair.rooms SET rent = rent + 1 WHERE id = {first + 1}".encode())
    time.sleep(random.uniform(0, 2))
    connection.execute(f"DROP TABLE {name}".encode())


def arm_the_type(connection: Connection, random: Random) -> None:
    """Give a type that the keeper reads a cast that steals."""
    try_(
        connection,
        "CREATE OR REPLACE FUNCTION lair.steal(lair.kind) RETURNS text LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO public.stolen (how) VALUES ('cast'); RETURN 'x'; END $$",
        "CREATE CAST (lair.kind AS text) WITH FUNCTION lair.steal(lair.kind) AS ASSIGNMENT",
        "UPDATE lair.flats SET kind = 'large' WHERE id % 3 = 0",
        "UPDATE lair.flats SET kind = 'small' WHERE id % 5 = 0",
    )
    time.sleep(random.uniform(1, 5))
    try_(connection, "DROP CAST IF EXISTS (lair.kind AS text)")


def swap_the_table(connection: Connection, random: Random) -> None:
    """Put a view that steals in the place of a table that the keeper reads."""
    try_(
        connection,
        "CREATE OR REPLACE FUNCTION lair.open_door(i int) RETURNS int LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO public.stolen (how) VALUES ('view'); RETURN i; END $$",
        "BEGIN",
        "SET LOCAL lock_timeout = '2s'",
        "ALTER TABLE lair.flats RENAME TO real_flats",
        "CREATE VIEW lair.flats AS SELECT lair.open_door(id) AS id, kind FROM lair.real_flats",
        "GRANT SELECT ON lair.flats TO keeper",
        "COMMIT",
    )
    try_(connection, "ROLLBACK")
    time.sleep(random.uniform(1, 5))
    try_(
        connection,
        "BEGIN",
        "SET LOCAL lock_timeout = '2s'",
        "DROP VIEW lair.flats",
        "ALTER TABLE lair.real_flats RENAME TO flats",
        "COMMIT",
    )
    try_(connection, "ROLLBACK")


def loosen_the_table(connection: Connection, random: Random) -> None:
    """Change what a source is: unlogged, with a policy, with another owner's trigger."""
    try_(
        connection,
        "SET lock_timeout = '2s'",
        "ALTER TABLE lair.flats SET UNLOGGED",
        "ALTER TABLE lair.flats SET LOGGED",
        "ALTER TABLE lair.flats ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE lair.flats DISABLE ROW LEVEL SECURITY",
        "RESET lock_timeout",
    )
    time.sleep(random.uniform(0, 1))


def lie_about_refreshing(connection: Connection, random: Random) -> None:
    """Write as a customer whose session claims to be a refresh."""
    try_(
        connection,
        "BEGIN",
        "SET LOCAL pg_trickle.refreshing = 'on'",
        "SET LOCAL pg_trickle.enabled = 'off'",
        "SELECT set_config('pg_trickle.newcomers_' || 'accounts'::regclass::oid,"
        " pg_current_xact_id()::text, true)",
        "UPDATE accounts SET balance = balance + 1 WHERE id = 1",
        "UPDATE accounts SET balance = balance - 1 WHERE id = 1",
        "COMMIT",
    )
    try_(connection, "ROLLBACK")
    try_(
        connection,
        "SET pg_trickle.refreshing = 'on'",
        "UPDATE balances SET balance = 0",
        "DELETE FROM branches",
        "RESET pg_trickle.refreshing",
    )
    time.sleep(random.uniform(0, 1))


def flood_requests(connection: Connection, random: Random) -> None:
    """Ask for far more than anybody can do, in shapes that nobody expects."""
    insert = "INSERT INTO pgtrickle.pgt_requests (verb, arguments) VALUES (%s, %s)"
    junk = (
        ("refresh", '{"name": "nothing"}'),
        ("refresh", '{"name": "' + '\\"' * 100_000 + '"}'),
        ("nonsense", "{}"),
        ("create", '{"name": 5, "query": ["x"]}'),
        ("create", '{"name": "x", "query": "SELECT 1", "schedule": "' + "9" * 5000 + '"}'),
        ("alter", '{"name": "balances", "schedule": "' + "9" * 5000 + 's"}'),
        ("drop", '{"name": "balances"}'),
        ("verify", "{}"),
    )
    for _ in range(200):
        verb, arguments = random.choice(junk)
        with suppress(psycopg.Error):
            connection.execute(insert, [verb, arguments])


def ask_for_a_bomb(connection: Connection, random: Random) -> None:
    """Ask for a query that takes for ever to plan."""
    joins = ", ".join(f"public.accounts AS a{n}" for n in range(199))
    with suppress(psycopg.Error):
        connection.execute("SET statement_timeout = '5s'")
        connection.execute("CALL pgtrickle.validate_query(%s)", [f"SELECT 1 FROM {joins}"])
    connection.execute("RESET statement_timeout")
    time.sleep(random.uniform(0, 1))


def sit_idle(connection: Connection, random: Random) -> None:
    """Leave a transaction open that has written, as a careless customer does."""
    with suppress(psycopg.Error), connection.transaction(force_rollback=True):
        connection.execute("INSERT INTO transfers (payer, payee, amount) VALUES (1, 2, 1)")
        time.sleep(random.uniform(3, 15))


def steal_by_row_security(connection: Connection, random: Random) -> None:
    """Try triggers, rules and policies on stream tables, and temporary tables with their names."""
    try_(
        connection,
        "CREATE TRIGGER t AFTER INSERT ON public.balances FOR EACH ROW EXECUTE FUNCTION"
        " suppress_redundant_updates_trigger()",
        "CREATE RULE r AS ON INSERT TO public.balances DO INSTEAD NOTHING",
        "CREATE TEMPORARY TABLE pgt_stream_tables (pgt_id int)",
        "CREATE TEMPORARY TABLE accounts (id int, branch int, balance bigint)",
        "DROP TABLE IF EXISTS pg_temp.pgt_stream_tables, pg_temp.accounts",
    )
    time.sleep(random.uniform(0, 1))


def take_connections(connection: Connection, random: Random) -> None:
    """Open a few connections and do nothing with them."""
    held = []
    with suppress(psycopg.Error):
        held = [psycopg.connect(connection.info.dsn) for _ in range(15)]
    time.sleep(random.uniform(1, 5))
    for one in held:
        one.close()


ATTACKS = (
    Attack("thief", hold_advisory_locks),
    Attack("thief", shadow_functions),
    Attack("thief", shadow_operators),
    Attack("thief", take_the_catalog),
    Attack("thief", flood_notifications),
    Attack("thief", steal_by_row_security),
    Attack("thief", take_connections),
    Attack("landlord", lock_own_table),
    Attack("landlord", add_partitions),
    Attack("landlord", arm_the_type),
    Attack("landlord", swap_the_table),
    Attack("landlord", loosen_the_table),
    Attack("customer", lie_about_refreshing),
    Attack("customer", sit_idle),
    Attack("clerk", flood_requests),
    Attack("clerk", ask_for_a_bomb),
)
# These are everyday work: when one fails, a user suffers.
INNOCENT = {"add_partitions"}
