"""Dump a catalog in use, which later versions must be able to upgrade.

Each release leaves such a file: ``python -m tests.catalog.freeze tests/catalog/baseline-X.Y.Z.sql``
(see RELEASE.md).  It is not made again for a later version: that one gets a file of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

import pgtrickle
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.restartable import OwnServer, started_server

OWNER, READER, OPERATOR = "frozen_owner", "frozen_reader", "frozen_operator"
_PREPARE = f"""
    CREATE ROLE {OWNER} LOGIN; CREATE ROLE {READER} LOGIN; CREATE ROLE {OPERATOR} LOGIN;
    CREATE DATABASE shop OWNER {OWNER};
"""
_SOURCES = """
    CREATE SCHEMA app;
    CREATE TYPE app.mood AS ENUM ('good', 'bad');
    CREATE TABLE app.customers (id int PRIMARY KEY, region text NOT NULL, mood app.mood);
    CREATE TABLE app.orders (id int PRIMARY KEY, customer int, amount numeric(10, 2));
    INSERT INTO app.customers VALUES (1, 'north', 'good'), (2, 'south', 'bad'), (3, 'north', NULL);
    INSERT INTO app.orders VALUES (1, 1, 10), (2, 2, 25), (3, 3, 5), (4, 1, 2.50);
"""
STREAM_TABLES = {
    "app.revenue": "SELECT c.region, sum(o.amount) AS total, count(*) AS n FROM app.orders AS o"
    " JOIN app.customers AS c ON c.id = o.customer GROUP BY c.region",
    "app.large": "SELECT id, amount FROM app.orders WHERE amount > 4",
    "app.moods": "SELECT DISTINCT mood FROM app.customers",
    "app.best": "SELECT max(total) AS total FROM app.revenue",
}
SHADOW = "SELECT max(total) AS total, count(*) AS n FROM app.revenue"  # of app.best
_CHANGES = """
    INSERT INTO app.orders VALUES (5, 2, 7), (6, 3, 1);
    UPDATE app.customers SET region = 'west' WHERE id = 3;
    DELETE FROM app.orders WHERE id = 4;
"""
# What another server does not know, and psql alone; and titles.
_LEFT_OUT = re.compile(
    r"^(?:\\\w+ .*\n|SET transaction_timeout.*\n|-- Dumped .*\n|--\n-- Name: .*\n--\n\n)",
    re.MULTILINE,
)


def main(target: Path) -> None:
    """Make a catalog, use every part of it, and dump it."""
    with started_server() as server:
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            for statement in _PREPARE.split(";")[:-1]:
                admin.execute(statement.encode())
        dsn = make_conninfo(server.dsn, user=OWNER, dbname="shop")
        _use(dsn)
        target.write_text(_LEFT_OUT.sub("", _dump(server, dsn)), encoding="utf-8")


def _use(dsn: str) -> None:
    with (
        psycopg.connect(dsn, autocommit=True) as user,
        pgtrickle.connect(dsn, engine=DuckDbEngine(), init=True) as trickle,
    ):
        user.execute(_SOURCES.encode())
        for name, query in STREAM_TABLES.items():
            trickle.create_stream_table(name, query, schedule="1h")
        trickle.snapshots.snapshot_stream_table("app.revenue", "app.saved")
        trickle.alter_stream_table("app.best", query=SHADOW, shadow_build=True, hold=True)
        user.execute(_CHANGES.encode())
        trickle.refresh_stream_table("app.revenue")  # the others have changes before them
        trickle.alter_stream_table("app.large", tier="cold", cdc_mode="trigger")
        trickle.scheduler.set_fuse("app.large", "on", ceiling=1000)
        trickle.set_setting("lease_seconds", "40")
        trickle.scheduler.gate_source("app.customers")
        trickle.scheduler.ungate_source("app.customers")
        trickle.scheduler.advance_watermark("app.orders", datetime(2024, 2, 29, tzinfo=UTC))
        trickle.scheduler.create_watermark_group("both", ["app.orders", "app.customers"])
        trickle.scheduler.create_refresh_group("pair", ["app.large", "app.moods"])
        trickle.scheduler.pause_scheduler("app.moods")
        trickle.scheduler.set_stream_table_sla("app.revenue", "20s")
        user.execute("SELECT pgtrickle.subscribe('app.revenue', 'revenue_changed')")
        user.execute("SELECT pgtrickle.submit_request('refresh_stream_table', '{}')")
        user.execute("SELECT pgtrickle.grant_access(%s, 'reader')", [READER])
        user.execute("SELECT pgtrickle.grant_access(%s, 'operator')", [OPERATOR])


def _dump(server: OwnServer, dsn: str) -> str:
    command = [str(server.binaries / "pg_dump"), "-d", dsn, "--no-owner", "--inserts"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
