"""Stream tables with nothing to do are found by one query, and every doubt is left to a refresh."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from pgtrickle.scheduler.loop import Loop
from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.scheduler.shop import Watched

QUERY = "SELECT k, count(*) AS n FROM t GROUP BY k"


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int, note varchar(20))",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c')",
        "CREATE TABLE u (id int PRIMARY KEY, k int)",
    )
    lab.create("s", QUERY)
    return lab


def idle(lab: Lab) -> set[str]:
    """Return the names of the stream tables that are found idle, as by a new process."""
    lab.trickle._runtime.remembered.shapes_compared.clear()
    lab.trickle._runtime.buffers_watched = -math.inf
    return idle_soon_after(lab)


def idle_soon_after(lab: Lab) -> set[str]:
    """Return the same, by a process that has compared the shapes a moment ago."""
    tables = lab.trickle.list_stream_tables()
    found = lab.trickle.daemon.find_idle(tables)
    return {table.name.name for table in tables if table.id in found}


def test_table_is_idle_until_its_source_changes(shop: Lab) -> None:
    assert idle(shop) == {"s"}

    shop.run("UPDATE t SET k = 3 WHERE id = 1")

    assert idle(shop) == set()
    shop.refresh("s")
    assert idle(shop) == {"s"}


def test_only_consumers_of_the_changed_source_are_busy(shop: Lab) -> None:
    shop.create("other", "SELECT id FROM u")
    shop.create("joined", "SELECT t.id, u.k FROM t JOIN u ON u.id = t.id")

    shop.run("INSERT INTO u VALUES (1, 1)")

    assert idle(shop) == {"s"}


def test_consumers_of_one_source_are_told_apart_by_their_frontiers(shop: Lab) -> None:
    shop.create("late", QUERY)
    shop.run("INSERT INTO t VALUES (4, 1, 'd')")
    shop.refresh("s")

    assert idle(shop) == {"s"}


def test_rows_that_a_slow_consumer_holds_back_do_not_keep_others_busy(shop: Lab) -> None:
    shop.create("slow", QUERY)
    shop.trickle.alter_stream_table("slow", status="SUSPENDED")
    shop.run("INSERT INTO t SELECT g, 1, 'x' FROM generate_series(10, 200) AS g")
    shop.refresh("s")
    relid = shop.value("SELECT 't'::regclass::oid")

    assert shop.value(f"SELECT count(*) FROM pgtrickle_changes.changes_{relid}") > 0
    assert idle(shop) == {"s"}


def test_change_in_the_settled_part_of_a_buffer_is_seen(shop: Lab) -> None:
    relid = shop.value("SELECT 't'::regclass::oid")
    buffer = f"pgtrickle_changes.changes_{relid}"
    shop.run(
        "INSERT INTO t VALUES (4, 1, 'd')",
        f"WITH moved AS (DELETE FROM ONLY {buffer} RETURNING *)"
        f" INSERT INTO {buffer}_settled SELECT * FROM moved",
    )

    def vacuumed() -> bool:
        shop.run(f"VACUUM {buffer}")
        return bool(shop.value(f"SELECT pg_relation_size('{buffer}') = 0"))

    await_(vacuumed)  # not while a server process has an older snapshot
    assert idle(shop) == set()


def test_truncate_is_a_change(shop: Lab) -> None:
    shop.run("TRUNCATE t")

    assert idle(shop) == set()


def test_open_transaction_is_in_the_window_after_it_commits(shop: Lab) -> None:
    with psycopg.connect(shop.trickle.dsn) as writer:
        writer.execute("INSERT INTO t VALUES (4, 1, 'd')")
        shop.run("INSERT INTO t VALUES (5, 2, 'e')")
        shop.refresh("s")

        assert idle(shop) == {"s"}

        writer.commit()

    assert idle(shop) == set()
    shop.refresh("s")
    assert idle(shop) == {"s"}


def test_frontier_stays_and_loses_nothing(shop: Lab) -> None:
    before = shop.trickle.get_stream_table("s").frontier

    for number in range(10, 15):
        assert idle(shop) == {"s"}
        assert shop.trickle.get_stream_table("s").frontier == before
        shop.run(f"INSERT INTO t VALUES ({number}, 1, 'x')")
        shop.refresh("s")
        before = shop.trickle.get_stream_table("s").frontier


def test_timestamps_advance_and_no_history_is_written(shop: Lab) -> None:
    shop.run(
        "UPDATE pgtrickle.pgt_stream_tables SET data_timestamp = now() - interval '1h',"
        " last_refresh_at = now() - interval '1h'"
    )
    began = shop.value("SELECT clock_timestamp()")

    assert idle(shop) == {"s"}

    table = shop.trickle.get_stream_table("s")
    assert table.data_timestamp is not None
    assert table.data_timestamp >= began
    assert table.last_refresh_at == table.data_timestamp
    assert len(shop.trickle.refresh_history("s")) == 1


def test_timestamps_are_not_written_again_within_seconds(shop: Lab) -> None:
    version = "SELECT xmin::text FROM pgtrickle.pgt_stream_tables"
    before = shop.value(version)

    assert idle(shop) == {"s"}

    assert shop.value(version) == before


def test_locked_row_of_the_catalog_is_not_waited_for(shop: Lab) -> None:
    shop.run("UPDATE pgtrickle.pgt_stream_tables SET data_timestamp = now() - interval '1h'")
    with psycopg.connect(shop.trickle.dsn) as rival:
        rival.execute("UPDATE pgtrickle.pgt_stream_tables SET updated_at = now()")

        assert idle(shop) == {"s"}


def test_locked_buffer_concerns_its_consumers_only(shop: Lab) -> None:
    shop.create("other", "SELECT id FROM u")
    shop.run("INSERT INTO t VALUES (4, 1, 'd')", "INSERT INTO u VALUES (1, 1)")
    shop.refresh("s")
    shop.refresh("other")
    relid = shop.value("SELECT 't'::regclass::oid")
    with psycopg.connect(shop.trickle.dsn) as rival:
        rival.execute(f"LOCK TABLE pgtrickle_changes.changes_{relid}".encode())

        assert idle(shop) == {"other"}


def test_buffer_that_is_dropped_in_this_moment_concerns_its_consumers_only(shop: Lab) -> None:
    shop.run("INSERT INTO t VALUES (4, 1, 'd')")
    shop.refresh("s")
    relid = shop.value("SELECT 't'::regclass::oid")
    patience = "ALTER FUNCTION pgtrickle.find_idle(bigint[], bigint[]) SET lock_timeout = '{}'"
    look = "SELECT pgtrickle.find_idle(array_agg(pgt_id), '{}') FROM pgtrickle.pgt_stream_tables"
    waits = "SELECT true FROM pg_locks WHERE NOT granted AND relation = %s"
    found: list[object] = []

    def ask() -> None:
        with psycopg.connect(shop.trickle.dsn) as looker:
            found.append(looker.execute(look).fetchall())

    shop.run(patience.format("30s"))
    try:
        with psycopg.connect(shop.trickle.dsn) as rival:
            buffer = shop.value(f"SELECT 'pgtrickle_changes.changes_{relid}'::regclass::oid")
            rival.execute(f"DROP TABLE pgtrickle_changes.changes_{relid} CASCADE".encode())
            asking = threading.Thread(target=ask)
            asking.start()
            await_(lambda: rival.execute(waits, [buffer]).fetchall())
            rival.commit()
            asking.join(30)
    finally:
        shop.run(patience.format("100ms"))
    assert found == [[]]  # left to the refresh, which finds out


def _reshape(lab: Lab) -> None:
    lab.run("ALTER TABLE t ALTER k TYPE bigint")


def _rename(lab: Lab) -> None:
    lab.run("ALTER TABLE t RENAME k TO kk")


def _drop_source(lab: Lab) -> None:
    lab.run("DROP TABLE t CASCADE")


def _drop_buffer(lab: Lab) -> None:
    relid = lab.value("SELECT 't'::regclass::oid")
    lab.run(f"DROP TABLE pgtrickle_changes.changes_{relid} CASCADE")


def _rewrite(lab: Lab) -> None:
    lab.run("VACUUM FULL t")


def _restore_elsewhere(lab: Lab) -> None:
    lab.run(
        "UPDATE pgtrickle.pgt_stream_tables"
        " SET frontier = jsonb_set(frontier, '{pg,system_identifier}', '\"7\"')"
    )


def _undo_history(lab: Lab) -> None:
    lab.run(
        "UPDATE pgtrickle.pgt_stream_tables"
        " SET frontier = jsonb_set(frontier, '{pg,snapshot}', '\"1:99999999999:\"')"
    )


def _set(assignment: str) -> Callable[[Lab], None]:
    return lambda lab: lab.run(f"UPDATE pgtrickle.pgt_stream_tables SET {assignment}")


def _lease(lab: Lab) -> None:
    lab.run(
        "INSERT INTO pgtrickle.pgt_leases SELECT pgt_id, 'rival', 1, now(), now() + interval '1h'"
        " FROM pgtrickle.pgt_stream_tables"
    )


DOUBTS: dict[str, Callable[[Lab], None]] = {
    "another type": _reshape,
    "another column name": _rename,
    "the source is gone": _drop_source,
    "the buffer is gone": _drop_buffer,
    "the source was stored anew": _rewrite,
    "the database was restored": _restore_elsewhere,
    "transaction ids moved back": _undo_history,
    "a rebuild was asked for": _set("needs_reinit = true"),
    "the last refresh failed": _set("consecutive_errors = 1"),
    "it is suspended": _set("status = 'SUSPENDED'"),
    "it was never loaded": _set("is_populated = false"),
    "its owner is no role": _set("owner_role = 'nobody here'"),
    "a rival holds its lease": _lease,
}


@pytest.mark.parametrize("cause", DOUBTS.values(), ids=DOUBTS.keys())
def test_every_doubt_is_left_to_the_refresh(shop: Lab, cause: Callable[[Lab], None]) -> None:
    assert idle(shop) == {"s"}

    cause(shop)

    assert idle(shop) == set()


LATER_THAN_OTHERS = {"another column name"}


@pytest.mark.parametrize("cause", DOUBTS.values(), ids=DOUBTS.keys())
def test_only_a_change_of_shape_alone_is_noticed_later(
    shop: Lab, cause: Callable[[Lab], None], request: pytest.FixtureRequest
) -> None:
    assert idle(shop) == {"s"}
    with shop.unwatched():
        cause(shop)

    later = request.node.callspec.id in LATER_THAN_OTHERS

    assert idle_soon_after(shop) == ({"s"} if later else set())
    assert idle(shop) == set()


def test_expired_lease_is_no_doubt(shop: Lab) -> None:
    _lease(shop)
    shop.run(
        "UPDATE pgtrickle.pgt_leases SET acquired_at = now() - interval '2h',"
        " expires_at = now() - interval '1h'"
    )

    assert idle(shop) == {"s"}


def test_replaced_view_is_noticed(shop: Lab) -> None:
    shop.run("CREATE VIEW v AS SELECT id, k FROM t")
    shop.create("w", "SELECT id, k FROM v")
    assert idle(shop) == {"s", "w"}

    shop.run("CREATE OR REPLACE VIEW v AS SELECT id, k + 1 AS k FROM t")

    assert idle(shop) == {"s"}


def test_query_without_sources_is_idle(shop: Lab) -> None:
    shop.create("one", "SELECT 1 AS x")

    assert idle(shop) == {"s", "one"}


def test_query_of_the_current_time_is_never_idle(shop: Lab) -> None:
    shop.trickle.create_stream_table("timed", "SELECT id, now() AS at FROM t", refresh_mode="FULL")
    shop.trickle.create_stream_table("auto", "SELECT id, now() AS at FROM t")

    assert idle(shop) == {"s"}


def test_query_without_delta_is_idle_once_it_is_compiled(shop: Lab) -> None:
    shop.run("CREATE TABLE measured (x float8)")
    shop.create("limited", "SELECT DISTINCT m AS whole FROM measured AS m", mode="AUTO")
    assert idle(shop) == {"s", "limited"}

    shop.trickle._runtime.remembered.clear()

    assert idle(shop) == {"s"}


def test_forced_full_refreshes_are_not_passed_over(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.create("auto", QUERY, mode="AUTO")
    runtime = shop.trickle._runtime
    monkeypatch.setattr(runtime, "settings", replace(runtime.settings, force_full_refresh=True))

    assert idle(shop) == set()


ODD_NAMES = ["ñandú", 'a"b', "tab\there", "back\\slash", "😀", "line\nbreak", "\x01\x7f"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_server_and_client_hash_the_same_shape(shop: Lab, name: str) -> None:
    quoted = sql.Identifier(name).as_string(shop.connection)
    shop.run(
        f'CREATE TABLE odd ({quoted} varchar(7) COLLATE "C", gone int, k numeric(5, 2)[])',
        "ALTER TABLE odd DROP COLUMN gone",
    )
    shop.create("of_odd", f"SELECT {quoted} AS x, k FROM odd")

    assert idle(shop) == {"s", "of_odd"}


def test_pass_of_the_loop_carries_a_change_through_a_chain(shop: Lab) -> None:
    shop.create("child", "SELECT n, count(*) AS m FROM s GROUP BY n")
    shop.run(
        "UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - interval '1h'",
        "INSERT INTO t VALUES (4, 7, 'd')",
    )
    watched = Watched()

    Loop(shop.trickle.daemon, watched).run_once(threading.Event())

    assert watched.refreshed_names == ["public.s", "public.child"]
    shop.check("s")
    shop.check("child")


def test_idle_pass_of_the_loop_refreshes_nothing(shop: Lab) -> None:
    shop.run("UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - interval '1h'")
    watched = Watched()

    next_due = Loop(shop.trickle.daemon, watched).run_once(threading.Event())

    assert watched.refreshed_names == []
    assert next_due is not None
    assert next_due - shop.value("SELECT clock_timestamp()") < timedelta(seconds=2)
    assert len(shop.trickle.refresh_history("s")) == 1
