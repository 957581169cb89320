"""Statements of writers append their changes, in an order that keeps the law."""

from __future__ import annotations

import random
import threading

import psycopg
import pytest

from tests.labs.lab import Lab
from tests.seeds import seed_of
from tests.service.outboxes.replica import Replica

_SEED = seed_of("PGTRICKLE_OUTBOX_SEED", 22)
TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, v numeric)",
    "CREATE TABLE names (k int, name text)",
    "INSERT INTO t SELECT i, i % 4, i % 7 FROM generate_series(1, 20) AS i",
    "INSERT INTO names SELECT i, 'n' || i FROM generate_series(0, 3) AS i",
)
QUERIES = {
    "groups": "SELECT k, count(*) AS n, sum(v) AS total FROM t GROUP BY k",
    "filtered": "SELECT id, v FROM t WHERE v > 2",
    "joined": "SELECT n.name, t.v FROM t JOIN names AS n ON n.k = t.k",
}


def _statement(draw: random.Random, number: int) -> str:
    some = draw.randrange(20)
    return draw.choice(
        [
            f"UPDATE t SET v = v + {some}.50 WHERE id % 5 = {some % 5}",
            f"UPDATE t SET k = (k + 1) % 4 WHERE id % 7 = {some % 7}",
            f"DELETE FROM t WHERE id % 11 = {some % 11}",
            f"INSERT INTO t VALUES ({5000 + number}, {some % 4}, {some})",
            f"UPDATE names SET name = 'm{some}' WHERE k = {some % 4}",
        ]
    )


@pytest.mark.parametrize("name", QUERIES)
def test_the_contents_follow_from_the_outbox(postgres_lab: Lab, name: str) -> None:
    lab, draw = postgres_lab, random.Random(f"{_SEED} {name}")
    lab.run(*TABLES)
    lab.create(name, QUERIES[name], mode="IMMEDIATE")
    lab.trickle.outbox.enable_outbox(name)
    replica = Replica(lab, name)
    for number in range(12):
        lab.run(_statement(draw, number))
        if number % 4 == 3:
            lab.trickle.refresh_stream_table(name)
        if number % 3 == 2:
            replica.follow()
            replica.check()
    lab.run("BEGIN", "UPDATE t SET v = 100", "ROLLBACK", "TRUNCATE t")
    replica.follow()
    replica.check()
    lab.check(name)
    lab.trickle.alter_stream_table(name, refresh_mode="DIFFERENTIAL")
    lab.run("INSERT INTO t VALUES (1, 1, 10)")
    lab.trickle.refresh_stream_table(name)
    replica.follow()
    replica.check()
    lab.trickle.alter_stream_table(name, refresh_mode="IMMEDIATE")
    lab.run("INSERT INTO t VALUES (2, 2, 10)")
    assert replica.follow()
    replica.check()
    lab.trickle.outbox.disable_outbox(name)
    lab.run("INSERT INTO t VALUES (3, 2, 10)")
    left = "SELECT count(*) FROM pgtrickle.pgt_outbox_pending JOIN pgtrickle.pgt_stream_tables"
    assert lab.value(f"{left} USING (pgt_id)") == 0
    lab.check(name)


@pytest.mark.parametrize("name", ["groups", "filtered"])
def test_writers_that_race_are_followed_in_an_order_that_fits(postgres_lab: Lab, name: str) -> None:
    lab = postgres_lab
    lab.run(*TABLES)
    lab.create(name, QUERIES[name], mode="IMMEDIATE")
    lab.trickle.outbox.enable_outbox(name)
    replica = Replica(lab, name)
    failures: list[Exception] = []

    def write(worker: int) -> None:
        try:
            with psycopg.connect(lab.trickle.dsn) as connection:
                for number in range(15):
                    key = worker * 1000 + number
                    connection.execute(
                        "INSERT INTO t VALUES (%s, %s, %s)", [10_000 + key, number % 4, 3 + number]
                    )
                    if number % 5 == 4:
                        connection.rollback()
                    connection.commit()
        except psycopg.Error as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for one in writers:
        one.start()
    while any(one.is_alive() for one in writers):
        replica.follow()
    for one in writers:
        one.join()
    assert not failures
    replica.follow()
    replica.check()
    lab.check(name)


def test_values_have_one_text_whatever_the_writer_has_set(postgres_lab: Lab) -> None:
    lab = postgres_lab
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, a interval, b float8, c tstzrange, d bytea)",
        "SET intervalstyle = 'iso_8601'",
        "SET datestyle = 'SQL, DMY'",
        "SET extra_float_digits = -10",
        "SET bytea_output = 'escape'",
    )
    try:
        lab.create("copy", "SELECT id, a, b, c, d FROM t", mode="IMMEDIATE")
        lab.trickle.outbox.enable_outbox("copy")
        lab.run(
            "INSERT INTO t VALUES (1, '1 year 2 days', 0.1::float8 + 0.2,"
            " '[2026-01-31 10:00+00,)', '\\xdead')"
        )
        [found] = lab.trickle.outbox.outbox_rows("copy")
    finally:
        lab.run("RESET ALL")
    assert found.after is not None
    assert found.after["a"] == "1 year 2 days"
    assert str(found.after["b"]) == "0.30000000000000004"
    assert found.after["d"] == "\\xdead"
    assert found.after["c"].startswith('["2026-01-31 10:00:00')
