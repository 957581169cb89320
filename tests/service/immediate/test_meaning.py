"""What a query means does not depend on who writes, nor on what others create or replace later."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from tests.labs.lab import Lab

_TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, note text, v numeric)",
    "INSERT INTO t VALUES (1, 'a_b', 5), (2, 'c', 7)",
)
_STEAL = (
    "CREATE FUNCTION public.{}({}) RETURNS {} LANGUAGE plpgsql IMMUTABLE AS"
    " $$ BEGIN RAISE EXCEPTION 'stolen by %', current_user; END $$"
)


@pytest.fixture
def shop(postgres_lab: Lab) -> Lab:
    postgres_lab.run(*_TABLE)
    return postgres_lab


@pytest.fixture
def mallory(shop: Lab) -> Iterator[Connection]:
    """Connect as a role that may write the source and create objects beside the user's."""
    shop.run(
        "DROP ROLE IF EXISTS im_mallory",
        "CREATE ROLE im_mallory LOGIN",
        "GRANT USAGE, CREATE ON SCHEMA public TO im_mallory",
        "GRANT INSERT, SELECT ON t TO im_mallory",
    )
    dsn = make_conninfo(shop.trickle.dsn, user="im_mallory")
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection
    shop.run("DROP OWNED BY im_mallory CASCADE", "DROP ROLE im_mallory")


def status(lab: Lab) -> list[tuple[object, ...]]:
    return lab.rows("SELECT ready, reason FROM pgtrickle.immediate_status()")


SETTINGS = (
    "standard_conforming_strings = off",
    "transform_null_equals = on",
    "array_nulls = off",
    "xmloption = document",
    "quote_all_identifiers = on",
    "plpgsql.extra_errors = 'all'",
    "plpgsql.extra_warnings = 'all'",
    "row_security = off",
    "DateStyle = 'SQL, DMY'",
    "IntervalStyle = 'sql_standard'",
    "bytea_output = 'escape'",
    "extra_float_digits = -15",
    "check_function_bodies = off",
    "default_transaction_isolation = 'serializable'",
)


def test_settings_of_a_writer(shop: Lab) -> None:
    shop.create(
        "copied",
        r"SELECT id, note LIKE 'a\_b' AS l, replace(note, '\', '/') AS r, quote_ident(note) AS q,"
        " ('{NULL,' || id || '}')::text[] AS a, ('01.02.200' || id % 10)::date AS d FROM t",
        "IMMEDIATE",
    )
    shop.create("summed", r"SELECT replace(note, '\', '/') AS n, sum(v) FROM t GROUP BY 1")
    shop.trickle.alter_stream_table("summed", refresh_mode="IMMEDIATE")
    with psycopg.connect(shop.trickle.dsn, autocommit=True) as writer:
        for number, setting in enumerate(SETTINGS):
            writer.execute(f"SET {setting}".encode())
            writer.execute(
                f"INSERT INTO t VALUES ({10 + number}, 'a_b', 1), ({40 + number}, E'a\\\\b', 1)"
                .encode()
            )  # fmt: skip
            for name in shop.queries:
                assert shop.differences(name) == [], setting
    assert status(shop) == [(True, None)] * 2


def test_an_overload_that_fits_better(shop: Lab, mallory: Connection) -> None:
    shop.run(
        "CREATE FUNCTION rate(anyelement) RETURNS text LANGUAGE sql IMMUTABLE"
        " AS $$ SELECT 'rated ' || $1::text $$"
    )
    shop.create("rated", "SELECT id, rate(note) AS r FROM t", "IMMEDIATE")
    mallory.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t")
    with psycopg.connect(shop.trickle.dsn, user="im_mallory", autocommit=True) as other:
        other.execute(_STEAL.format("rate", "text", "text").encode())
    # Where the overload is newer than the snapshot, and where it is older.
    mallory.execute("INSERT INTO t VALUES (3, 'x', 1); ROLLBACK")
    mallory.execute("INSERT INTO t VALUES (4, 'x', 1)")
    assert [ready for ready, _ in status(shop)] == [False]
    mallory.execute("DROP FUNCTION rate(text)")
    mallory.execute("CREATE FUNCTION rate(text, int) RETURNS int LANGUAGE sql AS 'SELECT 1'")
    shop.trickle.refresh_stream_table("rated")
    shop.run("INSERT INTO t VALUES (5, 'x', 1)")
    assert status(shop) == [(True, None)]
    shop.check("rated")


def test_an_aggregate_that_was_made_while_a_writer_waits(shop: Lab, mallory: Connection) -> None:
    shop.run(
        "CREATE FUNCTION keep(anyelement, anyelement) RETURNS anyelement LANGUAGE sql IMMUTABLE"
        " AS $$ SELECT $2 $$",
        "CREATE AGGREGATE last_of(anyelement) (sfunc = keep, stype = anyelement)",
    )
    shop.create(
        "lasts", "SELECT note, last_of(v ORDER BY id) AS v FROM t GROUP BY note", "IMMEDIATE"
    )
    shop.run("BEGIN; INSERT INTO t VALUES (3, 'c', 1)")
    writer = Thread(target=mallory.execute, args=(b"INSERT INTO t VALUES (4, 'c', 1)",))
    writer.start()
    with psycopg.connect(shop.trickle.dsn, user="im_mallory", autocommit=True) as other:
        pid = mallory.info.backend_pid
        waits = "SELECT FROM pg_locks WHERE pid = %s AND NOT granted"
        while not other.execute(waits, [pid]).fetchall():
            assert writer.is_alive()
        other.execute(_STEAL.format("grab", "numeric, numeric", "numeric").encode())
        other.execute("CREATE AGGREGATE public.last_of(numeric) (sfunc = grab, stype = numeric)")
    shop.run("COMMIT")
    writer.join()
    assert shop.value("SELECT count(*) FROM t WHERE id = 4") == 1
    assert [ready for ready, _ in status(shop)] == [False]


def test_a_cast_that_was_made_later(shop: Lab, mallory: Connection) -> None:
    mallory.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    shop.run("ALTER TABLE t ADD mood mood")
    shop.create("moods", "SELECT id, mood::text || '!' AS m FROM t", "IMMEDIATE")
    shop.run("INSERT INTO t VALUES (3, 'x', 1, 'sad')")
    shop.check("moods")
    mallory.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t")
    with psycopg.connect(shop.trickle.dsn, user="im_mallory", autocommit=True) as other:
        other.execute(_STEAL.format("told", "mood", "text").encode())
        other.execute("CREATE CAST (mood AS text) WITH FUNCTION told(mood)")
    mallory.execute("INSERT INTO t VALUES (4, 'x', 1, 'sad'); ROLLBACK")
    mallory.execute("INSERT INTO t VALUES (5, 'x', 1, 'sad')")
    assert [ready for ready, _ in status(shop)] == [False]


REPLACED = {
    "CREATE OR REPLACE FUNCTION twice(numeric) RETURNS numeric LANGUAGE sql IMMUTABLE"
    " AS $$ SELECT 3 * $1 $$": "a function",
    "ALTER TYPE e RENAME VALUE 'a' TO 'z'": "public.t is",
    "ALTER TABLE t ALTER v TYPE numeric USING v * 2": "public.t is",
}


@pytest.mark.parametrize("statement", REPLACED)
def test_no_writer_fails_because_something_was_replaced(shop: Lab, statement: str) -> None:
    shop.run(
        "CREATE TYPE e AS ENUM ('a', 'b')",
        "ALTER TABLE t ADD e e DEFAULT 'a'",
        "CREATE FUNCTION twice(numeric) RETURNS numeric LANGUAGE sql IMMUTABLE"
        " AS $$ SELECT 2 * $1 $$",
    )
    shop.create("told", "SELECT id, twice(v) AS v, e::text || '!' AS e FROM t", "IMMEDIATE")
    with shop.unwatched():
        shop.run(statement)
        [(ready, why)] = status(shop)
        assert (ready, str(why).startswith(REPLACED[statement])) == (False, True), why
        shop.run("UPDATE t SET v = v + 1")
        shop.trickle.refresh_stream_table("told")
        shop.run("UPDATE t SET v = v + 1")
        shop.check("told")
    assert status(shop) == [(True, None)]


def test_what_leaves_rows_as_they_are_is_followed(shop: Lab) -> None:
    shop.create("copied", "SELECT id, v FROM t", "IMMEDIATE")
    shop.run(
        "VACUUM FULL t",
        "TRUNCATE t",
        "INSERT INTO t VALUES (1, 'a', 1)",
        "CLUSTER t USING t_pkey",
        "INSERT INTO t VALUES (2, 'a', 1)",
    )
    assert status(shop) == [(True, None)]
    shop.check("copied")
