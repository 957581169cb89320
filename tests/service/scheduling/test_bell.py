"""The bell that captured changes ring, for those who listen at that moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from pgtrickle.capture.bell import CHANNEL, flag_of, raise_flags
from pgtrickle.scheduler.loop import Loop
from pgtrickle.scheduler.wakeup import Bell
from tests.fixtures.daemons import await_
from tests.labs.hearing import PATIENCE, heard
from tests.labs.lab import Lab
from tests.scheduler.shop import Watched

# How many flags are up.
_HELD = """
    SELECT COALESCE(sum(bit_count((last_value & x'ffffffff'::int8)::bit(64))), 0)
      FROM pg_sequences
     WHERE schemaname = 'pgtrickle_changes' AND sequencename LIKE 'bell%'
       AND last_value >> 32 > extract(epoch FROM clock_timestamp() - timestamptz '2020-01-01 UTC')
"""
_END_LISTENER = (
    "SELECT bool_and(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'pgtrickle bell'"
)


@pytest.fixture
def shop(lab: Lab) -> Iterator[Lab]:
    lab.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    # The server could prepare transactions, which nobody does here.
    lab.run("SELECT set_config('pg_trickle.event_wakeup', 'on', false)")
    lab.create("of_t", "SELECT count(*) AS n FROM t")
    lab.create("of_u", "SELECT count(*) AS n FROM u")
    yield lab
    lab.run("RESET pg_trickle.event_wakeup")


@pytest.fixture
def bell(shop: Lab) -> Iterator[Bell]:
    with shop.trickle.daemon.listening_for_changes() as bell:
        yield bell


def number(lab: Lab, name: str) -> int:
    return lab.trickle.get_stream_table(name).id


def watch(bell: Bell, lab: Lab, *names: str) -> None:
    """Watch, and wait until the writers know."""
    bell.watch([number(lab, name) for name in names])
    await_(lambda: lab.value(_HELD) == len(names))


def test_change_rings_for_who_reads_it(shop: Lab, bell: Bell):
    watch(bell, shop, "of_t", "of_u")

    shop.run("INSERT INTO t VALUES (1)")

    await_(lambda: bell.rung)
    assert bell.answer() == {number(shop, "of_t")}
    assert not bell.rung


def test_bell_rings_once_until_it_is_watched_again(shop: Lab, bell: Bell):
    watch(bell, shop, "of_t")
    shop.run("INSERT INTO t VALUES (1)")
    await_(bell.answer)
    await_(lambda: shop.value(_HELD) == 0)

    shop.run("INSERT INTO t VALUES (2)")
    time.sleep(0.5)
    assert not bell.rung

    watch(bell, shop, "of_t")
    shop.run("INSERT INTO t VALUES (3)")
    await_(lambda: bell.rung)


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE t SET a = 1 WHERE false"],
        ["SET pg_trickle.event_wakeup = off", "INSERT INTO t VALUES (1)"],
        ["SET pg_trickle.event_wakeup = ''", "INSERT INTO t VALUES (1)"],
    ],
)
def test_nothing_rings_without_a_row_or_where_it_might_do_harm(
    shop: Lab, bell: Bell, statements: list[str]
):
    watch(bell, shop, "of_t")

    shop.run(*statements)

    time.sleep(0.5)
    assert not bell.rung


def test_transaction_can_be_prepared_while_someone_listens(shop: Lab, bell: Bell):
    watch(bell, shop, "of_t")
    shop.run("SET pg_trickle.event_wakeup = ''", "BEGIN", "INSERT INTO t VALUES (1)")
    shop.run("PREPARE TRANSACTION 'mine'", "COMMIT PREPARED 'mine'")

    shop.refresh("of_t")


def test_writers_send_nothing_while_nobody_listens(shop: Lab, bell: Bell):
    with psycopg.connect(shop.trickle.dsn, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}".encode())
        shop.run("INSERT INTO t VALUES (1)")
        assert heard(shop, listener, CHANNEL) == []

        watch(bell, shop, "of_t")
        shop.run("INSERT INTO t VALUES (1)")
        [notice] = list(listener.notifies(timeout=PATIENCE, stop_after=1))
        assert notice.payload == str(shop.value("SELECT 't'::regclass::oid"))


def test_bell_outlives_its_connection_and_what_others_send(shop: Lab, bell: Bell):
    watch(bell, shop, "of_t")
    shop.run(f"NOTIFY {CHANNEL}, 'nonsense'")
    assert shop.value(_END_LISTENER)

    def write() -> bool:
        shop.run("INSERT INTO t VALUES (1)")
        return bell.rung

    await_(write)


def test_loop_follows_a_change_long_before_it_is_due(shop: Lab, bell: Bell):
    for name in ("of_t", "of_u"):
        shop.trickle.alter_stream_table(name, schedule="1h")
    shop.run("UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - '1h'::interval")
    stop, loop = threading.Event(), Loop(shop.trickle.daemon, Watched(), bell=bell)
    thread = threading.Thread(target=loop.run, args=[stop])
    thread.start()
    try:
        await_(lambda: shop.value(_HELD) == 2)
        shop.run("INSERT INTO t VALUES (1)")
        await_(lambda: shop.value("SELECT n FROM of_t") == 1)
    finally:
        stop.set()
        thread.join()


def test_flags_of_a_listener_that_died_count_for_a_while(shop: Lab):
    relid = shop.value("SELECT 't'::regclass::oid")
    assert isinstance(relid, int)
    with psycopg.connect(shop.trickle.dsn, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}".encode())
        raise_flags(listener, [flag_of(relid)])
        shop.run("INSERT INTO t VALUES (1)")
        assert heard(shop, listener, CHANNEL) == [str(relid)]
        shop.run(
            "SELECT setval(name::regclass, last_value - (20::int8 << 32))"
            f" FROM (SELECT 'pgtrickle_changes.bell_{flag_of(relid) // 32}' AS name) AS n,"
            f" pgtrickle_changes.bell_{flag_of(relid) // 32}"
        )
        shop.run("INSERT INTO t VALUES (1)")
        assert heard(shop, listener, CHANNEL) == []


@pytest.mark.parametrize("schema", ["pgtrickle", "pgtrickle_changes", "pgtrickle_state"])
def test_writers_do_not_fail_where_a_schema_of_ours_was_dropped(shop: Lab, schema: str):
    shop.run("BEGIN", f"DROP SCHEMA {schema} CASCADE", "INSERT INTO t VALUES (1)", "ROLLBACK")


@pytest.fixture
def trusted(shop: Lab) -> Iterator[Bell]:
    """Listen on a database where everybody rings."""
    database = shop.value("SELECT quote_ident(current_database())")
    shop.run(f"ALTER DATABASE {database} SET pg_trickle.event_wakeup = on")
    try:
        with shop.trickle.daemon.listening_for_changes() as bell:
            yield bell
    finally:
        shop.run(f"ALTER DATABASE {database} RESET pg_trickle.event_wakeup")


def test_bell_is_sure_of_those_whose_writers_must_ring(shop: Lab, trusted: Bell):
    of_t, of_u = number(shop, "of_t"), number(shop, "of_u")
    assert not trusted.sure_of([of_t, of_u])

    watch(trusted, shop, "of_t")
    await_(lambda: trusted.sure_of([of_t, of_u]) == {of_t})
    shop.run("INSERT INTO t VALUES (1)")
    await_(lambda: trusted.rung)

    assert not trusted.sure_of([of_t, of_u])


def test_bell_is_not_sure_while_somebody_writes(shop: Lab, trusted: Bell):
    with psycopg.connect(shop.trickle.dsn) as writer:
        writer.execute("INSERT INTO t VALUES (1)")
        trusted.watch([number(shop, "of_t"), number(shop, "of_u")])
        await_(lambda: trusted.sure_of([number(shop, "of_u")]))
        assert not trusted.sure_of([number(shop, "of_t")])
        writer.rollback()
        await_(lambda: trusted.sure_of([number(shop, "of_t")]))


def test_bell_that_can_hear_no_more_wakes_everybody(shop: Lab, trusted: Bell):
    watch(trusted, shop, "of_t", "of_u")
    both = {number(shop, "of_t"), number(shop, "of_u")}
    await_(lambda: trusted.sure_of(both) == both)

    assert shop.value(_END_LISTENER)

    await_(lambda: trusted.rung)
    assert trusted.answer() == both


def test_bell_is_never_sure_where_writers_need_not_ring(shop: Lab, bell: Bell):
    watch(bell, shop, "of_t")
    shop.run("INSERT INTO t VALUES (1)")  # this session rings, and others would not
    await_(lambda: bell.rung)
    bell.answer()

    watch(bell, shop, "of_t")

    assert not bell.sure_of([number(shop, "of_t")])
