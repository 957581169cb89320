"""Tables that logical replication writes to: no statement trigger fires there (P52)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from tests.catalog.test_oldest_server import oldest_dsn, pytestmark  # noqa: F401 - a fixture
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.lab import Lab
from tests.labs.wal_lab import create, modes, triggers

T = "CREATE TABLE t (id int PRIMARY KEY, k int)"
SUBSCRIBE = (
    "CREATE SUBSCRIPTION reading CONNECTION '{}' PUBLICATION writing"
    " WITH (create_slot = false, slot_name = 'reading', copy_data = false)"
)


@pytest.fixture
def publisher(oldest_dsn: str) -> Iterator[psycopg.Connection]:  # noqa: F811
    with psycopg.connect(oldest_dsn, autocommit=True) as connection:
        connection.execute(T)
        connection.execute("CREATE DATABASE subscriber TEMPLATE template0")
        connection.execute("CREATE PUBLICATION writing FOR TABLE t")
        connection.execute("SELECT pg_create_logical_replication_slot('reading', 'pgoutput')")
        yield connection


@pytest.fixture
def subscriber(publisher: psycopg.Connection, duckdb_engine: DuckDbEngine) -> Iterator[Lab]:
    info = publisher.info
    dsn = make_conninfo(host=info.host, user=info.user, dbname="subscriber")
    with (
        pgtrickle.connect(dsn, engine=Borrowed(duckdb_engine), init=True) as trickle,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        lab = Lab(trickle, connection)
        lab.run(T)
        yield lab
        lab.run("ALTER SUBSCRIPTION reading DISABLE")


def subscribe(publisher: psycopg.Connection, lab: Lab) -> None:
    info = publisher.info
    lab.run(SUBSCRIBE.format(f"host={info.host} user={info.user} dbname={info.dbname}"))


def write(publisher: psycopg.Connection, lab: Lab, *statements: str) -> None:
    """Write on one side and wait until the other side has it."""
    for statement in statements:
        publisher.execute(statement.encode())
    wanted = publisher.execute("SELECT * FROM t ORDER BY 1").fetchall()
    end = time.monotonic() + 100
    while lab.rows("TABLE t") != sorted(wanted, key=repr):
        assert time.monotonic() < end, "the subscriber does not follow"
        time.sleep(0.05)


def test_p52_replicated_writes_are_captured(publisher: psycopg.Connection, subscriber: Lab):
    subscribe(publisher, subscriber)
    subscriber.create("counts", "SELECT k, count(*) AS n FROM t GROUP BY k")

    write(publisher, subscriber, "INSERT INTO t SELECT i, i % 3 FROM generate_series(1, 9) i")
    subscriber.window()
    write(publisher, subscriber, "UPDATE t SET k = 5 WHERE id < 4", "DELETE FROM t WHERE id = 9")
    subscriber.window()
    subscriber.run("INSERT INTO t VALUES (100, 1)")
    subscriber.window()
    subscriber.run("DELETE FROM t WHERE id = 100")
    write(publisher, subscriber, "TRUNCATE t", "INSERT INTO t VALUES (1, 1)")
    subscriber.window(action="FULL")
    write(publisher, subscriber, "INSERT INTO t VALUES (2, 1)")
    subscriber.window()
    kinds = subscriber.rows(
        "SELECT DISTINCT tgenabled, tgtype & 1 FROM pg_trigger"
        " WHERE tgrelid = 't'::regclass AND tgname ~ 'capture_(insert|update|delete)'"
    )
    assert kinds == [("A", 1)]


def test_p52_replicated_writes_are_captured_from_the_log(
    publisher: psycopg.Connection, subscriber: Lab
):
    subscribe(publisher, subscriber)
    query = "SELECT k, count(*) AS n FROM t GROUP BY k"
    create(subscriber, "counts", query)
    assert (modes(subscriber), triggers(subscriber)) == ({"t": "WAL"}, 0)

    write(publisher, subscriber, "INSERT INTO t SELECT i, i % 3 FROM generate_series(1, 9) i")
    subscriber.window()
    write(publisher, subscriber, "UPDATE t SET k = 5 WHERE id < 4", "DELETE FROM t WHERE id = 9")
    subscriber.window("INSERT INTO t VALUES (100, 1)")
    subscriber.window("DELETE FROM t WHERE id = 100")
    subscriber.trickle.alter_stream_table("counts", cdc_mode="trigger")
    write(publisher, subscriber, "INSERT INTO t VALUES (10, 5)", "DELETE FROM t WHERE id = 1")
    subscriber.window()
    subscriber.trickle.drop_stream_table("counts")


def test_p52_replication_begins_later(publisher: psycopg.Connection, subscriber: Lab):
    subscriber.create("counts", "SELECT k, count(*) AS n FROM t GROUP BY k")
    subscribe(publisher, subscriber)
    write(publisher, subscriber, "INSERT INTO t VALUES (1, 1)")

    [report] = subscriber.window(action="REINITIALIZE")
    assert report.reason == "replication into public.t began or ended"
    write(publisher, subscriber, "INSERT INTO t VALUES (2, 1)")
    subscriber.window()
