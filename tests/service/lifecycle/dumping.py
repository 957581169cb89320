"""What tests of dumps share: a database with everything that a dump carries, and a second one."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

import pgtrickle
from pgtrickle.settings import POSTGRES, load_settings
from tests.fakes.engine import NoEngine
from tests.fixtures.engines import Borrowed
from tests.labs.lab import Lab

SOURCES = (
    'CREATE SCHEMA "We ""said"" ☃"',
    "CREATE TYPE mood AS ENUM ('glad', 'it''s ok')",
    "CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1'",
    "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "CREATE TABLE orders (id int PRIMARY KEY, region text, amount numeric(10,2), mood mood)",
    "CREATE TABLE regions (region text PRIMARY KEY, boss text)",
    "INSERT INTO orders VALUES (1, 'north', 10, 'glad'), (2, 'south', 20, 'it''s ok'),"
    " (3, 'north', 5, NULL)",
    "INSERT INTO regions VALUES ('north', 'Ann'), ('south', 'it''s Bob')",
)
# In an order in which the names do not say what reads what.
NAMES = ("zero", "pair", "above", '"We ""said"" ☃"."Sum\nof; --"')


@contextmanager
def opened(dsn: str, **settings: object) -> Iterator[Lab]:
    """Connect to a database, with PostgreSQL as the engine."""
    known = load_settings(engine=POSTGRES, **settings)  # type: ignore[arg-type]
    with (
        pgtrickle.connect(dsn, engine=Borrowed(NoEngine()), settings=known, init=True) as trickle,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        yield Lab(trickle, connection)


@contextmanager
def two_roles(dsn: str) -> Iterator[tuple[str, str]]:
    """Make roles with names that have to be quoted; they belong to all databases of the server."""
    names = tuple(f'Role "{kind}" {uuid.uuid4().hex[:8]}' for kind in ("reads", "asks"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
    try:
        yield names[0], names[1]
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for name in names:
                connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
                connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def prepare(lab: Lab) -> None:
    """Make the sources."""
    lab.run(*SOURCES)


def make_everything(lab: Lab, reads: str, asks: str) -> None:
    """Make stream tables on three floors with all that can be said of them."""
    reads, asks = (f'"{one.replace(chr(34), chr(34) * 2)}"' for one in (reads, asks))
    zero, pair, above, odd = NAMES
    create = lab.trickle.create_stream_table
    create(zero, "SELECT region, mood, sum(amount) AS total FROM orders GROUP BY region, mood")
    lab.run(
        f"CREATE VIEW by_region (area, total) AS SELECT region, sum(total) FROM {zero} GROUP BY 1"
    )
    lab.run("COMMENT ON VIEW by_region IS 'between; two'")
    create(odd, "SELECT region, twice(count(*)::int) AS \"n\"\"x\" FROM orders GROUP BY region",
           schedule="7m", max_delta_fraction=0.25, cdc_mode="trigger")  # fmt: skip
    create(pair, f'SELECT b.area, b.total, o."n""x", r.boss FROM by_region AS b JOIN {odd} AS o'
           " ON o.region = b.area JOIN regions AS r ON r.region = b.area",
           diamond_consistency="none", diamond_schedule_policy="slowest")  # fmt: skip
    create(above, f"SELECT max(total) AS total FROM {pair}", refresh_mode="FULL", initialize=False)
    lab.trickle.alter_stream_table(odd, tier="cold", fuse="auto", fuse_ceiling=77,
                                   fuse_sensitivity=3.5, engine="postgres")  # fmt: skip
    lab.run(
        f"COMMENT ON TABLE {odd} IS 'It''s \\ a comment;\nof two lines'",
        f"""COMMENT ON COLUMN {odd}."n""x" IS '$do$'""",
        f'CREATE INDEX "an; index" ON {odd} (lower(region) DESC NULLS LAST, "n""x")'
        " INCLUDE (region) WITH (fillfactor = 70) WHERE region <> 'it''s; ☃'",
        """COMMENT ON INDEX "We ""said"" ☃"."an; index" IS 'of an index'""",
        f'ALTER TABLE {odd} ADD CONSTRAINT "the key" PRIMARY KEY (region)',
        f"""ALTER TABLE {odd} ADD CONSTRAINT positive CHECK ("n""x" > 0)""",
        f"CREATE UNIQUE INDEX again ON {odd} (region)",
        f"ALTER TABLE {odd} REPLICA IDENTITY USING INDEX again",
        f'CREATE STATISTICS "We ""said"" ☃"."the; pair" (ndistinct) ON region, "n""x" FROM {odd}',
        f"ALTER TABLE {odd} SET (fillfactor = 80, autovacuum_enabled = false)",
        f'CREATE TRIGGER "tell; them" AFTER INSERT ON {odd} FOR EACH STATEMENT'
        " EXECUTE FUNCTION note()",
        f"CREATE TRIGGER quiet AFTER DELETE ON {odd} FOR EACH ROW EXECUTE FUNCTION note()",
        f"ALTER TABLE {odd} DISABLE TRIGGER quiet",
        f"CREATE POLICY \"the; north\" ON {odd} FOR SELECT TO {reads} USING (region = 'north')",
        f"CREATE POLICY everyone ON {odd} AS RESTRICTIVE USING (true)"
        " WITH CHECK (region <> '$do$')",
        f"ALTER TABLE {odd} ENABLE ROW LEVEL SECURITY",
        f"GRANT SELECT ON {odd} TO {reads} WITH GRANT OPTION",
        f"GRANT SELECT ON {zero} TO PUBLIC",
        f"GRANT SELECT (region, total) ON {zero} TO {asks}",
        f"GRANT UPDATE (region) ON {zero} TO {asks} WITH GRANT OPTION",
        f"GRANT SELECT ON by_region TO {reads}",
    )
    lab.run("SELECT pgtrickle.set_setting('lease_seconds', '31')")
    lab.connection.execute(
        "SELECT pgtrickle.grant_access(%s, 'reader')", [reads[1:-1].replace('""', '"')]
    )
    lab.connection.execute(
        "SELECT pgtrickle.grant_access(%s, 'operator')", [asks[1:-1].replace('""', '"')]
    )
    lab.run(
        f"SET ROLE {asks}", f"SELECT pgtrickle.subscribe('public.{zero}', 'told; ☃')", "RESET ROLE"
    )
    scheduler = lab.trickle.scheduler
    scheduler.set_stream_table_sla(odd, "20s")
    lab.trickle.alter_stream_table(odd, tier="cold", schedule="7m")
    scheduler.set_stream_table_sla(above, "2m30s")
    lab.trickle.alter_stream_table(above, schedule="*/5 * * * *")
    lab.trickle.outbox.enable_outbox(odd, 0.5, 17)
    lab.trickle.outbox.enable_outbox(above)
    scheduler.pause_scheduler(pair)
    lab.trickle.alter_stream_table(zero, status="SUSPENDED")
    scheduler.gate_source("orders")
    lab.run("SELECT pgtrickle.advance_watermark('orders', '2026-01-01 06:00:00.5+01')")
    scheduler.create_watermark_group("it's nightly", ["orders", "regions"], 60)
    scheduler.create_refresh_group("it's ☃", [odd, "above"], "repeatable_read")


def drop_everything(lab: Lab) -> None:
    """Drop every stream table with the groups, and what else a dump brings."""
    for (name,) in lab.rows("SELECT group_name FROM pgtrickle.refresh_groups()"):
        lab.trickle.scheduler.drop_refresh_group(name)
    for (name,) in lab.rows("SELECT group_name FROM pgtrickle.watermark_status()"):
        lab.trickle.scheduler.drop_watermark_group(name)
    lab.run("DELETE FROM pgtrickle.pgt_watermarks", "DELETE FROM pgtrickle.pgt_source_gates")
    while names := lab.rows("SELECT name FROM pgtrickle.pgt_status()"):
        lab.trickle.drop_stream_table(names[0][0], cascade=True)
    lab.run("SELECT pgtrickle.set_setting('lease_seconds', NULL)")
    assert lab.leftovers() == []


def dump_text(lab: Lab) -> str:
    """Return everything as a script."""
    return str(lab.value("SELECT pgtrickle.dump_definitions()"))


def exports(lab: Lab) -> dict[str, str]:
    """Return the script of each stream table."""
    names = [name for (name,) in lab.rows("SELECT name FROM pgtrickle.pgt_status()")]
    return {name: lab.trickle.export_definition(name) for name in names}


def contents(lab: Lab) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of each stream table as text, by its name: NaN is not equal to itself."""
    names = [name for (name,) in lab.rows("SELECT name FROM pgtrickle.pgt_status()")]
    return {name: lab.rows(f"SELECT r::text FROM {name} AS r") for name in names}


def waits_for_lock(lab: Lab) -> None:
    """Return when somebody in this database waits for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND wait_event_type = 'Lock'"
    )
    end = time.monotonic() + 25
    while lab.value(waiting) == 0:
        assert time.monotonic() < end
        time.sleep(0.01)


def old_binaries() -> Path | None:
    """Return the programs of PostgreSQL 15, where they are."""
    found = Path(os.environ.get("PGTRICKLE_TEST_BINDIR_15", "/usr/lib/postgresql/15/bin"))
    return found if (found / "initdb").exists() else None
