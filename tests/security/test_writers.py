"""No writer fails because of capture, whatever others do, and however odd his session is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from tests.fakes.engine import DuckDbEngine
from tests.fixtures.daemons import await_
from tests.fixtures.restartable import OwnServer
from tests.labs.hearing import PATIENCE
from tests.security.bench import REVENUE, Bench, a_bench

WRITE = "INSERT INTO shop.orders VALUES (4, 'west', 7)"
FILL = (
    "SELECT pg_notify('noise', repeat('x', 7900) || g) FROM generate_series(%s::int, %s::int) AS g"
)


@pytest.fixture
def filled(own_server: OwnServer, duckdb_engine: DuckDbEngine) -> Iterator[Bench]:
    """Yield a bench on a server whose queue of notifications an attacker can fill."""
    with psycopg.connect(own_server.dsn, autocommit=True) as connection:
        if connection.info.server_version >= 170000:
            connection.execute("ALTER SYSTEM SET max_notify_queue_pages = 64")
    own_server.stop("fast")
    own_server.start()
    with a_bench(own_server.dsn, duckdb_engine) as bench:
        bench.run("admin", "ALTER DATABASE {database} SET pg_trickle.event_wakeup = 'on'")
        yield bench


@contextmanager
def full_queue(bench: Bench) -> Iterator[None]:
    """Let the attacker fill the queue: all of it where it is small, else one part in fifty."""
    with (
        psycopg.connect(bench.dsn_of("attacker")) as listener,
        psycopg.connect(bench.dsn_of("attacker"), autocommit=True) as noisy,
    ):
        listener.execute("LISTEN noise")
        listener.commit()
        listener.execute("SELECT 1")  # from now on it is in a transaction, and reads nothing
        with suppress(psycopg.errors.ProgramLimitExceeded):
            for start in range(0, 24_000, 40):
                noisy.execute(FILL, [start, start + 39])
        [(usage,)] = noisy.execute("SELECT pg_notification_queue_usage()").fetchall()
        assert usage > 0.9 or noisy.info.server_version < 170000
        yield
        listener.rollback()


def test_full_queue_of_notifications_fails_no_writer_and_no_refresh(filled: Bench):
    with filled.lab() as lab, lab.trickle.daemon.listening_for_changes() as bell:
        lab.create("shop.revenue", REVENUE)
        lab.run("SELECT pgtrickle.subscribe('shop.revenue', 'mine')")
        number = lab.trickle.get_stream_table("shop.revenue").id
        bell.watch([number])
        await_(lambda: bell.sure_of([number]))
        with full_queue(filled):
            filled.run("writer", WRITE)

            lab.refresh("shop.revenue")
        assert not bell.rung
        assert lab.value("SELECT count(*) FROM pgtrickle.pgt_subscriptions") == 1


def test_subscribers_are_told_once_there_is_room_again(bench: Bench):
    may = "CREATE OR REPLACE FUNCTION pgtrickle.may_notify() RETURNS boolean LANGUAGE sql AS"
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
        lab.run("SELECT pgtrickle.subscribe('shop.revenue', 'mine')", "LISTEN mine")
        lab.run(f"{may} 'SELECT false'")
        bench.run("writer", WRITE)
        lab.refresh("shop.revenue")
        lab.run("LISTEN pg_trickle_refresh")
        assert list(lab.connection.notifies(timeout=0.2)) == []

        lab.run(f"{may} 'SELECT true'", "SELECT pgtrickle.tell_pending(NULL, 0)")

        [notice] = lab.connection.notifies(timeout=PATIENCE, stop_after=1)
        assert '"inserted_count" : 1' in notice.payload


def test_writer_who_waits_for_no_lock_waits_for_the_buffer(bench: Bench):
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
        relid = lab.value("SELECT 'shop.orders'::regclass::oid::int8")
        keeper, writer = bench.open("owner", autocommit=False), bench.open("writer")
        keeper.execute(f"LOCK TABLE pgtrickle_changes.changes_{relid}".encode())
        ended = threading.Timer(0.7, keeper.commit)
        ended.start()

        writer.execute("SET lock_timeout = '50ms'")
        writer.execute(WRITE)

        ended.join()
        assert writer.execute("SHOW lock_timeout").fetchall() == [("50ms",)]
        lab.refresh("shop.revenue")


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE pgtrickle_changes.changes_{relid} CASCADE",
        "REVOKE ALL ON pgtrickle_changes.changes_{relid} FROM CURRENT_USER",
    ],
)
def test_buffer_that_cannot_be_written_is_a_gap(bench: Bench, damage: str):
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
        relid = lab.value("SELECT 'shop.orders'::regclass::oid::int8")
        lab.run(damage.format(relid=relid))

        bench.run("writer", WRITE, "DELETE FROM shop.orders WHERE id = 1")
        bench.run("owner", "TRUNCATE shop.orders")

        gaps = "SELECT count(*) FROM pgtrickle.pgt_capture_gaps"
        assert lab.value(gaps) == 3


def test_row_that_fits_its_table_and_not_its_buffer_is_a_gap(bench: Bench):
    columns = [f"c{number}" for number in range(1016)]
    bench.run(
        "owner",
        f"CREATE TABLE shop.wide ({', '.join(f'{name} int8' for name in columns)})",
        "GRANT INSERT ON shop.wide TO {writer}",
    )
    values = ", ".join(["1"] * len(columns))
    with bench.lab() as lab:
        lab.create(
            "shop.sums",
            f"SELECT {' + '.join(f'sum({one})' for one in columns)} AS n FROM shop.wide",
            mode="FULL",
        )

        bench.run("writer", f"INSERT INTO shop.wide VALUES ({values})")

        lab.refresh("shop.sums", "REINITIALIZE")


def test_serializable_writers_do_not_disturb_one_another(bench: Bench):
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
        one, other = bench.open("writer", autocommit=False), bench.open("writer", autocommit=False)
        for number, writer in enumerate((one, other)):
            writer.execute("SET default_transaction_isolation = 'serializable'")
            writer.execute("SET pg_trickle.enabled = off")
            writer.commit()
            writer.execute(f"INSERT INTO shop.orders VALUES ({10 + number}, 'west', 7)".encode())
            writer.execute(f"INSERT INTO shop.orders VALUES ({20 + number}, 'west', 7)".encode())
        one.commit()
        other.commit()
        assert lab.value("SELECT count(*) FROM pgtrickle.pgt_capture_gaps") == 2
        lab.refresh("shop.revenue", "REINITIALIZE")


def test_serializable_writers_beside_refreshes(bench: Bench):
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
        writer = bench.open("writer")
        writer.execute("SET default_transaction_isolation = 'serializable'")
        done = threading.Event()
        failures: list[psycopg.Error] = []

        def write() -> None:
            number = 100
            while not done.is_set():
                number += 1
                try:
                    with writer.transaction():
                        writer.execute("SELECT count(*) FROM shop.orders")
                        writer.execute(
                            f"INSERT INTO shop.orders VALUES ({number}, 'w', 1)".encode()
                        )
                except psycopg.Error as error:
                    failures.append(error)
                time.sleep(0.002)

        thread = threading.Thread(target=write)
        thread.start()
        for _ in range(5):
            lab.trickle.refresh_stream_table("shop.revenue")
        done.set()
        thread.join()

        assert failures == []
        lab.trickle.refresh_stream_table("shop.revenue")
        lab.check("shop.revenue")


ODD = (
    "check_function_bodies = off", "plpgsql.extra_errors = 'all'", "plpgsql.extra_warnings = 'all'",
    "row_security = off", "DateStyle = 'SQL, DMY'", "IntervalStyle = 'sql_standard'",
    "search_path = ''", "temp_tablespaces = ''", "exit_on_error = on", "transform_null_equals = on",
    "standard_conforming_strings = off", "quote_all_identifiers = on", "bytea_output = 'escape'",
    "array_nulls = off", "backslash_quote = off", "xmloption = 'document'",
    "work_mem = '64kB'", "synchronous_commit = off", "default_toast_compression = 'pglz'",
    "plan_cache_mode = 'force_custom_plan'", "enable_seqscan = off", "lock_timeout = '1ms'",
    "statement_timeout = '20s'", "default_transaction_isolation = 'serializable'",
    "constraint_exclusion = on", "extra_float_digits = -15", "client_min_messages = 'debug5'",
)  # fmt: skip


@pytest.mark.parametrize("altered", [False, True])
def test_odd_settings_of_a_writer(bench: Bench, *, altered: bool):
    bench.run("owner", 'ALTER TABLE shop.orders ADD COLUMN "back\\slash\'s" text')
    with bench.lab() as lab:
        lab.create("shop.copy", "SELECT * FROM shop.orders")
        if altered:  # what is written now takes the slow path
            bench.run("owner", "VACUUM FULL shop.orders")
        writer = bench.open("writer")
        for setting in ODD:
            writer.execute(f"SET {setting}".encode())
        parallel = (
            "debug_parallel_query"
            if writer.info.server_version >= 160000
            else ("force_parallel_mode")
        )
        writer.execute(f"SET {parallel} = on".encode())

        with writer.transaction():
            writer.execute("INSERT INTO shop.orders VALUES (4, 'west', 7, E'a\\\\b')")
            with writer.transaction(force_rollback=True):
                writer.execute("UPDATE shop.orders SET region = 'gone'")
            writer.execute("UPDATE shop.orders SET amount = amount + 1 WHERE id < 3")
        writer.execute("DELETE FROM shop.orders WHERE id = 3")

        lab.refresh("shop.copy", "REINITIALIZE" if altered else "DIFFERENTIAL")


def test_transaction_that_wrote_can_be_prepared(bench: Bench):
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
        number = lab.trickle.get_stream_table("shop.revenue").id
        with lab.trickle.daemon.listening_for_changes() as bell:
            bell.watch([number])
            writer = bench.open("writer")
            writer.execute("BEGIN")
            writer.execute(WRITE)
            writer.execute("PREPARE TRANSACTION 'later'")
            lab.refresh("shop.revenue", "NO_DATA")
            writer.execute("COMMIT PREPARED 'later'")
        lab.refresh("shop.revenue")
