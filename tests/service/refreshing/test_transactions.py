"""Windows are cut by snapshots, whatever transactions do (scenarios.md: P14, P15, P43)."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import IsolationLevel

from tests.labs.lab import Lab

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COPY = "SELECT id, k FROM t"
COUNTS = "SELECT k, count(*) AS n, max(id) AS last FROM t GROUP BY k"


@pytest.fixture
def writer(lab: Lab) -> Iterator[psycopg.Connection]:
    with psycopg.connect(lab.trickle.dsn) as connection:
        yield connection


@pytest.fixture
def other(lab: Lab) -> Iterator[psycopg.Connection]:
    with psycopg.connect(lab.trickle.dsn) as connection:
        yield connection


@pytest.fixture
def counted(lab: Lab) -> Lab:
    lab.run(*T)
    lab.create("copy", COPY)
    lab.create("counts", COUNTS)
    return lab


def test_p15_long_transaction_appears_when_it_commits(counted: Lab, writer: psycopg.Connection):
    writer.execute("INSERT INTO t VALUES (10, 2)")
    counted.window("INSERT INTO t VALUES (3, 1)")
    counted.window("DELETE FROM t WHERE id = 1")
    counted.window(action="NO_DATA")

    writer.commit()

    counted.window()
    counted.window(action="NO_DATA")


def test_p15_transactions_commit_in_another_order_than_they_began(
    counted: Lab, writer: psycopg.Connection, other: psycopg.Connection
):
    writer.execute("INSERT INTO t VALUES (10, 2)")
    other.execute("INSERT INTO t VALUES (11, 2)")

    other.commit()
    counted.window()
    writer.execute("UPDATE t SET k = 3 WHERE id = 10")
    writer.commit()
    counted.window()


def test_p15_repeatable_read_writer(counted: Lab, writer: psycopg.Connection):
    writer.isolation_level = IsolationLevel.REPEATABLE_READ
    writer.execute("SELECT count(*) FROM t")

    counted.window("INSERT INTO t VALUES (3, 1)")
    writer.execute("INSERT INTO t SELECT 20 + count(*), 5 FROM t")
    counted.window("INSERT INTO t VALUES (4, 1)")
    writer.commit()

    counted.window()
    assert counted.rows("SELECT id FROM copy WHERE k = 5") == [(22,)]


def test_p15_savepoints_of_a_long_transaction(counted: Lab, writer: psycopg.Connection):
    with writer.transaction():
        writer.execute("INSERT INTO t VALUES (10, 2)")
        with writer.transaction(force_rollback=True):
            writer.execute("INSERT INTO t VALUES (11, 2)")
        counted.window("INSERT INTO t VALUES (3, 1)")
        with writer.transaction():
            writer.execute("INSERT INTO t VALUES (12, 2)")
        counted.window("INSERT INTO t VALUES (4, 1)")

    counted.window()
    assert counted.rows("SELECT id FROM copy WHERE k = 2") == [(10,), (12,)]


def test_p15_prepared_transaction(counted: Lab, writer: psycopg.Connection):
    if not int(counted.value("SHOW max_prepared_transactions")):
        pytest.skip("the server has max_prepared_transactions = 0")
    writer.execute("INSERT INTO t VALUES (10, 2)")
    writer.execute("PREPARE TRANSACTION 'pgtrickle_p15'")
    writer.commit()
    counted.window("INSERT INTO t VALUES (3, 1)")

    counted.window("COMMIT PREPARED 'pgtrickle_p15'")


def test_p15_change_between_the_snapshot_and_the_commit_is_in_the_next_window(counted: Lab):
    counted.run("INSERT INTO t VALUES (3, 1)")
    counted.before_next_stage(lambda: counted.run("INSERT INTO t VALUES (4, 1)"))
    first = counted.trickle.refresh_stream_table("copy")

    assert (first.action.value, first.rows_inserted) == ("DIFFERENTIAL", 1)
    counted.window()


def test_p14_truncate_is_full_with_the_reason_and_then_differential_again(counted: Lab):
    [copy, _] = counted.window("TRUNCATE t", action="FULL")
    assert copy.reason == "public.t was truncated"

    counted.window("INSERT INTO t VALUES (5, 5)")


def test_p14_truncate_and_insert_in_one_transaction(counted: Lab):
    with counted.connection.transaction():
        counted.run("TRUNCATE t", "INSERT INTO t VALUES (2, 1), (9, 9)")
    [copy, _] = counted.window(action="FULL")
    assert (copy.rows_inserted, copy.rows_deleted) == (1, 1)

    with counted.connection.transaction():
        counted.run("INSERT INTO t VALUES (10, 1)", "TRUNCATE t")
    counted.window(action="FULL")
    counted.window("INSERT INTO t VALUES (5, 5)")


TRUNCATE_AMONG_OTHERS = (
    ("TRUNCATE t", "TRUNCATE t"),
    ("DELETE FROM t", "TRUNCATE t", "INSERT INTO t VALUES (7, 7)"),
    ("INSERT INTO t VALUES (7, 7)", "TRUNCATE t RESTART IDENTITY", "INSERT INTO t VALUES (7, 8)"),
    ("TRUNCATE t", "INSERT INTO t VALUES (7, 7)", "UPDATE t SET k = 8", "DELETE FROM t"),
    ("TRUNCATE t", "INSERT INTO t VALUES (7, 7)", "TRUNCATE t", "INSERT INTO t VALUES (8, 8)"),
    ("UPDATE t SET k = k + 1", "TRUNCATE t"),
)


@pytest.mark.parametrize("statements", TRUNCATE_AMONG_OTHERS)
def test_p14_truncate_in_every_order_with_other_writes(counted: Lab, statements: tuple[str, ...]):
    with counted.connection.transaction():
        counted.run(*statements)
    counted.window(action="FULL")
    counted.window("INSERT INTO t VALUES (50, 5), (51, 5)", "UPDATE t SET k = 6 WHERE id = 50")


def test_p14_truncate_that_is_rolled_back_leaves_no_trace(counted: Lab):
    with counted.connection.transaction():
        counted.run("INSERT INTO t VALUES (60, 6)")
        with counted.connection.transaction(force_rollback=True):
            counted.run("TRUNCATE t", "INSERT INTO t VALUES (61, 6)")
        counted.run("UPDATE t SET k = 7 WHERE id = 60")
    counted.window()


def test_p14_truncate_of_one_side_of_a_join(lab: Lab):
    lab.run(*T, "CREATE TABLE u (k int, v text)", "INSERT INTO u VALUES (1, 'x')")
    lab.create("pairs", "SELECT t.id, u.v FROM t JOIN u ON u.k = t.k")

    lab.window("TRUNCATE u CASCADE", action="FULL")
    lab.window("INSERT INTO u VALUES (1, 'y')")


def test_p14_truncate_cascade_reaches_the_tables_that_refer(lab: Lab):
    lab.run(
        *T,
        "CREATE TABLE u (id int PRIMARY KEY, t_id int REFERENCES t (id))",
        "INSERT INTO u VALUES (1, 1), (2, 2)",
    )
    lab.create("pairs", "SELECT u.id, t.k FROM u JOIN t ON t.id = u.t_id")
    lab.create("users", "SELECT count(*) AS n FROM u")

    [_, users] = lab.window("TRUNCATE t CASCADE", action="FULL")

    assert users.reason == "public.u was truncated"
    lab.window("INSERT INTO t VALUES (5, 5)", "INSERT INTO u VALUES (5, 5)")


def test_p14_truncate_between_refreshes_leaves_nothing_for_the_next(counted: Lab):
    counted.window("INSERT INTO t VALUES (3, 3)")
    counted.window("TRUNCATE t", action="FULL")
    counted.window(action="NO_DATA")

    assert counted.rows("TABLE copy") == counted.rows("TABLE counts") == []


def test_p43_nothing_changed_is_no_data(counted: Lab):
    reports = counted.window(action="NO_DATA")

    assert [one.reason for one in reports] == ["no source changed"] * 2
    assert [one.rows_inserted + one.rows_deleted for one in reports] == [0, 0]


def test_p43_statement_without_rows_is_no_data(counted: Lab):
    counted.window("DELETE FROM t WHERE false", "UPDATE t SET k = 1 WHERE id < 0", action="NO_DATA")


def test_p43_change_of_another_table_is_no_data(counted: Lab):
    counted.run("CREATE TABLE u (k int)")

    counted.window("INSERT INTO u VALUES (1)", action="NO_DATA")
