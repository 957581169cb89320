"""One buffer for all consumers of a source: nothing is lost, merged or ordered by it.

scenarios.md calls for these of a compacted buffer: P9, P10, P11, P17.  Ours is trimmed instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.labs.lab import Lab

COPY = "SELECT id, k FROM t"
COUNTS = "SELECT k, count(*) AS n, max(id) AS last FROM t GROUP BY k"


@pytest.fixture
def shared(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (id int, k text)", "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    lab.create("copy", COPY)
    lab.create("counts", COUNTS)
    return lab


@pytest.fixture
def writer(lab: Lab) -> Iterator[psycopg.Connection]:
    with psycopg.connect(lab.trickle.dsn) as connection:
        yield connection


def buffer_of(lab: Lab) -> str:
    name: str = lab.value("SELECT 'pgtrickle_changes.changes_' || 't'::regclass::oid::bigint")
    return name


def test_p09_equal_rows_wait_for_a_consumer_that_is_behind(shared: Lab) -> None:
    for _ in range(3):
        shared.run("INSERT INTO t VALUES (7, 'same')")
        shared.refresh("copy")

    shared.refresh("counts")

    assert shared.rows("SELECT n FROM counts WHERE k = 'same'") == [(3,)]
    assert shared.value("SELECT count(*) FROM copy WHERE k = 'same'") == 3


def test_p10_delete_of_a_row_that_one_consumer_has_read_and_another_not(shared: Lab) -> None:
    shared.run("INSERT INTO t VALUES (3, 'b')")
    shared.refresh("copy")
    shared.run("DELETE FROM t WHERE id = 3")

    behind = shared.refresh("counts")
    ahead = shared.refresh("copy")

    assert (behind.rows_inserted, behind.rows_deleted) == (0, 0)
    assert (ahead.rows_inserted, ahead.rows_deleted) == (0, 1)
    shared.window(action="NO_DATA")


def test_p10_updates_of_a_row_reach_each_consumer_in_its_own_windows(shared: Lab) -> None:
    shared.run("UPDATE t SET k = 'b' WHERE id = 1")
    shared.refresh("counts")
    shared.run("UPDATE t SET k = 'c' WHERE id = 1")
    shared.refresh("counts")
    shared.run("UPDATE t SET k = 'a' WHERE id = 1")

    net = shared.refresh("copy")
    shared.refresh("counts")

    assert (net.rows_inserted, net.rows_deleted) == (0, 0)


def test_p11_buffer_is_trimmed_up_to_the_consumer_that_is_behind(shared: Lab) -> None:
    shared.run("INSERT INTO t VALUES (3, 'b')")
    shared.refresh("copy")
    kept = shared.value(f"SELECT count(*) FROM {buffer_of(shared)}")
    shared.refresh("counts")

    assert kept == 1
    assert shared.value(f"SELECT count(*) FROM {buffer_of(shared)}") == 0


def test_p11_change_that_commits_during_the_refresh_outlives_its_trimming(
    shared: Lab, writer: psycopg.Connection
) -> None:
    shared.trickle.drop_stream_table("counts")  # one consumer, so that its frontier alone decides
    del shared.queries["counts"]
    writer.execute("INSERT INTO t VALUES (10, 'late')")
    shared.run("INSERT INTO t VALUES (3, 'early')")
    shared.before_next_stage(writer.commit)

    first = shared.trickle.refresh_stream_table("copy")
    [second] = shared.window()

    assert (first.rows_inserted, second.rows_inserted) == (1, 1)
    assert shared.rows("SELECT id FROM copy WHERE k = 'late'") == [(10,)]


def test_p11_trimming_waits_for_a_consumer_that_is_being_created(shared: Lab) -> None:
    def change_and_trim() -> None:
        shared.run("INSERT INTO t VALUES (3, 'b')", "DELETE FROM t WHERE id = 1")
        shared.refresh("copy")
        shared.refresh("counts")

    shared.before_next_stage(change_and_trim)
    shared.trickle.create_stream_table("late", COUNTS, refresh_mode="DIFFERENTIAL")
    shared.queries["late"] = COUNTS

    shared.refresh("late")


def test_p17_order_of_rows_in_the_buffer_means_nothing(shared: Lab) -> None:
    shared.run(
        "INSERT INTO t VALUES (3, 'b')",
        "UPDATE t SET k = 'c' WHERE id = 3",
        "UPDATE t SET id = id + 1",
        "DELETE FROM t WHERE id = 2",
        "CREATE TABLE turned AS"
        f" SELECT b.* FROM {buffer_of(shared)} AS b ORDER BY __xid DESC, __weight",
        f"DELETE FROM {buffer_of(shared)}",
        f"INSERT INTO {buffer_of(shared)} TABLE turned",
    )

    shared.window()


def test_p17_changes_have_no_number_that_a_session_could_take_ahead(
    shared: Lab, writer: psycopg.Connection
) -> None:
    writer.execute("INSERT INTO t VALUES (10, 'first')")
    shared.window("INSERT INTO t VALUES (3, 'second')")
    writer.execute("UPDATE t SET k = 'third' WHERE id = 10")
    writer.commit()

    shared.window()

    assert shared.rows("SELECT k FROM copy WHERE id = 10") == [("third",)]
    assert not shared.value(
        "SELECT count(*) FROM pg_class"
        " WHERE relkind = 'S' AND relnamespace = 'pgtrickle_changes'::regnamespace"
        " AND relname !~ '^bell_[0-7]$'"  # they hold flags, and number nothing
    )


def test_p55_contents_and_frontier_from_a_backup_need_changes_that_are_gone(shared: Lab) -> None:
    name = next(iter(shared.queries))
    shared.run(f"CREATE TABLE backup AS TABLE {name}")
    frontier = shared.value(
        f"SELECT frontier::text FROM pgtrickle.pgt_stream_tables WHERE pgt_name = '{name}'"
    )
    shared.window("INSERT INTO t SELECT * FROM t LIMIT 1")
    shared.window("INSERT INTO t SELECT * FROM t LIMIT 1")
    shared.run(
        f"ALTER TABLE {name} DISABLE TRIGGER pgtrickle_guard",
        f"DELETE FROM {name}",
        f"INSERT INTO {name} TABLE backup",
        f"ALTER TABLE {name} ENABLE TRIGGER pgtrickle_guard",
        f"UPDATE pgtrickle.pgt_stream_tables SET frontier = '{frontier}' WHERE pgt_name = '{name}'",
    )

    report = shared.refresh(name, "REINITIALIZE")

    assert report.reason.endswith("its frontier is older than its buffer")
    shared.window("INSERT INTO t SELECT * FROM t LIMIT 1")
