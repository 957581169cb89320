"""Two writers of an IMMEDIATE stream table: right after both, or one fails and can try again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
from psycopg import Connection

from pgtrickle.catalog.figures.metric_values import count_lock_fallbacks, list_immediate_figures
from tests.labs.lab import Lab

_TABLES = (
    "CREATE TABLE a (id int PRIMARY KEY, k int, v numeric)",
    "CREATE TABLE b (k int, w int)",
    "INSERT INTO a SELECT n, n % 5, n FROM generate_series(1, 20) n",
    "INSERT INTO b SELECT n % 5, n FROM generate_series(1, 10) n",
)
_QUERIES = {
    "copied": "SELECT k FROM a WHERE v > 0",
    "sums": "SELECT k, count(*), sum(v) FROM a GROUP BY k",
    "added": "SELECT k, count(*) AS n, sum(id) AS s FROM a GROUP BY k",
    "lows": "SELECT k, min(v), max(v) FROM a GROUP BY k",
    "bare": "SELECT count(*) AS n FROM a GROUP BY k",
    "ranks": "SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) AS r FROM a",
    "whole": "SELECT count(*) AS n, sum(v) AS s FROM a",
    "joined": "SELECT a.id, b.w FROM a JOIN b ON a.k = b.k",
    "grouped": "SELECT b.w, sum(a.v) FROM a JOIN b ON a.k = b.k GROUP BY b.w",
}
_LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
_AGAIN = ("40001", "40P01")


@pytest.fixture
def pair(lab: Lab) -> Iterator[tuple[Connection, Connection]]:
    with ExitStack() as stack:
        yield tuple(  # type: ignore[misc]
            stack.enter_context(psycopg.connect(lab.trickle.dsn, autocommit=True)) for _ in "12"
        )


def wait_or_end(lab: Lab, thread: threading.Thread) -> None:
    """Return when the statement of the thread has ended, or waits for a lock."""
    for _ in range(200):
        thread.join(0.02)
        waiting = lab.value(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND datname = current_database()"
        )
        if waiting or not thread.is_alive():
            return


@pytest.mark.parametrize("level", _LEVELS)
@pytest.mark.parametrize("name", _QUERIES)
def test_two_writers(lab: Lab, pair: tuple[Connection, Connection], name: str, level: str) -> None:
    lab.run(*_TABLES)
    lab.create(name, _QUERIES[name], "IMMEDIATE")
    first, second = pair
    pairs = [
        ("INSERT INTO a VALUES (101, 1, 1)", "INSERT INTO b VALUES (1, 50)"),
        ("INSERT INTO a VALUES (102, 7, 1)", "INSERT INTO a VALUES (103, 7, 2)"),
        ("UPDATE a SET v = v + 1 WHERE id = 3", "DELETE FROM a WHERE id = 8"),
        ("DELETE FROM a WHERE id = 101", "DELETE FROM a WHERE id = 1"),
        ("UPDATE b SET w = w + 1 WHERE k = 2", "UPDATE a SET k = 2 WHERE id = 4"),
        ("DELETE FROM b WHERE k = 3", "INSERT INTO a VALUES (104, 3, 9)"),
        ("TRUNCATE b", "INSERT INTO a VALUES (105, 1, 1)"),
        ("INSERT INTO a VALUES (106, 1, 1)", "DELETE FROM a WHERE k = 1"),
    ]
    for one, other in pairs:
        for session in pair:
            session.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
            session.execute("SELECT count(*) FROM pg_class")  # takes the snapshot
        codes = list[str | None]()

        def write(statement: str, session: Connection, codes: list[str | None]) -> None:
            try:
                session.execute(statement.encode())
                session.execute("COMMIT")
                codes.append(None)
            except psycopg.Error as error:
                session.execute("ROLLBACK")
                codes.append(error.sqlstate)

        first.execute(one.encode())
        thread = threading.Thread(target=write, args=(other, second, codes))
        thread.start()
        wait_or_end(lab, thread)
        first.execute("COMMIT")
        thread.join()
        assert lab.differences(name) == [], (one, other, codes)
        assert codes[0] in {None, *_AGAIN}
        if level == "READ COMMITTED":
            assert codes == [None], (one, other)
        if codes[0]:
            lab.run(other)
            assert lab.differences(name) == [], other


@pytest.mark.parametrize("level", _LEVELS)
@pytest.mark.parametrize(
    ("first_writes", "then", "meanwhile"),
    [
        # The first takes the short way for its group; what comes then needs the long one.
        ("INSERT INTO a VALUES (301, 1, 1)", "DELETE FROM a WHERE k = 1", "v = v + 1"),
        ("INSERT INTO a VALUES (302, 1, 1)", "UPDATE a SET k = 9 WHERE k = 1", "v = v + 1"),
        ("DELETE FROM a WHERE k = 1", "INSERT INTO a VALUES (303, 1, 1)", "v = v + 1"),
        ("INSERT INTO a VALUES (304, 9, 1)", "INSERT INTO a VALUES (305, 9, 1)", "k = 9"),
    ],
)
def test_the_short_way_meets_the_long_one(
    lab: Lab,
    pair: tuple[Connection, Connection],
    level: str,
    first_writes: str,
    then: str,
    meanwhile: str,
) -> None:
    """Who changes several groups waits for who changes one, and does not make it a victim."""
    lab.run(*_TABLES)
    lab.create("added", _QUERIES["added"], "IMMEDIATE")
    first, second = pair
    second.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
    second.execute("SELECT count(*) FROM pg_class")
    first.execute("BEGIN")
    first.execute(first_writes.encode())
    codes = list[str | None]()

    def write() -> None:
        try:
            second.execute(f"UPDATE a SET {meanwhile} WHERE id IN (2, 3)".encode())
            second.execute("INSERT INTO a SELECT 400 + n, n, 1 FROM generate_series(1, 3) n")
            second.execute("COMMIT")
            codes.append(None)
        except psycopg.Error as error:
            second.execute("ROLLBACK")
            codes.append(error.sqlstate)

    thread = threading.Thread(target=write)
    thread.start()
    wait_or_end(lab, thread)
    first.execute(then.encode())
    first.execute("COMMIT")
    thread.join()
    assert codes == [None] if level == "READ COMMITTED" else codes[0] in {None, "40001"}
    lab.check("added")


@pytest.mark.parametrize("name", ["copied", "sums", "added", "lows", "ranks"])
def test_writers_of_different_groups_do_not_wait(
    lab: Lab, pair: tuple[Connection, Connection], name: str
) -> None:
    lab.run(*_TABLES)
    lab.create(name, _QUERIES[name], "IMMEDIATE")
    first, second = pair
    second.execute("SET lock_timeout = '2s'")
    first.execute("BEGIN")
    first.execute("INSERT INTO a VALUES (201, 1, 1)")
    second.execute("INSERT INTO a VALUES (202, 2, 1)")
    second.execute("DELETE FROM a WHERE id = 2")
    first.execute("COMMIT")
    lab.check(name)


@pytest.mark.parametrize("name", ["copied", "sums", "lows", "ranks"])
def test_a_small_change_reads_by_index_however_many_rows_have_gone(lab: Lab, name: str) -> None:
    lab.run(*_TABLES)
    lab.create(name, _QUERIES[name], "IMMEDIATE")
    read = (
        "SELECT coalesce(sum(seq_scan), 0)::int FROM pg_stat_xact_user_tables"
        f" WHERE relname = '{name}' OR schemaname = 'pgtrickle_state'"
    )
    with lab.connection.transaction():
        before = lab.value(read)  # of earlier transactions, not yet reported
        for n in range(20):
            lab.run(f"INSERT INTO a VALUES ({300 + n}, {n % 2}, 1)", "UPDATE a SET v = v + 1")
        assert lab.value(read) == before
        lab.run("INSERT INTO a SELECT n, n % 9, n FROM generate_series(1000, 1999) n")
    lab.check(name)


def test_the_lock_of_each_query(lab: Lab) -> None:
    lab.run(*_TABLES)
    for name, query in _QUERIES.items():
        lab.create(name, query, "IMMEDIATE")
    found: dict[str, str] = dict(
        lab.rows(
            "SELECT s.pgt_name, i.lock_mode || ' ' || i.lock_reason FROM pgtrickle.pgt_immediate i"
            " JOIN pgtrickle.pgt_stream_tables s USING (pgt_id)"
        )
    )
    assert found == {
        "copied": "none one_scan",
        "sums": "group one_key",
        "added": "group one_key",
        "lows": "group one_key",
        "bare": "group one_key",
        "ranks": "group one_key",
        "whole": "exclusive no_key",
        "joined": "exclusive several_scans",
        "grouped": "exclusive several_scans",
    }


@pytest.mark.parametrize("name", ["copied", "sums", "added", "bare", "lows", "grouped"])
def test_many_writers(lab: Lab, name: str) -> None:
    lab.run(*_TABLES)
    lab.create(name, _QUERIES[name], "IMMEDIATE")
    errors = list[psycopg.Error]()

    def write(number: int) -> None:
        with psycopg.connect(lab.trickle.dsn, autocommit=True) as session:
            for n in range(40):
                level = _LEVELS[n % 3]
                statements = (
                    f"INSERT INTO a SELECT {number * 1000 + n} + 100 * i, (i + {n}) % 5, 1"
                    " FROM generate_series(0, 2) i ON CONFLICT DO NOTHING",
                    f"UPDATE a SET k = (k + 1) % 5 WHERE id % 4 = {number} AND id % 7 = {n % 7}",
                    f"DELETE FROM a WHERE id = {number * 1000 + n - 3}",
                    f"INSERT INTO b VALUES ({n % 5}, {number})",
                )
                try:
                    with session.transaction():
                        session.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
                        for one in (statements[n % 4], statements[(n + 1) % 4]):
                            session.execute(one.encode())
                except psycopg.Error as error:
                    if error.sqlstate not in _AGAIN:
                        errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert errors == []
    lab.check(name)
    assert lab.value("SELECT ready FROM pgtrickle.immediate_status()")
    assert lab.value("SELECT statements FROM pgtrickle.immediate_status()") > 50
    mode = lab.value("SELECT lock_mode FROM pgtrickle.immediate_status()")
    with lab.trickle._runtime.connection() as connection:
        counted = count_lock_fallbacks(list_immediate_figures(connection))
    assert (counted["several_scans"] > 50) is (mode == "exclusive")
    assert counted["no_key"] == counted["several_stages"] == 0
