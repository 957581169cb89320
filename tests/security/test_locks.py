"""Locks: nobody without rights on the catalog holds us up, and we hold up no application."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import ServerBusyError
from pgtrickle.lake.format.catalog import create_catalog
from pgtrickle.scheduler.loop import Loop, worker_threads
from tests.fixtures.daemons import await_
from tests.scheduler.shop import Watched
from tests.security.bench import REVENUE, Bench

_SELF_JOIN = "SELECT o.id, p.region FROM shop.orders o JOIN shop.orders p USING (id)"
_LOCK_WAIT = 4.0  # seconds for which we try
_HELD_UP = 2.0  # for which the application may wait; a tenth, were the machine idle
_BIG_KEYS = (8099291749254689644, 8099291749254689645)
_CLASSES = ("pgtc", "pgtl", "pgts", "pgtt", "pgtw")


def take_advisory_locks(
    attacker: Connection[TupleRow], relids: list[object], how: str = ""
) -> None:
    """Take what any version of ours has taken: big keys, and pairs of a class and an oid."""
    for key in _BIG_KEYS:
        attacker.execute(f"SELECT pg_advisory_lock{how}({key})".encode())
    for name in _CLASSES:
        number = int.from_bytes(name.encode(), "big")
        keys = [*range(256), *relids] if name != "pgtw" else range(256)
        for key in keys:
            attacker.execute(f"SELECT pg_advisory_lock{how}({number}, {key})".encode())


@pytest.mark.parametrize("how", ["", "_shared"])
def test_advisory_locks_of_an_attacker_hold_nobody_up(
    bench: Bench, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PGTRICKLE_DUCKLAKE_CATALOG_SCHEMA", "lake")
    create_catalog(bench.open("owner"), "lake", str(tmp_path))
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
    relids = [
        bench.value("admin", f"SELECT '{name}'::regclass::oid::int8")
        for name in ("shop.orders", "lake.ducklake_snapshot")
    ]
    relid = relids[0]
    attacker = bench.open("attacker")
    take_advisory_locks(attacker, relids, how)

    bench.run("admin", "ALTER ROLE {owner} SET statement_timeout = '10s'")
    with bench.lab() as lab:  # which connects, and so migrates
        twice = "SELECT id, amount * 2 AS twice FROM shop.orders"
        lab.trickle.create_stream_table("shop.twice", twice, sink="ducklake")
        bench.run("writer", "INSERT INTO shop.orders VALUES (4, 'west', 7)")
        lab.trickle.refresh_stream_table("shop.revenue")
        lab.trickle.refresh_stream_table("shop.twice")
        assert bench.value("admin", f"SELECT count(*) FROM pgtrickle_changes.changes_{relid}") == 0
        lab.trickle.drop_stream_table("shop.twice")
        lab.trickle.drop_stream_table("shop.revenue")


def test_nobody_but_its_owner_locks_a_row_or_a_table_of_the_catalog(bench: Bench):
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
        tables = [
            name
            for (name,) in lab.rows(
                "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r'"
                " AND relnamespace::regnamespace::text IN ('pgtrickle', 'pgtrickle_changes')"
            )
        ]
        lab.run(f"SELECT pgtrickle.grant_access('{bench.roles['attacker']}', 'reader')")
    attacker = bench.open("attacker")

    assert "pgtrickle.pgt_locks" in tables
    for table in tables:
        for mode in ("ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "ACCESS EXCLUSIVE"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), attacker.transaction():
                attacker.execute(f"LOCK TABLE {table} IN {mode} MODE NOWAIT".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            attacker.execute(f"SELECT FROM {table} FOR KEY SHARE".encode())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGTRICKLE_LOCK_WAIT_SECONDS", str(_LOCK_WAIT))


@contextmanager
def idle_transaction(bench: Bench, who: str, *statements: str) -> Iterator[int]:
    """Leave a transaction open after some statements; yields its process id."""
    with psycopg.connect(bench.dsn_of(who), application_name="left open") as connection:
        for statement in statements:
            connection.execute(statement.encode())
        yield connection.info.backend_pid
        connection.rollback()


@contextmanager
def application(bench: Bench) -> Iterator[list[float]]:
    """Let the writer insert without a pause; yields how long each insert took, in seconds."""
    done, took = threading.Event(), [0.0]

    def write() -> None:
        with psycopg.connect(bench.dsn_of("writer"), autocommit=True) as connection:
            for number in range(1000, 1_000_000):
                if done.is_set():
                    return
                began = time.monotonic()
                connection.execute(
                    "INSERT INTO shop.orders VALUES (%s, 'app', 1)", [number], prepare=True
                )
                took.append(time.monotonic() - began)
                time.sleep(0.005)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield took
    finally:
        done.set()
        thread.join()


@pytest.mark.usefixtures("impatient")
def test_create_waits_for_an_idle_writer_and_the_application_for_neither(bench: Bench):
    with (
        bench.trickle() as trickle,
        idle_transaction(bench, "writer", "INSERT INTO shop.orders VALUES (7, 'idle', 1)") as pid,
        application(bench) as took,
        pytest.raises(ServerBusyError) as busy,
    ):
        trickle.create_stream_table("shop.revenue", REVENUE)

    assert str(pid) in str(busy.value)
    assert bench.roles["writer"] in str(busy.value)
    assert "left open" in str(busy.value)
    assert busy.value.hint
    assert len(took) > 20
    assert max(took) < _HELD_UP


@pytest.mark.usefixtures("impatient")
def test_drop_waits_for_an_idle_reader_and_the_application_for_neither(bench: Bench):
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
        with (
            idle_transaction(bench, "reader", "SELECT FROM shop.orders") as pid,
            application(bench) as took,
            pytest.raises(ServerBusyError) as busy,
        ):
            lab.trickle.drop_stream_table("shop.revenue")
        assert str(pid) in str(busy.value)
        assert len(took) > 20
        assert max(took) < _HELD_UP

        lab.refresh("shop.revenue")  # nothing was dropped
        lab.trickle.drop_stream_table("shop.revenue")


def test_refresh_of_a_locked_source_ends_soon_and_names_who_locks_it(bench: Bench):
    lock = "LOCK TABLE shop.orders IN ACCESS EXCLUSIVE MODE"
    with bench.lab() as lab:
        lab.create("shop.joined", _SELF_JOIN)
        bench.run("writer", "INSERT INTO shop.orders VALUES (4, 'west', 7)")
        began = time.monotonic()
        with idle_transaction(bench, "writer", lock) as pid, pytest.raises(ServerBusyError) as busy:
            lab.trickle.refresh_stream_table("shop.joined")
        assert time.monotonic() - began < 20
        assert str(pid) in str(busy.value)
        assert "AccessExclusiveLock on shop.orders" in str(busy.value)

        lab.refresh("shop.joined")


def test_lock_on_a_source_says_nothing_about_the_query(bench: Bench):
    """Whoever compiles anew, as a new process does, must not take the query for a wrong one."""
    lock = "LOCK TABLE shop.orders IN ACCESS EXCLUSIVE MODE"
    with bench.lab() as lab:
        lab.create("shop.joined", _SELF_JOIN)
    with bench.lab() as lab:
        with idle_transaction(bench, "owner", lock):
            for act in (
                lambda: lab.trickle.refresh_stream_table("shop.joined"),
                lambda: lab.trickle.validate_query(_SELF_JOIN),
            ):
                with pytest.raises(ServerBusyError):
                    act()

        lab.queries["shop.joined"] = _SELF_JOIN
        lab.window("INSERT INTO shop.orders VALUES (4, 'west', 7)")


def test_locked_source_starves_no_other_stream_table(bench: Bench):
    tables = [f"shop.of_orders_{number}" for number in range(6)]
    bench.run("owner", "CREATE TABLE shop.events (id int)")
    with bench.lab() as lab:
        for name in tables:
            lab.trickle.create_stream_table(name, _SELF_JOIN, schedule="1s")
        lab.trickle.create_stream_table(
            "shop.of_events", "SELECT count(*) AS n FROM shop.events", schedule="1s"
        )
        stop, watched = threading.Event(), Watched()
        loop = Loop(lab.trickle.daemon, watched, workers=lambda: worker_threads(2))
        thread = threading.Thread(target=loop.run, args=[stop])
        bench.run("writer", "INSERT INTO shop.orders VALUES (4, 'west', 7)")
        with idle_transaction(bench, "writer", "LOCK TABLE shop.orders IN ACCESS EXCLUSIVE MODE"):
            thread.start()
            try:
                for number in range(1, 4):
                    lab.run("INSERT INTO shop.events VALUES (1)")
                    wanted = number
                    await_(lambda: lab.value("SELECT n FROM shop.of_events") == wanted, 30)  # noqa: B023
            except BaseException:
                stop.set()
                raise
        try:
            for name in tables:
                await_(lambda: lab.value(f"SELECT count(*) FROM {name}") == 4, 30)  # noqa: B023
        finally:
            stop.set()
            thread.join()
        statuses = "SELECT DISTINCT status FROM pgtrickle.pgt_stream_tables"
        assert lab.rows(statuses) == [("ACTIVE",)]


def test_attacker_makes_no_writer_ring(bench: Bench):
    bench.run("admin", "ALTER DATABASE {database} SET pg_trickle.event_wakeup = on")
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
    attacker, listener = bench.open("attacker"), bench.open("attacker")
    take_advisory_locks(attacker, [])
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        attacker.execute("SELECT setval('pgtrickle_changes.bell_0', 9223372036854775807)")
    listener.execute("LISTEN pg_trickle_wake")

    bench.run("writer", "INSERT INTO shop.orders VALUES (4, 'west', 7)")

    attacker.execute("NOTIFY pg_trickle_wake, 'last'")
    [heard] = list(listener.notifies(timeout=60, stop_after=1))
    assert heard.payload == "last"
